"""Is a model directory whole: asked before any audio is read, without loading a weight.

Here a Whisper, of which all is known that it needs; `whole` checks what is known of others.

The loaders around would go on with random weights, or take the end of text for the first timestamp; so every weight
has to be there in its shape, and the tokenizer has to be the model's own.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlxbatch.convert.whisper_tokenizer import TIMESTAMPS, lacking_merges
from mlxbatch.engines.whisper.layout import (
    Dims,
    canonical_name,
    expected_shapes,
    is_hugging_face,
    mlx_shape,
)
from mlxbatch.errors import SetupError, show
from mlxbatch.models.architecture import architecture, quantization, read_json
from mlxbatch.models.weights import AGAIN, WHOLE, Shape, shapes, weight_files

CANONICAL_SIZES = frozenset({51_864, 51_865, 51_866})  # English-only, multilingual, large-v3
NEEDED_TOKENS = ("<|endoftext|>", "<|startoftranscript|>", "<|transcribe|>", "<|notimestamps|>")


@dataclass(frozen=True, slots=True)
class WhisperFiles:
    """The files of a whole Whisper directory. `hugging_face` tells whose names, and convolution layout, it has."""

    directory: Path
    config: Path
    weights: tuple[Path, ...]
    tokenizer: Path
    dims: Dims
    hugging_face: bool
    quantized: bool


def _config(directory: Path) -> dict[str, Any]:
    if not directory.is_dir():
        raise SetupError(f"{show(directory)}: no such model directory")
    return read_json(directory / "config.json")


def check_whisper(directory: Path) -> WhisperFiles:
    """Check config, weights and tokenizer; raise SetupError that names the file at fault and what to do."""
    config, config_path = _config(directory), directory / "config.json"
    tokenizer_path = directory / "tokenizer.json"
    dims = _dims(config, config_path)
    files = weight_files(directory)
    quantized = is_quantized(config, config_path)
    hugging_face = _check_weights(files, dims, quantized=quantized)
    _check_tokenizer(read_json(tokenizer_path), tokenizer_path, dims.n_vocab)
    return WhisperFiles(directory, config_path, files, tokenizer_path, dims, hugging_face, quantized)


def is_quantized(config: Mapping[str, Any], path: Path) -> bool:
    """Whether the weights are stored quantized; SetupError where not as MLX does it."""
    try:
        return quantization(config) is not None
    except ValueError as error:
        raise SetupError(f"{show(path)}: {error}; take a model converted for MLX") from error


def _dims(config: Mapping[str, Any], path: Path) -> Dims:
    if (kind := architecture(config)) != "whisper":
        raise SetupError(f"{show(path)}: a {kind!r} model, not a Whisper")
    try:
        return Dims.from_config(config)
    except ValueError as error:
        raise SetupError(f"{show(path)}: {error}; is it a Whisper's?") from error


def _check_weights(files: tuple[Path, ...], dims: Dims, *, quantized: bool) -> bool:
    """Every weight is there in its shape; returns whether the names are Hugging Face's."""
    stored = {name: (shape, path) for path in files for name, shape in shapes(path)}
    hugging_face = is_hugging_face(stored)
    found = {canonical_name(name): entry for name, entry in stored.items()}
    wanted = expected_shapes(dims)
    if missing := [name for name in wanted if name not in found]:
        where = files[0] if len(files) == 1 else files[0].parent
        raise SetupError(f"{show(where)}: {_lacks(missing, wanted)}; {WHOLE}")
    for name, want in wanted.items():
        shape, path = found[name]
        if quantized and _is_packed(name, found):
            continue
        has = mlx_shape(name, shape, hugging_face=hugging_face)
        if has != want:
            raise SetupError(f"{show(path)}: {_differs(name, has, want)}")
    return hugging_face


def _is_packed(name: str, found: Collection[str | None]) -> bool:
    """A quantized layer's weight: packed integers whose shape depends on the bits, beside its scales."""
    layer, _, kind = name.rpartition(".")
    return kind == "weight" and f"{layer}.scales" in found


def _lacks(missing: list[str], wanted: Mapping[str, Shape]) -> str:
    others = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
    return f"lacks the weight {missing[0]}{others}, of the {len(wanted)} that config.json's sizes need"


def _differs(name: str, has: Shape, want: Shape) -> str:
    return f"{name} has shape {list(has)}, config.json wants {list(want)}: weights and config do not belong together"


def _check_tokenizer(tokenizer: Mapping[str, Any], path: Path, n_vocab: int) -> None:
    ids = _token_ids(tokenizer, path)
    for token in NEEDED_TOKENS:
        if token not in ids:
            raise SetupError(f"{show(path)}: no {token}: not a Whisper's tokenizer")
    _check_timestamps(ids, path)
    _check_merges(tokenizer, path)
    size = max(ids.values()) + 1
    if size > n_vocab or (n_vocab in CANONICAL_SIZES and size != n_vocab):
        remedy = "it belongs to another model; copy the right one into the directory"
        raise SetupError(f"{show(path)}: {size} tokens, the model has {n_vocab}: {remedy}")


def _token_ids(tokenizer: Mapping[str, Any], path: Path) -> dict[str, int]:
    try:
        added = {token["content"]: int(token["id"]) for token in tokenizer["added_tokens"]}
        ids = {token: int(number) for token, number in tokenizer["model"]["vocab"].items()} | added
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise SetupError(f"{show(path)}: no tokenizer in the format of the tokenizers library; {AGAIN}") from error
    return ids


def _check_timestamps(ids: Mapping[str, int], path: Path) -> None:
    """`<|0.00|>` to `<|30.00|>` follow `<|notimestamps|>` one by one, or times and text would be mixed up."""
    first = ids["<|notimestamps|>"] + 1
    absent = [step for step in range(TIMESTAMPS) if _timestamp(step) not in ids]
    if absent:
        raise SetupError(
            f"{show(path)}: {len(absent)} of the {TIMESTAMPS} timestamp tokens are missing, the first is "
            f"{_timestamp(absent[0])}; copy the tokenizer.json of the original Whisper into the directory"
        )
    for step in range(TIMESTAMPS):
        if ids[_timestamp(step)] != first + step:
            raise SetupError(
                f"{show(path)}: {_timestamp(step)} has id {ids[_timestamp(step)]}, it must be {first + step} "
                f"(they follow <|notimestamps|>); copy the tokenizer.json of the original Whisper into the directory"
            )


def _check_merges(tokenizer: Mapping[str, Any], path: Path) -> None:
    """Every token of text can be encoded, or a prompt would reach the model in pieces that it does not know."""
    try:
        lacking = lacking_merges(tokenizer)
    except ValueError as error:
        raise SetupError(f"{show(path)}: no byte-pair tokenizer, as a Whisper's is; {AGAIN}") from error
    if lacking:
        raise SetupError(f"{show(path)}: the merge {' + '.join(lacking[0])} is missing, {len(lacking)} in all; {AGAIN}")


def _timestamp(step: int) -> str:
    return f"<|{0.02 * step:.2f}|>"
