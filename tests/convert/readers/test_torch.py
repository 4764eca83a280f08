"""PyTorch's checkpoints as data: state dicts arrive, and nothing that a pickle asks for beyond them is done."""

from __future__ import annotations

import os
import pickle
import re
import subprocess
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlxbatch.convert.readers.state_pickle import Refused, read_state
from mlxbatch.convert.readers.stored import Stored
from mlxbatch.convert.readers.torch import read_torch
from mlxbatch.errors import SetupError
from tests.convert.torch_zip import TorchPickle, write_torch, write_zip


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "model.pt"


def read(path: Path) -> Any:
    with zipfile.ZipFile(path) as archive:
        saved = read_torch(archive)
        return {key: _arrays(value) for key, value in saved.items()}


def _arrays(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _arrays(one) for key, one in value.items()}
    return (value.kind, value.read()) if isinstance(value, Stored) else value


def refused(path: Path) -> str:
    with pytest.raises(ValueError, match=r".") as caught:
        read(path)
    return str(caught.value)


def test_a_state_dict_arrives_as_it_was_saved(path: Path) -> None:
    halves = np.arange(6, dtype=np.float16).reshape(2, 3)
    turned = np.arange(6, dtype=np.float32).reshape(3, 2).T
    bits, steps = np.array([0x3FC0], np.uint16), np.array(7, np.int64)
    state = {"a.weight": halves, "b.weight": turned, "c": bits, "steps": steps}
    found = read(write_torch(path, {"dims": {"n_mels": 80}, "model_state_dict": state}))
    assert found["dims"] == {"n_mels": 80}
    kinds = {name: kind for name, (kind, _) in found["model_state_dict"].items()}
    assert kinds == {"a.weight": "F16", "b.weight": "F32", "c": "BF16", "steps": "I64"}
    for name, values in state.items():
        np.testing.assert_array_equal(found["model_state_dict"][name][1], values)


class Calls:
    """Pickled as a call of any function."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self._call = (function, arguments)

    def __reduce__(self) -> Any:
        return self._call


CODE = {
    "posix.system": lambda marker: Calls(os.system, f"touch {marker}"),
    "builtins.eval": lambda marker: Calls(eval, f"open({str(marker)!r}, 'w')"),
    "builtins.exec": lambda marker: Calls(exec, f"open({str(marker)!r}, 'w')"),
    "subprocess.Popen": lambda marker: Calls(subprocess.Popen, ["touch", str(marker)]),
    "builtins.getattr": lambda marker: Calls(getattr, {}, "clear"),
    "builtins.print": lambda marker: Calls(print, "here"),
}


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
@pytest.mark.parametrize("name", CODE)
def test_code_in_its_pickle_is_refused_and_never_run(path: Path, tmp_path: Path, name: str, protocol: int) -> None:
    marker = tmp_path / "ran"
    saved = {"dims": {}, "model_state_dict": {}, "extra": CODE[name](marker)}
    write_zip(path, {"data.pkl": pickle.dumps(saved, protocol=protocol)})
    function = name.rpartition(".")[2]  # its module has another name in the protocol of Python 2
    message = rf"its pickle names \w+\.{function}, which no weights need: refused, and nothing was run"
    assert re.fullmatch(message, refused(path))
    assert not marker.exists()
    pickle.loads(pickle.dumps(CODE["builtins.getattr"](marker)))  # what was refused would have been run


@pytest.mark.parametrize(
    ("program", "message"),
    [
        (b"\x80\x02ctorch\nFloatStorage\n)R.", "calls what is not to be called"),
        (b"\x80\x02ccollections\nOrderedDict\n(K\x01tR.", "calls what is not to be called"),
        (b"\x80\x02ctorch._utils\n_rebuild_parameter\n(K\x01tR.", "calls what is not to be called"),
        (b"\x80\x02]}b.", "changes an object that is no dict"),
        (b"(ios\nsystem\n.", "has the instruction INST"),
        (b"(cos\nsystem\nX\x01\0\0\0xo.", "names os.system"),
        (b"\x80\x02\x82\x01.", "has the instruction EXT1"),
        (b"Pmodel\n.", "has the instruction PERSID"),
        (b"\x80\x02cos.path\njoin\n\x85\x81.", "names os.path.join"),
        (b"\x80\x02ccollections\nOrderedDict\n)\x81.", "has the instruction NEWOBJ"),
        (b"\x80\x02}", "no whole pickle"),
        (b"\x80\x02}}.", "it ends in the middle"),
        (b"\x80\x02u.", "no whole pickle"),
        (b"\x80\x02h\x07.", "no whole pickle"),
        (b"\x80\x02}K\x01a.", "it appends to what is no list"),
        (b"\x80\x02](K\x01K\x02u.", "it puts pairs into what is no dict"),
        (b"\x80\x02}(K\x01u.", "it puts pairs into what is no dict"),
        (b"\x80\x02}]K\x01s.", "a key that is no name"),
        (b"\x80\x02K\x01Q.", "no whole pickle"),
        (b"\x80\x02(K\x01K\x01K\x01K\x01K\x01tQ.", "a storage of an unknown form"),
        (b"X\xff\xff\xff\xffabc.", "no whole pickle"),
        (b"hello", "no whole pickle"),
        (b"", "no whole pickle"),
    ],
)
def test_a_program_that_is_no_state_dict_is_refused(program: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_state(program, lambda tensor: Stored((), "F32", lambda: np.zeros(())))


@given(st.data())
def test_any_bytes_are_data_or_refused(data: st.DataObject) -> None:
    whole = b"\x80\x02" + TorchPickle().value({"dims": {"n": 1}, "state": {"a": np.zeros((2, 2), np.float32)}}) + b"."
    place = data.draw(st.integers(0, len(whole) - 1))
    spoilt = whole[:place] + data.draw(st.binary(max_size=4)) + whole[place + 1 :]
    # Whatever else it raised would be a bug.
    with suppress(Refused):
        read_state(spoilt, lambda tensor: Stored(tensor.shape, "F32", lambda: np.zeros(tensor.shape)))


def tensor(shape: tuple[int, ...], strides: tuple[int, ...], offset: int = 0, count: int = 6) -> bytes:
    """A pickle of one tensor over a storage of so many float32."""
    one = TorchPickle()
    storage = one.value("storage") + b"ctorch\nFloatStorage\n" + one.value("0") + one.value("cpu") + one.value(count)
    view = one.value(offset) + one.value(shape) + one.value(strides) + b"\x89N"
    return b"\x80\x02}" + one.value("a") + b"ctorch._utils\n_rebuild_tensor_v2\n((" + storage + b"tQ" + view + b"tRs."


def test_a_tensor_is_a_view_of_its_storage(path: Path) -> None:
    write_zip(path, {"data.pkl": tensor((2, 2), (1, 2), 1), "data/0": np.arange(6, dtype=np.float32).tobytes()})
    assert read(path)["a"][1].tolist() == [[1, 3], [2, 4]]


@pytest.mark.parametrize(
    ("shape", "strides", "offset"), [((7,), (1,), 0), ((2, 3), (3, 1), 1), ((2,), (6,), 0), ((1,), (1,), 6)]
)
def test_a_tensor_beyond_its_storage_is_refused(path: Path, shape: Any, strides: Any, offset: int) -> None:
    write_zip(path, {"data.pkl": tensor(shape, strides, offset), "data/0": b"\0" * 24})
    assert "reaches beyond its storage of 6" in refused(path)


@pytest.mark.parametrize(("shape", "strides", "offset"), [((2,), (-1,), 5), ((2,), (1,), -1), ((2,), (1, 1), 0)])
def test_a_tensor_with_odd_sizes_is_refused(path: Path, shape: Any, strides: Any, offset: int) -> None:
    write_zip(path, {"data.pkl": tensor(shape, strides, offset), "data/0": b"\0" * 24})
    assert "no whole pickle: a tensor" in refused(path)


def test_records_that_are_missing_or_short_are_refused(path: Path) -> None:
    write_zip(path, {"data.pkl": tensor((6,), (1,))})
    assert refused(path) == "damaged: its record model/data/0 is missing"
    write_zip(path, {"data.pkl": tensor((6,), (1,)), "data/0": b"\0" * 20})
    assert refused(path) == "damaged: model/data/0 has 20 bytes, its pickle tells of 24"


def test_a_damaged_number_is_found_by_the_checksum(path: Path) -> None:
    write_torch(path, {"a": np.full(100, 7.0, np.float32)})
    content = path.read_bytes()
    path.write_bytes(content.replace(np.float32(7).tobytes(), np.float32(8).tobytes(), 1))
    with pytest.raises(SetupError, match=r"model.pt: model/data/0: Bad CRC-32"):
        read(path)


@pytest.mark.parametrize(
    ("records", "message"),
    [
        ({"weights": b""}, "a zip without its data.pkl"),
        ({"data.pkl": b"", "constants.pkl": b""}, "a TorchScript program, no checkpoint"),
        ({"data.pkl": b"", "byteorder": b"big"}, "written on a big-endian machine"),
    ],
)
def test_other_archives_are_refused(path: Path, records: dict[str, bytes], message: str) -> None:
    assert message in refused(write_zip(path, records))
