"""The real DeepFilterNet3 beside mlx-audio's, sample for sample."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import soxr

from mlxbatch.audio import decode
from mlxbatch.engines.deepfilter.enhancer import enhance
from mlxbatch.engines.deepfilter.frames import NoSound
from mlxbatch.engines.deepfilter.loading import load
from mlxbatch.engines.deepfilter.network import Network
from mlxbatch.types import Item
from tests.engines.deepfilter.tiny import Array

pytestmark = pytest.mark.real
CLIP = Path(__file__).parents[3] / "examples" / "books" / "sense_and_sensibility_01_austen_64kb-0880.wav"


@pytest.fixture(scope="module")
def net(deepfilternet3: Path) -> Network:
    return load(deepfilternet3)


@pytest.fixture(scope="module")
def noisy() -> Array:
    """3 s of a reader in white noise, at 48 kHz."""
    speech = soxr.resample(decode(Item(CLIP.name, CLIP, Path(CLIP.name))).samples[0], 16_000, 48_000)[:144_321]
    noise = 0.02 * np.random.default_rng(0).standard_normal(len(speech))
    return (speech + noise).astype(np.float32)


def enhanced(net: Network, chunks: Sequence[Array]) -> Array:
    parts = [part for _, part in enhance(net, chunks) if not isinstance(part, NoSound)]
    return np.concatenate(parts)


def difference(expected: Array, found: Array) -> float:
    """How far below `expected` it is, in dB."""
    rest = (expected - found).astype(np.float64)
    return float(10 * np.log10(np.square(expected.astype(np.float64)).sum() / np.square(rest).sum()))


def test_samples_are_mlx_audios(net: Network, noisy: Array, deepfilternet3: Path) -> None:
    from mlx_audio.sts.models.deepfilternet import DeepFilterNetModel

    model = DeepFilterNetModel.from_pretrained(str(deepfilternet3), subfolder=None)
    expected, found = model.enhance_array(noisy), enhanced(net, [noisy[None]])
    assert found.shape == noisy.shape
    assert difference(expected, found) > 100
    assert difference(expected, noisy) < 30


def test_chunks_are_the_whole(net: Network, noisy: Array) -> None:
    """No crossfade comes near: the same to the bit, since the blocks that are computed are the same."""
    whole = enhanced(net, [noisy[None]])
    np.testing.assert_array_equal(enhanced(net, np.array_split(noisy[None], 7, axis=1)), whole)
    shorter = np.concatenate([part for _, part in enhance(net, [noisy[None]], block=37)])  # type: ignore[list-item]
    assert difference(whole, shorter) > 100
