"""A ledger to try things on: one output root, one source file, one output."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import pytest

from mlxbatch.errors import LedgerError
from mlxbatch.ledger import Decision, Ledger, content_hash, fingerprint
from mlxbatch.types import Item, Segment, Transcript

TRANSCRIPT = Transcript((Segment(0.0, 1.5, "hello"),), "en", 1.5)


@dataclass
class Place:
    """An output root, and one source file with one output."""

    root: Path
    source: Path

    @classmethod
    def make(cls, folder: Path) -> Self:
        source = folder / "in" / "a.wav"
        source.parent.mkdir()
        source.write_bytes(b"audio")
        (folder / "out").mkdir()
        return cls(folder / "out", source)

    @property
    def item(self) -> Item:
        return Item("a", self.source, Path("a"))

    def other(self, name: str) -> Item:
        return Item(name, self.source, Path(name))

    @property
    def file(self) -> Path:
        return self.root / ".mlxbatch" / "ledger.sqlite3"

    def output(self, name: str = "a.txt", text: str = "hello") -> Path:
        (self.root / name).write_text(text)
        return self.root / name

    def done(self, **changes: Any) -> None:
        with Ledger.open(self.root) as ledger:
            self.done_in(ledger, **changes)

    def done_in(self, ledger: Ledger, **changes: Any) -> None:
        outputs = changes.pop("outputs", None) or [self.output()]
        facts: dict[str, Any] = {
            "fingerprint": fingerprint(self.source),
            "content_hash": content_hash(self.source),
            "inference_key": "i",
            "rendering_key": "txt",
            "transcript": TRANSCRIPT,
            "outputs": outputs,
            "seconds": 1.5,
        }
        ledger.done(changes.pop("item", self.item), **(facts | changes))

    def failed(self, stage: str = "decode", cause: str = "x", **how: bool) -> None:
        with Ledger.open(self.root) as ledger:
            ledger.failed(self.item, stage, cause, **how)

    def decide(self, inference: str = "i", rendering: str = "txt", *names: str, **how: bool) -> Decision:
        with Ledger.open(self.root) as ledger:
            return self.decide_in(ledger, inference, rendering, *names, **how)

    def decide_in(
        self, ledger: Ledger, inference: str = "i", rendering: str = "txt", *names: str, **how: bool
    ) -> Decision:
        outputs = [self.root / name for name in names or ("a.txt",)]
        return ledger.decide(self.item, inference.split(), rendering, outputs, **how)

    @contextmanager
    def database(self) -> Iterator[sqlite3.Connection]:
        """The file as SQLite sees it; what is changed is committed."""
        with closing(sqlite3.connect(self.file)) as database, database:
            yield database

    def value(self, query: str) -> Any:
        with self.database() as database:
            return database.execute(query).fetchone()[0]


def fill(ledger: Ledger, rows: int) -> None:
    for number in range(rows):
        ledger.failed(Item(str(number), Path("x.wav"), Path(str(number))), "decode", "x" * 50)


def damaged(place: Place) -> str:
    """What is said on opening a ledger that is damaged."""
    with pytest.raises(LedgerError) as caught:
        Ledger.open(place.root)
    message = str(caught.value)
    assert "\n" not in message
    assert f"mv {place.file} {place.file}.damaged" in message
    assert "outputs are kept, the next run does the files again" in message
    return message
