"""What has been done under an output root: one SQLite row per item, in `OUT/.mlxbatch/ledger.sqlite3`.

One process writes (`mlxbatch.lock` sees to that), others may read. A row is one committed transaction, so a kill costs
the items in flight and no more. A lost machine (power) may also cost the last rows before it, whose items are then done
again: WAL with synchronous=NORMAL keeps the file whole, not its last moments.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import astuple, dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Self

from mlxbatch import in_flight, ledger_rows
from mlxbatch.content import Fingerprint as Fingerprint
from mlxbatch.content import content_hash as content_hash
from mlxbatch.content import fingerprint as fingerprint
from mlxbatch.decisions import Decider, Wanted
from mlxbatch.decisions import Decision as Decision
from mlxbatch.decisions import Fresh as Fresh
from mlxbatch.decisions import Infer as Infer
from mlxbatch.decisions import Quarantined as Quarantined
from mlxbatch.decisions import Render as Render
from mlxbatch.errors import LedgerError, MlxBatchError, SetupError, show
from mlxbatch.ledger_file import FILE, Database, file_errors, open_for_reading, open_for_writing
from mlxbatch.ledger_rows import NO_CONTENT, WENT_WELL, Key, content_columns, key_of
from mlxbatch.state import FOLDER, state_folder
from mlxbatch.stored import inference_key as inference_key
from mlxbatch.stored import pack, pack_outputs
from mlxbatch.stored import rendering_key as rendering_key
from mlxbatch.stored import transcript_from_json as transcript_from_json
from mlxbatch.stored import transcript_to_json as transcript_to_json
from mlxbatch.types import Item, Transcript

Content = tuple[Fingerprint, str]

# So much of what decisions found out waits for the next entry at most.
_NOTES = 1000


@dataclass(frozen=True, slots=True)
class Baseline:
    """Memory of the process that owns the device, in bytes, as it was when nothing leaked."""

    active: int
    rss: int
    peak: int


class Ledger:
    """The open ledger of one output root, see `Ledger.open`. Threads may share it: one at a time gets through."""

    def __init__(self, database: Database, output_root: Path) -> None:
        self.path = database.path
        self._database = database
        self._decider = Decider(database, output_root)
        self._run_id: str | None = None
        self._marked = False

    @classmethod
    def open(cls, output_root: Path, *, read_only: bool = False) -> Self:
        """Open the ledger for a run, or begin one; what was in flight when the last run died is counted (`deaths`).

        `read_only` is for decisions alone, while another run may be at work; the ledger has to be there.
        LedgerError: damaged, or written by a newer version. SetupError: not writable, disk full. LockedError: another
        program holds the database itself.
        """
        path = (output_root / FOLDER if read_only else state_folder(output_root)) / FILE
        with file_errors(path):
            ledger = cls((open_for_reading if read_only else open_for_writing)(path), output_root)
            try:
                if not read_only:
                    ledger._count_deaths()
            except BaseException as error:
                ledger._database.close(damaged=isinstance(error, LedgerError))
                raise
        return ledger

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
        else:
            # What went wrong first is what the user has to hear of.
            with suppress(MlxBatchError):
                self._close(damaged=isinstance(error, LedgerError))

    def close(self) -> None:
        """Write what is pending and close the file. More than once is fine."""
        self._close(damaged=False)

    def _close(self, *, damaged: bool) -> None:
        try:
            if self._marked or (self._decider.notes and not self._database.read_only):
                with self._transaction() as database:
                    in_flight.end(database)
                self._marked = False
        except LedgerError:
            damaged = True
            raise
        finally:
            self._database.close(damaged=damaged)

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """An entry, and what decisions have found out so far."""
        with self._database.transaction() as database:
            # Gone if this fails: then the next run finds it out again.
            notes, self._decider.notes = self._decider.notes, []
            for key, columns in notes:
                ledger_rows.update(database, key, columns)
            yield database

    # --- questions ---------------------------------------------------------------------------------------------------

    def decide(
        self,
        item: Item,
        inference_keys: Sequence[str],
        rendering_key: str,
        outputs: Sequence[Path],
        *,
        retry_quarantined: bool = False,
    ) -> Decision:
        """What is to be done for an item, cheapest question first; content is read only where the stat has changed.

        A stored result of any of the inference keys holds: that of the model asked for, and those of models that may
        take its place. It holds whatever failed since, under other options or with content that is gone again.
        `outputs` are all files the item should have, each below the output root as it was given to `open`.
        """
        decision = self._decider.decide(item, Wanted(inference_keys, rendering_key, retry_quarantined), outputs)
        if len(self._decider.notes) > _NOTES and not self._database.read_only:
            with self._transaction():
                pass
        return decision

    def suspects(self) -> dict[Key, int]:
        """How many times in a row the program died with an item at risk; only of those at which it did."""
        found = self._database.fetch("SELECT task, id, deaths FROM in_flight WHERE deaths")
        return {(task, name): deaths for task, name, deaths in found}

    def unfinished(self) -> set[Key]:
        """Items that an earlier run gave up for want of time, and that were neither done nor failed since."""
        return set(self._database.fetch("SELECT task, id FROM in_flight WHERE given_up"))

    def baselines(self) -> dict[str, Baseline]:
        """All that `set_baseline` was given, by key."""
        found = self._database.fetch("SELECT key, active, rss, peak FROM baselines")
        return {key: Baseline(*sizes) for key, *sizes in found}

    # --- entries -----------------------------------------------------------------------------------------------------

    def begin_run(self, run_id: str, facts: Mapping[str, object]) -> None:
        """Rows written from here on belong to this run; `facts` is what JSON can hold: command, model, versions."""
        with self._transaction() as database:
            entry = (run_id, _now(), json.dumps(facts, sort_keys=True))
            database.execute("INSERT INTO runs (id, started_at, facts) VALUES (?, ?, ?)", entry)
        self._run_id = run_id

    def end_run(self, run_id: str, outcome: Mapping[str, object]) -> None:
        """How the run ended; one without an end was killed. Items still in flight were dropped: none is a suspect."""
        with self._transaction() as database:
            entry = (_now(), json.dumps(outcome, sort_keys=True), run_id)
            database.execute("UPDATE runs SET ended_at = ?, outcome = ? WHERE id = ?", entry)
            in_flight.end(database)

    @contextmanager
    def at_risk(self, items: Sequence[Item]) -> Iterator[None]:
        """Inside the block the program may die of one of these, and then all of them are suspects. From any thread.

        Committed at the beginning: a crash right after is counted, a power loss perhaps not. One that was a suspect
        before stays one until it is `done` or `failed`.
        """
        with self._transaction() as database:
            self._marked = True
            in_flight.begin(database, map(_mark, items))
        try:
            yield
        finally:
            with self._transaction() as database:
                in_flight.survive(database, [key_of(item) for item in items])

    def given_up(self, items: Sequence[Item]) -> None:
        """There was not enough time for these; they stay `unfinished` until they are done or fail."""
        with self._transaction() as database:
            in_flight.give_up(database, map(_mark, items))

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
        model: str = "",
    ) -> None:
        """Write down an item whose outputs are all in place; committed on return.

        `fingerprint` and `content_hash` are from before the file was decoded, so that a change meanwhile shows in the
        next run. `inference_key` is that of the `model` that made the result. `seconds` is the recording's length.
        """
        now = _now()
        columns = {
            "source": os.fsencode(item.source),
            **content_columns(fingerprint, content_hash),
            "inference_key": inference_key,
            "rendering_key": rendering_key,
            "model": show(model),
            "outputs": self._packed(outputs),
            "seconds": seconds,
            "done_at": now,
            **WENT_WELL,
            "run_id": self._run_id,
            "finished_at": now,
        }
        result = pack(transcript)
        with self._transaction() as database:
            ledger_rows.put(database, key_of(item), columns)
            ledger_rows.put_result(database, key_of(item), result)
            in_flight.clear(database, key_of(item))

    def rendered(self, item: Item, rendering_key: str, outputs: Sequence[Path]) -> None:
        """New outputs of a stored result are in place, after a `Render`; committed on return.

        An item that had failed, under other options, counts as done again; one in quarantine stays there.
        """
        columns = {"rendering_key": rendering_key, "outputs": self._packed(outputs)}
        with self._transaction() as database:
            ledger_rows.update(database, key_of(item), columns)
            ledger_rows.clear_failure(database, key_of(item))

    def failed(self, item: Item, stage: str, cause: str, *, quarantined: bool = False) -> None:
        """Write down an item that could not be done; committed on return.

        The next run tries it again, unless a result from before answers what it asks: that stays, and is dropped only
        by the next result. In `quarantined`, it is not tried while its content is what it is now.
        """
        content = _content(item.source) if quarantined else None
        with self._transaction() as database:
            self._put_failure(database, key_of(item), item.source, (stage, cause), content)
            in_flight.clear(database, key_of(item))

    def set_baseline(self, key: str, baseline: Baseline) -> None:
        """Keep this for later runs, in place of what was there under the same key."""
        with self._transaction() as database:
            entry = (key, *astuple(baseline), _now())
            database.execute("INSERT OR REPLACE INTO baselines VALUES (?, ?, ?, ?, ?)", entry)

    def _count_deaths(self) -> None:
        """A death for each item that a run which died had in flight; quarantine for those that have had enough."""
        found = self._database.fetch(in_flight.LIVE)
        if not found:
            return
        deadly = [(key, Path(os.fsdecode(source))) for *key, source, deaths in found if deaths + 1 >= in_flight.DEADLY]
        contents = [_content(source) for _, source in deadly]
        with self._transaction() as database:
            in_flight.count_deaths(database)
            for ((task, name), source), content in zip(deadly, contents, strict=True):
                # Its deaths stay counted: asked for again, it is a suspect still, and one more is enough.
                self._put_failure(database, (task, name), source, ("run", in_flight.CAUSE), content)

    def _put_failure(
        self, database: sqlite3.Connection, key: Key, source: Path, why: tuple[str, str], content: Content | None
    ) -> None:
        """`why` is stage and cause; with a content, the item is in quarantine as long as it has that."""
        stage, cause = map(show, why)
        columns = {
            "source": os.fsencode(source),
            "status": "quarantined" if content else "failed",
            "stage": stage,
            "error": cause,
            "run_id": self._run_id,
            "finished_at": _now(),
        }
        ledger_rows.put_failure(database, key, columns)
        if content:
            ledger_rows.pin(database, key, *content)

    def _packed(self, outputs: Sequence[Path]) -> bytes:
        try:
            return pack_outputs(self._decider.output_sizes(outputs))
        except OSError as error:
            raise SetupError(f"output is gone: {show(error.filename)}: {error.strerror}") from error


def _content(source: Path) -> Content:
    """A file's content as of now; that of no file where it cannot be read."""
    try:
        return fingerprint(source), content_hash(source)
    except OSError:
        return NO_CONTENT, ""


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _mark(item: Item) -> tuple[Key, bytes]:
    # Absolute: the run that finds the mark may begin in another directory.
    return key_of(item), os.fsencode(item.source.absolute())
