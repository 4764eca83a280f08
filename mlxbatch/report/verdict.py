"""How the night went: one sentence, one more about speed, and the key figures. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from mlxbatch.report.content import Report
from mlxbatch.report.figures import Figures
from mlxbatch.words import elapsed, minutes, share, size

Tone = Literal["good", "fair", "bad", "open"]
# How far from the median is as good as the same.
_SAME = 0.02
# An error's class leads what was written down; the sentence does without.
_CLASS = re.compile(r"^[A-Za-z]+: ")


@dataclass(frozen=True, slots=True)
class Verdict:
    """`tone`: good, fair (something failed, is left or in quarantine), bad (no end was come to), open (not ended)."""

    tone: Tone
    sentence: str
    detail: str


@dataclass(frozen=True, slots=True)
class KeyFigure:
    label: str
    value: str
    note: str


def verdict(report: Report) -> Verdict:
    return Verdict(tone(report), _sentence(report), _detail(report))


def tone(report: Report) -> Tone:
    run, figures = report.run, report.run.figures
    if run.state == "finished":
        return "fair" if figures.failed or figures.left or figures.quarantined else "good"
    return "bad" if run.state in ("killed", "stopped") else "open"


def _sentence(report: Report) -> str:
    run, figures = report.run, report.run.figures
    after = f" after {elapsed(figures.wall_seconds)}" if figures.wall_seconds else ""
    counts = _counts(figures) if figures.known else "its log has been removed, and how far it came is not known"
    match run.state:
        case "finished":
            return _finished(figures)
        case "stopped":
            return f"The run was stopped{after} ({_CLASS.sub('', run.outcome) or 'no reason given'}): {counts}."
        case "killed":
            return f"The run was killed{after}: {counts}."
        case "going on":
            return f"The run is going on{after}: {counts} so far."
    return f"The run has no end: it was killed, or is going on in {report.holder}; {counts}."


def _finished(figures: Figures) -> str:
    if not figures.items:
        return "There was nothing to do: no files were found."
    if not figures.worked:
        return f"There was nothing to do: {_files(figures.skipped)} skipped{_quarantined(figures)}."
    counts = _counts(figures)
    return f"{counts[0].upper()}{counts[1:]}."


def _counts(figures: Figures) -> str:
    """ "2,959 of 3,000 files are done; 41 failed; 12 more were skipped, 2 are quarantined" """
    worked = figures.worked
    if worked is None:
        told = f"{_files(figures.done)} {'is' if figures.done == 1 else 'are'} done"
    elif figures.done == worked:
        told = "the one file is done" if worked == 1 else f"all {_files(worked)} are done" if worked else "nothing done"
    else:
        told = f"{figures.done:,} of {_files(worked)} {'is' if figures.done == 1 else 'are'} done"
    parts = [f"{figures.failed:,} failed"] if figures.failed else []
    parts += [f"{figures.left:,} {'is' if figures.left == 1 else 'are'} left"] if figures.left else []
    parts += ["how many are left is not known"] if figures.left is None else []
    told += f"; {', '.join(parts)}" if parts else ""
    told += f"; {figures.skipped:,} more skipped" if figures.skipped else ""
    return told + _quarantined(figures)


def _quarantined(figures: Figures) -> str:
    return f", {figures.quarantined:,} quarantined" if figures.quarantined else ""


def _files(number: int) -> str:
    return f"{number:,} file" if number == 1 else f"{number:,} files"


def _detail(report: Report) -> str:
    """How long and how fast, beside what is usual; "" where no audio was worked on."""
    figures = report.run.figures
    if not (figures.audio_seconds and figures.wall_seconds and figures.rtfx):
        return ""
    took = f"{minutes(figures.audio_seconds)} of audio in {elapsed(figures.wall_seconds)} is RTFx {figures.rtfx:.1f}"
    usual = report.against.get("rtfx")
    if usual is None:
        return f"{took}; there is no earlier run with the same model and profile to compare it with."
    runs = f"the median of {usual.runs} earlier runs" if usual.runs > 1 else "the one earlier run"
    return f"{took}: {_pace(usual.ratio)} {runs} with the same model and profile."


def _pace(ratio: float) -> str:
    if abs(ratio - 1) <= _SAME:
        return "as fast as"
    return f"{share(ratio - 1)} faster than" if ratio > 1 else f"{share(1 - ratio)} slower than"


def key_figures(report: Report) -> list[KeyFigure]:
    """What the first screen shows; figures that are not known are left out."""
    figures = report.run.figures
    if not figures.known:
        return []
    of = "" if figures.worked is None else f" of {figures.worked:,}"
    found = [KeyFigure("Files done", f"{figures.done:,}", f"{figures.failed:,} failed{of}")]
    if figures.rtfx:
        found.append(KeyFigure("Speed, RTFx", f"{figures.rtfx:.1f}", _usual(report, "rtfx", "{:.1f}".format)))
    if figures.wall_seconds:
        audio = f"for {minutes(figures.audio_seconds)} of audio" if figures.audio_seconds else "no audio worked on"
        found.append(KeyFigure("Time", elapsed(figures.wall_seconds), audio))
    if figures.p95 is not None:
        found.append(KeyFigure("A window, p95", f"{figures.p95:.2f} s", _usual(report, "p95", "{:.2f} s".format)))
    if figures.peak_bytes:
        usual = _usual(report, "peak_bytes", lambda peak: size(round(peak)))
        of_limit = f"{share(figures.peak_bytes / report.limit)} of the limit" if report.limit else usual
        found.append(KeyFigure("Peak memory", size(round(figures.peak_bytes)), of_limit))
    if figures.cpu is not None:
        gpu = f"GPU {share(figures.gpu)}" if figures.gpu is not None else "of all cores, by this run"
        found.append(KeyFigure("CPU", share(figures.cpu), gpu))
    return found


def _usual(report: Report, name: str, told: Callable[[float], str]) -> str:
    usual = report.against.get(name)
    return f"usually {told(usual.median)}" if usual is not None else "nothing to compare with"
