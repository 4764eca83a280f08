"""`mlxbatch models list` of models that were converted here."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from mlxbatch.convert.proof import quality
from mlxbatch.convert.proof.quality import Quality
from mlxbatch.models import catalogue

from ..convert.proof.test_card import FOUND
from .conftest import Cli


@pytest.fixture(autouse=True)
def no_other_models(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLXBATCH_CACHE", str(place / "cache"))
    monkeypatch.setattr(catalogue, "CATALOGUE", catalogue.CATALOGUE[:1])


def made(directory: Path, found: Quality = FOUND) -> Path:
    directory.mkdir(parents=True)
    quality.write(found, directory)
    return directory


def test_bits_size_and_loss_stand_in_the_list(cli: Cli, place: Path) -> None:
    made(place / "models" / "four")
    made(place / "cache" / "models" / "mine", replace(FOUND, recognition=None, origin=None))
    lines = cli("models", "list", "models").out.splitlines()
    assert lines[2:4] == [
        "",
        "CONVERTED".ljust(len(str(place / "cache" / "models" / "mine")))
        + "  TASK        BITS   SIZE     WER LOSS       KL  LICENCE     FROM",
    ]
    assert lines[4].split() == [
        "models/four", "transcribe", "4.98", "45", "MB", "0.30", "±", "0.10", "0.00321", "Apache-2.0",
        "openai/whisper-base",
    ]  # fmt: skip
    assert lines[5].split() == [str(place / "cache" / "models" / "mine"), "transcribe", "4.98", "45", "MB"]


def test_programs_get_numbers(cli: Cli, place: Path) -> None:
    made(place / "four")
    _, record = cli("models", "list", "four", "--json").records
    assert (record["name"], record["size_bytes"], record["bits_per_weight"]) == ("four", 45_000_000, 4.98)
    assert record["wer_loss_points"] == pytest.approx(0.3)
    assert record["wer_loss_points_error"] == pytest.approx(0.1)
    assert (record["kl_nats"], record["source"]) == (0.00321, "openai/whisper-base")


def test_a_directory_that_was_named_and_has_none(cli: Cli, place: Path) -> None:
    (place / "models").mkdir()
    ran = cli("models", "list", "models")
    assert ran.code == 2
    assert "models: no model in it that `mlxbatch convert` made (no quality.json)" in ran.error


def test_without_any_the_list_is_as_it_was(cli: Cli) -> None:
    assert len(cli("models", "list").out.splitlines()) == 2
