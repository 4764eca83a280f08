from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from mlxbatch.models.cache import cache_root, model_directory


def test_the_environment_decides(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MLXBATCH_CACHE", str(tmp_path / "here"))
    assert cache_root() == tmp_path / "here"
    assert model_directory("whisper-base") == tmp_path / "here" / "models" / "whisper-base"
    assert not (tmp_path / "here").exists()


def test_a_relative_or_home_path_becomes_absolute(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLXBATCH_CACHE", "sub/../cache")
    assert cache_root() == tmp_path / "cache"
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("MLXBATCH_CACHE", "~/cache")
    assert cache_root() == tmp_path / "home" / "cache"


def test_unset_and_empty_mean_the_users_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLXBATCH_CACHE", raising=False)
    usual = cache_root()
    assert usual.name == "mlxbatch"
    monkeypatch.setenv("MLXBATCH_CACHE", "")
    assert cache_root() == usual


@pytest.mark.parametrize("error", [RuntimeError, KeyError, OSError])
def test_a_home_that_cannot_be_found(monkeypatch: pytest.MonkeyPatch, error: type[Exception]) -> None:
    def fail(*_: object, **__: object) -> Path:
        raise error("no home")

    monkeypatch.delenv("MLXBATCH_CACHE", raising=False)
    monkeypatch.setattr("platformdirs.user_cache_path", fail)
    assert cache_root() == Path(tempfile.gettempdir()) / f"mlxbatch-{os.getuid()}"


def test_a_home_left_as_a_tilde_is_not_a_directory_of_that_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLXBATCH_CACHE", raising=False)
    monkeypatch.setattr("platformdirs.user_cache_path", lambda *_, **__: Path("~/.cache/mlxbatch"))
    assert cache_root() == Path(tempfile.gettempdir()) / f"mlxbatch-{os.getuid()}"


def test_an_empty_environment_will_do() -> None:
    code = "from mlxbatch.models.cache import cache_root; print(cache_root())"
    done = subprocess.run([sys.executable, "-c", code], env={}, capture_output=True, text=True, check=True)
    assert Path(done.stdout.strip()).is_absolute()
