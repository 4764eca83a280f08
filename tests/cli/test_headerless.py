"""Recordings without a header, from the profile's rule to the text, and again when the rule changes."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from .conftest import Cli
from .running import OUT, outputs

IN = Path("in")


@pytest.fixture
def calls(cli: Cli, fake: dict[str, Any]) -> Path:
    IN.mkdir()
    noise = np.random.default_rng(0).integers(1, 255, 32000, np.uint8).tobytes()
    (IN / "a.ulaw").write_bytes(noise)
    (IN / "b.vox8").write_bytes(noise)
    return IN


def test_known_names_need_no_rule_and_others_are_passed_over(cli: Cli, calls: Path) -> None:
    ran = cli("transcribe", IN, "-o", OUT, "--workers", "0")
    assert ran.code == 0
    assert outputs() == {"a.txt": "4.00 seconds of sound\n"}


def test_a_rule_of_the_profile_and_its_change(cli: Cli, calls: Path) -> None:
    for rule, seconds, done in (("mulaw 8000 1", "4.00", 2), ("mulaw 16000", "2.00", 1), ("mulaw 16000 1", "2.00", 0)):
        Path("mlxbatch.toml").write_text(f'[decode.raw]\n".vox8" = "{rule}"\n')
        ran = cli("transcribe", IN, "-o", OUT, "--workers", "0", "--json")
        assert (ran.code, ran.summary["done"]) == (0, done)
        assert outputs() == {"a.txt": "4.00 seconds of sound\n", "b.txt": f"{seconds} seconds of sound\n"}


def test_a_dry_run_reads_them_by_the_same_rules(cli: Cli, calls: Path) -> None:
    Path("mlxbatch.toml").write_text('[decode.raw]\nvox8 = "mulaw 16000"\n')
    ran = cli("transcribe", IN, "-o", OUT, "--dry-run", "--json")
    assert [record["seconds"] for record in ran.records if record["event"] == "would"] == [4.0, 2.0]


def test_a_wrong_rule_ends_with_2_before_anything_is_done(cli: Cli, calls: Path) -> None:
    Path("mlxbatch.toml").write_text('[decode.raw]\nvox8 = "mulow"\n')
    ran = cli("transcribe", IN, "-o", OUT)
    assert ran.code == 2
    assert "mlxbatch.toml:2: decode.raw.vox8" in ran.error
    assert not OUT.exists()


def test_show_prints_rules_that_can_be_read_again(cli: Cli) -> None:
    Path("mlxbatch.toml").write_text('[decode.raw]\nvox8 = "mulaw 16000"\n')
    shown = cli("profiles", "show").out
    assert tomllib.loads(shown)["decode"] == {"raw": {"vox8": "mulaw 16000"}}
