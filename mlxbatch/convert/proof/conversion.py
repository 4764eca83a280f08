"""What the converter asks of the proof: whether texts suffice, a precision for a goal, a proven directory."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

from mlxbatch.convert.origin import Origin
from mlxbatch.convert.precision import Dtype, Precision
from mlxbatch.convert.proof import card, quality
from mlxbatch.convert.proof.allocation import Allocation, Sensitivity, fitting, precision, smallest
from mlxbatch.convert.proof.clips import Clips, calibration, shipped
from mlxbatch.convert.proof.figures import with_error
from mlxbatch.convert.proof.gates import Gates
from mlxbatch.convert.proof.hearing import profile_spec
from mlxbatch.convert.proof.loss import Losses
from mlxbatch.convert.proof.prove import prove
from mlxbatch.convert.proof.quality import Level, Quality
from mlxbatch.convert.proof.recognition import reference_words
from mlxbatch.convert.proof.sensitivity import sensitivity
from mlxbatch.convert.proof.sentences import sentences_for, words
from mlxbatch.engines.families import FAMILIES
from mlxbatch.errors import UsageError, show
from mlxbatch.models.weights import GROUP
from mlxbatch.words import size
from mlxbatch.writers.files import write_outputs

Say = Callable[[str], None]


def clips_of(source: Path | None) -> Clips:
    """Those of --calibration, else those that come along. Raises UsageError."""
    return shipped() if source is None else calibration(source)


def foresee(clips: Clips, level: Level, gates: Gates, architecture: str = "whisper") -> None:
    """UsageError where it cannot be told of such a model whether limits are kept: to be asked before work begins."""
    if gates.max_kl is not None and architecture != "whisper":
        raise UsageError("--max-kl: next-token distributions are measured of Whispers only")
    if gates.max_wer_loss is None:
        return
    if architecture == "kokoro":
        gates.foresee(words(sentences_for(level)))
    elif architecture in FAMILIES:
        gates.foresee(reference_words(clips.sounds(level)))
    else:
        raise UsageError(f"--max-wer-loss: there are no words to measure of a {show(architecture)} model")


def proven(
    original: Path,
    made: Path,
    clips: Clips,
    level: Level,
    gates: Gates,
    *,
    task: str,
    origin: Origin | None,
    chosen: Precision,
    say: Say = lambda text: None,
) -> Quality:
    """Prove a directory that was made, and leave quality.json and README.md in it, limits kept or not.

    Raises QualityLost where a limit is exceeded, UsageError where that cannot be told; else as `prove`.
    """
    found = prove(original, made, clips, level, task=task, origin=origin, dtype=chosen.dtype, kept=chosen.kept, say=say)
    quality.write(found, made)
    write_outputs({made / card.FILE: card.card(found)}, made)
    gates.judge(found)
    return found


@dataclass(frozen=True, slots=True)
class Size:
    """Weights of at most so many bytes."""

    bytes: int


@dataclass(frozen=True, slots=True)
class Loss:
    """A word error rate of at most so many points more, by one standard error."""

    points: float


def precision_for(
    goal: Size | Loss,
    original: Path,
    clips: Clips,
    level: Level,
    *,
    layers: Collection[str] | None = None,
    group_size: int = GROUP,
    dtype: Dtype = "float16",
    say: Say = lambda text: None,
) -> tuple[Precision, Sensitivity]:
    """Bits by the sensitivity of the original's layers: the least divergence in a size, or the least size for a loss.

    A loss is measured, at some of the sizes on the way, with room for one standard error: so the proof of what is made,
    on the same clips, finds a gate of the same limit kept.

    Raises UsageError where the size cannot be had or the texts are too short to tell the loss, and as `sensitivity`.
    """
    if isinstance(goal, Loss):
        foresee(clips, level, Gates(max_wer_loss=goal.points))
    spec = profile_spec()
    found = sensitivity(original, clips, level, spec=spec, layers=layers, group_size=group_size, dtype=dtype, say=say)
    if isinstance(goal, Size):
        return precision(found, fitting(found, goal.bytes)), found
    losses = Losses(original, clips.sounds(level), spec, found)

    def kept(allocation: Allocation) -> bool:
        loss = losses.at(allocation)
        say(f"{size(allocation.bytes)}: {with_error(loss * 100)} points of word error rate lost")
        return 100 * (loss.value + (loss.error or 0.0)) <= goal.points

    return precision(found, smallest(found, kept)), found
