"""Whispers without a tokenizer, or with parts of one: repaired beside the model, never in it."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from mlxbatch.engines.base import EngineSpec
from mlxbatch.engines.whisper.engine import WhisperEngine
from mlxbatch.errors import SetupError
from mlxbatch.models import canonical
from mlxbatch.models.check import check_whisper
from mlxbatch.models.identity import model_sha
from mlxbatch.models.repair import repaired
from mlxbatch.models.resolve import resolve
from mlxbatch.types import Output
from tests.convert.test_whisper_tokenizer import BYTES, fill
from tests.engines.whisper.parts import job, noise, outputs_by_job
from tests.jobs import Given
from tests.models.tiny import tiny_tokenizer, write_bare_whisper, write_json, write_tiny_whisper


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("MLXBATCH_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def ranks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The package with made-up ranks, and a list of what was fetched."""
    fetched = []

    def fetch_sources(model: Any, scratch: Path, say: Any) -> Path:
        fetched.append(model.name)
        for name, size in ((canonical.ENGLISH_RANKS, 51_864), (canonical.RANKS, 51_865)):
            lines = [f"{base64.b64encode(token).decode()} {rank}" for token, rank in fill(BYTES, size).items()]
            (scratch / name).write_text("\n".join(lines), "ascii")
        return scratch

    monkeypatch.setattr(canonical, "fetch_sources", fetch_sources)
    return fetched


def repair(model: Path, *, offline: bool = False, said: list[str] | None = None) -> Path:
    return repaired(model, "mine", offline=offline, say=said.append if said is not None else lambda text: None)


def state(model: Path) -> list[tuple[str, int, int]]:
    return sorted((path.name, path.stat().st_mtime_ns, path.stat().st_size) for path in model.iterdir())


@pytest.mark.parametrize("n_vocab", [51_864, 51_865, 51_866])
@pytest.mark.parametrize("archive", [False, True])
def test_a_whisper_of_weights_and_config_alone(tmp_path: Path, ranks: list[str], n_vocab: int, archive: bool) -> None:
    model = write_bare_whisper(tmp_path / "model", n_vocab, archive=archive)
    before, said = state(model), list[str]()
    found = repair(model, said=said)
    assert said == [
        f"mine: no tokenizer in it: taking the canonical one of {n_vocab} tokens; the model itself is left as it is"
    ]
    assert state(model) == before
    files = check_whisper(found)
    assert files.dims.n_vocab == n_vocab
    assert [path.resolve().parent for path in files.weights] == [model]
    settings = json.loads((found / "preprocessor_config.json").read_text())
    assert settings["feature_size"] == files.dims.n_mels


def test_it_is_made_once(tmp_path: Path, ranks: list[str]) -> None:
    model = write_bare_whisper(tmp_path / "model", 51_866)
    found = repair(model)
    made = found.stat().st_ino
    assert repair(model, offline=True) == found
    assert (found.stat().st_ino, ranks) == (made, ["whisper-tokenizers"])


def test_a_model_that_changes_is_repaired_again(tmp_path: Path, ranks: list[str]) -> None:
    model = write_bare_whisper(tmp_path / "model", 51_866)
    before = model_sha(repair(model))
    (model / "generation_config.json").write_text('{"is_multilingual": false}')
    found = repair(model)
    assert (found / "generation_config.json").exists()
    assert model_sha(found) != before


def test_a_directory_that_may_only_be_read(tmp_path: Path, ranks: list[str]) -> None:
    model = write_bare_whisper(tmp_path / "model", 51_865)
    model.chmod(0o555)
    try:
        check_whisper(repair(model))
    finally:
        model.chmod(0o755)


def test_the_same_model_elsewhere_is_the_same(tmp_path: Path, ranks: list[str]) -> None:
    first, second = (write_bare_whisper(tmp_path / name / "model", 51_865) for name in ("a", "b"))
    one, other = repair(first), repair(second)
    assert one != other
    assert model_sha(one) == model_sha(other)


def test_offline_the_tokenizer_cannot_be_fetched(tmp_path: Path, ranks: list[str]) -> None:
    model = write_bare_whisper(tmp_path / "model", 51_866)
    with pytest.raises(SetupError) as caught:
        repair(model, offline=True)
    assert str(caught.value) == (
        f"{model}/tokenizer.json: missing, and the canonical one of 51866 tokens cannot be had: it comes with a "
        "package of 1 MB, and this run is offline; run `mlxbatch models pull` with the model's name once, or copy the "
        "original's into the directory"
    )


def test_another_vocabulary_has_no_canonical_tokenizer(tmp_path: Path, ranks: list[str]) -> None:
    model = write_tiny_whisper(tmp_path / "model")
    (model / "tokenizer.json").unlink()
    assert repair(model) == model
    assert ranks == []


def _no_timestamps(tokenizer: dict[str, Any]) -> str:
    tokenizer["added_tokens"] = tiny_tokenizer(timestamps=False)["added_tokens"]
    return "its tokenizer.json lacks 1501 timestamps"


def _no_first_merge(tokenizer: dict[str, Any]) -> str:
    del tokenizer["model"]["merges"][0]
    return "its tokenizer.json lacks 1 of its merges"


def _both(tokenizer: dict[str, Any]) -> str:
    _no_timestamps(tokenizer)
    _no_first_merge(tokenizer)
    return "its tokenizer.json lacks 1501 timestamps and 1 of its merges"


@pytest.mark.parametrize("spoil", [_no_timestamps, _no_first_merge, _both], ids=lambda spoil: spoil.__name__)
def test_a_tokenizer_that_lacks_parts_is_completed(tmp_path: Path, spoil: Callable[[dict[str, Any]], str]) -> None:
    model = write_tiny_whisper(tmp_path / "model")
    tokenizer = tiny_tokenizer()
    words = spoil(tokenizer)
    write_json(model / "tokenizer.json", tokenizer)
    before, said = state(model), list[str]()
    found = repair(model, offline=True, said=said)
    assert said == [f"mine: {words}: taking a completed copy; the model itself is left as it is"]
    assert json.loads((found / "tokenizer.json").read_text("utf-8")) == tiny_tokenizer()
    assert state(model) == before
    check_whisper(found)
    assert repair(model, offline=True) == found


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("tokenizer.json", "<html>"),
        ("tokenizer.json", '{"added_tokens": [], "model": {}}'),
        ("tokenizer.json", '{"added_tokens": [{"id": 7, "content": "<|notimestamps|>"}], "model": {}}'),
        ("config.json", "{"),
        ("config.json", '{"model_type": "whisper"}'),
        ("config.json", '{"model_type": "parakeet"}'),
        ("config.json", None),
    ],
)
def test_what_is_broken_otherwise_is_left_to_the_check(tmp_path: Path, name: str, content: str | None) -> None:
    model = write_tiny_whisper(tmp_path / "model")
    if content is None:
        (model / name).unlink()
    else:
        (model / name).write_text(content)
    assert repair(model) == model


def test_a_whole_model_is_taken_as_it_is(tmp_path: Path, cache: Path) -> None:
    model = write_tiny_whisper(tmp_path / "model")
    said: list[str] = []
    assert repair(model, said=said) == model
    assert said == []
    assert not cache.exists()


def test_a_cache_that_cannot_be_written(tmp_path: Path, cache: Path) -> None:
    model = write_tiny_whisper(tmp_path / "model")
    write_json(model / "tokenizer.json", tiny_tokenizer(timestamps=False))
    cache.write_text("a file")
    with pytest.raises(SetupError, match=r"cache/repaired: Not a directory; set MLXBATCH_CACHE to a directory"):
        repair(model)


# ---- the real ranks, and real forwards


@pytest.mark.real
@pytest.mark.parametrize(("n_vocab", "archive"), [(51_866, False), (51_865, True), (51_864, True)])
def test_a_repaired_whisper_transcribes(
    canonical_tokenizers: Path, cache: Path, tmp_path: Path, n_vocab: int, archive: bool
) -> None:
    cache.mkdir()
    (cache / "tokenizers").symlink_to(canonical_tokenizers)
    model = write_bare_whisper(tmp_path / "model", n_vocab, archive=archive)
    found = resolve(str(model), offline=True, say=lambda text: None)
    spec = EngineSpec("whisper", found.path, batch_size=2, device={"kind": "cpu"})
    with closing(WhisperEngine(spec)) as engine:
        outputs = list(engine.run(Given([job(0, noise(16_000)), job(1, noise(32_000))]), lambda live: 2))
    assert set(outputs_by_job(outputs)) == {0, 1}
    assert all(isinstance(output, Output) for output in outputs)
    assert not (model / "tokenizer.json").exists()


def test_a_broken_one_is_named_by_its_own_place_and_leaves_nothing(
    tmp_path: Path, ranks: list[str], cache: Path
) -> None:
    model = write_bare_whisper(tmp_path / "model", 51_866)
    (model / "weights.safetensors").unlink()
    with pytest.raises(SetupError, match=r"no \*\.safetensors in it") as caught:
        repair(model)
    assert str(caught.value).startswith(f"{model}: ")
    assert not list((cache / "repaired").iterdir())


def test_one_that_broke_since_it_was_repaired_is_named_by_its_own_place(tmp_path: Path, ranks: list[str]) -> None:
    model = write_bare_whisper(tmp_path / "model", 51_866)
    repair(model)
    (model / "weights.safetensors").write_bytes(b"")
    with pytest.raises(SetupError) as caught:
        repair(model)
    assert str(caught.value).startswith(f"{model}/weights.safetensors: no readable safetensors file")


def test_a_look_leaves_the_cache_as_it_is(tmp_path: Path, cache: Path) -> None:
    tokenizer = tiny_tokenizer()
    del tokenizer["model"]["merges"][0]
    model = write_tiny_whisper(tmp_path / "model")
    write_json(model / "tokenizer.json", tokenizer)
    look = resolve(str(model), offline=True, say=print, scratch=tmp_path / "scratch")
    assert look.path.parent == tmp_path / "scratch"
    assert not cache.exists()
    found = resolve(str(model), offline=True, say=print)
    assert found.sha == look.sha
    assert resolve(str(model), offline=True, say=print, scratch=tmp_path / "other").path == found.path
