from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file

from mlxbatch.errors import SetupError
from mlxbatch.models.check import check_whisper
from tests.engines.whisper.test_layout import hugging_face_names
from tests.models.tiny import (
    TIMESTAMPS,
    TINY_DIMS,
    TOKEN_IDS,
    tiny_config,
    tiny_tensors,
    tiny_tokenizer,
    write_json,
    write_tiny_whisper,
)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write_tiny_whisper(tmp_path / "model")


def test_a_whole_directory(model: Path) -> None:
    files = check_whisper(model)
    assert files.dims == TINY_DIMS
    assert (files.config, files.tokenizer) == (model / "config.json", model / "tokenizer.json")
    assert files.weights == (model / "model.safetensors",)
    assert not files.hugging_face
    assert not files.quantized


def test_what_may_be_missing_or_more(model: Path) -> None:
    for name in ("preprocessor_config.json", "tokenizer_config.json", "generation_config.json"):
        (model / name).unlink()
    save_file(tiny_tensors() | {"alignment_heads": np.zeros(3, np.float16)}, model / "model.safetensors")
    check_whisper(model)


def rewrite(model: Path, change: Callable[[dict[str, NDArray[Any]]], object]) -> None:
    tensors: dict[str, NDArray[Any]] = dict(load_file(model / "model.safetensors"))
    change(tensors)
    save_file(tensors, model / "model.safetensors")


def hugging_face_tensors() -> dict[str, NDArray[Any]]:
    """Right shapes under Hugging Face's names; convolutions [out, in, k]."""
    from mlxbatch.engines.whisper.layout import CONV_WEIGHTS, canonical_name, expected_shapes

    shapes, tensors = expected_shapes(TINY_DIMS), {}
    for name in hugging_face_names(TINY_DIMS):
        canonical = canonical_name(name)
        if canonical:
            shape = shapes[canonical]
            tensors[name] = np.zeros(shape[::2] + shape[1:2] if canonical in CONV_WEIGHTS else shape, np.float16)
    return tensors


def test_hugging_faces_layout(model: Path) -> None:
    save_file(hugging_face_tensors(), model / "model.safetensors")
    assert check_whisper(model).hugging_face


def test_hugging_faces_names_with_mlxs_convolutions(model: Path) -> None:
    tensors = hugging_face_tensors()
    tensors["model.encoder.conv1.weight"] = np.zeros((64, 3, 80), np.float16)
    save_file(tensors, model / "model.safetensors")
    with pytest.raises(SetupError, match=r"encoder.conv1.weight has shape \[64, 80, 3\]"):
        check_whisper(model)


def test_bfloat16_is_not_read_and_so_no_matter(model: Path) -> None:
    path = model / "model.safetensors"
    size = int.from_bytes(path.read_bytes()[:8], "little")
    raw = path.read_bytes()
    header = raw[8 : 8 + size].replace(b'"F16"', b'"BF16"').rstrip()
    header += b" " * (-len(header) % 8)
    path.write_bytes(len(header).to_bytes(8, "little") + header + raw[8 + size :])
    assert check_whisper(model).dims == TINY_DIMS


def test_shards(model: Path) -> None:
    tensors = list(tiny_tensors().items())
    (model / "model.safetensors").unlink()
    parts = {"model-1.safetensors": dict(tensors[:30]), "model-2.safetensors": dict(tensors[30:])}
    for name, part in parts.items():
        save_file(part, model / name)
    index = {"weight_map": {weight: name for name, part in parts.items() for weight in part}}
    write_json(model / "model.safetensors.index.json", index)
    assert [path.name for path in check_whisper(model).weights] == list(parts)
    del parts["model-2.safetensors"]["decoder.ln.bias"]
    save_file(parts["model-2.safetensors"], model / "model-2.safetensors")
    with pytest.raises(SetupError, match=r"model: lacks the weight decoder.ln.bias,"):
        check_whisper(model)


def quantize(tensors: dict[str, NDArray[Any]]) -> None:
    """Every linear layer and the embedding as 4-bit affine groups of 32 would be."""
    for name, tensor in list(tensors.items()):
        if tensor.ndim == 2 and name.endswith(".weight"):
            rows, columns = tensor.shape
            tensors[name] = np.zeros((rows, columns // 8), np.uint32)
            for kind in ("scales", "biases"):
                tensors[name.replace(".weight", f".{kind}")] = np.zeros((rows, columns // 32), np.float16)


def test_quantized(model: Path) -> None:
    rewrite(model, quantize)
    write_json(model / "config.json", tiny_config() | {"quantization": {"bits": 4, "group_size": 32}})
    assert check_whisper(model).quantized


@pytest.mark.parametrize("form", [{"quant_method": "gptq", "bits": 4}, {"bits": 7}, {"load_in_8bit": True}, "int8"])
def test_quantized_in_a_form_that_is_not_mlx_s(model: Path, form: object) -> None:
    write_json(model / "config.json", tiny_config() | {"quantization_config": form})
    with pytest.raises(SetupError, match=r"config\.json: quantized by .*: only MLX's form is known here"):
        check_whisper(model)


def test_quantized_without_saying_so(model: Path) -> None:
    rewrite(model, quantize)
    with pytest.raises(SetupError, match=r"config.json wants \[64, 64\]"):
        check_whisper(model)


def test_a_quantized_layer_without_scales(model: Path) -> None:
    rewrite(model, lambda tensors: (quantize(tensors), tensors.pop("decoder.blocks.0.mlp1.scales")))
    write_json(model / "config.json", tiny_config() | {"quantization": {"bits": 4, "group_size": 32}})
    with pytest.raises(SetupError, match=r"decoder.blocks.0.mlp1.weight has shape \[256, 8\]"):
        check_whisper(model)


def drop(*names: str) -> Callable[[Path], None]:
    def change(model: Path) -> None:
        rewrite(model, lambda tensors: [tensors.pop(name) for name in names])

    return change


def reshape(name: str, *shape: int) -> Callable[[Path], None]:
    def change(model: Path) -> None:
        rewrite(model, lambda tensors: tensors.update({name: np.zeros(shape, np.float16)}))

    return change


def cut(size: int) -> Callable[[Path], None]:
    def change(model: Path) -> None:
        path = model / "model.safetensors"
        path.write_bytes(path.read_bytes()[:size])

    return change


WEIGHTS = [
    (drop("decoder.ln.weight"), "lacks the weight decoder.ln.weight, of the "),
    (drop("encoder.conv1.bias", "decoder.ln.bias", "encoder.ln_post.bias"), "encoder.conv1.bias and 2 more, of the "),
    (
        reshape("decoder.token_embedding.weight", 100, 64),
        rf"decoder.token_embedding.weight has shape \[100, 64\], config.json wants \[{len(TOKEN_IDS)}, 64\]",
    ),
    (reshape("encoder.conv2.weight", 64, 64, 3), r"encoder.conv2.weight has shape \[64, 64, 3\]"),
    (cut(0), "no readable safetensors file"),
    (cut(5), "no readable safetensors file"),
    (cut(400), "no readable safetensors file"),
    (cut(100_000), "no readable safetensors file .*: fetch the model again"),
    (
        lambda model: (model / "model.safetensors").write_bytes(b"version https://git-lfs" * 9),
        "no readable safetensors",
    ),
]


@pytest.mark.parametrize(("damage", "message"), WEIGHTS)
def test_damaged_weights(model: Path, damage: Callable[[Path], None], message: str) -> None:
    damage(model)
    with pytest.raises(SetupError, match=f"model.safetensors: .*{message}"):
        check_whisper(model)


def test_numpy_weights(model: Path) -> None:
    (model / "model.safetensors").unlink()
    np.savez(model / "weights.npz", **tiny_tensors())  # type: ignore[arg-type]
    assert check_whisper(model).weights == (model / "weights.npz",)
    np.savez(model / "weights.npz", **{"encoder.conv1.weight": np.zeros((1, 2, 3))})
    with pytest.raises(SetupError, match=r"weights.npz: lacks the weight encoder.conv1.bias and \d+ more"):
        check_whisper(model)


def test_a_merge_that_was_lost(model: Path) -> None:
    edit_tokens(model, lambda tokenizer: tokenizer["model"]["merges"].pop(0))
    with pytest.raises(
        SetupError, match=r"tokenizer.json: the merge Ġ \+ t is missing, 1 in all; the download was cut"
    ):
        check_whisper(model)


@pytest.mark.parametrize("merges", [None, 5, [5], ["a b c"], [["zz", "yy"]]])
def test_merges_that_are_none(model: Path, merges: object) -> None:
    edit_tokens(model, lambda tokenizer: tokenizer["model"].update(merges=merges))
    with pytest.raises(SetupError, match=r"tokenizer.json: no byte-pair tokenizer, as a Whisper's is"):
        check_whisper(model)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("config.json", None, "config.json: missing; a model directory holds"),
        ("config.json", "{", "config.json: not JSON"),
        ("config.json", "[1]", "config.json: not a JSON object"),
        ("config.json", '{"model_type": "whisper"}', "config.json: key 'n_mels' is missing"),
        ("config.json", '{"model_type": "parakeet"}', "config.json: a 'parakeet' model, not a Whisper"),
        ("config.json", '{"d_model": "big"}', "config.json: key 'num_mel_bins' is missing"),
        ("tokenizer.json", None, "tokenizer.json: missing, so text cannot be decoded; copy the tokenizer.json"),
        ("tokenizer.json", "<html>", "tokenizer.json: not JSON"),
        ("tokenizer.json", "[]", "tokenizer.json: not a JSON object"),
        ("tokenizer.json", "{}", "tokenizer.json: no tokenizer in the format"),
        ("tokenizer.json", '{"added_tokens": 5, "model": {"vocab": {}}}', "tokenizer.json: no tokenizer in the format"),
    ],
)
def test_damaged_json(model: Path, name: str, content: str | None, message: str) -> None:
    if content is None:
        (model / name).unlink()
    else:
        (model / name).write_text(content)
    with pytest.raises(SetupError, match=message):
        check_whisper(model)


def edit_tokens(model: Path, change: Callable[[dict[str, Any]], object]) -> None:
    tokenizer = tiny_tokenizer()
    change(tokenizer)
    write_json(model / "tokenizer.json", tokenizer)


def without(token: str) -> Callable[[dict[str, Any]], object]:
    return lambda tokenizer: tokenizer.update(
        added_tokens=[entry for entry in tokenizer["added_tokens"] if entry["content"] != token]
    )


def shifted(tokenizer: dict[str, Any]) -> None:
    for entry in tokenizer["added_tokens"]:
        entry["id"] += entry["content"] in TIMESTAMPS


def merge_tokens(tokenizer: dict[str, Any]) -> None:
    tokenizer["model"]["vocab"]["more"] = len(TOKEN_IDS) + 4


FIRST = TOKEN_IDS["<|0.00|>"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda tokenizer: tokenizer.update(tiny_tokenizer(timestamps=False)), "1501 of the 1501 timestamp tokens"),
        (without("<|29.98|>"), r"1 of the 1501 timestamp tokens are missing, the first is <\|29.98\|>"),
        (shifted, rf"<\|0.00\|> has id {FIRST + 1}, it must be {FIRST} "),
        (without("<|notimestamps|>"), r"no <\|notimestamps\|>: not a Whisper's tokenizer"),
        (without("<|endoftext|>"), r"no <\|endoftext\|>: not a Whisper's tokenizer"),
        (merge_tokens, f"{len(TOKEN_IDS) + 5} tokens, the model has {len(TOKEN_IDS)}: it belongs to another model"),
    ],
)
def test_the_wrong_tokenizer(model: Path, change: Callable[[dict[str, Any]], object], message: str) -> None:
    edit_tokens(model, change)
    with pytest.raises(SetupError, match=f"tokenizer.json: {message}"):
        check_whisper(model)


def test_no_directory(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="nothing: no such model directory"):
        check_whisper(tmp_path / "nothing")


@pytest.mark.real
def test_whisper_base_is_whole_and_checked_at_once(whisper_base: Path) -> None:
    check_whisper(whisper_base)
    begin = time.monotonic()
    assert check_whisper(whisper_base).dims.n_vocab == 51_865
    assert time.monotonic() - begin < 5


@pytest.mark.real
def test_another_whispers_tokenizer_is_noticed(whisper_base: Path, tmp_path: Path) -> None:
    for path in whisper_base.iterdir():
        (tmp_path / path.name).symlink_to(path)
    tokenizer = json.loads((whisper_base / "tokenizer.json").read_text("utf-8"))
    # The English-only one has a token less before the specials, and so an end one lower.
    for entry in tokenizer["added_tokens"]:
        entry["id"] -= 1
    tokenizer["model"]["vocab"] = {
        token: number for token, number in tokenizer["model"]["vocab"].items() if number < 50_256
    }
    (tmp_path / "tokenizer.json").unlink()
    write_json(tmp_path / "tokenizer.json", tokenizer)
    with pytest.raises(SetupError, match="51864 tokens, the model has 51865: it belongs to another model"):
        check_whisper(tmp_path)
