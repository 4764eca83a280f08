"""Log-mel against mlx-audio's, on real speech."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest
from numpy.typing import NDArray

from mlxbatch.audio import decode
from mlxbatch.engines.whisper.features import log_mel, mel_filters
from mlxbatch.engines.whisper.windows import WINDOW_SAMPLES
from mlxbatch.types import Item
from tests.engines.whisper.parts import noise

CLIP = Path(__file__).parents[3] / "examples" / "calls" / "dir-intro.wav"


@pytest.fixture(scope="module")
def clip() -> NDArray[np.float32]:
    return decode(Item("clip", CLIP, Path("clip"))).samples[0]


def theirs(samples: NDArray[np.float32], n_mels: int) -> NDArray[np.float32]:
    """mlx-audio's, with filters made in float64: those it makes in float32 are off by 2.5e-4 in the logarithm."""
    from mlx_audio import dsp
    from mlx_audio.stt.models.whisper import audio

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(audio, "mel_filters", partial(dsp.mel_filters, precise=True))
        return np.array(audio.log_mel_spectrogram(audio.pad_or_trim(mx.array(samples)), n_mels))


@pytest.mark.parametrize("n_mels", [80, 128])
def test_the_filters_are_slaney_s(n_mels: int) -> None:
    from mlx_audio import dsp

    wanted = np.array(dsp.mel_filters(16_000, 400, n_mels, norm="slaney", mel_scale=None, precise=True))
    assert mel_filters(n_mels).shape == (n_mels, 201)
    assert np.allclose(mel_filters(n_mels), wanted, atol=1e-7)


@pytest.mark.parametrize("n_mels", [80, 128])
def test_a_padded_clip(clip: NDArray[np.float32], n_mels: int) -> None:
    found = np.array(log_mel(clip, n_mels))
    assert found.shape == (3000, n_mels)
    assert np.abs(found - theirs(clip, n_mels)).max() < 1e-4


@pytest.mark.parametrize("count", [1, 160, 399, WINDOW_SAMPLES - 1, WINDOW_SAMPLES])
def test_other_lengths(count: int) -> None:
    samples = noise(count)
    assert np.abs(np.array(log_mel(samples, 80)) - theirs(samples, 80)).max() < 1e-4


@pytest.mark.parametrize("dtype", [mx.float16, mx.bfloat16])
def test_the_model_s_precision(clip: NDArray[np.float32], dtype: mx.Dtype) -> None:
    found = log_mel(clip, 80, dtype)
    assert found.dtype == dtype
    assert mx.abs(found.astype(mx.float32) - log_mel(clip, 80)).max().item() < 0.02
