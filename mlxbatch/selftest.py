"""What the device says of itself, and how fast it multiplies: `python -m mlxbatch.selftest SETTINGS`.

SETTINGS are `DeviceSettings` as JSON, and so is the answer, one line on standard output. A program of its own, because
MLX can end its process: who asks (`mlxbatch.doctor`) outlives it and can say how it ended.
"""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING, Any

from mlxbatch import blas

if TYPE_CHECKING:
    import mlx.core as mx

    from mlxbatch.device import DeviceSettings

# A product that takes longer than this (seconds) is long enough to be timed; three are, so all takes about a second.
LONG_ENOUGH = 0.05
SMALLEST, LARGEST = 256, 4096


def answer(given: dict[str, Any]) -> dict[str, Any]:
    """The device with these settings: kind, name, bytes of its limits, what multiplies and its GFLOPS.

    The wired limit is without the weights that "auto" adds (no model is loaded), None where none is set.

    Raises SetupError where the settings ask for a GPU that is not there, and what MLX raises.
    """
    fast = given.get("kind") == "cpu" and given.get("blas") == "openblas" and blas.preload()
    # After the BLAS: MLX binds to the one that is there first.
    from mlxbatch.device import DeviceSettings, device_errors, device_settings

    settings = DeviceSettings(**given)
    with device_errors(), device_settings(settings):
        return {**_device(settings), "multiplies": _multiplies(settings.kind, fast), "gflops": gflops()}


def _device(settings: DeviceSettings) -> dict[str, Any]:
    import mlx.core as mx

    from mlxbatch.device import recommended_memory

    info = mx.device_info(mx.default_device())
    return {
        "kind": settings.kind,
        "name": str(info.get("device_name", "unknown")),
        "architecture": str(info.get("architecture", "unknown")),
        "metal": mx.metal.is_available(),
        "cuda": mx.cuda.is_available(),
        "memory_limit": settings.memory_bytes(),
        "cache_limit": settings.cache_bytes(),
        "wired_limit": settings.wired_bytes(weights=0),
        "recommended_memory": recommended_memory(settings.kind),
    }


def _multiplies(kind: str, fast: bool) -> str:
    """What matrix products run on."""
    import mlx.core as mx

    if kind == "gpu":
        return "Metal" if mx.metal.is_available() else "CUDA"
    if sys.platform == "darwin":
        return "Accelerate"
    return blas.description() if fast else "the reference BLAS inside MLX's wheel"


def gflops() -> float:
    """10^9 operations per second in float32 products of square matrices, the best of three; 2 n^3 operations each."""
    import mlx.core as mx

    size = SMALLEST
    matrix = mx.random.normal((size, size))
    mx.eval(matrix)
    _seconds(matrix)  # the first one also starts threads, or compiles
    while _seconds(matrix) < LONG_ENOUGH and size < LARGEST:
        size *= 2
        matrix = mx.random.normal((size, size))
        mx.eval(matrix)
    best = min(_seconds(matrix) for _ in range(3))
    return round(2 * size**3 / best / 1e9, 1)


def _seconds(matrix: mx.array) -> float:
    import mlx.core as mx

    began = time.perf_counter()
    mx.eval(matrix @ matrix)
    return time.perf_counter() - began


def main() -> None:
    from mlxbatch.errors import MlxBatchError

    try:
        print(json.dumps(answer(json.loads(sys.argv[1]))))
    except MlxBatchError as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
