"""What has been done under an output root: one SQLite row per item, in `OUT/.mlxbatch/ledger.sqlite3`.

One process writes (`mlxbatch.lock` sees to that), others may read. A row is one committed transaction, so a kill costs
the items in flight and no more. A lost machine (power) may also cost the last rows before it, whose items are then done
again: WAL with synchronous=NORMAL keeps the file whole, not its last moments.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Self

from mlxbatch.errors import MlxBatchError, SetupError, show
from mlxbatch.ledger_file import FILE, file_errors, open_file
from mlxbatch.state import state_folder
from mlxbatch.stored import inference_key as inference_key
from mlxbatch.stored import pack, unpack
from mlxbatch.stored import rendering_key as rendering_key
from mlxbatch.stored import transcript_from_json as transcript_from_json
from mlxbatch.stored import transcript_to_json as transcript_to_json
from mlxbatch.types import Item, Transcript

_BLOCK = 1 << 20

Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What the file system says of a file: while it is the same, so is the content."""

    size: int
    mtime_ns: int
    inode: int


@dataclass(frozen=True, slots=True)
class Fresh:
    """Nothing to do."""

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


Decision = Fresh | Render | Infer


@dataclass(slots=True)
class _Row:
    """An item's row without its result, kept in memory: a decision on a fresh item asks the disk for stats alone."""

    fingerprint: Fingerprint
    content_hash: str
    inference_key: str
    rendering_key: str
    status: str
    error: str
    finished_at: str
    outputs: dict[bytes, int]


def fingerprint(path: Path) -> Fingerprint:
    """Raises OSError where the file cannot be reached."""
    found = os.stat(path)  # noqa: PTH116 - half of Path.stat's time, on tens of thousands of files
    return Fingerprint(found.st_size, found.st_mtime_ns, found.st_ino)


def content_hash(path: Path) -> str:
    """BLAKE2b-256 of a file's bytes, in hex. Raises OSError where it cannot be read."""
    digest = hashlib.blake2b(digest_size=32)
    with path.open("rb", buffering=0) as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


class Ledger:
    """The open ledger of one output root; see `Ledger.open`. Belongs to the thread that opened it."""

    def __init__(self, path: Path, output_root: Path, database: sqlite3.Connection) -> None:
        self.path = path
        self._database = database
        self._prefix = os.path.join(os.fsencode(output_root), b"")  # noqa: PTH118 - bytes
        self._run_id: str | None = None
        self._closed = False
        self._touched: list[tuple[Key, Fingerprint]] = []
        self._rows = self._read_rows()

    @classmethod
    def open(cls, output_root: Path) -> Self:
        """Open the ledger, or begin one.

        LedgerError: damaged, or written by a newer version. SetupError: not writable, disk full. LockedError: another
        program holds the database itself.
        """
        path = state_folder(output_root) / FILE
        with file_errors(path):
            database = open_file(path)
            try:
                return cls(path, output_root, database)
            except BaseException:
                database.close()
                raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # After an error that is the one to be told, whatever else the same disk does to the ledger.
        with suppress(MlxBatchError) if error is not None else nullcontext():
            self.close()

    def close(self) -> None:
        """Write what is pending and close the file. More than once is fine."""
        if self._closed:
            return
        self._closed = True
        try:
            if self._touched:
                with self._transaction():
                    self._flush_touched()
            with file_errors(self.path):
                # SQLite would do it while it closes, and say nothing where the disk is full.
                self._database.execute("PRAGMA wal_checkpoint(PASSIVE)")
        finally:
            self._database.close()

    # --- questions ---------------------------------------------------------------------------------------------------

    def decide(self, item: Item, inference_key: str, rendering_key: str, outputs: Sequence[Path]) -> Decision:
        """What is to be done for an item, cheapest question first; content is read only where the stat has changed.

        `outputs` are all files the item should have, each below the output root as it was given to `open`.
        """
        row = self._rows.get(_key(item))
        if row is None:
            return Infer("new")
        if row.status == "failed":
            return Infer(f"failed before: {row.error}")
        if row.inference_key != inference_key:
            return Infer("options or model changed")
        try:
            same = self._same_content(item, row)
        except OSError as error:
            # Not the ledger's to report: the next stage fails on the same file, with a message of its own.
            return Infer(f"source cannot be read: {error.strerror or error}")
        if not same:
            return Infer("content changed")
        why = self._why_render(row, rendering_key, outputs)
        return self._render(item, why) if why else Fresh(f"done on {row.finished_at[:10]}")

    def _same_content(self, item: Item, row: _Row) -> bool:
        now = fingerprint(item.source)
        if now == row.fingerprint:
            return True
        if now.size != row.fingerprint.size or content_hash(item.source) != row.content_hash:
            return False
        # Touched or copied: the next run shall not hash it again.
        row.fingerprint = now
        self._touched.append((_key(item), now))
        return True

    def _why_render(self, row: _Row, rendering_key: str, outputs: Sequence[Path]) -> str | None:
        if row.rendering_key != rendering_key:
            return "formats changed"
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

    def _render(self, item: Item, why: str) -> Decision:
        with file_errors(self.path):
            query = "SELECT result FROM items WHERE task = ? AND id = ?"
            (blob,) = self._database.execute(query, _key(item)).fetchone()
        try:
            return Render(unpack(blob), why)
        except (ValueError, TypeError):
            return Infer("stored result is damaged")

    # --- entries -----------------------------------------------------------------------------------------------------

    def begin_run(self, run_id: str, facts: Mapping[str, object]) -> None:
        """Rows written from here on belong to this run; `facts` is what JSON can hold: command, model, versions."""
        with self._transaction():
            entry = (run_id, _now(), json.dumps(facts, sort_keys=True))
            self._database.execute("INSERT INTO runs (id, started_at, facts) VALUES (?, ?, ?)", entry)
        self._run_id = run_id

    def end_run(self, run_id: str, outcome: Mapping[str, object]) -> None:
        """How the run ended; a run without an end was killed."""
        with self._transaction():
            entry = (_now(), json.dumps(outcome, sort_keys=True), run_id)
            self._database.execute("UPDATE runs SET ended_at = ?, outcome = ? WHERE id = ?", entry)

    def done(
        self,
        item: Item,
        *,
        fingerprint: Fingerprint,
        content_hash: str,
        inference_key: str,
        rendering_key: str,
        transcript: Transcript,
        outputs: Sequence[Path],
        seconds: float,
    ) -> None:
        """Write down an item whose outputs are all in place; committed on return.

        `fingerprint` and `content_hash` are from before the file was decoded, so that a change meanwhile shows in the
        next run. `seconds` is the recording's length.
        """
        sizes = self._output_sizes(outputs)
        row = _Row(fingerprint, content_hash, inference_key, rendering_key, "done", "", _now(), sizes)
        self._put(item, row, result=pack(transcript), seconds=seconds)

    def rendered(self, item: Item, rendering_key: str, outputs: Sequence[Path]) -> None:
        """New outputs of a stored result are in place, after a `Render`; committed on return."""
        row = self._rows[_key(item)]
        sizes = self._output_sizes(outputs)
        with self._transaction():
            self._flush_touched()
            query = "UPDATE items SET rendering_key = ? WHERE task = ? AND id = ?"
            self._database.execute(query, (rendering_key, *_key(item)))
            self._put_outputs(item, sizes)
        row.rendering_key, row.outputs = rendering_key, sizes

    def failed(self, item: Item, stage: str, cause: str) -> None:
        """Write down an item that could not be done; the next run tries it again. Committed on return."""
        row = _Row(Fingerprint(0, 0, 0), "", "", "", "failed", f"{stage}: {cause}", _now(), {})
        self._put(item, row, stage=stage, error=cause)

    def _put(
        self,
        item: Item,
        row: _Row,
        *,
        result: bytes | None = None,
        seconds: float | None = None,
        stage: str | None = None,
        error: str | None = None,
    ) -> None:
        mark = row.fingerprint
        entry = (
            *_key(item), os.fsencode(item.source), mark.size, mark.mtime_ns, _signed(mark.inode), row.content_hash,
            row.inference_key, row.rendering_key, result, row.status, _plain(stage), _plain(error), seconds,
            self._run_id, row.finished_at,
        )  # fmt: skip
        with self._transaction():
            self._flush_touched()
            self._database.execute(f"INSERT OR REPLACE INTO items VALUES ({','.join('?' * len(entry))})", entry)
            self._put_outputs(item, row.outputs)
        self._rows[_key(item)] = row

    def _put_outputs(self, item: Item, sizes: Mapping[bytes, int]) -> None:
        self._database.execute("DELETE FROM outputs WHERE task = ? AND id = ?", _key(item))
        entries = [(*_key(item), path, size) for path, size in sizes.items()]
        self._database.executemany("INSERT INTO outputs VALUES (?, ?, ?, ?)", entries)

    def _flush_touched(self) -> None:
        entries = [(f.size, f.mtime_ns, _signed(f.inode), *key) for key, f in self._touched]
        query = "UPDATE items SET size = ?, mtime_ns = ?, inode = ? WHERE task = ? AND id = ?"
        self._database.executemany(query, entries)
        self._touched.clear()

    # --- the database ------------------------------------------------------------------------------------------------

    def _read_rows(self) -> dict[Key, _Row]:
        columns = "task, id, size, mtime_ns, inode, content_hash, inference_key, rendering_key, status, stage, error"
        rows: dict[Key, _Row] = {}
        for found in self._database.execute(f"SELECT {columns}, finished_at FROM items"):
            task, name, size, mtime_ns, inode, digest, inference, rendering, status, stage, error, finished = found
            mark = Fingerprint(size, mtime_ns, _unsigned(inode))
            rows[task, name] = _Row(mark, digest, inference, rendering, status, f"{stage}: {error}", finished, {})
        for task, name, path, size in self._database.execute("SELECT task, id, path, size FROM outputs"):
            if (task, name) in rows:
                rows[task, name].outputs[path] = size
        return rows

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with file_errors(self.path):
            self._database.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._database.execute("COMMIT")
            except BaseException:
                if self._database.in_transaction:
                    self._database.execute("ROLLBACK")
                raise

    def _output_sizes(self, outputs: Sequence[Path]) -> dict[bytes, int]:
        try:
            return {self._relative(path): path.stat().st_size for path in outputs}
        except OSError as error:
            raise SetupError(f"output is gone: {show(error.filename)}: {error.strerror}") from error

    def _relative(self, path: Path) -> bytes:
        name = os.fsencode(path)
        if not name.startswith(self._prefix):
            raise ValueError(f"{show(path)} is not below {show(os.fsdecode(self._prefix))}")
        return name[len(self._prefix) :]


def _key(item: Item) -> Key:
    return item.task, item.id


def _size(path: Path) -> int | None:
    try:
        return os.stat(path).st_size  # noqa: PTH116 - see fingerprint
    except OSError:
        return None


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _plain(text: str | None) -> str | None:
    """Text that SQLite can hold: surrogates, from names that are no UTF-8, as escapes."""
    return None if text is None else show(text)


def _signed(number: int) -> int:
    """SQLite's integers are signed; some file systems have inodes of 64 bits."""
    return number - (1 << 64) if number >= 1 << 63 else number


def _unsigned(number: int) -> int:
    return number + (1 << 64) if number < 0 else number
