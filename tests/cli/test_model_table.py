"""docs/models.md: its table is the catalogue's, and the commands it names exist."""

from __future__ import annotations

import pytest

from mlxbatch.cli import model_table
from mlxbatch.models.catalogue import CATALOGUE
from tests.test_operations import command_lines, commands

from .conftest import ROOT

DOCUMENT = (ROOT / "docs" / "models.md").read_text("utf-8")


def test_the_table_is_the_catalogues() -> None:
    assert model_table.updated(DOCUMENT) == DOCUMENT, "run: python -m mlxbatch.cli.model_table docs/models.md"


def test_it_has_a_line_for_every_recogniser() -> None:
    lines = model_table.markdown().splitlines()
    assert len(lines) == 2 + sum(model.facts is not None for model in CATALOGUE)
    assert "| `whisper-large-v3-turbo` | 100 | 809 M | 1.6 GB | 16 | 8 | 30 s | MIT |" in model_table.markdown()


def test_a_document_without_markers_is_left_alone() -> None:
    with pytest.raises(ValueError, match="no <!-- catalogue"):
        model_table.updated("no table")


def test_the_commands_are_real() -> None:
    known = commands()
    named = [" ".join(words[:2]) for words in command_lines(DOCUMENT)]
    assert {"models list", "models show", "models pull", "models path"} <= set(named)
    assert set(named) <= set(known)
