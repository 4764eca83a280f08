"""Which versions work together here."""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterator
from importlib import metadata

from mlxbatch import __version__
from mlxbatch.doctor.finding import Case, Finding
from mlxbatch.errors import show

_BACKENDS = ("mlx-metal", "mlx-cpu", "mlx-cuda-13", "mlx-cuda-12")


def check(case: Case) -> Iterator[Finding]:
    yield Finding("ok", "versions", f"mlxbatch {__version__}, Python {platform.python_version()} ({show(sys.prefix)})")
    yield Finding("ok", "versions", f"{platform.platform()}, {platform.machine()}")
    if sys.platform == "darwin" and platform.machine() != "arm64":
        remedy = "install a Python for arm64 and mlxbatch into it: MLX needs Apple Silicon"
        yield Finding("problem", "versions", f"this Python is for {platform.machine()} (Rosetta?)", remedy)
    yield from _libraries()
    yield from _sound_file()
    yield from _av()


def _libraries() -> Iterator[Finding]:
    found = {name: version for name in ("mlx", *_BACKENDS, "numpy", "mlx-audio") if (version := _version(name))}
    yield Finding("ok", "versions", ", ".join(f"{name} {version}" for name, version in found.items()))
    for name in ("mlx", "numpy"):
        if name not in found:
            yield Finding("problem", "versions", f"{name} is not installed", _again(name))


def _sound_file() -> Iterator[Finding]:
    """libsndfile reads the recordings; the wheel brings it, other installs may lack it."""
    try:
        import soundfile
    except (ImportError, OSError) as error:
        yield Finding("problem", "versions", f"soundfile cannot be loaded: {show(str(error))}", _again("soundfile"))
        return
    library = soundfile.__libsndfile_version__
    yield Finding("ok", "versions", f"soundfile {soundfile.__version__}, libsndfile {library}")


def _av() -> Iterator[Finding]:
    """PyAV reads what libsndfile does not; its wheel brings ffmpeg's libraries."""
    try:
        import av
    except (ImportError, OSError) as error:
        yield Finding("problem", "versions", f"av cannot be loaded: {show(str(error))}", _again("av"))
        return
    libraries = {name: ".".join(map(str, version)) for name, version in av.library_versions.items()}
    yield Finding("ok", "versions", f"av {av.__version__}, libavcodec {libraries.get('libavcodec', 'unknown')}")


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _again(name: str) -> str:
    return f"{show(sys.executable)} -m pip install --force-reinstall {name}"
