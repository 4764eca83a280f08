"""The other side of the comparison: mlx-audio's Whisper, one recording after the other. Prints path -> text as JSON.

python benchmarks/mlx_audio_sequential.py MODEL_DIRECTORY PATHS.json
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from mlxbatch import blas
from mlxbatch.audio import decode
from mlxbatch.types import Item

# The same BLAS on both sides; mlx-audio by itself would run on the wheel's reference BLAS.
blas.preload()

import mlx.core as mx  # noqa: E402
from mlx_audio.stt.utils import load_model  # noqa: E402


def main(model_directory: str, listing: str) -> None:
    if not mx.metal.is_available() and not mx.cuda.is_available():
        mx.set_default_device(mx.Device(mx.cpu))
    model = load_model(model_directory)
    model.set_dtype(mx.float32)
    model.dtype = mx.float32
    texts = {}
    for path in json.loads(Path(listing).read_text("utf-8")):
        samples = decode(Item(path, Path(path), Path(path))).samples[0]
        texts[path] = model.generate(mx.array(samples), language="en", fp16=False, verbose=None).text
    print(json.dumps(texts))


if __name__ == "__main__":
    main(*sys.argv[1:3])
