"""docs/profiles.md has every key, as the schema has it."""

from __future__ import annotations

from pathlib import Path

import pytest

from mlxbatch.cli.profile_keys import tables, updated
from mlxbatch.profile_schema import allowed, conditions

DOCS = Path(__file__).parents[2] / "docs"


def test_the_document_is_up_to_date() -> None:
    """If not: python -m mlxbatch.cli.profile_keys docs/profiles.md"""
    text = (DOCS / "profiles.md").read_text("utf-8")
    assert updated(text) == text


def test_every_key_and_condition_has_its_row_and_says_what_it_may_be() -> None:
    rows = [line for line in tables().splitlines() if line.startswith("| `")]
    sections = [key for key in allowed() if "." not in key and allowed()[key].startswith("a table")]
    assert len(rows) == len(allowed()) - len(sections) + len(conditions())
    for key, about in (allowed() | conditions()).items():
        assert about
        assert key in sections or any(row.startswith(f"| `{key.rpartition('.')[2]}` | {about}") for row in rows)


def test_a_document_without_markers() -> None:
    with pytest.raises(ValueError, match="no <!-- profile keys: begin"):
        updated("# Profiles")


def test_the_document_of_machines_has_every_chip_of_the_profiles() -> None:
    text = (DOCS / "hardware.md").read_text("utf-8")
    for path in (DOCS.parent / "profiles").glob("apple-m*.toml"):
        rows = [line.removeprefix("#").split("  ") for line in path.read_text("utf-8").splitlines() if " GB/s " in line]
        assert rows
        for row in rows:
            chip, cores, bandwidth, *_ = [part.strip() for part in row if part.strip()]
            told = [line for line in text.splitlines() if line.startswith(f"| {chip} |")]
            assert any(f"| {cores.replace('-', ', ')} | {bandwidth.removesuffix(' GB/s')}" in line for line in told), (
                chip
            )
