"""A whole conversion: source to checkpoint, precision, files, reload, proof, place."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from mlxbatch.convert.checkpoint import Checkpoint
from mlxbatch.convert.layout import Layout
from mlxbatch.convert.place import Need, Place, check, need, place_for, placing, writing
from mlxbatch.convert.precision import Precision
from mlxbatch.convert.recipe import Asked, notes, precision
from mlxbatch.convert.reload import Reloaded, reload
from mlxbatch.convert.write import Progress, largest_weight, layout_of, write
from mlxbatch.errors import QualityLost, SetupError, UsageError, show
from mlxbatch.machine import peak_rss
from mlxbatch.models.one_fetch import Say
from mlxbatch.models.weights import GROUP, Shape, headers, weight_files
from mlxbatch.models.whole import check_model

if TYPE_CHECKING:
    from mlxbatch.convert.proof.clips import Clips
    from mlxbatch.convert.proof.quality import Quality

Level = Literal["quick", "full", "none"]


@dataclass(frozen=True, slots=True)
class Wanted:
    """What was asked to be proven: how thoroughly, on which recordings, and the losses that are too much."""

    level: Level = "quick"
    calibration: Path | None = None
    max_wer_loss: float | None = None
    max_kl: float | None = None


@dataclass(frozen=True, slots=True)
class Goal:
    """What the sensitivity of the layers is to be traded for: a size in bytes, or a loss in points of WER."""

    size: int | None = None
    wer_loss: float | None = None


@dataclass(frozen=True, slots=True)
class Order:
    """A conversion as it was asked for, checked as far as it can be without the model.

    With several of `asked`, each makes a model, in a directory whose name its bits are added to.
    """

    source: str
    target: Path
    asked: Sequence[Asked] = (Asked(),)
    goal: Goal | None = None
    proof: Wanted = field(default_factory=Wanted)
    revision: str | None = None
    task: str | None = None
    offline: bool = False
    force: bool = False
    break_lock: bool = False

    @property
    def targets(self) -> list[Path]:
        """Where each model goes: DIR, or of several DIR-8bit, DIR-6bit ..."""
        if len(self.asked) == 1:
            return [self.target]
        return [self.target.with_name(f"{self.target.name}-{asked.bits}bit") for asked in self.asked]


@dataclass(frozen=True, slots=True)
class Listener:
    """Who is told of a conversion: what is being done, what the user should know, and how far it is."""

    say: Say
    note: Say
    progress: Progress


@dataclass(frozen=True, slots=True)
class Model:
    """One of the models that a conversion makes."""

    place: Place
    precision: Precision
    layout: Layout


@dataclass(frozen=True, slots=True)
class Plan:
    """What is made of a checkpoint. `original`: a directory of the original that mlxbatch can load, for the proof."""

    checkpoint: Checkpoint
    models: Sequence[Model]
    original: Path | None
    need: Need

    @property
    def parameters(self) -> int:
        """Numbers in the checkpoint's weights."""
        return sum(math.prod(weight.shape) for weight in self.checkpoint.weights.values())

    @property
    def stored_bytes(self) -> int:
        """Bytes of the checkpoint's weights, as they are stored."""
        return layout_of(self.checkpoint, Precision()).tensor_bytes


@dataclass(frozen=True, slots=True)
class Result:
    """What became of a model. `peak_bytes`: what this process held at most until all models were written.

    `quality` is what its precision cost, None where that was not to be proven. `refused` says why it was not put in its
    place: it loses more than was allowed.
    """

    model: Model
    reloaded: Reloaded
    peak_bytes: int
    quality: Quality | None = None
    refused: str = ""


def preview(order: Order, listener: Listener) -> Plan:
    """What `convert` would make; nothing is fetched or written. Raises as `convert` does."""
    if order.goal:
        raise UsageError("--dry-run cannot tell the bits of a goal: for that the layers have to be measured")
    places = [place_for(target) for target in order.targets]
    for place in places:
        check(place, _local(order.source), force=order.force)
    with _opened(replace(order, offline=True), listener.say) as checkpoint:
        return _planned(order, places, checkpoint, listener, None)


def convert(order: Order, listener: Listener, done: Callable[[Plan, Result], None]) -> Plan:
    """Make each model that was asked for, prove it, and put it in its place; `done` is told of each. What was planned.

    UsageError for what does not go together, SetupError where something is missing, damaged or full, LockedError where
    another conversion works on one of the directories.
    """
    tried_on = _clips(order)
    places = [place_for(target) for target in order.targets]
    with ExitStack() as stack:
        for place in places:
            own = placing(place, _local(order.source), force=order.force, break_lock=order.break_lock)
            stack.enter_context(own)
        checkpoint = stack.enter_context(_opened(order, listener.say))
        plan = _planned(order, places, checkpoint, listener, tried_on)
        listener.say(f"the conversion {plan.need}")
        plan.need.require()
        _write(plan, places[0].target, listener)
        peak = peak_rss()
        for model in plan.models:
            done(plan, _finished(model, plan, order.proof, tried_on, listener, peak))
    return plan


def _local(source: str) -> Path | None:
    """The source as a path, where it is one: what may not be replaced."""
    path = Path(source).expanduser()
    return path if path.exists() else None


def _opened(order: Order, say: Say) -> AbstractContextManager[Checkpoint]:
    from mlxbatch.convert.sources import open_source

    return open_source(order.source, revision=order.revision, task=order.task, offline=order.offline, say=say)


# ---- what is to be made


def _planned(
    order: Order, places: Sequence[Place], checkpoint: Checkpoint, listener: Listener, tried_on: Clips | None
) -> Plan:
    if checkpoint.quantized:
        raise UsageError(f"{show(order.source)}: is quantized already; take the model that it was made from")
    original = _original(order, places[0], checkpoint)
    if order.goal is None:
        precisions = _precisions(order, checkpoint, listener)
    else:
        assert original is not None
        assert tried_on is not None
        precisions = [_for_goal(order, original, checkpoint, listener, tried_on)]
    models = [Model(place, own, layout_of(checkpoint, own)) for place, own in zip(places, precisions, strict=True)]
    copy = original is not None and original == places[0].original and not original.exists()
    layouts = [*(model.layout for model in models), *([layout_of(checkpoint, Precision())] if copy else [])]
    room = sum(layout.bytes for layout in layouts) + len(layouts) * _side_bytes(checkpoint)
    return Plan(checkpoint, models, original, need(places[0], room, largest_weight(checkpoint)))


def _original(order: Order, place: Place, checkpoint: Checkpoint) -> Path | None:
    """Where the original can be loaded from: its own directory, or one that is written for as long as it is needed."""
    if order.proof.level == "none" and order.goal is None:
        return None
    own = _local(order.source)
    return own if own is not None and _is_loadable(own, checkpoint) else place.original


def _is_loadable(directory: Path, checkpoint: Checkpoint) -> bool:
    """Whether a directory is a model as it stands, its weights by MLX's names."""
    try:
        check_model(directory)
        return set(headers(weight_files(directory))) >= set(checkpoint.weights)
    except SetupError:
        return False


def _precisions(order: Order, checkpoint: Checkpoint, listener: Listener) -> list[Precision]:
    found = []
    for asked in order.asked:
        own = precision(asked, layers_of(checkpoint), architecture=checkpoint.architecture, task=checkpoint.task)
        for note in notes(own, asked, checkpoint.task):
            listener.note(note)
        found.append(own)
    return found


def _for_goal(order: Order, original: Path, checkpoint: Checkpoint, listener: Listener, tried_on: Clips) -> Precision:
    """Bits where they count, by the sensitivity of the layers, for which the original has to be there."""
    from mlxbatch.convert.proof.conversion import Loss, Size, precision_for

    assert order.goal is not None
    if not original.exists():
        room = layout_of(checkpoint, Precision()).bytes + _side_bytes(checkpoint)
        need(place_for(order.target), room, largest_weight(checkpoint)).require()
        with writing(order.target):
            write(checkpoint, {original: Precision()}, listener.progress)
    (asked,) = order.asked
    goal = Loss(order.goal.wer_loss or 0.0) if order.goal.size is None else Size(order.goal.size)
    level: Level = "quick" if order.proof.level == "none" else order.proof.level
    found, _ = precision_for(
        goal,
        original,
        tried_on,
        level,
        layers=checkpoint.layers,
        group_size=asked.group_size or GROUP,
        dtype=asked.dtype or "float16",
        say=listener.say,
    )
    return found


def layers_of(checkpoint: Checkpoint) -> dict[str, Shape]:
    """The shape of the matrix of each layer that can be quantized, in the checkpoint's order."""
    shapes = {name.removesuffix(".weight"): weight.shape for name, weight in checkpoint.weights.items()}
    return {layer: shape for layer, shape in shapes.items() if layer in checkpoint.layers}


def _side_bytes(checkpoint: Checkpoint) -> int:
    files = checkpoint.files.values()
    return sum(content.stat().st_size if isinstance(content, Path) else len(content) for content in files)


# ---- making it


def _write(plan: Plan, target: Path, listener: Listener) -> None:
    models = {model.place.made: model.precision for model in plan.models}
    if plan.original is not None and not plan.original.exists():
        models[plan.original] = Precision()
    with writing(target):
        write(plan.checkpoint, models, listener.progress)


def _finished(
    model: Model, plan: Plan, wanted: Wanted, tried_on: Clips | None, listener: Listener, peak: int
) -> Result:
    """The model loaded, proven, and in its place; one that loses more than was allowed is left to be removed."""
    listener.say(f"{show(model.place.target)}: loading and running it in a fresh process")
    reloaded = reload(model.place.made)
    try:
        quality = _proven(model, plan, wanted, tried_on, listener)
    except QualityLost as error:
        return Result(model, reloaded, peak, refused=str(error))
    model.place.land()
    return Result(model, reloaded, peak, quality)


# ---- the proof


def _clips(order: Order) -> Clips | None:
    """What the models are tried on; None where they are not to be. UsageError where the texts cannot tell a limit."""
    if order.proof.level == "none" and order.goal is None:
        return None
    from mlxbatch.convert.proof.conversion import clips_of, foresee
    from mlxbatch.convert.proof.gates import Gates

    found = clips_of(order.proof.calibration)
    foresee(found, order.proof.level, Gates(order.proof.max_wer_loss, order.proof.max_kl))
    return found


def _proven(model: Model, plan: Plan, wanted: Wanted, tried_on: Clips | None, listener: Listener) -> Quality | None:
    """What the model's precision cost, measured and written beside its weights; None where it is not to be proven.

    QualityLost where it costs more than was allowed.
    """
    if plan.original is None or tried_on is None or wanted.level == "none":
        return None
    from mlxbatch.convert.proof.conversion import proven
    from mlxbatch.convert.proof.gates import Gates

    listener.say(f"{show(model.place.target)}: comparing it with the original ({wanted.level})")
    return proven(
        plan.original,
        model.place.made,
        tried_on,
        wanted.level,
        Gates(wanted.max_wer_loss, wanted.max_kl),
        task=plan.checkpoint.task,
        origin=plan.checkpoint.origin,
        chosen=model.precision,
        say=listener.say,
    )
