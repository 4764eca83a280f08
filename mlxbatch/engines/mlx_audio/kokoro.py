"""Kokoro from phonemes to sound, as a proof of its conversion has it: no grapheme-to-phoneme package, no network."""

from __future__ import annotations

from pathlib import Path

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from mlxbatch import device
from mlxbatch.engines.families import MLX_AUDIO, Family
from mlxbatch.engines.mlx_audio.convolutions import rewritten
from mlxbatch.engines.mlx_audio.hush import hushed
from mlxbatch.engines.mlx_audio.loading import load
from mlxbatch.errors import SetupError, show

FAMILY = Family("Kokoro", MLX_AUDIO, sample_rate=24_000, module="tts.models.kokoro")


class Kokoro:
    """A model's directory, loaded in `dtype` on the thread that calls; `dequantized`: packed layers become plain ones.

    Raises SetupError where the directory is no whole model, or has not the voice.
    """

    sample_rate = FAMILY.sample_rate

    def __init__(self, directory: Path, dtype: mx.Dtype, voice: str, *, dequantized: bool) -> None:
        path = directory / "voices" / f"{voice}.safetensors"
        if not path.is_file():
            raise SetupError(f"{show(path)}: no such voice")
        with rewritten():
            self._model = load(directory, FAMILY, dtype, dequantized=dequantized)
        # A style for each number of phonemes, [510, 1, 256].
        self._styles = mx.load(str(path))["voice"].astype(dtype)

    def speak(self, phonemes: str, seed: int) -> NDArray[np.float32]:
        """A sentence's samples at `sample_rate`. The vocoder's noise comes from the seed, whatever the weights."""
        mx.random.seed(seed)
        with hushed(), device.device_errors(), rewritten():
            audio = self._model(phonemes, self._styles[len(phonemes) - 1])
            return np.asarray(audio.astype(mx.float32)).reshape(-1)
