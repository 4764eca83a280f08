"""`mlxbatch convert compare A B`, on tiny weights."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.engines.whisper.parts import short_whisper

from ..convert.proof.packed import pack
from ..convert.proof.test_clips import write
from .conftest import Cli


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    folder = tmp_path_factory.mktemp("models")
    original = short_whisper(folder / "original", n_text_ctx=24)
    return str(original), str(pack(original, folder / "packed", 4))


@pytest.fixture
def sounds(place: Path) -> str:
    names = [write(place / "sounds" / f"{name}.wav", 0.5).name for name in ("a", "bb")]
    rows = "".join(f"sounds/{name},the,en\n" for name in names)
    (place / "sounds.csv").write_text(f"path,text,language\n{rows}")
    return "sounds.csv"


def test_both_are_told_side_by_side(cli: Cli, models: tuple[str, str], sounds: str, place: Path) -> None:
    ran = cli("convert", "compare", *models, "--calibration", sounds, "--max-kl", "1000", "-o", "told")
    assert ran.code == 0, ran.err
    told = {line[:27].strip(): line[27:].split() for line in ran.out.splitlines()}
    assert told[""] == ["original", "converted"]
    assert len(told["bits a weight"]) == 2
    assert float(told["KL divergence, nats a token"][0]) > 0
    assert "comparing weights" in ran.err
    assert json.loads((place / "told" / "quality.json").read_text())["calibration"]["words"] == 2


def test_programs_get_the_record(cli: Cli, models: tuple[str, str], sounds: str) -> None:
    ran = cli("convert", "compare", models[0], models[0], "--calibration", sounds, "--json", "-q")
    (record,) = ran.records
    assert ran.err == ""
    assert record["recognition"]["divergence"]["mean"]["value"] == 0.0
    assert record["recognition"]["changed"] == 0


def test_a_limit_that_is_exceeded(cli: Cli, models: tuple[str, str], sounds: str) -> None:
    ran = cli("convert", "compare", *models, "--calibration", sounds, "--max-kl", "1e-9", "-q")
    assert ran.code == 1
    assert "--max-kl 1e-09: the converted model loses" in ran.error


def test_texts_too_short_for_a_limit_are_refused_at_once(cli: Cli, models: tuple[str, str], sounds: str) -> None:
    ran = cli("convert", "compare", *models, "--calibration", sounds, "--max-wer-loss", "0.3")
    assert ran.code == 2
    assert "the clips' texts have 2 words, of which one is more than that limit; it takes 334 and more" in ran.error
    assert "transcribing" not in ran.err


@pytest.mark.parametrize(
    ("arguments", "message", "code"),
    [
        (["gone", "gone"], "unknown model 'gone'", 3),
        (["{0}", "{0}", "--calibration", "gone"], "gone", 2),
        (["{0}", "{0}", "--max-kl", "0"], "--max-kl is a number over 0", 2),
        (["{0}"], "B", 2),
    ],
)
def test_what_is_wrong_is_said(
    cli: Cli, models: tuple[str, str], arguments: list[str], message: str, code: int
) -> None:
    ran = cli("convert", "compare", *(one.format(*models) for one in arguments))
    assert ran.code == code
    assert message in ran.error
