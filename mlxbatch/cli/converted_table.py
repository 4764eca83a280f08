"""Models that were converted here, as people read them and as programs do: bits a weight, size, what was lost."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from mlxbatch.convert.proof import quality
from mlxbatch.convert.proof.figures import nats, with_error
from mlxbatch.convert.proof.quality import Quality
from mlxbatch.convert.proof.ratio import Estimate
from mlxbatch.errors import UsageError, show
from mlxbatch.words import size

# Columns that model_table.table aligns by the names it knows.
HEAD = ("CONVERTED", "TASK", "BITS", "SIZE", "WER LOSS", "KL", "LICENCE", "FROM")

Made = tuple[Path, Quality]


def find(directories: Sequence[Path], cache: Path) -> list[Made]:
    """The models with a quality record in these directories, each itself or in one below it, and in the cache.

    UsageError for a directory that was named and has none.
    """
    found: dict[Path, Quality] = {}
    for directory in directories:
        own = dict(_in(directory))
        if not own:
            raise UsageError(f"{show(directory)}: no model in it that `mlxbatch convert` made (no {quality.FILE})")
        found |= own
    return list({**found, **dict(_in(cache))}.items())


def _in(directory: Path) -> Iterator[Made]:
    below = sorted(directory.iterdir()) if directory.is_dir() else []
    for path in (directory, *below):
        if path.is_dir() and (known := quality.find(path)):
            yield path, known


def rows(made: Iterable[Made]) -> Iterator[tuple[str, ...]]:
    yield HEAD
    for path, found in made:
        loss, divergence = _lost(found)
        origin = found.origin
        yield (
            show(path),
            found.task,
            f"{found.converted.bits_per_weight:.2f}",
            size(found.converted.bytes),
            with_error(loss * 100) if loss else "",
            nats(divergence.value) if divergence else "",
            show(origin.licence) if origin and origin.licence else "",
            show(origin.source) if origin else "",
        )


def record(path: Path, found: Quality) -> dict[str, Any]:
    """The same for programs; null where it was not measured. All else is in the model's quality.json."""
    loss, divergence = _lost(found)
    origin = found.origin
    return {
        "name": show(path),
        "task": found.task,
        "licence": origin.licence if origin else None,
        "on_disk": True,
        "source": origin.source if origin else None,
        "revision": origin.revision if origin else None,
        "size_bytes": found.converted.bytes,
        "bits_per_weight": found.converted.bits_per_weight,
        "wer_loss_points": _finite(loss.value * 100) if loss else None,
        "wer_loss_points_error": loss.error * 100 if loss and loss.error is not None else None,
        "kl_nats": _finite(divergence.value) if divergence else None,
    }


def _lost(found: Quality) -> tuple[Estimate | None, Estimate | None]:
    divergence = found.recognition.divergence if found.recognition else None
    return found.wer_loss, divergence.mean if divergence else None


def _finite(value: float) -> float | None:
    """JSON has nothing for what is not."""
    return value if math.isfinite(value) else None
