"""DeepFilterNet: speech out of noise, as a proof of its conversion has it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mlxbatch import device
from mlxbatch.engines.families import MLX_AUDIO, Family
from mlxbatch.engines.mlx_audio.convolutions import rewritten
from mlxbatch.engines.mlx_audio.hush import hushed
from mlxbatch.errors import SetupError, show

SAMPLE_RATE = 48_000
FAMILY = Family("DeepFilterNet", MLX_AUDIO, sample_rate=SAMPLE_RATE, module="sts.models.deepfilternet")


class DeepFilter:
    """A model's directory, on the thread that calls. Raises SetupError where it cannot be loaded."""

    def __init__(self, directory: Path) -> None:
        from mlx_audio.sts.models.deepfilternet import DeepFilterNetModel

        try:
            with hushed(), rewritten():
                # By its own way: mlx-audio's general loader leaves its filterbank zero.
                self._model = DeepFilterNetModel.from_pretrained(str(directory), subfolder=None)
        except (OSError, ValueError, RuntimeError, KeyError) as error:
            raise SetupError(f"{show(directory)}: DeepFilterNet cannot be loaded from it: {error}") from error

    def enhance(self, samples: NDArray[np.float32]) -> NDArray[np.float32]:
        """The speech in a recording at 48 kHz, as long as it is."""
        with hushed(), device.device_errors(), rewritten():
            return np.asarray(self._model.enhance_array(samples), np.float32)
