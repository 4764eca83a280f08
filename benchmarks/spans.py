"""Where a run's time went, out of the stages in its log. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from mlxbatch.metrics import busy
from mlxbatch.report.log import Log, number
from mlxbatch.types import Span

COMPUTING = ("encode", "decode")


def stage_seconds(spans: Iterable[Span], *stages: str) -> float:
    """Seconds in which at least one of these stages was at work: where they overlap, time counts once."""
    return busy(span for span in spans if span.stage in stages).seconds


def live_share(spans: Iterable[Span], slots: int) -> float:
    """The mean share of `slots` that hold a live row while decoding, weighted by time; 0 to 1, 0 without decoding."""
    decoding = [(span.end - span.begin, span.rows) for span in spans if span.stage == "decode"]
    seconds = sum(took for took, _ in decoding)
    return sum(took * rows for took, rows in decoding) / (slots * seconds) if seconds else 0.0


def outside_seconds(wall: float, spans: Iterable[Span]) -> float:
    """Seconds of a whole process in which neither the encoder nor the decoder was at work.

    Starting Python, importing, loading the model, looking for speech and making features where nothing overlaps them,
    waiting for recordings, writing, and ending.
    """
    return wall - stage_seconds(spans, *COMPUTING)


def by_stage(wall: float, log: Log) -> Mapping[str, float]:
    """Seconds of a process by what it did. Stages that overlap count in each, so that the sum may be over `wall`.

    "start, load, end" is all that lies before the plan is made, with the model loaded, and after the log's last word;
    "rest" what is left when every stage's time is taken away once.
    """
    planned = number(log.plans[0], "t") if log.plans else None
    outer = wall - (log.seconds - (planned or 0.0))
    stages = dict.fromkeys(span.stage for span in log.spans)
    found = {stage: stage_seconds(log.spans, stage) for stage in stages}
    return {"start, load, end": outer, **found, "rest": wall - outer - stage_seconds(log.spans, *stages)}
