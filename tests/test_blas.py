"""Which BLAS MLX calls: only a process that has not imported MLX yet can choose, so most of this is in children."""

from __future__ import annotations

import ctypes
import subprocess
import sys
import textwrap

import pytest

from mlxbatch import blas


def has_openblas() -> bool:
    try:
        ctypes.CDLL("libopenblas.so.0")
    except OSError:
        return False
    return True


needs_openblas = pytest.mark.skipif(sys.platform == "darwin" or not has_openblas(), reason="needs OpenBLAS on Linux")


def child(code: str) -> str:
    """What Python prints that runs `code` in a process of its own."""
    command = [sys.executable, "-c", textwrap.dedent(code)]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout.strip()


@needs_openblas
def test_before_mlx_it_is_in_place() -> None:
    found = child(
        """
        from mlxbatch import blas
        import sys
        assert "mlx.core" not in sys.modules
        print(blas.preload(), blas.preload())
        import mlx.core as mx
        print(blas.preload(), (mx.ones((8, 8)) @ mx.ones((8, 8)))[0, 0].item())
        """
    )
    assert found.split() == ["True", "True", "True", "8.0"]


@needs_openblas
def test_mlx_multiplies_with_it() -> None:
    """The bundled BLAS makes 3 to 6 GFLOPS: this product takes it a second, OpenBLAS some hundredths."""
    found = child(
        """
        from mlxbatch import blas
        blas.preload()
        import time
        import mlx.core as mx
        a = mx.random.normal((1536, 1536))
        mx.eval(a)
        def seconds():
            began = time.perf_counter()
            mx.eval(a @ a)
            return time.perf_counter() - began
        print(2 * 1536**3 / min(seconds() for _ in range(4)))
        """
    )
    assert float(found) > 12e9


@pytest.mark.skipif(sys.platform == "darwin", reason="there it is Accelerate, whenever")
def test_after_mlx_it_is_too_late() -> None:
    found = child(
        """
        import mlx.core
        from mlxbatch import blas
        with blas.threads(1):
            pass
        print(blas.preload())
        """
    )
    assert found == "False"


def test_without_openblas_it_says_so() -> None:
    found = child(
        """
        import ctypes, sys
        def missing(*_, **__):
            raise OSError
        ctypes.CDLL = missing
        sys.platform = "linux"
        from mlxbatch import blas
        print(blas.preload())
        with blas.threads(3):
            print("runs")
        """
    )
    assert found.split() == ["False", "runs"]


def test_macos_needs_none() -> None:
    found = child(
        """
        import ctypes, sys
        def missing(*_, **__):
            raise AssertionError
        ctypes.CDLL = missing
        sys.platform = "darwin"
        from mlxbatch import blas
        print(blas.preload())
        with blas.threads(3):
            print("runs")
        """
    )
    assert found.split() == ["True", "runs"]


@needs_openblas
def test_threads_are_set_and_put_back() -> None:
    library = blas._openblas()
    assert library is not None
    before = library.openblas_get_num_threads()
    with blas.threads(1):
        assert library.openblas_get_num_threads() == 1
        with blas.threads(2):
            assert library.openblas_get_num_threads() == 2
        assert library.openblas_get_num_threads() == 1
    assert library.openblas_get_num_threads() == before


@needs_openblas
def test_threads_are_put_back_after_an_error() -> None:
    library = blas._openblas()
    assert library is not None
    before = library.openblas_get_num_threads()
    with pytest.raises(ZeroDivisionError), blas.threads(1):
        _ = 1 / 0
    assert library.openblas_get_num_threads() == before


@needs_openblas
def test_it_says_what_it_is_once_it_is_in_place() -> None:
    found = child(
        """
        from mlxbatch import blas
        print(blas.description())
        blas.preload()
        print(blas.description())
        """
    ).splitlines()
    assert found[0] == "none"
    assert found[1].startswith("OpenBLAS ")
    assert found[1].endswith(" threads")
