"""Limits that a converted model must keep, or it is not put in place. Pure.

A limit is judged only where the clips can tell: they are too few where one word of theirs is more than the limit, and
where what was measured lies within its own standard error of the limit, on either side. (On the right side of the
limit by one standard error or more, the truth is on the wrong side with a probability of 16 % at most.)
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from mlxbatch.convert.proof.quality import Quality
from mlxbatch.convert.proof.ratio import Estimate
from mlxbatch.errors import QualityLost, UsageError

_MORE = "give more recordings with texts (--calibration DIR or manifest, --verify full), or a higher limit"


@dataclass(frozen=True, slots=True)
class Gates:
    """At most so many points (hundredths) of word error rate lost, at most so many nats a token; None: no limit."""

    max_wer_loss: float | None = None
    max_kl: float | None = None

    def __post_init__(self) -> None:
        for option, limit in (("--max-wer-loss", self.max_wer_loss), ("--max-kl", self.max_kl)):
            if limit is not None and not 0 < limit < math.inf:
                raise UsageError(f"{option} is a number over 0, not {limit:g}")

    def foresee(self, words: int) -> None:
        """UsageError where texts of so many words cannot tell a loss as small as the limit: to be asked before work."""
        if self.max_wer_loss is not None and self.max_wer_loss * words < 100:
            needed = math.ceil(100 / self.max_wer_loss)
            raise UsageError(
                f"--max-wer-loss {self.max_wer_loss:g}: the clips' texts have {words} words, of which one is more than "
                f"that limit; it takes {needed} and more: {_MORE}"
            )

    def judge(self, quality: Quality) -> None:
        """QualityLost where a limit is exceeded; UsageError where that cannot be told, or was not measured."""
        found = quality.recognition
        if self.max_wer_loss is not None:
            self.foresee(quality.words)
            loss = quality.wer_loss
            _judge("--max-wer-loss", self.max_wer_loss, loss and loss * 100, "points of word error rate")
        if self.max_kl is not None:
            divergence = found.divergence if found else None
            _judge("--max-kl", self.max_kl, divergence.mean if divergence else None, "nats a token")


def _judge(option: str, limit: float, found: Estimate | None, unit: str) -> None:
    if found is None:
        raise UsageError(f"{option}: not measured of this model, so the limit cannot be kept")
    if found.error is None and math.isfinite(found.value):
        raise UsageError(f"{option} {limit:g}: one clip alone does not tell how sure its {unit} are: {_MORE}")
    error = found.error or 0.0
    if abs(found.value - limit) < error:
        raise UsageError(
            f"{option} {limit:g}: {found.value:.4g} ± {error:.2g} {unit} were measured, too near to the limit to tell: "
            f"{_MORE}"
        )
    if not found.value <= limit:
        raise QualityLost(
            f"{option} {limit:g}: the converted model loses {found.value:.4g} ± {error:.2g} {unit}; nothing was written"
        )
