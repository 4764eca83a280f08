from __future__ import annotations

from pathlib import Path

import numpy as np
from safetensors.numpy import load_file

from mlxbatch.convert.checkpoint import Origin
from mlxbatch.convert.foreign import READERS, reader_of
from mlxbatch.convert.onnx_silero import read_silero
from mlxbatch.convert.silero import BRANCHES, convert_silero
from mlxbatch.convert.write import write_plain
from mlxbatch.vad.check import check_silero
from tests.convert.test_silero import silero, stored, write


def test_a_directory_is_read_by_the_file_in_it(tmp_path: Path) -> None:
    assert reader_of(tmp_path) is None
    for name, read in READERS.items():
        (tmp_path / name).touch()
        assert reader_of(tmp_path) is read
        (tmp_path / name).unlink()


def test_silero_as_a_checkpoint_is_what_the_detector_gets(tmp_path: Path) -> None:
    both = {name: values for rate in BRANCHES for name, values in stored(rate).items()}
    source = write(tmp_path / "source", silero(both))
    checkpoint = read_silero(source, Origin("here"))
    assert (checkpoint.architecture, checkpoint.task, checkpoint.layers) == ("silero_vad", "vad", frozenset())
    write_plain(checkpoint, tmp_path / "ours")
    check_silero(tmp_path / "ours")
    convert_silero(source, tmp_path / "theirs")
    ours, theirs = (load_file(tmp_path / made / "model.safetensors") for made in ("ours", "theirs"))
    assert ours.keys() == theirs.keys()
    assert all(np.array_equal(ours[name], theirs[name]) for name in ours)
    assert np.asarray(checkpoint.weights["16000.lstm.input"].read()).shape == (128, 512)
