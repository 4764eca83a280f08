"""What another program's side is given, and what it gives back: files, since it runs in an environment of its own."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Job:
    """A model directory, the recordings, and the `way` to go through them, one of those that the side knows."""

    model: str
    paths: list[str]
    way: str


@dataclass(frozen=True, slots=True)
class Told:
    """Each recording's text by its path; `about`: versions, BLAS, number format and options, in one line."""

    texts: Mapping[str, str]
    about: str


def ask(folder: Path, job: Job) -> list[str]:
    """Leave the job in a folder; gives the arguments of the program that does it."""
    (folder / "job.json").write_text(json.dumps(asdict(job)), "utf-8")
    return [str(folder / "job.json"), str(folder / "told.json")]


def answer(work: Callable[[Job], Told]) -> None:
    """The other program's `main`: do the job that its arguments name."""
    asked, told = map(Path, sys.argv[1:3])
    done = work(Job(**json.loads(asked.read_text("utf-8"))))
    told.write_text(json.dumps({"texts": dict(done.texts), "about": done.about}), "utf-8")


def told(folder: Path) -> Told:
    """What came of a job that was left in the folder."""
    return Told(**json.loads((folder / "told.json").read_text("utf-8")))
