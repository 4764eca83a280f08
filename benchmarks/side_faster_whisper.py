"""faster-whisper over a job's recordings, in its own environment, greedy as the others. Run by `benchmarks.sides`.

Ways: "float32 sequential", "int8 sequential": a file at a time. "int8 batched": its batched pipeline, a file at a time,
of which it batches the windows (a short clip has one). "int8 joined": the same over all clips as one recording with
their bounds given, so that a batch is filled from many clips, which is the best that can be made of it.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterable
from importlib.metadata import version
from itertools import accumulate
from typing import Any

import ctranslate2
import numpy as np
from faster_whisper import BatchedInferencePipeline, WhisperModel, decode_audio

from benchmarks.job import Job, Told, answer

BATCH = 8
RATE = 16_000
GREEDY: dict[str, Any] = {"language": "en", "beam_size": 1}


def sequential(model: WhisperModel, paths: list[str]) -> dict[str, str]:
    return {path: text(model.transcribe(path, **GREEDY)[0]) for path in paths}


def batched(model: WhisperModel, paths: list[str]) -> dict[str, str]:
    """Without looking for speech, which it needs only where a file is longer than 30 s."""
    pipeline = BatchedInferencePipeline(model)
    asked = {**GREEDY, "batch_size": BATCH, "vad_filter": False}
    return {path: text(pipeline.transcribe(path, **asked)[0]) for path in paths}


def joined(model: WhisperModel, paths: list[str]) -> dict[str, str]:
    """Clips of at most 30 s, in order of length."""
    clips = sorted(((path, decode_audio(path, sampling_rate=RATE)) for path in paths), key=lambda one: len(one[1]))
    ends = [end / RATE for end in accumulate(len(samples) for _, samples in clips)]
    starts = [0.0, *ends[:-1]]
    bounds = [{"start": start, "end": end} for start, end in zip(starts, ends, strict=True)]
    audio = np.concatenate([samples for _, samples in clips])
    segments, _ = BatchedInferencePipeline(model).transcribe(audio, **GREEDY, batch_size=BATCH, clip_timestamps=bounds)
    texts = dict.fromkeys((path for path, _ in clips), "")
    for segment in segments:
        # Bounds are cut to whole samples: half a millisecond is more than they can be off.
        path, _ = clips[bisect_right(starts, segment.start + 0.0005) - 1]
        texts[path] += segment.text
    return texts


def text(segments: Iterable[Any]) -> str:
    return "".join(segment.text for segment in segments)


WAYS = {"sequential": sequential, "batched": batched, "joined": joined}
OPTIONS = {
    "sequential": "transcribe(language='en', beam_size=1), file by file",
    "batched": f"BatchedInferencePipeline(batch_size={BATCH}, vad_filter=False, beam_size=1), file by file",
    "joined": f"BatchedInferencePipeline(batch_size={BATCH}, beam_size=1), all clips joined, clip_timestamps given",
}


def work(job: Job) -> Told:
    number_format, way = job.way.split()
    threads = os.cpu_count() or 1
    model = WhisperModel(job.model, device="cpu", compute_type=number_format, cpu_threads=threads)
    texts = WAYS[way](model, job.paths)
    versions = f"faster-whisper {version('faster-whisper')}, CTranslate2 {ctranslate2.__version__}"
    return Told(texts, f"{versions}; {model.model.compute_type}, {threads} threads; {OPTIONS[way]}")


if __name__ == "__main__":
    answer(work)
