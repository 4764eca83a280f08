"""Silero's networks with weights of chance, and signals that nobody speaks in."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file

from mlxbatch.vad.layout import NETWORKS, expected_shapes

RATE = 16_000


def tensors() -> dict[str, NDArray[np.float32]]:
    rng = np.random.default_rng(0)
    return {
        f"{rate}.{name}": (0.2 * rng.standard_normal(shape)).astype(np.float32)
        for rate in NETWORKS
        for name, shape in expected_shapes(rate).items()
    }


def write_tiny_silero(directory: Path) -> Path:
    directory.mkdir(parents=True)
    save_file(tensors(), directory / "model.safetensors", metadata={"format": "mlx"})
    (directory / "config.json").write_text(json.dumps({"model_type": "silero_vad"}), "utf-8")
    return directory


def tones(seconds: float, on: float, off: float, *hertz: float) -> NDArray[np.float32]:
    """Tones together, `on` seconds of them and `off` of silence in turn."""
    time = np.arange(int(seconds * RATE)) / RATE
    both = sum(np.sin(2 * np.pi * frequency * time) for frequency in hertz) / (2 * len(hertz))
    return np.asarray(both * (time % (on + off) < on), np.float32)


def dtmf(digits: str) -> NDArray[np.float32]:
    """ITU-T Q.23: 100 ms a digit, 100 ms between them."""
    low, high = (697, 770, 852, 941), (1209, 1336, 1477)
    places = {digit: divmod(index, 3) for index, digit in enumerate("123456789*0#")}
    return np.concatenate([tones(0.2, 0.1, 1.0, low[places[d][0]], high[places[d][1]]) for d in digits])


def melody(seconds: float) -> NDArray[np.float32]:
    """Plucked notes of seven partials, two a second."""
    time = np.arange(RATE // 2) / RATE
    scale = [220 * 2 ** (step / 12) for step in (0, 4, 7, 12, 7, 4, 0, -5)]
    notes = [sum(np.sin(2 * np.pi * f * h * time) / h for h in range(1, 8)) * np.exp(-4 * time) * 0.2 for f in scale]
    return np.concatenate([notes[n % 8] for n in range(int(2 * seconds))]).astype(np.float32)


def no_speech() -> dict[str, NDArray[np.float32]]:
    """By what they are; 16 kHz."""
    rng = np.random.default_rng(1)
    return {
        "silence": np.zeros(5 * RATE, np.float32),
        "near silence": (1e-5 * rng.standard_normal(5 * RATE)).astype(np.float32),
        "noise": (0.1 * rng.standard_normal(5 * RATE)).astype(np.float32),
        "sine": tones(5, 5, 0, 440),
        "ringing": tones(12, 2, 4, 440, 480),
        "busy": tones(5, 0.5, 0.5, 480, 620),
        "dtmf": dtmf("5551234*0#"),
        "melody": melody(10),
    }
