"""A checkpoint of 3 GB in less than 1 GB of memory; the modes that each architecture's loader takes."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import psutil
import pytest
from mlx.utils import tree_flatten

from mlxbatch.convert.layout import layout
from mlxbatch.convert.precision import Mode, Precision
from mlxbatch.convert.recipe import FIXED, asked_for, precision
from mlxbatch.convert.run import layers_of
from mlxbatch.convert.write import write
from mlxbatch.engines.mlx_audio.loading import network_of
from mlxbatch.engines.whisper.layout import expected_shapes
from mlxbatch.models.architecture import architecture, read_json
from tests.convert.mlx_source import checkpoint_of
from tests.convert.program import start
from tests.engines.mlx_audio.tiny import MAKERS
from tests.models.tiny import TINY_DIMS, tiny_config, write_json, write_tiny_whisper

pytestmark = [pytest.mark.soak, pytest.mark.timeout(1800)]

# Whisper large's sizes, but for the vocabulary, which is the tiny tokenizer's.
_SIZES = {"state": 1280, "head": 20, "layer": 32}
LARGE = replace(TINY_DIMS, **{f"n_{side}_{what}": size for side in ("audio", "text") for what, size in _SIZES.items()})
GB = 10**9


def write_large_whisper(directory: Path) -> Path:
    """Random float16 weights, the same block of numbers again and again: what is in them does not matter here."""
    write_tiny_whisper(directory)
    write_json(directory / "config.json", tiny_config(LARGE))
    stored = {name: (shape, "F16") for name, shape in expected_shapes(LARGE).items()}
    (file,) = layout(stored, Precision(), 10 * GB).files
    block = (np.random.default_rng(0).standard_normal(1 << 23) * 0.02).astype(np.float16).tobytes()
    with (directory / "model.safetensors").open("wb") as out:
        out.write(file.head)
        left = file.bytes - len(file.head)
        while left:
            left -= out.write(block[:left])
    return directory


@contextmanager
def highest_rss(pid: int) -> Iterator[list[int]]:
    """The most that a process held, and the most of those that it started, looked at fifty times a second."""
    seen, ended = [0, 0], threading.Event()

    def look() -> None:
        process = psutil.Process(pid)
        while not ended.wait(0.02):
            with suppress(psutil.NoSuchProcess):
                others = [one.memory_info().rss for one in process.children()]
                seen[:] = [max(seen[0], process.memory_info().rss), max([seen[1], *others])]

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield seen
    finally:
        ended.set()
        thread.join()


def test_three_gigabytes_in_less_than_one_of_memory(tmp_path: Path) -> None:
    source = write_large_whisper(tmp_path / "source")
    stored = (source / "model.safetensors").stat().st_size
    assert stored > 2.9 * GB
    process = start(source, "-o", tmp_path / "out", "--bits", "4", "--json", module="mlxbatch")
    with highest_rss(process.pid) as seen:
        out, err = process.communicate(timeout=1500)
    assert process.returncode == 0, err
    record = json.loads(out)
    written = (tmp_path / "out" / "model.safetensors").stat().st_size
    form = record["ran_as"] or record["not_run"]
    print(
        f"\n{stored / GB:.2f} GB to {written / GB:.2f} GB in {record['seconds']:.0f} s; at most "
        f"{record['peak_bytes'] / GB:.3f} GB resident by the system's count, {seen[0] / GB:.3f} GB as seen from "
        f"outside; the fresh process, which has the whole model, {seen[1] / GB:.3f} GB ({form})"
    )
    assert max(seen[0], record["peak_bytes"]) < GB
    assert record["ran"]
    assert seen[1] < 1.5 * written, "its layers are as they are stored"


# Those of the engines here, and in what mlx-audio has them.
FAMILIES = ("canary", "cohere_asr", "glmasr", "granite_speech", "granite_speech5_ctc", "moss_transcribe_diarize")
FAMILIES += ("nemotron_asr", "parakeet", "qwen2_audio", "qwen3_asr", "vibevoice_asr")


@pytest.mark.filterwarnings("ignore")  # of mlx-audio's own
@pytest.mark.parametrize("mode", FIXED)
@pytest.mark.parametrize("family", FAMILIES)
def test_a_mode_that_is_allowed_comes_back_from_mlx_audio_as_it_was_written(
    tmp_path: Path, family: str, mode: Mode
) -> None:
    """From the weights as mlx-audio itself has them in memory, written by the converter, loaded by mlx-audio."""
    from mlx_audio.stt.utils import load_model

    source = MAKERS[family](tmp_path / family)  # by whose name mlx-audio knows some that name no architecture
    model = load_model(source)
    (source / "model.safetensors").unlink()
    mx.save_safetensors(str(source / "model.safetensors"), dict(tree_flatten(network_of(model).parameters())))
    kept = getattr(model, "model_quant_predicate", lambda path, layer: True)
    layers = {
        path
        for path, layer in network_of(model).named_modules()
        if isinstance(layer, nn.Linear | nn.Embedding) and kept(path, layer)
    }
    checkpoint = replace(checkpoint_of(source), layers=frozenset(layers))
    kind = architecture(read_json(source / "config.json"))
    own = precision(asked_for(mode=mode), layers_of(checkpoint), architecture=kind, task="transcribe")
    write(checkpoint, {tmp_path / "out": own}, lambda step: None)
    for path in source.iterdir():
        if not (tmp_path / "out" / path.name).exists():
            (tmp_path / "out" / path.name).symlink_to(path)
    written = dict(mx.load(str(tmp_path / "out" / "model.safetensors")))
    found = dict(tree_flatten(network_of(load_model(tmp_path / "out")).parameters()))
    assert sum(name.endswith(".scales") for name in written) == len(own.packed) > 10
    for name, array in written.items():
        assert found[name].dtype == array.dtype, name
        assert mx.array_equal(found[name], array), name
