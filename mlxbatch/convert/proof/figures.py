"""A quality record's figures as people read them: original and converted side by side. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from mlxbatch.convert.proof.quality import Divergence, Quality, Recognition, Separation, Speed, Synthesis
from mlxbatch.convert.proof.ratio import Estimate
from mlxbatch.words import elapsed, size

HEAD = ("", "original", "converted")


@dataclass(frozen=True, slots=True)
class Row:
    """One figure of both; of some there is only one, which is then that of the converted model."""

    name: str
    original: str
    converted: str


def rows(found: Quality) -> list[Row]:
    """All figures that a record has, the most telling ones."""
    first, second = found.original, found.converted
    told = [
        Row("size", size(first.bytes), size(second.bytes)),
        Row("bits a weight", f"{first.bits_per_weight:.2f}", f"{second.bits_per_weight:.2f}"),
    ]
    told += _recognition(found.recognition) if found.recognition else []
    told += _synthesis(found.synthesis) if found.synthesis else []
    told += _separation(found.separation) if found.separation else []
    told += _speed(found.speed_original, found.speed_converted)
    return told


def plain(found: Quality) -> Iterator[str]:
    """The figures as aligned lines of text, and below them what was not measured."""
    cells = [HEAD, *((row.name, row.original, row.converted) for row in rows(found))]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for name, original, converted in cells:
        yield f"{name:<{widths[0]}}  {original:>{widths[1]}}  {converted:>{widths[2]}}".rstrip()
    for what in found.not_measured:
        yield f"not measured: {what}"


def with_error(found: Estimate, digits: int = 2) -> str:
    """ "0.31 ± 0.12"; "0.31 ± ?" where its error is not known."""
    if not math.isfinite(found.value):
        return "not finite"
    error = "?" if found.error is None else f"{found.error:.{digits}f}"
    return f"{found.value:.{digits}f} ± {error}"


def nats(value: float) -> str:
    """A divergence, with digits enough for one that is small."""
    return f"{value:.4g}" if math.isfinite(value) else "not finite"


def percent(share: float) -> str:
    return f"{100 * share:.2f} %" if math.isfinite(share) else "not finite"


def _recognition(found: Recognition) -> Iterator[Row]:
    if found.wer is not None:
        yield Row("word error rate", percent(found.wer.original), percent(found.wer.converted))
    if found.cer is not None:
        yield Row("character error rate", percent(found.cer.original), percent(found.cer.converted))
    if found.wer_loss is not None:
        yield Row("loss, points", "", with_error(found.wer_loss * 100))
    yield Row("texts that changed", "", f"{found.changed} of {found.clips}")
    if found.failed:
        yield Row("clips that failed", "", f"{found.failed} of {found.clips}")
    if found.divergence is not None:
        yield from _divergence(found.divergence)


def _divergence(found: Divergence) -> Iterator[Row]:
    error = "?" if found.mean.error is None else f"{found.mean.error:.2g}"
    yield Row("KL divergence, nats a token", "", f"{nats(found.mean.value)} ± {error}")
    yield Row("  median", "", nats(found.median))
    for name, value in found.quantiles.items():
        yield Row(f"  {name} %", "", nats(value))
    yield Row("  largest", "", nats(found.largest))
    yield Row("same likeliest token", "", f"{with_error(found.same_top * 100)} %")


def _synthesis(found: Synthesis) -> Iterator[Row]:
    if found.wer is not None:
        yield Row(f"word error rate to {found.heard_by}", percent(found.wer.original), percent(found.wer.converted))
    if found.wer_loss is not None:
        yield Row("loss, points", "", with_error(found.wer_loss * 100))
    yield Row("duration, of the original's", "", with_error(found.duration, 3))
    yield Row("log-spectral distance", "", decibels(found.distance))
    if found.likeness is not None:
        yield Row("likeness of the voices (cosine)", "", f"{found.likeness:.4f}")


def _separation(found: Separation) -> Iterator[Row]:
    yield Row("SI-SDR against clean speech", decibels(found.clean.original), decibels(found.clean.converted))
    yield Row("SI-SDR against the original's", "", decibels(found.between))


def decibels(value: float) -> str:
    return f"{value:.2f} dB" if math.isfinite(value) else "the same" if value > 0 else "not finite"


def _speed(first: Speed | None, second: Speed | None) -> Iterator[Row]:
    if first is None or second is None:
        return
    yield Row("seconds", elapsed(first.seconds), elapsed(second.seconds))
    yield Row("audio a second (RTFx)", f"{first.rtfx:.2f}", f"{second.rtfx:.2f}")
    yield Row("peak memory", size(first.peak_bytes), size(second.peak_bytes))
    yield Row("computed in", first.arithmetic, second.arithmetic)
