"""The engine over mlx-audio's models: pieces of many recordings share a batch where their family allows it."""

from __future__ import annotations

import importlib
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import mlx.core as mx

from mlxbatch import device, kernels
from mlxbatch.engines import families
from mlxbatch.engines.base import Admit, EngineSpec, Jobs
from mlxbatch.engines.batching import Padding, run_batches
from mlxbatch.engines.families import Family
from mlxbatch.engines.mlx_audio import footprint, memory
from mlxbatch.engines.mlx_audio.cuts import Cut, Cuts
from mlxbatch.engines.mlx_audio.heard import Heard, placed
from mlxbatch.engines.mlx_audio.hearing import Hearing, Part, Streaming
from mlxbatch.engines.mlx_audio.hush import hushed
from mlxbatch.engines.mlx_audio.loading import load, network_of
from mlxbatch.engines.mlx_audio.recordings import Recordings
from mlxbatch.errors import MlxBatchError, show
from mlxbatch.models.architecture import read_json
from mlxbatch.models.residency import Residency, device_residency, weight_bytes
from mlxbatch.types import Job, JobFailed, Output, Readings, Span, WindowStats
from mlxbatch.vad.ahead import SpeechAhead
from mlxbatch.vad.resident import resident_networks, speech_ahead

# mlx-audio's module -> the module here, and what in it hears.
HEARINGS = {
    "parakeet": ("parakeet", "Parakeet"),
    "cohere_asr": ("cohere", "Cohere"),
    "qwen3_asr": ("qwen3", "Qwen3"),
    "vibevoice_asr": ("vibevoice", "vibevoice"),
    "sensevoice": ("ctc", "SenseVoice"),
    "mms": ("ctc", "Wav2Vec2"),
    "moonshine": ("alone", "moonshine"),
    "canary": ("alone", "canary"),
    "glmasr": ("alone", "glm"),
    "granite_speech": ("alone", "granite"),
    "nemotron_asr": ("alone", "Nemotron"),
    "fireredasr2": ("alone", "fire_red"),
    "granite_speech5_ctc": ("alone", "granite_ctc"),
    "qwen2_audio": ("alone", "qwen2_audio"),
    "moss_transcribe_diarize": ("alone", "Moss"),
}


@dataclass(frozen=True, slots=True)
class Resident:
    """mlx-audio's model as the residency counts it: some are wrappers around the module that has the weights."""

    whole: Any

    @property
    def nbytes(self) -> int:
        return weight_bytes(network_of(self.whole))


class MlxAudioEngine:
    """Batches of pieces, halved where memory is short; windows are a recording's pieces, in order."""

    def __init__(self, spec: EngineSpec, family: Family, residency: Residency | None = None) -> None:
        """`residency`: that of the process, where another engine has set up the device; its limits hold then.

        The model is in use there until the engine is closed.
        """
        assert spec.model is not None
        self.sample_rate = family.sample_rate
        self._spec, self._family = spec, family
        wanted = spec.segment_seconds or family.segment_seconds
        self._piece = min(float(wanted), family.longest)
        self._ahead: SpeechAhead | None = None
        settings = device.DeviceSettings(**spec.device)
        dtype = getattr(mx, spec.dtype)
        # What is set on the device is put back where loading fails, too.
        with ExitStack() as undo:
            self._residency = residency or undo.enter_context(device_residency(settings))
            model = undo.enter_context(self._resident_model(spec.model, dtype, plain=settings.kind == "cpu"))
            self._model = hearing(model.whole, family)
            self._networks = undo.enter_context(resident_networks(self._residency, spec.vad))
            self._exit = undo.pop_all()
        self._sizes = memory.sizes(read_json(spec.model / "config.json"), family.frames_per_second)
        self._item = dtype.size
        self._spans: list[Span] = []
        self._work = device.Work()

    def _resident_model(self, directory: Path, dtype: mx.Dtype, *, plain: bool) -> AbstractContextManager[Resident]:
        bits = self._spec.bits
        return self._residency.use(
            f"{show(directory)} ({self._spec.dtype}{f', {bits} bits' if bits else ''})",
            lambda: Resident(load(directory, self._family, dtype, bits, dequantized=plain)),
            footprint.weight_bytes(self._spec, plain=plain),
        )

    # ---- the seam

    def run(self, jobs: Jobs, admit: Admit) -> Iterator[Output | JobFailed]:
        rate, look_ahead = self.sample_rate, 2 * self._spec.batch_size
        with speech_ahead(self._networks, int(self._piece * rate), rate) as self._ahead:
            recordings = Recordings(jobs, rate, self._piece, self._family.apart, self._ahead, look_ahead)
            self._cuts = Cuts(recordings, rate, context=self._family.context, stream=self._spec.stream)
            for event in self._events(admit):
                yield from self._cuts.take(event)

    def _events(self, admit: Admit) -> Iterator[Output | JobFailed]:
        """What becomes of each piece."""
        padding = self._family.padding
        return run_batches(
            self._cuts,
            admit,
            self._infer,
            self._short,
            size=self._spec.batch_size if padding else 1,
            padding=padding or Padding.FIXED,
        )

    def need(self, seconds: float) -> int:
        tiled = kernels.on_gpu() and not self._family.relative
        listens = self._spec.vad is not None
        return memory.need(
            self._sizes, seconds, self._piece, self.sample_rate, self._item, tiled=tiled, listens=listens
        )

    def working(self, longest: float) -> int:
        return 0  # a batch is all that it works on

    def weights(self) -> int:
        return self._residency.resident.bytes

    def memory_limit(self) -> int:
        return self._residency.budget

    def readings(self) -> Readings:
        heard = self._ahead.spans() if self._ahead else []
        spans, self._spans = (*self._spans, *heard), []
        return replace(self.pulse(), spans=spans)

    def pulse(self) -> Readings:
        now, ahead = device.readings(self._work), self._ahead
        progress = now.progress + (ahead.steps if ahead else 0)
        return replace(now, progress=progress, resident=self._residency.resident)

    def reclaim(self) -> None:
        device.reclaim()

    def close(self) -> None:
        """To be called once. What hears has hold of the weights, so it goes first."""
        del self._model, self._networks
        self._exit.close()

    # ---- a batch

    def _infer(self, batch: list[Job]) -> Iterator[Output | JobFailed]:
        """What became of each piece, under the piece's number."""
        began = time.monotonic()
        self._work.live = len(batch)
        self._tick()
        cuts = [(job.id, cut) for job in batch if (cut := self._cuts.of(job.id)) is not None]
        heard = {number: Heard() for number, _ in cuts}
        heard |= {number: Heard(problem=why) for number, cut in cuts if (why := self._problem(cut)) is not None}
        audible = [(number, cut) for number, cut in cuts if heard[number].problem is None and not cut.silent()]
        if audible and self._spec.stream and isinstance(self._model, Streaming):
            yield from self._stream(self._model, audible, began)
            cuts = [(number, cut) for number, cut in cuts if (number, cut) not in audible]
        elif audible:
            found = self._hear([cut for _, cut in audible])
            heard |= dict(zip((number for number, _ in audible), found, strict=True))
        self._work.live = 0
        ended = time.monotonic()
        self._spans.append(Span("infer", began, ended, len(batch)))
        for number, cut in cuts:
            yield self._event(number, cut, heard[number], ended - began)

    def _stream(self, model: Streaming, pieces: list[tuple[int, Cut]], began: float) -> Iterator[Output | JobFailed]:
        """What becomes of pieces as the model says it. What it raises is the fault of one of them, as in `_hear`."""
        said = [0] * len(pieces)
        open_rows = dict(enumerate(pieces))
        try:
            for part in self._parts(model, [cut for _, cut in pieces]):
                number, cut = pieces[part.row]
                if part.last:
                    del open_rows[part.row]
                yield self._event(number, cut, part.heard, time.monotonic() - began, said[part.row], last=part.last)
                said[part.row] += 1
        except MlxBatchError:
            raise
        except Exception as error:
            if len(pieces) == 1:
                yield self._event(*pieces[0], self._fault(error), 0.0)
                return
            for piece in open_rows.values():
                yield from self._stream(model, [piece], began)

    def _parts(self, model: Streaming, cuts: list[Cut]) -> Iterator[Part]:
        """Between two parts others have the thread, and their prints are no business of ours."""
        parts = model.stream(cuts, self._tick)
        while True:
            with hushed(), device.device_errors():
                part = next(parts, None)
            if part is None:
                return
            yield part

    def _hear(self, cuts: list[Cut]) -> list[Heard]:
        """What mlx-audio raises over a batch is the fault of a piece in it: they go one by one then, to find which."""
        try:
            with hushed(), device.device_errors():
                return self._model.hear(cuts, self._tick)
        except MlxBatchError:
            raise
        except Exception as error:
            if len(cuts) > 1:
                return [one for cut in cuts for one in self._hear([cut])]
            return [self._fault(error)]

    def _fault(self, error: Exception) -> Heard:
        first = (str(error).strip() or "no reason given").splitlines()[0]
        return Heard(problem=f"{self._family.name}: {type(error).__name__}: {first}")

    def _event(
        self, number: int, cut: Cut, heard: Heard, latency: float, part: int = 0, *, last: bool = True
    ) -> Output | JobFailed:
        """`part`: the how many'th of the piece's, from 0; the `last` tells what the piece took."""
        if heard.problem is not None:
            return JobFailed(number, heard.problem)
        segments = placed(heard, cut.begin, cut.seconds, cut.job.channel)
        stats = WindowStats(
            cut.begin, cut.seconds if last else 0.0, heard.tokens, latency if last else 0.0, cut=heard.cut
        )
        # What was asked for is what was heard, but not of a model that goes by the sound alone.
        asked = cut.options.language if segments and "language" in self._family.takes else None
        return Output(number, part, segments, stats, last, heard.language or asked)

    def _problem(self, cut: Cut) -> str | None:
        """Why the piece cannot be transcribed as it is asked to."""
        language = cut.options.language
        if cut.problem:
            return cut.problem
        if cut.options.task == "translate" and "translate" not in self._family.takes:
            return f"{self._family.name} does not translate"
        if "language" not in self._family.takes:
            return None
        return families.language_problem(self._family, language) or self._model.problem(language)

    def _tick(self) -> None:
        self._work.progress += 1

    def _short(self) -> None:
        """The device had no memory for a batch."""
        self._work.live = 0
        self._work.shortages += 1
        device.reclaim()


def hearing(model: Any, family: Family) -> Hearing:
    """What hears with the model, by its family."""
    module, name = HEARINGS[family.module]
    return getattr(importlib.import_module(f"mlxbatch.engines.mlx_audio.{module}"), name)(model)
