"""Versions, and libraries that are missing or of the wrong kind."""

from __future__ import annotations

import sys
from importlib import metadata

import av
import numpy as np
import pytest
import soundfile

from mlxbatch import __version__
from mlxbatch.doctor import versions
from mlxbatch.doctor.finding import Case


def test_they_are_those_of_this_environment() -> None:
    text = "\n".join(found.what for found in versions.check(Case()))
    wanted = (__version__, metadata.version("mlx"), np.__version__, soundfile.__libsndfile_version__, av.__version__)
    assert all(version in text for version in wanted)
    assert f"({sys.prefix})" in text


def test_a_library_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    real = metadata.version

    def without_mlx(name: str) -> str:
        if name == "mlx":
            raise metadata.PackageNotFoundError(name)
        return real(name)

    monkeypatch.setattr(metadata, "version", without_mlx)
    (found,) = (one for one in versions.check(Case()) if one.level == "problem")
    assert found.what == "mlx is not installed"
    assert f"{sys.executable} -m pip install" in found.remedy


@pytest.mark.parametrize("name", ["soundfile", "av"])
def test_a_sound_library_that_cannot_be_loaded(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    (found,) = (one for one in versions.check(Case()) if one.level == "problem")
    assert found.what.startswith(f"{name} cannot be loaded")


def test_rosetta(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(versions.sys, "platform", "darwin")
    monkeypatch.setattr(versions.platform, "machine", lambda: "x86_64")
    (found,) = (one for one in versions.check(Case()) if one.level == "problem")
    assert "arm64" in found.remedy
