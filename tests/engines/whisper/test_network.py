"""The network against mlx-audio's, on tiny and on real weights, and the forms a checkpoint comes in."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest
from mlx.utils import tree_flatten
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file

from mlxbatch.encoder_context import Context
from mlxbatch.engines.whisper import footprint, network
from mlxbatch.engines.whisper.layout import CONV_WEIGHTS, canonical_name, expected_shapes
from mlxbatch.engines.whisper.network import Network
from mlxbatch.engines.whisper.slots import PromptCache
from mlxbatch.engines.whisper.tokens import Vocabulary
from mlxbatch.models.check import check_whisper
from mlxbatch.models.weights import weight_files
from tests.engines.whisper.parts import write_config
from tests.engines.whisper.test_layout import hugging_face_names
from tests.models.tiny import TINY_DIMS, tiny_config, tiny_tensors, write_tiny_whisper

PROMPT = [259, 300, 360, 12, 40, 7]  # any tokens of the tiny vocabulary
Change = Callable[[dict[str, NDArray[Any]]], dict[str, NDArray[Any]]]


def load(directory: Path, dtype: mx.Dtype = mx.float32) -> Network:
    files = check_whisper(directory)
    return network.load(list(files.weights), json.loads(files.config.read_text("utf-8")), dtype)


def mel(n: int = 1, seed: int = 0) -> mx.array:
    """What a log-mel may look like: [n, 3000, 80], values of about -1 to 1."""
    return mx.random.uniform(-1, 1, (n, 3000, 80), key=mx.random.key(seed))


def run(model: Network, features: mx.array, tokens: list[int]) -> tuple[mx.array, mx.array]:
    """Encoder output and the logits after every token."""
    encoded, _ = model.encoder(features)
    batch = mx.broadcast_to(mx.array(tokens), (len(features), len(tokens)))
    positions = mx.broadcast_to(mx.arange(len(tokens)), batch.shape)
    return encoded, model.decoder.logits(model.decoder(batch, positions, PromptCache(), model.decoder.cross(encoded)))


def difference(a: mx.array, b: mx.array) -> float:
    return mx.abs(a.astype(mx.float32) - b.astype(mx.float32)).max().item()


def theirs_tiny() -> Any:
    from mlx_audio.stt.models.whisper.whisper import Model, ModelDimensions

    model = Model(ModelDimensions.from_dict(tiny_config()), mx.float32)
    model.load_weights([(name, mx.array(weight)) for name, weight in tiny_tensors().items()], strict=True)
    model.set_dtype(mx.float32)
    return model


def variant(target: Path, change: Change) -> Path:
    write_tiny_whisper(target)
    file = target / "model.safetensors"
    save_file(change(dict(load_file(file))), file, metadata={"format": "mlx"})
    return target


@pytest.fixture(scope="module")
def expected(tiny: Path) -> tuple[mx.array, mx.array]:
    return run(load(tiny), mel(), PROMPT)


def test_tiny_weights_give_what_mlx_audio_gives(tiny: Path) -> None:
    model = theirs_tiny()
    encoded, logits = run(load(tiny), mel(2), PROMPT)
    theirs = model.encoder(mel(2))
    assert difference(encoded, theirs) < 1e-4
    assert difference(logits, model.decoder(mx.array([PROMPT] * 2), theirs)[0]) < 1e-4


def test_a_row_does_not_see_its_neighbours(tiny: Path) -> None:
    model = load(tiny)
    both = mx.concatenate([mel(), mx.full((1, 3000, 80), mx.nan)])
    encoded, logits = run(model, both, PROMPT)
    alone = run(model, mel(), PROMPT)
    assert difference(encoded[:1], alone[0]) < 5e-5  # matrix products round by the batch, each CPU's in its own way
    assert difference(logits[:1], alone[1]) < 5e-5
    assert mx.isnan(logits[1]).all().item()


def silent_after(frames: int) -> mx.array:
    """A log-mel of 30 s, [1, 3000, 80], in which nothing is heard after so many frames."""
    return mx.concatenate([mel()[:, :frames], mx.full((1, 3000 - frames, 80), -0.6)], axis=1)


def test_the_silent_rest_position_by_position_is_the_whole(tiny: Path) -> None:
    """But for the last one, which sees the window's end: all others hear a little of it."""
    model, whole = load(tiny), silent_after(600)
    wanted, _ = model.encoder(whole)
    found, counts = model.encoder(whole[:, :800], Context(stride=1).stretches(800))
    assert found.shape == wanted.shape
    assert mx.all(counts == 0).item()
    assert difference(found[:, :-1], wanted[:, :-1]) < 0.05
    cut, _ = model.encoder(whole[:, :800])
    assert difference(cut, wanted[:, :400]) > 1.0


def test_one_position_counts_for_all_that_are_like_it(tiny: Path) -> None:
    """Without places of their own all silent ones are, and one for all of them leaves nothing out."""
    model, whole = load(tiny), silent_after(600)
    model.encoder._positions = mx.zeros_like(model.encoder._positions)
    one_by_one, _ = model.encoder(whole[:, :800], Context(stride=1).stretches(800))
    found, counts = model.encoder(whole[:, :800], [range(400, 1500)])
    assert counts.tolist() == [0.0] * 400 + [pytest.approx(math.log(1100))]
    assert difference(found[:, :400], one_by_one[:, :400]) < 1e-4
    assert difference(model.encoder(whole[:, :802])[0][:, :400], one_by_one[:, :400]) > 0.1


@pytest.mark.parametrize("prefix", ["model.", ""])
def test_hugging_face_s_names_and_layout(tmp_path: Path, expected: tuple[mx.array, mx.array], prefix: str) -> None:
    def renamed(tensors: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        found = {"model.encoder.embed_positions.weight": np.zeros((1500, 64), np.float16)}
        for name in hugging_face_names(TINY_DIMS):
            canonical = canonical_name(name)
            if canonical is not None:
                tensor = tensors[canonical]
                found[name] = tensor.swapaxes(1, 2).copy() if canonical in CONV_WEIGHTS else tensor
        return {prefix + name.removeprefix("model."): tensor for name, tensor in found.items()}

    directory = variant(tmp_path / "hf", renamed)
    found = run(load(directory), mel(), PROMPT)
    assert [difference(a, b) for a, b in zip(found, expected, strict=True)] == [0, 0]


def test_what_a_checkpoint_holds_beside_its_weights(tmp_path: Path, expected: tuple[mx.array, mx.array]) -> None:
    """As older MLX conversions do."""
    more = {
        "alignment_heads": np.zeros((2, 2), np.int32),
        "encoder._positional_embedding": np.ones((1500, 64), np.float16),
    }
    directory = variant(tmp_path / "more", lambda tensors: tensors | more)
    found = run(load(directory), mel(), PROMPT)
    assert [difference(a, b) for a, b in zip(found, expected, strict=True)] == [0, 0]


def test_several_shards(tmp_path: Path, expected: tuple[mx.array, mx.array]) -> None:
    directory = write_tiny_whisper(tmp_path / "shards")
    tensors = load_file(directory / "model.safetensors")
    names = list(tensors)
    halves = {"model-00001-of-00002.safetensors": names[:20], "model-00002-of-00002.safetensors": names[20:]}
    for file, part in halves.items():
        save_file({name: tensors[name] for name in part}, directory / file)
    index = {"weight_map": {name: file for file, part in halves.items() for name in part}}
    (directory / "model.safetensors.index.json").write_text(json.dumps(index), "utf-8")
    (directory / "model.safetensors").unlink()
    found = run(load(directory), mel(), PROMPT)
    assert [difference(a, b) for a, b in zip(found, expected, strict=True)] == [0, 0]


def quantized(
    target: Path,
    predicate: Callable[[str, nn.Module], bool | dict[str, int]],
    key: str = "quantization",
    **settings: Any,
) -> Path:
    """Tiny weights with the layers quantized that `predicate` picks, or to what it returns."""
    model = load(write_tiny_whisper(target), mx.float16)
    own: dict[str, Any] = {}

    def form(path: str, module: nn.Module) -> bool | dict[str, int]:
        picked = hasattr(module, "to_quantized") and predicate(path, module)
        if isinstance(picked, dict):
            own[path] = picked
        return picked

    nn.quantize(model, **settings, class_predicate=form)
    mx.save_safetensors(str(target / "model.safetensors"), dict(tree_flatten(model.parameters())))
    write_config(target, TINY_DIMS, **{key: settings | own})
    return target


def test_quantized_weights_under_transformers_name_for_it(tmp_path: Path) -> None:
    named = quantized(tmp_path / "named", lambda path, _: True, "quantization_config", group_size=64, bits=8)
    model = load(named)
    assert isinstance(model.decoder.token_embedding, nn.QuantizedEmbedding)


def recipe(path: str, _: nn.Module) -> bool | dict[str, int]:
    return {"group_size": 32, "bits": 8} if path.endswith("mlp1") else not path.startswith("encoder")


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("plain", [True, False])
@pytest.mark.parametrize("bits", [None, 3, 4])
def test_its_size_is_known_before_it_is_loaded(
    tmp_path: Path, tiny: Path, bits: int | None, plain: bool, dtype: str
) -> None:
    stored = [quantized(tmp_path / str(bits), recipe, "quantization_config", group_size=64, bits=bits or 6)]
    for directory in (tiny, *stored):
        files, config = weight_files(directory), json.loads((directory / "config.json").read_text("utf-8"))
        told = footprint.weight_bytes(config, files, dtype, bits, plain=plain)
        found = network.load(list(files), config, getattr(mx, dtype), bits, dequantized=plain)
        assert told == sum(array.nbytes for _, array in network.flat(found))


@pytest.mark.parametrize("group_size", [32, 64])
def test_quantized_weights(tmp_path: Path, expected: tuple[mx.array, mx.array], group_size: int) -> None:
    directory = quantized(tmp_path / "q", lambda path, _: True, group_size=group_size, bits=8)
    assert check_whisper(directory).quantized
    model = load(directory)
    assert isinstance(model.decoder.token_embedding, nn.QuantizedEmbedding)
    found = run(model, mel(), PROMPT)
    assert 0 < difference(found[0], expected[0]) < 0.3
    assert difference(found[1], expected[1]) < 0.8


def test_some_layers_quantized_otherwise_and_some_not(tmp_path: Path, expected: tuple[mx.array, mx.array]) -> None:
    """As mixed recipes write it: the general settings, and some layers' own under their paths."""

    def recipe(path: str, _: nn.Module) -> bool | dict[str, int]:
        if path.endswith("mlp1"):
            return {"group_size": 32, "bits": 4}
        return path.startswith("decoder.blocks")

    model = load(quantized(tmp_path / "mixed", recipe, group_size=64, bits=8))
    assert model.encoder.blocks[0].mlp1.bits == 4
    assert model.decoder.blocks[0].mlp2.bits == 8
    assert isinstance(model.decoder.token_embedding, nn.Embedding)
    assert difference(run(model, mel(), PROMPT)[0], expected[0]) < 1.0


@pytest.mark.parametrize("bits", [4, 8])
def test_quantized_on_loading_is_what_a_quantized_checkpoint_is(tmp_path: Path, tiny: Path, bits: int) -> None:
    stored = quantized(tmp_path / "q", lambda path, _: True, group_size=64, bits=bits)
    found = network.load([tiny / "model.safetensors"], tiny_config(), mx.float16, bits)
    for (name, ours), (other, theirs) in zip(network.flat(found), network.flat(load(stored, mx.float16)), strict=True):
        assert name == other
        assert mx.array_equal(ours, theirs)
    config = json.loads((stored / "config.json").read_text())
    kept = network.load([stored / "model.safetensors"], config, mx.float16, bits=3)
    assert kept.decoder.blocks[0].mlp1.bits == bits  # what is stored quantized stays as it is


def test_dequantized_is_the_same_network_in_plain_layers(tmp_path: Path, tiny: Path) -> None:
    stored = quantized(tmp_path / "q", lambda path, _: not path.endswith("mlp2"), group_size=32, bits=4)
    config = json.loads((stored / "config.json").read_text())
    plain = network.load([stored / "model.safetensors"], config, mx.float32, dequantized=True)
    assert {name: array.shape for name, array in network.flat(plain)} == expected_shapes(TINY_DIMS)
    assert {array.dtype for _, array in network.flat(plain)} == {mx.float32}
    size = 4 * sum(map(math.prod, expected_shapes(TINY_DIMS).values()))
    assert sum(array.nbytes for _, array in network.flat(plain)) == size
    for one, other in zip(run(load(stored), mel(), PROMPT), run(plain, mel(), PROMPT), strict=True):
        assert difference(one, other) < 1e-3
    on_loading = network.load([tiny / "model.safetensors"], tiny_config(), mx.float32, 8, dequantized=True)
    assert {name: array.shape for name, array in network.flat(on_loading)} == expected_shapes(TINY_DIMS)


@pytest.mark.parametrize(("dtype", "tolerance"), [(mx.float16, 0.05), (mx.bfloat16, 0.4)])
def test_half_precision(tiny: Path, expected: tuple[mx.array, mx.array], dtype: mx.Dtype, tolerance: float) -> None:
    encoded, logits = run(load(tiny, dtype), mel().astype(dtype), PROMPT)
    assert encoded.dtype == dtype
    assert logits.dtype == mx.float32
    assert difference(encoded, expected[0]) < tolerance
    assert difference(logits, expected[1]) < 4 * tolerance


def test_a_missing_weight_is_not_made_up(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tensors = mx.load(str(tiny / "model.safetensors"))
    del tensors["decoder.ln.bias"]
    monkeypatch.setattr(mx, "load", lambda _: tensors)
    with pytest.raises(ValueError, match=r"decoder\.ln\.bias"):
        network.load([tiny / "model.safetensors"], tiny_config(), mx.float32)


@pytest.mark.real
@pytest.mark.filterwarnings("ignore")  # transformers' own, while mlx-audio loads
def test_real_weights_give_what_mlx_audio_gives(whisper_base: Path) -> None:
    from mlx_audio.stt.utils import load_model

    from mlxbatch.audio import decode
    from mlxbatch.engines.whisper.features import log_mel
    from mlxbatch.types import Item

    clip = Path(__file__).parents[3] / "examples" / "books" / "sense_and_sensibility_01_austen_64kb-0880.wav"
    features = log_mel(decode(Item("clip", clip, Path("clip"))).samples[0], 80)[None]
    vocabulary = Vocabulary.read(whisper_base / "tokenizer.json")
    prompt = [*vocabulary.prompt("en", "transcribe"), vocabulary.timestamp_begin, 634, 390, 406, 364]
    encoded, logits = run(load(whisper_base), features, prompt)
    mx.eval(encoded, logits)
    model = load_model(whisper_base)
    model.set_dtype(mx.float32)
    model.encoder._positional_embedding = network.sinusoids(1500, 512)  # no weight, so it stays float16
    theirs = model.encoder(features)
    assert difference(encoded, theirs) < 2e-3
    assert difference(logits, model.decoder(mx.array([prompt]), theirs)[0]) < 2e-3
