"""What a conversion tells: the table at its end, and records for programs."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from mlxbatch.errors import show
from mlxbatch.words import size

if TYPE_CHECKING:
    from mlxbatch.convert.run import Model, Plan, Result

HEAD = ("MODEL", "SIZE", "SHARE", "BITS/WEIGHT", "LAYERS", "FULL")


def rows(plan: Plan, models: Iterable[Model]) -> Iterator[tuple[str, ...]]:
    """The original, and each of the models made of it."""
    stored = plan.stored_bytes
    yield HEAD
    yield (show(plan.checkpoint.origin.source), size(stored), "", _per_weight(stored, plan.parameters), "", "")
    for model in models:
        yield _row(model, plan)


def _row(model: Model, plan: Plan) -> tuple[str, ...]:
    own = model.layout.tensor_bytes
    return (
        show(model.place.target),
        size(own),
        f"{own / plan.stored_bytes:.0%}",
        _per_weight(own, plan.parameters),
        _layers(model),
        str(len(model.precision.kept)),
    )


def _layers(model: Model) -> str:
    """How many layers have which bits: "56 x 8, 97 x 4"; the dtype alone where none is quantized."""
    counts = Counter(form.bits for form in model.precision.packed.values())
    return ", ".join(f"{count} x {bits}" for bits, count in sorted(counts.items(), reverse=True)) or "not quantized"


def _per_weight(number: int, parameters: int) -> str:
    return f"{bits_per_weight(number, parameters):.2f}"


def bits_per_weight(number: int, parameters: int) -> float:
    """Bits that a weight takes on average, scales and layers that stay full counted in."""
    return 8 * number / parameters if parameters else math.nan


def kept_lines(model: Model) -> Iterator[str]:
    """A line for each reason that layers are kept full, with the layers."""
    reasons: dict[str, list[str]] = {}
    for layer, why in model.precision.kept.items():
        reasons.setdefault(why, []).append(layer)
    for why, names in reasons.items():
        yield f"kept full, because {why}: {', '.join(names)}"


def plan_record(model: Model, plan: Plan) -> dict[str, Any]:
    """What would be made, in bytes."""
    return {
        "event": "plan",
        **_about(model, plan),
        "disk_bytes": plan.need.disk,
        "disk_free_bytes": plan.need.disk_free,
        "memory_bytes": plan.need.memory,
        "memory_free_bytes": plan.need.memory_free,
    }


def result_record(result: Result, plan: Plan, seconds: float) -> dict[str, Any]:
    """What became of a model, `seconds` after the conversion began."""
    return {
        "event": "refused" if result.refused else "converted",
        **_about(result.model, plan),
        "refused": result.refused or None,
        "ran": result.reloaded.ran,
        "ran_as": result.reloaded.form or None,
        "not_run": result.reloaded.why or None,
        "quality": _quality(result),
        "seconds": round(seconds, 3),
        "peak_bytes": result.peak_bytes,
    }


def _quality(result: Result) -> dict[str, Any] | None:
    """As quality.json has it."""
    if result.quality is None:
        return None
    from mlxbatch.convert.proof.quality import text

    record: dict[str, Any] = json.loads(text(result.quality))
    return record


def _about(model: Model, plan: Plan) -> dict[str, Any]:
    checkpoint, own = plan.checkpoint, model.layout.tensor_bytes
    return {
        "path": show(model.place.target),
        "source": show(checkpoint.origin.source),
        "revision": checkpoint.origin.revision,
        "licence": checkpoint.origin.licence,
        "architecture": checkpoint.architecture,
        "task": checkpoint.task,
        "parameters": plan.parameters,
        "original": {
            "weight_bytes": plan.stored_bytes,
            "bits_per_weight": round(bits_per_weight(plan.stored_bytes, plan.parameters), 3),
        },
        "weight_bytes": own,
        "bits_per_weight": round(bits_per_weight(own, plan.parameters), 3),
        "dtype": model.precision.dtype,
        "layers": {name: asdict(form) for name, form in model.precision.packed.items()},
        "kept": dict(model.precision.kept),
    }
