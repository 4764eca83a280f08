"""Whether a directory loads and runs, asked in a fresh process."""

from __future__ import annotations

import subprocess
from pathlib import Path

import mlx.core as mx
import pytest

from mlxbatch import machine
from mlxbatch.convert import reload as reloading
from mlxbatch.convert.reload import Reloaded, examine, reload
from mlxbatch.errors import SetupError
from mlxbatch.machine import Machine
from tests.models.tiny import write_json, write_tiny_whisper

RUNS = Reloaded(True, form="float32 on cpu")


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_whisper(tmp_path_factory.mktemp("tiny") / "model")


def voice(folder: Path, **weights: mx.array) -> Path:
    """A model that no engine here runs."""
    folder.mkdir()
    write_json(folder / "config.json", {"model_type": "kokoro"})
    mx.save_safetensors(str(folder / "model.safetensors"), weights)
    return folder


def test_a_model_that_an_engine_runs_is_run(tiny: Path) -> None:
    assert reload(tiny) == RUNS


@pytest.mark.filterwarnings("ignore")  # of mlx-audio's own
def test_so_is_one_of_mlx_audio_that_wants_to_be_told_the_language(tmp_path: Path) -> None:
    from tests.engines.mlx_audio.tiny import cohere_asr

    assert examine(cohere_asr(tmp_path / "cohere")) == RUNS


def test_another_is_read_from_end_to_end(tmp_path: Path) -> None:
    found = reload(voice(tmp_path / "voice", a=mx.ones((3, 4)), steps=mx.array([1])))
    assert found == Reloaded(False, "no engine here runs such a model: its weights were read and are numbers")
    with pytest.raises(SetupError, match=r"does not load: .*model\.safetensors: a holds numbers that are not finite"):
        reload(voice(tmp_path / "bad", a=mx.array([1.0, mx.nan])))


def test_where_memory_is_short_it_is_only_read(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "read_machine", lambda: Machine(1000, 10**9, "normal", None))
    found = examine(tiny)
    assert not found.ran
    assert found.why.endswith("of memory, 0 MB are free: it was only read")


def test_a_directory_that_lacks_something_is_told_by_that_process_s_last_word(tmp_path: Path) -> None:
    model = write_tiny_whisper(tmp_path / "model")
    (model / "tokenizer.json").unlink()
    with pytest.raises(SetupError, match=r"^the converted model does not load: .*tokenizer\.json: missing"):
        reload(model)


def test_what_is_not_finite_is_seen_by_what_comes_out(tmp_path: Path) -> None:
    """A scale that is infinite, as after a fault of memory or disk."""
    model = write_tiny_whisper(tmp_path / "model")
    weights = dict(mx.load(str(model / "model.safetensors")))
    weights["decoder.ln.weight"] = weights["decoder.ln.weight"] * mx.inf
    mx.eval(weights)
    mx.save_safetensors(str(model / "model.safetensors"), weights)
    with pytest.raises(SetupError, match="it loads, and what it makes of sound is not finite"):
        examine(model)


@pytest.mark.parametrize(
    ("code", "said"),
    [(-9, "ended by signal 9, out of memory perhaps"), (1, "Killed"), (2, "the process that tried ended with 2")],
)
def test_a_process_that_ends_badly(tiny: Path, monkeypatch: pytest.MonkeyPatch, code: int, said: str) -> None:
    ended = subprocess.CompletedProcess([], code, "", "a warning\nKilled\n\n" if code == 1 else "")
    monkeypatch.setattr(reloading.subprocess, "run", lambda *given, **named: ended)
    with pytest.raises(SetupError, match=said):
        reload(tiny)
