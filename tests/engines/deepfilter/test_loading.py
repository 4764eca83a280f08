"""A model directory: every weight, of the model that is computed, or a line that says what is wrong."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mlxbatch.engines.deepfilter.enhancer import enhance
from mlxbatch.engines.deepfilter.loading import load
from mlxbatch.errors import SetupError
from tests.engines.deepfilter.tiny import CONFIG, network, noise, tensors, write_tiny


def test_a_whole_directory_is_loaded(tmp_path: Path) -> None:
    sound = noise(500)[None]
    ((_, found),) = enhance(load(write_tiny(tmp_path / "model")), [sound])
    ((_, expected),) = enhance(network(), [sound])
    np.testing.assert_array_equal(found, expected)


def test_a_missing_weight_is_named(tmp_path: Path) -> None:
    weights = tensors()
    del weights["df_dec.df_skip.weight"]
    with pytest.raises(SetupError, match=r"lacks the weight df_dec\.df_skip\.weight"):
        load(write_tiny(tmp_path / "model", weights))


def test_filterbanks_of_zeros_are_refused(tmp_path: Path) -> None:
    weights = tensors()
    weights["erb_fb"] = np.zeros_like(weights["erb_fb"])
    with pytest.raises(SetupError, match=r"model\.safetensors: erb_fb is not the filterbank of"):
        load(write_tiny(tmp_path / "model", weights))


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        ("enc_concat", True, "enc_concat is True, and False is what can be computed"),
        ("df_gru_skip", "none", "df_gru_skip is 'none'"),
        ("hop_size", 16, "hop_size is 16, not half of fft_size, 64"),
        ("erb_widths", [4] * 8, "erb_widths are not 8 bands of 33 bins"),
        ("df_lookahead", 3, "df_lookahead 3 does not fit conv_lookahead 2"),
        ("erb_widths", None, "not a DeepFilterNet3's sizes"),
    ],
)
def test_another_form_is_refused(tmp_path: Path, key: str, value: object, why: str) -> None:
    assert CONFIG[key] != value
    with pytest.raises(SetupError, match=rf"config\.json: .*{why}"):
        load(write_tiny(tmp_path / "model", **{key: value}))
