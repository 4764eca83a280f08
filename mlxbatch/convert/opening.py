"""What a reader of checkpoints is, and what it is given: a source that is on this machine, and how it was asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import mlx.core as mx

from mlxbatch.convert.checkpoint import Checkpoint, Origin, Weight
from mlxbatch.convert.readers.stored import Stored
from mlxbatch.errors import SetupError, show
from mlxbatch.models.architecture import quantization
from mlxbatch.models.identity import file_sha
from mlxbatch.models.one_fetch import Say
from mlxbatch.types import Task


@dataclass(frozen=True, slots=True)
class Source:
    """A file or directory to be read. Files that stay open as long as the checkpoint is used go into `opened`.

    `origin` has no hashes yet: `read_from` puts in those of the files that a reader took. `task` is the user's, None
    where config.json is to tell.
    """

    path: Path
    origin: Origin
    task: Task | None
    offline: bool
    say: Say
    opened: ExitStack

    def read_from(self, files: Iterable[Path]) -> Origin:
        """The origin with the sha256 of these files, by their names. Raises SetupError."""
        return replace(self.origin, sha256={path.name: file_sha(path) for path in files})


@dataclass(frozen=True, slots=True)
class Reader:
    """`knows` goes by names and config.json alone, and raises nothing; `read` raises SetupError, or UsageError where
    the task is none of the model's."""

    form: str
    knows: Callable[[Path], bool]
    read: Callable[[Source], Checkpoint]


def packing(config: Mapping[str, Any], path: Path) -> Mapping[str, Any] | None:
    """How MLX quantized the weights beside the config.json at `path`, None where they are plain.

    SetupError where another program did: what it left of the numbers is not to be rounded a second time.
    """
    try:
        if quantization(config) is None:
            return None
    except ValueError as error:
        raise SetupError(f"{show(path)}: {error}; convert the model it was made from") from error
    settings: Mapping[str, Any] = config.get("quantization") or config["quantization_config"]
    return settings


def weights(stored: Mapping[str, Stored]) -> dict[str, Weight]:
    """Weights in files as MLX's arrays."""
    return {name: _weight(one) for name, one in stored.items()}


def _weight(stored: Stored) -> Weight:
    # MLX has 64-bit floats on the CPU alone.
    return Weight(stored.shape, "F32" if stored.kind == "F64" else stored.kind, lambda: _array(stored))


def _array(stored: Stored) -> mx.array:
    values = stored.read()
    if stored.kind == "F64":
        return mx.array(values, mx.float32)
    array = mx.array(values)
    if stored.kind == "BF16":
        array = array.view(mx.bfloat16)
        mx.eval(array)
    return array
