"""Which BLAS MLX's CPU backend calls, decided before MLX is imported. Needs no MLX itself."""

from __future__ import annotations

import ctypes
import ctypes.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

# Debian's alternatives name first; the versioned file is what other distributions and a bare linker path have.
_NAMES = ("libopenblas.so.0", "libopenblas.so")

INSTALL = "Debian, Ubuntu: apt-get install libopenblas0-pthread; Fedora: dnf install openblas"
MISSING = (
    "OpenBLAS not found: matrix products fall back to the reference BLAS inside the mlx wheel, about 30 times slower. "
    f"{INSTALL}"
)


@cache
def _openblas() -> ctypes.CDLL | None:
    for name in _NAMES:
        try:
            return ctypes.CDLL(name, mode=ctypes.RTLD_GLOBAL)
        except OSError:
            continue
    return None


def preload() -> bool:
    """Load OpenBLAS with global symbols, so that the mlx wheel's calls bind to it and not to its own reference BLAS.

    Has effect only before `mlx.core` is imported in this process. macOS has Accelerate: nothing to do, True.
    Returns whether a fast BLAS is in place.
    """
    if sys.platform == "darwin":
        return True
    if "mlx.core" in sys.modules and _openblas.cache_info().currsize == 0:
        return False
    return _openblas() is not None


def description() -> str:
    """What the OpenBLAS that was preloaded says of itself: version, kernels, threads; "none" where none was."""
    library = _openblas() if _openblas.cache_info().currsize else None
    if library is None:
        return "none"
    library.openblas_get_config.restype = ctypes.c_char_p
    about = library.openblas_get_config().decode("ascii", "replace")
    return f"{about}, {library.openblas_get_num_threads()} threads"


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Run OpenBLAS on `count` threads inside the block: 1 where several streams multiply at once.

    Streams that each start a pool of their own oversubscribe the cores. Where OpenBLAS was not preloaded this does
    nothing: loading it now would come too late for MLX.
    """
    library = _openblas() if _openblas.cache_info().currsize else None
    if library is None:
        yield
        return
    before = library.openblas_get_num_threads()
    library.openblas_set_num_threads(count)
    try:
        yield
    finally:
        library.openblas_set_num_threads(before)
