"""How enhanced speech is scored, and how the sides' times are read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import soundfile

from benchmarks.corpus import Noisy
from benchmarks.enhance import INPUT, MLX_AUDIO, OURS, RATE, Enhanced, by_snr, si_sdr, speeds

RNG = np.random.default_rng(0)
SPEECH, NOISE = (RNG.standard_normal(RATE).astype(np.float32) * 0.1 for _ in range(2))


@pytest.mark.parametrize("decibels", [-5.0, 0.0, 10.0])
def test_si_sdr_is_the_ratio_of_speech_and_noise_at_any_level(decibels: float) -> None:
    mixed = SPEECH + NOISE * np.float32(10 ** (-decibels / 20))
    assert si_sdr(SPEECH, mixed) == pytest.approx(decibels, abs=0.1)
    assert si_sdr(SPEECH, 3 * mixed + 1) == pytest.approx(si_sdr(SPEECH, mixed), abs=1e-3)
    assert si_sdr(SPEECH, SPEECH) > 100


def cells(table: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]


def test_scores_are_means_at_each_snr(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "clean.wav", SPEECH, RATE, subtype="FLOAT")
    clips = [Noisy(tmp_path / f"{n}.wav", tmp_path / "clean.wav", snr) for n, snr in enumerate((0, 0, None))]
    noisy, better = SPEECH + NOISE, SPEECH + NOISE * np.float32(0.1)
    rows = cells(by_snr(clips, {INPUT: [noisy] * 3, OURS: [better, noisy, better]}))
    assert [row[:2] for row in rows] == [["0 dB", "2"], ["not known", "1"]]
    before, whole = si_sdr(SPEECH, noisy), si_sdr(SPEECH, better)
    mean = (before + whole) / 2
    assert rows[0][2:] == [f"{before:.2f}", f"{mean:.2f} ({mean - before:+.2f})"]
    assert rows[1][3] == f"{whole:.2f} ({whole - before:+.2f})"


def test_speed_is_of_pairs_and_of_files() -> None:
    runs = {OURS: [Enhanced([], [1.0, 1.0])], MLX_AUDIO: [Enhanced([], [4.0, 8.0])]}
    assert cells(speeds(24.0, runs)) == [
        [OURS, "2.00", "12.0", "", ""],
        [MLX_AUDIO, "12.00", "2.0", "6.00 (6.00 to 6.00)", "6.00 (4.00 to 8.00)"],
    ]
