"""The proof of DeepFilterNet: both models find speech in the same noise."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import mlx.core as mx
import numpy as np

from mlxbatch import device
from mlxbatch.convert.proof.clips import Sound
from mlxbatch.convert.proof.quality import Rates, Separation, Speed
from mlxbatch.convert.proof.waveforms import Samples, mixed, pink_noise, si_sdr
from mlxbatch.engines.base import EngineSpec
from mlxbatch.engines.families import require
from mlxbatch.engines.mlx_audio.deepfilter import FAMILY, SAMPLE_RATE, DeepFilter

# How much louder than the noise the speech is, in dB.
ABOVE = 5.0
MIXTURE = f"the clips with pink noise {ABOVE:g} dB below them"


@dataclass(frozen=True, slots=True)
class Separated:
    """The figures, and both models' speed."""

    figures: Separation
    original: Speed
    converted: Speed


def separate(
    original: Path, converted: Path, sounds: Sequence[Sound], spec: EngineSpec, say: Callable[[str], None]
) -> Separated:
    """Both models on clean speech to which noise is added: so the speech itself is what they are measured against.

    Raises SetupError where a directory cannot be loaded, or mlx-audio is not installed.
    """
    require(FAMILY)
    clean = [sound.at(SAMPLE_RATE) for sound in sounds]
    noisy = [mixed(speech, pink_noise(len(speech), number), ABOVE) for number, speech in enumerate(clean)]
    with device.device_settings(device.DeviceSettings(**spec.device)):
        say("separating with the original")
        first, before = _enhanced(original, noisy)
        say("separating with the converted model")
        second, after = _enhanced(converted, noisy)
    figures = Separation(
        clips=len(sounds),
        mixture=MIXTURE,
        between=_mean(first, second),
        clean=Rates(_mean(clean, first), _mean(clean, second)),
    )
    return Separated(figures, before, after)


def _mean(references: Sequence[Samples], estimates: Sequence[Samples]) -> float:
    return float(np.mean([si_sdr(*pair) for pair in zip(references, estimates, strict=True)]))


def _enhanced(directory: Path, noisy: Sequence[Samples]) -> tuple[list[Samples], Speed]:
    """What the model finds; the shortest is heard once before it counts. DeepFilterNet's weights are never packed."""
    model = DeepFilter(directory)
    model.enhance(min(noisy, key=len))
    mx.reset_peak_memory()
    began = time.monotonic()
    found = [model.enhance(samples) for samples in noisy]
    seconds = time.monotonic() - began
    return found, Speed(seconds, sum(map(len, noisy)) / SAMPLE_RATE, mx.get_peak_memory(), "the weights as stored")
