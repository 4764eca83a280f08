"""What is written: numbers, files, settings, and that they load here and in plain mlx-audio."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest
from mlx.utils import tree_flatten
from safetensors import safe_open

from mlxbatch.convert import write as writer
from mlxbatch.convert.checkpoint import Checkpoint, Origin, Weight
from mlxbatch.convert.precision import Packing, Precision
from mlxbatch.convert.write import Step, config_of, layout_of, write
from mlxbatch.engines.whisper import network
from mlxbatch.errors import SetupError, UsageError
from mlxbatch.models.architecture import quantization
from mlxbatch.models.check import check_whisper
from mlxbatch.models.weights import weight_files
from tests.convert.mlx_source import checkpoint_of, head
from tests.models.tiny import write_tiny_whisper

Tensors = dict[str, mx.array]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_whisper(tmp_path_factory.mktemp("tiny") / "model")


def checkpoint(weights: Tensors, **about: Any) -> Checkpoint:
    """A checkpoint of arrays; those of rank 2 by the name of a weight are layers."""
    kinds = {mx.float16: "F16", mx.float32: "F32", mx.bfloat16: "BF16", mx.int32: "I32", mx.float64: "F64"}

    def weight(array: mx.array) -> Weight:
        return Weight(tuple(array.shape), kinds[array.dtype], lambda: array)

    named = {name: weight(array) for name, array in weights.items()}
    found = Checkpoint("whisper", "transcribe", {}, named, frozenset(), {}, Origin("the source"))
    return replace(found, **about)


def written(folder: Path, found: Checkpoint, precision: Precision) -> Tensors:
    write(found, {folder: precision}, lambda step: None)
    return dict(mx.load(str(folder / "model.safetensors")))


def matrix(rows: int = 40, columns: int = 128, seed: int = 0, dtype: mx.Dtype = mx.float16) -> mx.array:
    return mx.array(np.random.default_rng(seed).normal(size=(rows, columns))).astype(dtype)


@pytest.mark.parametrize(
    "packing", [Packing(4), Packing(3, 32), Packing(8, 128), Packing(4, 32, "mxfp4"), Packing(4, 16, "nvfp4")]
)
@pytest.mark.parametrize("piece", [1 << 24, 1500], ids=["whole", "in pieces"])
def test_a_layer_is_packed_as_mlx_packs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, packing: Packing, piece: int
) -> None:
    """To the bit, in as many pieces as it takes."""
    monkeypatch.setattr(writer, "PIECE", piece)
    weight, bias = matrix(), matrix(1)[0]
    found = written(tmp_path / "out", checkpoint({"a.weight": weight, "a.bias": bias}), Precision({"a": packing}))
    form = {"group_size": packing.group_size, "bits": packing.bits, "mode": packing.mode}
    with mx.stream(mx.cpu):
        parts = mx.quantize(weight, **form)
    names = ("a.weight", "a.scales", "a.biases")[: len(parts)]
    assert set(found) == {*names, "a.bias"}
    for name, part in zip(names, parts, strict=True):
        assert found[name].dtype == part.dtype
        assert mx.array_equal(found[name], part)
    assert mx.array_equal(found["a.bias"], bias)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("source", [mx.float32, mx.float16, mx.bfloat16])
def test_numbers_are_brought_to_the_dtype_and_integers_stay(tmp_path: Path, dtype: str, source: mx.Dtype) -> None:
    weights = {"a": matrix(dtype=source), "scalar": mx.array(0.5, source), "steps": mx.array([1, 2, 3], mx.int32)}
    found = written(tmp_path / "out", checkpoint(weights), Precision(dtype=dtype))  # type: ignore[arg-type]
    for name in ("a", "scalar"):
        assert found[name].dtype == getattr(mx, dtype)
        assert mx.array_equal(found[name], weights[name].astype(getattr(mx, dtype)))
    assert mx.array_equal(found["steps"], weights["steps"])


def test_without_a_dtype_numbers_stay_as_they_are(tmp_path: Path) -> None:
    weights = {"a": matrix(dtype=mx.bfloat16), "none": mx.zeros((0, 4)), "b": matrix(3, 5, dtype=mx.float32)}
    found = written(tmp_path / "out", checkpoint(weights), Precision())
    for name, array in weights.items():
        assert found[name].dtype == array.dtype
        assert mx.array_equal(found[name], array)


def test_the_file_is_safetensors_to_its_own_library(tmp_path: Path, tiny: Path) -> None:
    source = checkpoint_of(tiny)
    write(source, {tmp_path / "out": Precision({"decoder.token_embedding": Packing(4)})}, lambda step: None)
    with safe_open(tmp_path / "out" / "model.safetensors", framework="numpy") as file:
        assert file.metadata() == {"format": "mlx"}
        assert file.get_tensor("decoder.token_embedding.weight").dtype == np.uint32
        assert len(file.keys()) == len(source.weights) + 2
    mode = (tmp_path / "out" / "model.safetensors").stat().st_mode & 0o777
    assert mode == (tmp_path / "out" / "config.json").stat().st_mode & 0o777


def test_the_size_was_known_before(tmp_path: Path, tiny: Path) -> None:
    source, precision = checkpoint_of(tiny), Precision({"decoder.token_embedding": Packing(3)}, "float32")
    (planned,) = write(source, {tmp_path / "out": precision}, lambda step: None)
    assert planned == layout_of(source, precision)
    assert (tmp_path / "out" / "model.safetensors").stat().st_size == planned.bytes


def test_shards_and_their_index(tmp_path: Path, tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "SHARD", 300_000)
    write(checkpoint_of(tiny), {tmp_path / "out": Precision({"encoder.blocks.0.mlp1": Packing(4)})}, lambda step: None)
    files = weight_files(tmp_path / "out")
    assert len(files) > 2
    assert not (tmp_path / "out" / "model.safetensors").exists()
    index = json.loads((tmp_path / "out" / "model.safetensors.index.json").read_text())
    for file in files:
        assert {name for name, where in index["weight_map"].items() if where == file.name} == set(head(file)[0]) - {
            "__metadata__"
        }
    assert check_whisper(tmp_path / "out").quantized


def test_several_models_come_of_one_reading(tmp_path: Path) -> None:
    reads: list[str] = []
    weight = matrix()

    def read() -> mx.array:
        reads.append("a")
        return weight

    found = checkpoint({"a.weight": weight})
    found = replace(found, weights={"a.weight": replace(found.weights["a.weight"], read=read)})
    models = {tmp_path / f"{bits}": Precision({"a": Packing(bits)}) for bits in (8, 4)}
    write(found, models, lambda step: None)
    assert reads == ["a"]
    for bits in (8, 4):
        stored = mx.load(str(tmp_path / f"{bits}" / "model.safetensors"))
        assert stored["a.weight"].shape == (40, 128 * bits // 32)


def test_progress_is_told_by_bytes(tmp_path: Path) -> None:
    told: list[Step] = []
    write(checkpoint({"a": matrix(), "b": matrix(20)}), {tmp_path / "out": Precision()}, told.append)
    assert told == [Step("a", 10_240, 15_360), Step("b", 15_360, 15_360)]


# ---- damage


def test_a_number_beyond_float16_is_told_not_made_infinite(tmp_path: Path) -> None:
    big = mx.array([[1.0, 70_000.0]])
    with pytest.raises(UsageError, match=r"a holds numbers beyond float16's 65,504: take --dtype bfloat16"):
        written(tmp_path / "out", checkpoint({"a": big}), Precision(dtype="float16"))


def test_an_infinity_of_the_source_s_own_is_kept(tmp_path: Path) -> None:
    mask = mx.array([[0.0, -np.inf]])
    found = written(tmp_path / "out", checkpoint({"mask": mask}), Precision(dtype="float16"))
    assert mx.array_equal(found["mask"], mask)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_layer_that_holds_no_numbers_is_damaged(tmp_path: Path, bad: float) -> None:
    weight = mx.array(np.where(np.arange(128) == 100, bad, 1.0).reshape(1, 128))
    with pytest.raises(SetupError, match=r"^the source: a\.weight holds what is no finite number"):
        written(tmp_path / "out", checkpoint({"a.weight": weight}), Precision({"a": Packing(4)}))


def test_a_file_that_ended_early_is_an_error_of_the_source(tmp_path: Path) -> None:
    def read() -> mx.array:
        raise ValueError("model.safetensors: ends early")

    found = checkpoint({"a": matrix()})
    found = replace(found, weights={"a": replace(found.weights["a"], read=read)})
    with pytest.raises(SetupError, match=r"^the source: model\.safetensors: ends early$"):
        written(tmp_path / "out", found, Precision())


# ---- what lies beside


def test_files_go_along_but_no_second_weights(tmp_path: Path) -> None:
    """Plain mlx-audio loads every weight file of a directory, and what comes last by name wins."""
    (tmp_path / "tokenizer.json").write_text("{}")
    files = {"tokenizer.json": tmp_path / "tokenizer.json", "voices/af.safetensors": b"voice", "LICENSE": b"MIT"}
    left_out = {"weights.safetensors": b"x", "weights.npz": b"x", "model.safetensors.index.json": b"{}"}
    write(checkpoint({"a": matrix()}, files=files | left_out), {tmp_path / "out": Precision()}, lambda step: None)
    found = {path.relative_to(tmp_path / "out").as_posix() for path in (tmp_path / "out").rglob("*") if path.is_file()}
    assert found == {*files, "config.json", "model.safetensors"}
    assert (tmp_path / "out" / "voices" / "af.safetensors").read_bytes() == b"voice"


def test_config_says_how_it_is_quantized_and_what_the_numbers_are(tmp_path: Path) -> None:
    config = {"model_type": "whisper", "torch_dtype": "float32", "n": 3}
    source = checkpoint({"a.weight": matrix()}, config=config)
    write(source, {tmp_path / "out": Precision({"a": Packing(4)}, "bfloat16")}, lambda step: None)
    found = json.loads((tmp_path / "out" / "config.json").read_text())
    form = {"group_size": 64, "bits": 4, "mode": "affine"}
    assert found == {**config, "torch_dtype": "bfloat16", "quantization": form, "quantization_config": form}
    assert quantization(found) == form


@pytest.mark.parametrize("key", ["model_type", "architecture"])
def test_a_config_without_a_name_for_its_architecture_gets_one(key: str) -> None:
    """Without one mlx-audio would go by what the directory is called."""
    source = checkpoint({}, config={"target": "nemo.collections.asr.models.EncDec"}, architecture="parakeet")
    assert config_of(source, Precision())["model_type"] == "parakeet"
    named = {key: "Parakeet-TDT"}
    assert config_of(replace(source, config=named), Precision()) == named


# ---- loading

MIXED = Precision(
    {
        "encoder.blocks.0.attn.query": Packing(8),
        "encoder.blocks.1.mlp2": Packing(8, 128),
        "decoder.blocks.0.mlp1": Packing(3, 32),
        "decoder.blocks.1.cross_attn.out": Packing(4),
        "decoder.blocks.1.mlp2": Packing(4),
        "decoder.token_embedding": Packing(6),
    },
    "float16",
    {"decoder.blocks.0.mlp2": "the recipe keeps it full"},
)


@pytest.fixture(scope="module")
def mixed(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of all bits and groups, layer by layer, some layers full."""
    folder = tmp_path_factory.mktemp("mixed") / "model"
    write(checkpoint_of(tiny), {folder: MIXED}, lambda step: None)
    return folder


def forms(module: nn.Module) -> dict[str, tuple[int, int]]:
    return {path: (layer.bits, layer.group_size) for path, layer in module.named_modules() if hasattr(layer, "bits")}


WANTED = {path: (form.bits, form.group_size) for path, form in MIXED.packed.items()}


def load_here(directory: Path, *, dequantized: bool = False) -> nn.Module:
    config = json.loads((directory / "config.json").read_text())
    return network.load(list(weight_files(directory)), config, mx.float16, dequantized=dequantized)


def load_mlx_audio(directory: Path) -> nn.Module:
    from mlx_audio.stt.utils import load_model

    return load_model(directory)


@pytest.mark.filterwarnings("ignore")  # of its own
@pytest.mark.parametrize("load", [load_here, load_mlx_audio], ids=["mlxbatch", "mlx-audio"])
def test_each_layer_comes_back_in_its_own_precision(mixed: Path, load: Callable[[Path], nn.Module]) -> None:
    model = load(mixed)
    assert forms(model) == WANTED
    stored = dict(mx.load(str(mixed / "model.safetensors")))
    found = dict(tree_flatten(model.parameters()))
    assert set(stored) <= set(found)
    for name, array in stored.items():
        assert found[name].dtype == array.dtype
        assert mx.array_equal(found[name], array), name


def test_where_quantized_products_are_slow_the_layers_are_plain_ones_of_the_same_numbers(mixed: Path) -> None:
    plain = dict(tree_flatten(load_here(mixed, dequantized=True).parameters()))
    stored = dict(mx.load(str(mixed / "model.safetensors")))
    for path, (bits, group) in WANTED.items():
        parts = (stored[f"{path}.{part}"] for part in ("weight", "scales", "biases"))
        assert mx.array_equal(plain[f"{path}.weight"], mx.dequantize(*parts, group_size=group, bits=bits)), path


def test_nothing_is_read_from_where_it_was_made(mixed: Path) -> None:
    """No link, and no path of ours, in what goes to other machines."""
    assert not [path for path in mixed.rglob("*") if path.is_symlink()]
    assert os.fsencode(mixed) not in (mixed / "config.json").read_bytes()
