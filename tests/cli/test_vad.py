"""--vad and --no-vad: what is needed for them, and that results of one are none of the other."""

from __future__ import annotations

from pathlib import Path

import pytest

from mlxbatch.cli import request as asked
from mlxbatch.cli.request import Chosen, Flags, Request, Where
from mlxbatch.engines.registry import DETECTING
from mlxbatch.errors import SetupError
from mlxbatch.profile import load
from tests.models.tiny import write_tiny_whisper
from tests.vad.tiny import write_tiny_silero


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MLXBATCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "cache"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write_tiny_whisper(tmp_path / "model")


def request_for(model: Path, **settings: object) -> Request:
    overrides = {"transcribe.model": str(model), **settings}
    return Request(Where((), None, None, Path("out")), Flags(), load(None, overrides=overrides), None, ("txt",))


def chosen(request: Request) -> Chosen:
    (one,) = asked.choose_all(request, offline=True, say=print)
    return one


def test_speech_alone_is_heard_unless_told_otherwise(model: Path, cache: Path) -> None:
    vad = write_tiny_silero(cache / "models" / "silero-vad")
    on, off = request_for(model), request_for(model, **{"transcribe.vad": False})
    assert (on.options.vad, off.options.vad) == (True, False)
    assert asked.engine_spec(on, chosen(on)).vad == vad
    assert asked.engine_spec(off, chosen(off)).vad is None
    assert asked.model_key(on, chosen(on)) != asked.model_key(off, chosen(off))


@pytest.mark.parametrize("engine", sorted(DETECTING))
def test_every_engine_that_hears_speech_only_gets_the_detector(
    model: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, engine: str
) -> None:
    vad = write_tiny_silero(cache / "models" / "silero-vad")
    monkeypatch.setattr(asked, "choose", lambda name, *, offline, say: Chosen(engine, name, "0" * 64))
    request = request_for(model)
    assert asked.engine_spec(request, chosen(request)).vad == vad


def test_without_the_detector_an_offline_run_says_what_to_do(model: Path) -> None:
    with pytest.raises(SetupError, match="silero-vad is not on this machine, and this run is offline: ") as caught:
        chosen(request_for(model))
    assert "`mlxbatch models pull silero-vad` once (11 MB); or hear everything, with --no-vad" in str(caught.value)
    assert chosen(request_for(model, **{"transcribe.vad": False})).vad is None


def test_whatever_is_called_so_where_the_user_stands(model: Path, cache: Path, tmp_path: Path) -> None:
    vad = write_tiny_silero(cache / "models" / "silero-vad")
    (tmp_path / "silero-vad").mkdir()
    found = chosen(request_for(model)).vad
    assert found is not None
    assert found.path == vad


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
def test_a_detector_that_is_not_whole_is_none(model: Path, cache: Path, name: str) -> None:
    (write_tiny_silero(cache / "models" / "silero-vad") / name).write_bytes(b"{}")
    with pytest.raises(SetupError, match=name):
        chosen(request_for(model))


def test_other_engines_need_none(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "fake" not in DETECTING
    monkeypatch.setattr(asked, "choose", lambda name, *, offline, say: Chosen("fake", name, "0" * 64))
    assert chosen(request_for(model)).vad is None
