"""The proof of Kokoro: both models say the same sentences; how long, how alike, and whether they are understood."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import mlx.core as mx
import numpy as np
import soxr

from mlxbatch import device, kernels, quality
from mlxbatch.convert.proof.clips import RATE, Clip, Sound
from mlxbatch.convert.proof.hearing import arithmetic, hear
from mlxbatch.convert.proof.quality import Level, Rates, Speed, Synthesis
from mlxbatch.convert.proof.ratio import Estimate, ratio
from mlxbatch.convert.proof.sentences import Sentence, sentences_for, words
from mlxbatch.convert.proof.waveforms import Samples, log_spectral_distance
from mlxbatch.engines.base import EngineSpec
from mlxbatch.engines.families import require
from mlxbatch.engines.mlx_audio.kokoro import FAMILY, Kokoro
from mlxbatch.errors import SetupError, show
from mlxbatch.models.resolve import resolve, resolve_package

VOICE = "af_heart"
LISTENER, ENCODER = "whisper-base", "ge2e"


@dataclass(frozen=True, slots=True)
class Spoken:
    """The figures, both models' speed, and what could not be measured."""

    figures: Synthesis
    original: Speed
    converted: Speed
    not_measured: tuple[str, ...]


def speak(original: Path, converted: Path, level: Level, spec: EngineSpec, say: Callable[[str], None]) -> Spoken:
    """Both models, in float32: for a quick proof the first sentences, else all.

    Raises SetupError where a directory is no whole model, or mlx-audio is not installed.
    """
    require(FAMILY)
    spec = replace(spec, dtype="float32")
    sentences = sentences_for(level)
    voice = _voice(original)
    with device.device_settings(device.DeviceSettings(**spec.device)):
        say("speaking with the original")
        first, before = _said(original, sentences, voice, spec)
        say("speaking with the converted model")
        second, after = _said(converted, sentences, voice, spec)
        missing: list[str] = []
        say("comparing both voices")
        figures = Synthesis(
            sentences=len(sentences),
            words=words(sentences),
            voice=voice,
            duration=ratio([len(one) for one in second], [len(one) for one in first]),
            distance=float(np.mean([log_spectral_distance(*pair) for pair in zip(first, second, strict=True)])),
            likeness=_likeness(first, second, missing),
        )
    heard = _heard(sentences, first, second, spec, missing)
    if heard is not None:
        figures = replace(figures, heard_by=LISTENER, wer=heard.wer, wer_loss=heard.loss)
    return Spoken(figures, before, after, tuple(missing))


def _voice(directory: Path) -> str:
    names = sorted(path.stem for path in (directory / "voices").glob("*.safetensors"))
    if not names:
        raise SetupError(f"{show(directory / 'voices')}: no voice in it")
    return VOICE if VOICE in names else names[0]


def _said(directory: Path, sentences: Sequence[Sentence], voice: str, spec: EngineSpec) -> tuple[list[Samples], Speed]:
    """Each sentence at 16 kHz. The first is said once before it counts, as it makes what the others use as well."""
    model = Kokoro(directory, mx.float32, voice, dequantized=not kernels.on_gpu())
    model.speak(sentences[0].phonemes, 0)
    mx.reset_peak_memory()
    began = time.monotonic()
    found = [model.speak(sentence.phonemes, number) for number, sentence in enumerate(sentences)]
    seconds = time.monotonic() - began
    audio = sum(len(samples) for samples in found) / model.sample_rate
    speed = Speed(seconds, audio, mx.get_peak_memory(), arithmetic(directory, spec))
    return [soxr.resample(samples, model.sample_rate, RATE, quality="HQ") for samples in found], speed


def _likeness(first: Sequence[Samples], second: Sequence[Samples], missing: list[str]) -> float | None:
    """The mean cosine of both models' voices in the same sentence; None, and why, where there is no encoder."""
    try:
        directory = resolve_package(ENCODER, offline=True, say=lambda text: None).path
    except SetupError as error:
        missing.append(f"likeness of the voices: {error}")
        return None
    from mlxbatch.engines.mlx_audio.ge2e import Voices

    voices = Voices(directory)
    return float(np.mean([voices.likeness(*pair) for pair in zip(first, second, strict=True)]))


@dataclass(frozen=True, slots=True)
class _Understood:
    wer: Rates
    loss: Estimate


def _heard(
    sentences: Sequence[Sentence],
    first: Sequence[Samples],
    second: Sequence[Samples],
    spec: EngineSpec,
    missing: list[str],
) -> _Understood | None:
    """Error rates of what a Whisper hears in both models' speech; None, and why, where there is none or no extra."""
    try:
        listener = resolve(LISTENER, offline=True, say=lambda text: None).path
        texts = [sentence.text for sentence in sentences]
        before, after = (
            quality.errors(texts, hear(listener, _sounds(sentences, said), spec).texts) for said in (first, second)
        )
    except SetupError as error:
        missing.append(f"whether it is understood: {error}")
        return None
    sizes = [one.of for one in before]
    rates = (ratio([one.edits for one in found], sizes).value for found in (before, after))
    more = [other.edits - one.edits for one, other in zip(before, after, strict=True)]
    return _Understood(Rates(*rates), ratio(more, sizes))


def _sounds(sentences: Sequence[Sentence], said: Sequence[Samples]) -> list[Sound]:
    return [
        Sound(Clip(Path(sentence.text), sentence.text, "en"), samples)
        for sentence, samples in zip(sentences, said, strict=True)
    ]
