"""Failures that are alike, put together: causes without the names and numbers that tell them apart. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from mlxbatch.errors import show
from mlxbatch.report.figures import is_quarantined
from mlxbatch.report.log import Facts, text

# In this order: a path may hold numbers and be in quotes.
_PATTERNS = (
    (re.compile(r"""(?:(?<=[\s'"(\[=:<])|^)(?:[A-Za-z]:)?[\w.~@+\\-]*/[^\s'")\]>,;:]*"""), "PATH"),
    (re.compile(r"\b0[xX][0-9a-fA-F]+\b"), "N"),
    (re.compile(r"\b(?=[0-9a-f]*[0-9])(?=[0-9a-f]*[a-f])[0-9a-f]{8,}\b"), "N"),
    (re.compile(r"(?<![\w.])[-+]?\d+(?:[.,:]\d+)*(?:[eE][-+]?\d+)?"), "N"),
)


@dataclass(frozen=True, slots=True)
class Failure:
    """One file that failed in this run."""

    source: str
    stage: str
    error: str
    quarantined: bool = False


@dataclass(frozen=True, slots=True)
class Cause:
    """Failures of one stage whose causes are alike; `text` is theirs where it is the same, else what they share."""

    stage: str
    text: str
    failures: tuple[Failure, ...]


def failures_of(items: Iterable[Facts], summary: Iterable[Facts]) -> tuple[Failure, ...]:
    """Of the log's items, and where there are none (the log has been removed) of the summary's list."""
    found = [_failure(item, "source") for item in items if item.get("status") == "failed"]
    return tuple(found or [_failure(entry, "path") for entry in summary])


def _failure(facts: Facts, source: str) -> Failure:
    return Failure(text(facts, source), text(facts, "stage"), text(facts, "error"), is_quarantined(facts))


def causes(failures: Sequence[Failure]) -> tuple[Cause, ...]:
    """The failures by cause, the most frequent first, then by name."""
    groups: dict[tuple[str, str], list[Failure]] = {}
    for failure in failures:
        groups.setdefault((failure.stage, alike(failure)), []).append(failure)
    found = [Cause(stage, _title(shared, group), tuple(group)) for (stage, shared), group in groups.items()]
    return tuple(sorted(found, key=lambda cause: (-len(cause.failures), cause.stage, cause.text)))


def _title(shared: str, group: Sequence[Failure]) -> str:
    texts = {failure.error for failure in group}
    return texts.pop() if len(texts) == 1 else shared


def alike(failure: Failure) -> str:
    """A cause without what is its own: the file's name becomes FILE, other paths PATH, numbers N."""
    shared = failure.error
    for name in (failure.source, PurePath(failure.source).name):
        shared = shared.replace(name, "FILE") if len(name) > 1 else shared
    for pattern, word in _PATTERNS:
        shared = pattern.sub(word, shared)
    return show(" ".join(shared.split()))
