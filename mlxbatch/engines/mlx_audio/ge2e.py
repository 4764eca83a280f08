"""How alike two voices are, by the GE2E speaker encoder (Wan et al. 2018, "Generalized End-to-End Loss for Speaker
Verification"): the cosine of their embeddings, 1 for the same."""

from __future__ import annotations

from pathlib import Path

import mlx.core as mx
import numpy as np
from mlx_audio.tts.models.chatterbox.voice_encoder import VoiceEncoder
from mlx_audio.tts.models.chatterbox.voice_encoder.melspec import melspectrogram
from numpy.typing import NDArray

from mlxbatch.models.weights import weight_files

SAMPLE_RATE = 16_000


class Voices:
    """The encoder of a directory, on the thread that calls."""

    def __init__(self, directory: Path) -> None:
        self._encoder = VoiceEncoder()
        weights = {name: one for path in weight_files(directory) for name, one in mx.load(str(path)).items()}
        self._encoder.load_weights(list(weights.items()), strict=True)
        mx.eval(self._encoder.parameters())

    def likeness(self, one: NDArray[np.float32], other: NDArray[np.float32]) -> float:
        """Of two recordings at 16 kHz."""
        return float(mx.sum(self._embedding(one) * self._embedding(other)).item())

    def _embedding(self, samples: NDArray[np.float32]) -> mx.array:
        """Of unit length, [256]: the mean over stretches of 1.6 s."""
        mel = melspectrogram(mx.array(samples), self._encoder.hp).T
        return self._encoder.inference(mel[None], [mel.shape[0]])[0]
