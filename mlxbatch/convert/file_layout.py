"""How a weight lies in its file where that is not how MLX has it: mlx-audio turns some round as it loads them."""

from __future__ import annotations

from mlxbatch.convert.kokoro_layout import turned_in_file
from mlxbatch.models.weights import Shape


def is_turned(architecture: str, name: str, shape: Shape, *, packed: bool) -> bool:
    """Whether the last two axes of this weight, of MLX's `shape`, are swapped in the file.

    `packed`: a layer of the model is quantized.
    """
    return architecture == "kokoro" and not packed and turned_in_file(name, shape)
