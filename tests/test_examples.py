"""The recordings that ship with the project: all listed with text and licence, all decodable, small."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from mlxbatch.audio import decode
from mlxbatch.discover import discover

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


def texts() -> dict[str, str]:
    with (EXAMPLES / "texts.tsv").open(encoding="utf-8", newline="") as file:
        return {row["file"]: row["text"] for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)}


def test_every_recording_has_a_text_and_a_line_in_the_sources() -> None:
    found = {str(item.source.relative_to(EXAMPLES)) for item in discover([EXAMPLES], output=EXAMPLES / "out").items}
    assert found == set(texts())
    sources = (EXAMPLES / "SOURCES.md").read_text(encoding="utf-8")
    assert all(f"| `{name}` |" in sources and text in sources for name, text in texts().items())


@pytest.mark.parametrize("name", sorted(texts()))
def test_every_recording_decodes_without_a_warning(name: str) -> None:
    (item,) = discover([EXAMPLES / name], output=EXAMPLES / "out").items
    recording = decode(item)
    assert 2 < recording.seconds < 25
    assert recording.warnings == ()


def test_they_stay_small() -> None:
    assert sum(path.stat().st_size for path in EXAMPLES.rglob("*.wav")) < 6_000_000
