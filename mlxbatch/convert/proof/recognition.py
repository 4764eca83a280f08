"""The proof of a speech recogniser: what both models hear in the clips, and how sure they are of the same tokens."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from mlxbatch import device, kernels, quality
from mlxbatch.convert.proof import forced
from mlxbatch.convert.proof.clips import Sound
from mlxbatch.convert.proof.divergence import summarize
from mlxbatch.convert.proof.forced import FORCED, Forced
from mlxbatch.convert.proof.hearing import DECODING, Heard, hear
from mlxbatch.convert.proof.quality import Divergence, Rates, Recognition, Speed
from mlxbatch.convert.proof.ratio import Estimate, ratio
from mlxbatch.engines.base import EngineSpec
from mlxbatch.engines.families import WHISPER, family_of
from mlxbatch.engines.whisper import network
from mlxbatch.engines.whisper.abilities import Abilities
from mlxbatch.errors import SetupError, show
from mlxbatch.models.check import check_whisper
from mlxbatch.quality import Errors, Unit


@dataclass(frozen=True, slots=True)
class Recognised:
    """The figures, both models' speed, how many words the texts have, and what could not be measured."""

    figures: Recognition
    original: Speed
    converted: Speed
    words: int
    not_measured: tuple[str, ...]


def recognise(
    original: Path, converted: Path, sounds: Sequence[Sound], spec: EngineSpec, say: Callable[[str], None]
) -> Recognised:
    """Both models on the clips; one after the other where speed is measured, together where tokens are compared.

    Raises SetupError where the original cannot transcribe one of them, or a directory is no whole model.
    """
    say("transcribing with the original")
    before = hear(original, sounds, spec)
    _refuse_problems(sounds, before)
    say("transcribing with the converted model")
    after = hear(converted, sounds, spec)
    missing: list[str] = []
    rates = _rates(sounds, languages(sounds, before), before.texts, after.texts, missing)
    say("comparing next-token distributions")
    divergence = _divergence(original, converted, sounds, before, spec, missing)
    figures = Recognition(
        clips=len(sounds),
        changed=rates.changed,
        failed=sum(problem is not None for problem in after.problems),
        decoding=DECODING,
        wer=rates.wer,
        cer=rates.cer,
        wer_loss=rates.loss,
        divergence=divergence,
        forced=FORCED if divergence else None,
    )
    return Recognised(figures, before.speed, after.speed, rates.words, tuple(missing))


def reference_words(sounds: Sequence[Sound]) -> int:
    """How many words the clips' texts have, as error rates count them. SetupError without the extra `quality`."""
    texts = [(sound.clip.text, sound.clip.language or "en") for sound in sounds if sound.clip.text is not None]
    said = [text for text, _ in texts]
    return sum(one.of for one in text_errors(said, said, [language for _, language in texts]))


def languages(sounds: Sequence[Sound], heard: Heard) -> list[str]:
    """Each clip's, as it is given, or as the model heard it."""
    return [sound.clip.language or _detected(heard, number) or "en" for number, sound in enumerate(sounds)]


def _refuse_problems(sounds: Sequence[Sound], heard: Heard) -> None:
    for sound, problem in zip(sounds, heard.problems, strict=True):
        if problem is not None:
            raise SetupError(f"{show(sound.clip.path)}: the original model cannot transcribe it: {problem}")


def _detected(heard: Heard, number: int) -> str | None:
    return next((output.language for output in heard.outputs[number] if output.language), None)


# ---- texts


@dataclass(frozen=True, slots=True)
class _Rates:
    changed: int
    wer: Rates | None = None
    cer: Rates | None = None
    loss: Estimate | None = None
    words: int = 0


def _rates(
    sounds: Sequence[Sound], spoken: Sequence[str], before: Sequence[str], after: Sequence[str], missing: list[str]
) -> _Rates:
    """Error rates over the clips that have a text; clips without one tell which texts change."""
    try:
        changed = sum(one.edits > 0 for one in text_errors(before, after, spoken))
    except SetupError as error:  # the extra is not installed
        missing.append(f"word error rates: {error}")
        return _Rates(sum(one.strip() != other.strip() for one, other in zip(before, after, strict=True)))
    told = [number for number, sound in enumerate(sounds) if sound.clip.text is not None]
    if not told:
        missing.append("word error rates: no clip has a text")
        return _Rates(changed)
    texts = [sounds[number].clip.text or "" for number in told]
    told_in = [spoken[number] for number in told]
    first, second = ([said[number] for number in told] for said in (before, after))
    words = [text_errors(texts, said, told_in) for said in (first, second)]
    letters = [text_errors(texts, said, told_in, "character") for said in (first, second)]
    more = [other.edits - one.edits for one, other in zip(*words, strict=True)]
    return _Rates(
        changed,
        Rates(*map(_rate, words)),
        Rates(*map(_rate, letters)),
        ratio(more, [one.of for one in words[0]]),
        sum(one.of for one in words[0]),
    )


def text_errors(
    references: Sequence[str], hypotheses: Sequence[str], spoken: Sequence[str], unit: Unit = "word"
) -> list[Errors]:
    """The edits of each text, in the language it is spoken in."""
    by_language = defaultdict(list)
    for number, language in enumerate(spoken):
        by_language[language].append(number)
    found: dict[int, Errors] = {}
    for language, numbers in by_language.items():
        texts, others = ([said[number] for number in numbers] for said in (references, hypotheses))
        found |= dict(zip(numbers, quality.errors(texts, others, language, unit), strict=True))
    return [found[number] for number in range(len(spoken))]


def _rate(found: Sequence[Errors]) -> float:
    return ratio([one.edits for one in found], [one.of for one in found]).value


# ---- next tokens


def _divergence(
    original: Path, converted: Path, sounds: Sequence[Sound], heard: Heard, spec: EngineSpec, missing: list[str]
) -> Divergence | None:
    """How far the converted model's distributions are from the original's; None, and why, where that is not known."""
    what = "divergence of next-token distributions"
    if family_of(original) is not WHISPER or family_of(converted) is not WHISPER:
        missing.append(f"{what}: measured of Whispers only")
        return None
    abilities = Abilities.read(original)
    if not _same_tokens(abilities, Abilities.read(converted)):
        missing.append(f"{what}: the two models have other tokens")
        return None
    text = forced_text(sounds, heard, abilities)
    if not text:
        missing.append(f"{what}: the original hears no words in the clips")
        return None
    with device.device_settings(device.DeviceSettings(**spec.device)):
        first, second = (load(directory, spec) for directory in (original, converted))
        return compared(first, second, text, spec)


def _same_tokens(one: Abilities, other: Abilities) -> bool:
    return one.dims.n_vocab == other.dims.n_vocab and (
        one.vocabulary.tokenizer.get_vocab() == other.vocabulary.tokenizer.get_vocab()
    )


def forced_text(sounds: Sequence[Sound], heard: Heard, abilities: Abilities) -> list[Forced]:
    """All that the original said, to be forced on others."""
    return [
        one
        for number, (sound, outputs) in enumerate(zip(sounds, heard.outputs, strict=True))
        for one in forced.windows(outputs, sound.samples, number, abilities)
    ]


def load(directory: Path, spec: EngineSpec) -> network.Network:
    """A Whisper's network as the engine would have it, on the device that is set."""
    files = check_whisper(directory)
    config = json.loads(files.config.read_text("utf-8"))
    return network.load(list(files.weights), config, getattr(mx, spec.dtype), dequantized=not kernels.on_gpu())


def compared(
    original: network.Network, converted: network.Network, text: Sequence[Forced], spec: EngineSpec
) -> Divergence:
    """The divergence over all tokens of a text, on the device that is set."""
    nats: dict[int, list[NDArray[np.float64]]] = defaultdict(list)
    same: dict[int, list[NDArray[np.bool_]]] = defaultdict(list)
    dtype = getattr(mx, spec.dtype)
    for batch in forced.batches(text, spec.context, spec.batch_size):
        states = [
            forced.hidden(one.decoder, batch, *forced.encode(one, batch, spec.context, dtype))
            for one in (original, converted)
        ]
        away, tops = forced.compare(original.decoder.logits, states[0], converted.decoder.logits, states[1])
        for clip in np.unique(batch.clips):
            nats[clip].append(away[batch.clips == clip])
            same[clip].append(tops[batch.clips == clip])
    joined = [np.concatenate(nats[clip]) for clip in sorted(nats)]
    return summarize(joined, [np.concatenate(same[clip]) for clip in sorted(same)])
