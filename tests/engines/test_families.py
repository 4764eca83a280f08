"""The table of families: whose a config.json is, what may be asked of it, what is said of the rest."""

from __future__ import annotations

import importlib.util
import re
from dataclasses import replace
from pathlib import Path

import pytest

from mlxbatch.engines import families
from mlxbatch.engines.families import (
    CANARY,
    COHERE,
    FAMILIES,
    MLX_AUDIO,
    PARAKEET,
    QWEN3,
    VIBEVOICE,
    WHISPER,
    family_of,
    heeded,
    ignored,
    language_problem,
    refuse,
    require,
)
from mlxbatch.engines.mlx_audio.engine import HEARINGS
from mlxbatch.engines.registry import ENGINES, VERSIONS
from mlxbatch.errors import SetupError, UsageError
from mlxbatch.languages import LANGUAGES
from mlxbatch.types import TranscribeOptions


def test_a_directory_s_family(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "vibevoice"}')
    assert family_of(tmp_path) is VIBEVOICE
    (tmp_path / "config.json").write_text('{"model_type": "qwen3_asd"}')
    with pytest.raises(
        SetupError, match=r"no engine for a model of type 'qwen3_asd'; did you mean 'qwen3_asr'\? Known"
    ):
        family_of(tmp_path)


@pytest.mark.parametrize("content", ["", "[]", "{"])
def test_a_config_that_cannot_be_read_is_named(tmp_path: Path, content: str) -> None:
    (tmp_path / "config.json").write_text(content)
    with pytest.raises(SetupError, match=r"config\.json: not"):
        family_of(tmp_path)
    (tmp_path / "config.json").unlink()
    with pytest.raises(SetupError, match=r"config\.json: missing; a model directory holds"):
        family_of(tmp_path)


@pytest.mark.parametrize("family", {id(one): one for one in FAMILIES.values()}.values(), ids=lambda one: one.name)
def test_an_entry_fits_its_engine(family: families.Family) -> None:
    assert family.engine in ENGINES
    assert family.engine in VERSIONS
    assert 1.0 <= family.segment_seconds <= family.longest
    assert set(family.languages) <= {*LANGUAGES, "mt"}
    assert family.takes <= {"language", "prompt", "hotwords", "max_tokens", "translate"}
    if family.engine == MLX_AUDIO:
        assert family.module in HEARINGS
        assert importlib.util.find_spec(f"mlx_audio.stt.models.{family.module}") is not None


def test_what_is_not_installed_is_said_with_its_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(families, "find_spec", lambda name: None)
    require(WHISPER)
    with pytest.raises(SetupError, match=r"Parakeet runs on mlx-audio, .*: pip install 'mlxbatch\[mlx-audio\]'"):
        require(PARAKEET)


def test_languages() -> None:
    assert language_problem(QWEN3, None) is None
    assert language_problem(COHERE, "de") is None
    assert str(language_problem(COHERE, None)).startswith("Cohere ASR does not detect the language: give --language")
    assert str(language_problem(COHERE, "ru")).startswith("Cohere ASR does not know the language 'ru' (it knows ar, de")


def test_a_text_that_would_be_another_one_is_refused() -> None:
    translate = TranscribeOptions(task="translate", language="de")
    refuse(WHISPER, translate, detects=True)
    refuse(CANARY, translate, detects=True)
    with pytest.raises(UsageError, match="Parakeet does not translate"):
        refuse(PARAKEET, translate, detects=True)
    with pytest.raises(UsageError, match="Cohere ASR does not detect the language"):
        refuse(COHERE, TranscribeOptions(), detects=False)


def test_what_changes_nothing_is_said_once_each() -> None:
    plain = TranscribeOptions()
    asked = replace(plain, language="en", prompt="x", hotwords=("y",), max_tokens=5, temperatures=(0.0,))
    assert ignored(PARAKEET, plain) == []
    assert ignored(WHISPER, asked) == []
    assert [line.partition(":")[0] for line in ignored(PARAKEET, asked)] == [
        "Parakeet takes no --language",
        "Parakeet takes no --prompt",
        "Parakeet takes no --hotwords",
        "Parakeet takes no --max-tokens",
        "Parakeet decodes greedily",
    ]
    assert len(ignored(QWEN3, asked)) == 1


def test_words_that_cannot_be_had_are_said_and_asked_of_nobody_but_a_whisper() -> None:
    plain = TranscribeOptions()
    asked = replace(plain, words=True, encoder_context="full")
    assert ignored(WHISPER, asked) == []
    assert heeded(WHISPER, asked) == asked
    assert ignored(PARAKEET, asked) == ["Parakeet takes no --encoder-context: it is Whisper's and changes nothing"]
    (line,) = ignored(QWEN3, replace(plain, words=True))
    assert line.startswith("Qwen3-ASR does not tell when a word is spoken: no word has times or is highlighted, and")
    assert heeded(PARAKEET, asked) == heeded(QWEN3, asked) == plain


def test_what_changes_nothing_is_left_out_of_what_is_heeded() -> None:
    plain = TranscribeOptions()
    asked = replace(plain, language="en", prompt="x", hotwords=("y",), max_tokens=5, temperatures=(0.0,))
    asked = replace(asked, no_speech_threshold=0.1, logprob_threshold=None, compression_ratio_threshold=9.0)
    assert heeded(WHISPER, asked) == asked
    assert heeded(PARAKEET, asked) == plain
    assert heeded(COHERE, asked) == replace(plain, language="en", max_tokens=5)
    assert ignored(COHERE, heeded(COHERE, asked)) == []
    split = replace(plain, channels="split", task="translate", language="de")
    assert heeded(CANARY, split) == split


def test_the_table_in_the_documents_is_what_families_heed() -> None:
    lines = (Path(__file__).parents[2] / "docs" / "engines.md").read_text("utf-8").splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| ")]
    rows = [row for row in rows if len(row) == 6][1:]  # the other tables have fewer columns
    by_type: dict[str, set[str]] = {}
    for _, kinds, _, _, heeds, _ in rows:
        words = {part.partition(" (")[0].replace(" ", "_") for part in heeds.split(", ")} - {"-"}
        by_type |= {kind: words for kind in re.findall("`(.+?)`", kinds) if kind in FAMILIES}
    assert by_type == {kind: set(family.takes) for kind, family in FAMILIES.items()}
