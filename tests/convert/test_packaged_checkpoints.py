"""The catalogue's models that are no Whisper as sources: the files of their authors and what was made of them agree."""

from __future__ import annotations

from pathlib import Path

import mlx.core as mx
import pytest

from mlxbatch.convert.sources import open_source
from mlxbatch.errors import SetupError, UsageError
from mlxbatch.models.identity import file_sha
from tests.convert.test_silero import silero, stored, write

BRANCHES = (8_000, 16_000)


def source(folder: Path) -> Path:
    return write(folder, silero({name: values for rate in BRANCHES for name, values in stored(rate).items()}))


@pytest.mark.real
def test_kokoros_file_and_its_directory_hold_the_same(kokoro_82m: Path, kokoro_files: Path) -> None:
    """Its convolutions lie the other way round in the directory."""
    published = open_source(str(kokoro_files), revision=None, task="synthesize", offline=True, say=print)
    ours = open_source(str(kokoro_82m), revision=None, task=None, offline=True, say=print)
    with published as one, ours as other:
        assert (one.architecture, one.task, one.layers) == (other.architecture, other.task, other.layers)
        assert one.weights.keys() == other.weights.keys()
        for name, weight in one.weights.items():
            assert weight.shape == other.weights[name].shape
            assert mx.array_equal(weight.read(), other.weights[name].read())
        assert {f"{path}.weight" for path in one.layers} <= one.weights.keys()
        assert [name for name in one.files if name.startswith("voices/")]
        assert one.origin.sha256["kokoro.onnx"] == file_sha(kokoro_files / "kokoro.onnx")


def test_what_was_published_says_for_which_task_it_is(tmp_path: Path) -> None:
    where = str(source(tmp_path / "source"))
    with open_source(where, revision=None, task=None, offline=True, say=print) as found:
        assert (found.architecture, found.task) == ("silero_vad", "vad")
        assert set(found.origin.sha256) >= {"silero_vad.onnx"}
    opened = open_source(where, revision=None, task="transcribe", offline=True, say=print)
    with pytest.raises(UsageError, match="'silero_vad' is not for transcribe"), opened:
        pass


def test_what_was_cut_off_is_named(tmp_path: Path) -> None:
    path = source(tmp_path / "source") / "silero_vad.onnx"
    path.write_bytes(path.read_bytes()[:-20])
    opened = open_source(str(path.parent), revision=None, task=None, offline=True, say=print)
    with pytest.raises(SetupError, match=r"source.*silero_vad\.onnx"), opened:
        pass
