"""What an allocation of bits loses in words, measured before anything is written: quantized and tried in memory."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import mlx.core as mx

from mlxbatch import device
from mlxbatch.convert.proof import forced
from mlxbatch.convert.proof.allocation import Allocation, Sensitivity
from mlxbatch.convert.proof.clips import Sound
from mlxbatch.convert.proof.forced import Batch
from mlxbatch.convert.proof.hearing import hear
from mlxbatch.convert.proof.ratio import Estimate, ratio
from mlxbatch.convert.proof.recognition import forced_text, languages, load, text_errors
from mlxbatch.convert.proof.sensitivity import quantized
from mlxbatch.encoder_context import FULL, WINDOW_FRAMES, Context
from mlxbatch.engines.base import EngineSpec
from mlxbatch.engines.whisper import slots
from mlxbatch.engines.whisper.abilities import Abilities
from mlxbatch.engines.whisper.rules import Rules
from mlxbatch.engines.whisper.slots import PromptCache, Slots, Trial
from mlxbatch.engines.whisper.windows import FRAME_SAMPLES, FRAMES_PER_STAMP, compression_ratio, needs_retry
from mlxbatch.errors import UsageError
from mlxbatch.quality import Errors
from mlxbatch.types import TranscribeOptions


class Losses:
    """A Whisper that hears the clips with a text, in the windows that it hears them in by itself, at any allocation.

    Belongs to the thread that makes it. Raises UsageError where no clip has a text, and as `prove` does.
    """

    def __init__(self, directory: Path, sounds: Sequence[Sound], spec: EngineSpec, found: Sensitivity) -> None:
        sounds = [sound for sound in sounds if sound.clip.text is not None]
        if not sounds:
            raise UsageError("a loss in words is measured against texts, and no clip has one")
        heard = hear(directory, sounds, spec)
        self._texts = [sound.clip.text or "" for sound in sounds]
        self._spoken = languages(sounds, heard)
        self._abilities, self._spec, self._found = Abilities.read(directory), spec, found
        with self._device():
            self._model = load(directory, spec)
            self._layers = dict(self._model.named_modules())
            self._rules = Rules(self._abilities.vocabulary, self._abilities.dims.n_vocab)
            text = forced_text(sounds, heard, self._abilities)
            self._batches = list(forced.batches(text, spec.context, spec.batch_size))
            self._original = self._edits()

    def at(self, allocation: Allocation) -> Estimate:
        """The word error rate that is lost, a share."""
        with self._device(), ExitStack() as stack:
            for name, bits in allocation.bits.items():
                if bits is not None:
                    layers = [self._layers[path] for path in self._found.groups[name].layers]
                    dtype = getattr(mx, self._found.dtype)
                    stack.enter_context(quantized(layers, bits, self._found.group_size, dtype))
            edits = self._edits()
        more = [after.edits - before.edits for after, before in zip(edits, self._original, strict=True)]
        return ratio(more, [one.of for one in edits])

    @contextmanager
    def _device(self) -> Iterator[None]:
        with device.device_settings(device.DeviceSettings(**self._spec.device)):
            yield

    def _edits(self) -> list[Errors]:
        """Of each clip, with the model as it is now."""
        said: dict[int, list[str]] = defaultdict(list)
        for batch in self._batches:
            for window, trial in zip(batch.windows, self._heard(batch), strict=True):
                said[window.clip].append(self._abilities.vocabulary.text(trial.tokens))
        texts = [" ".join(said[number]) for number in range(len(self._texts))]
        return text_errors(self._texts, texts, self._spoken)

    def _heard(self, batch: Batch) -> list[Trial]:
        """What is said in each window; where that is doubtful, with the encoder's whole context, as in a batch job."""
        trials = self._decoded(batch, self._spec.context)
        doubtful = [place for place, trial in enumerate(trials) if self._is_doubtful(trial)]
        if doubtful and batch.frames < WINDOW_FRAMES:
            (again,) = forced.batches([batch.windows[place] for place in doubtful], FULL, len(doubtful))
            for place, trial in zip(doubtful, self._decoded(again, FULL), strict=True):
                trials[place] = trial
        return trials

    def _is_doubtful(self, trial: Trial) -> bool:
        compressed = compression_ratio(self._abilities.vocabulary.text(trial.tokens))
        return needs_retry(compressed, trial.avg_logprob, TranscribeOptions())

    def _decoded(self, batch: Batch, context: Context) -> list[Trial]:
        """Greedily, by the rules that hold in a batch job."""
        features, counts = forced.encode(self._model, batch, context, getattr(mx, self._spec.dtype))
        decoder, most = self._model.decoder, self._abilities.dims.n_text_ctx // 2
        sound = slots.Sound.of(decoder.cross(features), counts)
        prompts = mx.array([list(window.prompt) for window in batch.windows], mx.int32)
        cache = PromptCache()
        decoder(prompts, mx.broadcast_to(mx.arange(prompts.shape[1]), prompts.shape), cache, sound.cross, sound.heard)
        trials = [
            Trial(list(window.prompt), -(-len(window.samples) // (FRAME_SAMPLES * FRAMES_PER_STAMP)), most)
            for window in batch.windows
        ]
        seats = Slots(decoder, self._rules, len(trials))
        seats.join_all(trials, sound, cache)
        while seats.live:
            for trial in seats.step():
                seats.leave(trial)
        return trials
