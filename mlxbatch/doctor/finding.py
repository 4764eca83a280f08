"""What a check gives, and what it is asked about."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from mlxbatch.errors import UsageError

if TYPE_CHECKING:
    from mlxbatch.profile import Loaded

# "note" is worth knowing, "warning" may spoil a run some day, with a "problem" the next run fails.
Level = Literal["ok", "note", "warning", "problem"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the doctor's: `remedy` is a command or a sentence, empty where nothing is to be done."""

    level: Level
    topic: str
    what: str
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class Case:
    """The run that is to work: its output root and inputs, its profile, model and preset as flags."""

    output: Path | None = None
    inputs: tuple[Path, ...] = ()
    profile: str | None = None
    model: str | None = None
    preset: str | None = None


Check = Callable[[Case], Iterator[Finding]]


def settings(case: Case) -> Loaded:
    """The profile of the case's run. Raises UsageError where it is not right."""
    from mlxbatch.profile import load

    return load(case.profile, preset=case.preset, overrides={"transcribe.model": case.model})


def settings_if_right(case: Case) -> Loaded | None:
    """For the checks that go on without a profile: that it is wrong is another check's finding."""
    with suppress(UsageError):
        return settings(case)
    return None


def nearest_there(path: Path) -> Path:
    """The path itself where it is there, else the nearest directory above it that is."""
    absolute = path.absolute()
    # os.path, as Path's own raises where a directory above may not be searched.
    return next((place for place in (absolute, *absolute.parents) if os.path.exists(place)), absolute)  # noqa: PTH110
