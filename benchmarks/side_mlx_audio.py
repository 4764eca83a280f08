"""mlx-audio's Whisper over a job's recordings, one after the other: its own `generate`. Run by `benchmarks.sides`."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

from benchmarks.job import Job, Told, answer
from mlxbatch import blas
from mlxbatch.audio import decode
from mlxbatch.types import Item

# The same BLAS on all sides with MLX; mlx-audio by itself would run on the wheel's reference BLAS.
blas.preload()

import mlx.core as mx  # noqa: E402
from mlx_audio.stt.utils import load_model  # noqa: E402


def transcribe(job: Job) -> Told:
    if not mx.metal.is_available() and not mx.cuda.is_available():
        mx.set_default_device(mx.Device(mx.cpu))
    model = load_model(job.model)
    # It takes float16 for granted otherwise.
    model.set_dtype(mx.float32)
    model.dtype = mx.float32
    texts = {}
    for path in job.paths:
        samples = decode(Item(path, Path(path), Path(path))).samples[0]
        texts[path] = model.generate(mx.array(samples), language="en", fp16=False, verbose=None).text
    about = f"mlx-audio {version('mlx-audio')}, mlx {version('mlx')}, BLAS: {blas.description()}"
    return Told(texts, f"{about}; float32; generate(language='en'), file by file")


if __name__ == "__main__":
    answer(transcribe)
