"""The table of precisions, from what `mlxbatch convert --json` says."""

from __future__ import annotations

from typing import Any

from benchmarks.convert import original, original_voice, row, voice_row


def record(error: float | None) -> dict[str, Any]:
    found = {
        "clips": 38,
        "changed": 3,
        "wer": {"original": 0.0741, "converted": 0.0762},
        "wer_loss": {"value": 0.0021, "error": error},
        "divergence": {"mean": {"value": 0.00123, "error": error}},
    }
    stored = {"weight_bytes": 143_651_840, "bits_per_weight": 16.0}
    about = {"weight_bytes": 59_820_192, "bits_per_weight": 6.663}
    return {"original": stored, **about, "quality": {"recognition": found}}


def test_a_line_of_the_table() -> None:
    cells = row("6 bits", record(0.0004))
    assert cells == [
        *("6 bits", "60 MB", "6.66", "7.62 %", "+0.21 ± 0.04 points", "3 of 38", "0.00123 ± 0.00040"),
    ]
    assert row("6 bits", record(None))[4:] == ["+0.21 points", "3 of 38", "0.00123"]


def test_the_line_of_the_original() -> None:
    assert original(record(None)) == ["as published", "144 MB", "16.00", "7.41 %", "", "", ""]


def test_the_lines_of_a_voice() -> None:
    found = {
        "wer": {"original": 0.0, "converted": 0.025},
        "duration": {"value": 1.004, "error": 0.002},
        "distance": 3.217,
        "likeness": 0.9871,
    }
    stored = {"weight_bytes": 327_053_640, "bits_per_weight": 32.0}
    voice = {"original": stored, "weight_bytes": 288_700_000, "bits_per_weight": 28.3}
    voice |= {"quality": {"synthesis": found}}
    assert original_voice(voice) == ["as published", "327 MB", "32.00", "0.00 %", "", "", ""]
    assert voice_row("8 bits", voice) == ["8 bits", "289 MB", "28.30", "2.50 %", "1.004 ± 0.002", "3.22 dB", "0.987"]
