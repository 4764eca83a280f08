"""What is to be done for an item, and why: by its row in the ledger, its source file, and its outputs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlxbatch.content import content_hash, fingerprint
from mlxbatch.errors import show
from mlxbatch.ledger_file import Database, damage
from mlxbatch.ledger_rows import FIND, WENT_WELL, Key, Row, content_columns, key_of, row_of
from mlxbatch.stored import unpack
from mlxbatch.types import Item, Transcript


@dataclass(frozen=True, slots=True)
class Fresh:
    """Nothing to do."""

    why: str


@dataclass(frozen=True, slots=True)
class Quarantined:
    """Not to be tried: it brought the engine, or the program, down. Until its content changes, or it is asked for."""

    why: str


@dataclass(frozen=True, slots=True)
class Render:
    """The stored transcript holds; only its outputs are to be written."""

    transcript: Transcript
    why: str


@dataclass(frozen=True, slots=True)
class Infer:
    """The whole way."""

    why: str


Decision = Fresh | Quarantined | Render | Infer


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a run asks of each item. A result of any of the inference keys will do."""

    inference_keys: Sequence[str]
    rendering_key: str
    retry_quarantined: bool = False


class Decider:
    """Decides from the ledger below an output root; what it finds out about rows on the way it notes."""

    def __init__(self, database: Database, output_root: Path) -> None:
        self._database = database
        self._prefix = os.path.join(os.fsencode(output_root), b"")  # noqa: PTH118 - bytes
        # Columns of rows, to be written with the next entry.
        self.notes: list[tuple[Key, dict[str, Any]]] = []

    def decide(self, item: Item, wanted: Wanted, outputs: Sequence[Path]) -> Decision:
        """See `Ledger.decide`."""
        row = self._find(item)
        if row is None:
            return Infer("new")
        known = row.inference_key in wanted.inference_keys
        if not known and row.status != "quarantined":
            return Infer(row.failure or "options or model changed")
        try:
            same = self._same_content(item, row)
        except OSError as error:
            # Not the ledger's to report: the next stage fails on the same file, with a message of its own.
            return Infer(f"source cannot be read: {error.strerror or error}")
        if not same:
            return Infer(row.failure or "content changed")
        if not known:
            retry = wanted.retry_quarantined
            return Infer("--retry-quarantined") if retry else Quarantined(f"quarantined: {row.error}")
        why = self._why_render(row, wanted.rendering_key, outputs)
        return self._render(row, why) if why else self._fresh(item, row)

    def _find(self, item: Item) -> Row | None:
        found = self._database.fetch(FIND, key_of(item))
        try:
            return row_of(found[0]) if found else None
        except (ValueError, TypeError) as error:
            raise damage(self._database.path, f"the row of {show(item.source)}: {error}") from error

    def _same_content(self, item: Item, row: Row) -> bool:
        now = fingerprint(item.source)
        if now == row.fingerprint:
            return True
        if now.size != row.fingerprint.size or content_hash(item.source) != row.content_hash:
            return False
        # Touched or copied: the next run shall not hash it again.
        self.notes.append((key_of(item), content_columns(now, row.content_hash)))
        return True

    def _why_render(self, row: Row, rendering_key: str, outputs: Sequence[Path]) -> str | None:
        if row.rendering_key != rendering_key:
            return "formats, lines or speakers changed"
        if len(outputs) != len(row.outputs):
            return "output names changed"
        for path in outputs:
            size = row.outputs.get(self._relative(path))
            if size is None:
                return "output names changed"
            found = _size(path)
            if found != size:
                return "output missing" if found is None else "output changed"
        return None

    def _render(self, row: Row, why: str) -> Decision:
        found = self._database.fetch("SELECT result FROM results WHERE item = ?", (row.number,))
        try:
            return Render(unpack(found[0][0]), why)
        except (IndexError, ValueError, TypeError):
            return Infer("stored result is damaged")

    def _fresh(self, item: Item, row: Row) -> Decision:
        if row.status == "failed":
            # Under other options, or with other content, neither of which is asked for any more.
            self.notes.append((key_of(item), WENT_WELL))
        return Fresh(f"done on {row.done_at[:10]}")

    def output_sizes(self, outputs: Sequence[Path]) -> dict[bytes, int]:
        """Sizes in bytes by path below the root. Raises OSError where one is not there."""
        return {self._relative(path): path.stat().st_size for path in outputs}

    def _relative(self, path: Path) -> bytes:
        name = os.fsencode(path)
        if not name.startswith(self._prefix):
            raise ValueError(f"{show(path)} is not below {show(os.fsdecode(self._prefix))}")
        return name[len(self._prefix) :]


def _size(path: Path) -> int | None:
    try:
        return os.stat(path).st_size  # noqa: PTH116 - see content.fingerprint
    except OSError:
        return None
