"""Which heads tell when words are said: as a model's files say, else by its sizes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from mlxbatch.engines.whisper.heads import _PUBLISHED, alignment_heads
from mlxbatch.engines.whisper.layout import Dims
from tests.engines.whisper.parts import edit_json
from tests.models.tiny import TINY_DIMS, write_bare_whisper, write_tiny_whisper

LAST_HALF = ((1, 0), (1, 1))
OTHERS = [[1, 1], [0, 1]]
SORTED = ((0, 1), (1, 1))


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """One whose files say nothing of heads."""
    directory = write_tiny_whisper(tmp_path / "model")
    edit_json(directory / "generation_config.json", alignment_heads=None)
    return directory


@pytest.mark.parametrize("name", ["generation_config.json", "config.json"])
def test_the_settings_say_it(model: Path, name: str) -> None:
    assert alignment_heads(model, TINY_DIMS) == LAST_HALF
    edit_json(model / name, alignment_heads=OTHERS)
    assert alignment_heads(model, TINY_DIMS) == SORTED


def test_a_weight_says_it(model: Path) -> None:
    tensors = load_file(model / "model.safetensors") | {"alignment_heads": np.array(OTHERS, np.int32)}
    save_file(tensors, model / "model.safetensors")
    (model / "generation_config.json").unlink()
    assert alignment_heads(model, TINY_DIMS) == SORTED


@pytest.mark.parametrize("said", [OTHERS, None])
def test_a_weight_of_an_archive_says_it(tmp_path: Path, said: Any) -> None:
    directory = write_bare_whisper(tmp_path / "model", 51_864, archive=True)
    if said:
        with np.load(directory / "weights.npz") as stored:
            tensors = dict(stored)
        np.savez(directory / "weights.npz", **tensors, alignment_heads=np.array(said, np.int64))
    assert alignment_heads(directory, TINY_DIMS) == (SORTED if said else LAST_HALF)


@pytest.mark.parametrize("said", [[], [[2, 0]], [[0, 2]], [[-1, 0]], [[0]], [[0, 1, 2]], 7, "heads", [["a", "b"]]])
def test_what_the_model_does_not_have_is_passed_over(model: Path, said: Any) -> None:
    edit_json(model / "generation_config.json", alignment_heads=said)
    edit_json(model / "config.json", alignment_heads=OTHERS)
    assert alignment_heads(model, TINY_DIMS) == SORTED


@pytest.mark.parametrize("sizes", list(_PUBLISHED))
def test_published_sizes_have_heads_that_they_own(model: Path, sizes: tuple[int, int, int]) -> None:
    layers, heads, n_vocab = sizes
    wide = {"n_text_state": 2 * heads, "n_audio_state": 2 * heads}  # any that the heads divide
    dims = replace(TINY_DIMS, n_text_layer=layers, n_text_head=heads, n_vocab=n_vocab, **wide)
    found = alignment_heads(model, dims)
    assert list(found) == sorted(set(found))
    assert 5 <= len(found) <= 23
    # They sit in the later layers, but for the large ones' first.
    assert all(layers // 5 <= layer < layers and head < heads for layer, head in found)


@pytest.mark.real
def test_base_has_those_of_its_sizes(whisper_base: Path) -> None:
    """CTranslate2 wrote them down; the table here is openai/whisper's."""
    dims = Dims.from_config(json.loads((whisper_base / "config.json").read_bytes()))
    stored = alignment_heads(whisper_base, dims)
    assert " ".join(f"{layer}.{head}" for layer, head in stored) == _PUBLISHED[6, 8, 51_865]
