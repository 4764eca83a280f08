"""vayu-whisper over a job's recordings, in its own environment. Run by `benchmarks.sides`.

Ways: "transcribe" is its front door, a file at a time, of which it batches the windows (a short clip has one);
"decode" fills the batch from many clips with its lower-level calls, which is the best that can be made of it.
"""

from __future__ import annotations

import os
from importlib.metadata import version
from pathlib import Path

from benchmarks.job import Job, Told, answer
from mlxbatch import blas
from mlxbatch.audio import decode
from mlxbatch.types import Item

# The same BLAS on all sides with MLX.
blas.preload()

import mlx.core as mx  # noqa: E402
import whisper_mlx  # noqa: E402

BATCH = 8


def samples(path: str) -> mx.array:
    return mx.array(decode(Item(path, Path(path), Path(path))).samples[0])


def transcribe(job: Job) -> dict[str, str]:
    asked = {"path_or_hf_repo": job.model, "batch_size": BATCH, "language": "en", "fp16": False}
    return {path: whisper_mlx.transcribe(samples(path), **asked)["text"] for path in job.paths}


def decode_together(job: Job) -> dict[str, str]:
    """Clips of at most 30 s, a batch at a time in order of length; no retries at other temperatures."""
    model = whisper_mlx.load_model(job.model, mx.float32)
    asked = whisper_mlx.DecodingOptions(language="en", fp16=False)
    loaded = sorted(((path, samples(path)) for path in job.paths), key=lambda one: one[1].size)
    texts: dict[str, str] = {}
    for start in range(0, len(loaded), BATCH):
        clips = loaded[start : start + BATCH]
        mels = [
            whisper_mlx.pad_or_trim(
                whisper_mlx.log_mel_spectrogram(clip, n_mels=model.dims.n_mels, padding=whisper_mlx.N_SAMPLES),
                whisper_mlx.N_FRAMES,
                axis=-2,
            )
            for _, clip in clips
        ]
        found = model.decode(mx.stack(mels), asked)
        texts |= {path: result.text for (path, _), result in zip(clips, found, strict=True)}
    return texts


WAYS = {
    "transcribe": (transcribe, f"transcribe(batch_size={BATCH}, language='en', fp16=False), file by file"),
    "decode": (decode_together, f"decode(DecodingOptions(language='en', fp16=False)) of {BATCH} clips at once"),
}


def work(job: Job) -> Told:
    if not mx.metal.is_available() and not mx.cuda.is_available():
        mx.set_default_device(mx.Device(mx.cpu))
    # It loads local directories from where it is told only.
    os.environ["WHISPER_MLX_MODEL_DIRS"] = str(Path(job.model).parent)
    way, options = WAYS[job.way]
    about = f"vayu-whisper {version('vayu-whisper')}, mlx {version('mlx')}, BLAS: {blas.description()}"
    return Told(way(job), f"{about}; float32; {options}")


if __name__ == "__main__":
    answer(work)
