"""What is done, what is to be done again, and the ledger after kills, full disks and damage."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from mlxbatch import ledger as ledgers
from mlxbatch import ledger_file
from mlxbatch.errors import LedgerError, LockedError, SetupError
from mlxbatch.ledger import Decision, Fresh, Infer, Ledger, Render, content_hash, fingerprint
from mlxbatch.types import Item, Segment, Transcript

TRANSCRIPT = Transcript((Segment(0.0, 1.5, "hello"),), "en", 1.5)


@dataclass
class Place:
    """An output root, and one source file with one output."""

    root: Path
    source: Path

    @property
    def item(self) -> Item:
        return Item("a", self.source, Path("a"))

    @property
    def file(self) -> Path:
        return self.root / ".mlxbatch" / "ledger.sqlite3"

    def output(self, name: str = "a.txt", text: str = "hello") -> Path:
        (self.root / name).write_text(text)
        return self.root / name

    def done(self, **changes: Any) -> None:
        with Ledger.open(self.root) as ledger:
            facts: dict[str, Any] = {
                "fingerprint": fingerprint(self.source),
                "content_hash": content_hash(self.source),
                "inference_key": "i",
                "rendering_key": "txt",
                "transcript": TRANSCRIPT,
                "outputs": [self.output()],
                "seconds": 1.5,
            }
            ledger.done(self.item, **(facts | changes))

    def decide(self, inference: str = "i", rendering: str = "txt", *names: str) -> Decision:
        with Ledger.open(self.root) as ledger:
            return ledger.decide(self.item, [inference], rendering, [self.root / name for name in names or ("a.txt",)])


@pytest.fixture
def place(tmp_path: Path) -> Place:
    source = tmp_path / "in" / "a.wav"
    source.parent.mkdir()
    source.write_bytes(b"audio")
    (tmp_path / "out").mkdir()
    return Place(tmp_path / "out", source)


def test_the_content_hash_is_blake2b_256_in_blocks(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    # By coreutils: printf audio | b2sum -l 256
    expected = "f9d17167a9820afef6df879235187cc1487e665ba211441ce04200d96c5a33ff"
    assert content_hash(place.source) == expected
    monkeypatch.setattr(ledgers, "_BLOCK", 2)
    assert content_hash(place.source) == expected


def test_a_new_item_is_inferred_and_a_done_one_is_fresh(place: Place) -> None:
    assert place.decide() == Infer("new")
    place.done()
    decision = place.decide()
    assert isinstance(decision, Fresh)
    assert decision.why == f"done on {time.strftime('%Y-%m-%d', time.gmtime())}"


def test_a_failed_item_is_tried_again_and_the_reason_is_kept(place: Place) -> None:
    with Ledger.open(place.root) as ledger:
        ledger.failed(place.item, "decode", "no audio\nstream")
        assert ledger.decide(place.item, "i", "txt", []) == Infer("failed before: decode: no audio\nstream")
    assert place.decide() == Infer("failed before: decode: no audio\\nstream")
    place.done()
    assert isinstance(place.decide(), Fresh)


def test_a_failure_after_a_success_forgets_the_result(place: Place) -> None:
    place.done()
    with Ledger.open(place.root) as ledger:
        ledger.failed(place.item, "decode", "gone")
    assert place.decide() == Infer("failed before: decode: gone")


def test_other_options_infer_before_the_content_is_looked_at(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.done()
    monkeypatch.setattr(ledgers, "fingerprint", lambda path: pytest.fail("looked at the file"))
    assert place.decide("other") == Infer("options or model changed")


def test_the_content_is_read_only_where_the_stat_changed(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.done()
    monkeypatch.setattr(ledgers, "content_hash", lambda path: pytest.fail("read the file"))
    assert isinstance(place.decide(), Fresh)


def test_a_touched_file_stays_fresh_and_is_hashed_once(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.done()
    os.utime(place.source, ns=(1, 1))
    assert isinstance(place.decide(), Fresh)
    monkeypatch.setattr(ledgers, "content_hash", lambda path: pytest.fail("hashed again"))
    assert isinstance(place.decide(), Fresh)


def test_a_touched_mark_is_kept_by_the_next_entry_too(place: Place) -> None:
    place.done()
    os.utime(place.source, ns=(1, 1))
    other = Item("b", place.source, Path("b"))
    with Ledger.open(place.root) as ledger:
        ledger.decide(place.item, "i", "txt", [place.root / "a.txt"])
        ledger.failed(other, "probe", "x")
        (stored,) = ledger._database.execute("SELECT mtime_ns FROM items WHERE id = 'a'").fetchone()
    assert stored == 1


def test_a_touched_mark_does_not_come_back_over_a_later_entry(place: Place) -> None:
    place.done()
    os.utime(place.source, ns=(1, 1))
    with Ledger.open(place.root) as ledger:
        ledger.decide(place.item, "i", "txt", [place.root / "a.txt"])
        ledger.failed(Item("b", place.source, Path("b")), "probe", "x")
        ledger.failed(place.item, "probe", "x")
        ledger.failed(Item("c", place.source, Path("c")), "probe", "x")
        (stored,) = ledger._database.execute("SELECT mtime_ns FROM items WHERE id = 'a'").fetchone()
    assert stored == 0


@pytest.mark.parametrize("content", [b"other", b"audio and more"])
def test_changed_content_is_inferred_again(place: Place, content: bytes) -> None:
    place.done()
    place.source.write_bytes(content)
    os.utime(place.source, ns=(1, 1))
    assert place.decide() == Infer("content changed")


def test_a_source_that_is_gone_is_left_to_the_next_stage(place: Place) -> None:
    place.done()
    place.source.unlink()
    assert place.decide() == Infer("source cannot be read: No such file or directory")


def test_formats_and_outputs_that_differ_are_rendered_from_the_stored_result(place: Place) -> None:
    place.done()
    assert place.decide("i", "srt", "a.srt") == Render(TRANSCRIPT, "formats changed")
    assert place.decide("i", "txt", "a.wav.txt") == Render(TRANSCRIPT, "output names changed")
    assert place.decide("i", "txt", "a.txt", "b.txt") == Render(TRANSCRIPT, "output names changed")
    place.output(text="hello!")
    assert place.decide() == Render(TRANSCRIPT, "output changed")
    (place.root / "a.txt").unlink()
    assert place.decide() == Render(TRANSCRIPT, "output missing")


def test_a_rendered_item_is_fresh_in_its_new_formats(place: Place) -> None:
    place.done()
    with Ledger.open(place.root) as ledger:
        ledger.rendered(place.item, "srt", [place.output("a.srt")])
        assert isinstance(ledger.decide(place.item, "i", "srt", [place.root / "a.srt"]), Fresh)
    assert isinstance(place.decide("i", "srt", "a.srt"), Fresh)
    assert place.decide() == Render(TRANSCRIPT, "formats changed")


def test_a_stored_result_that_is_damaged_is_inferred_again(place: Place) -> None:
    place.done()
    with sqlite3.connect(place.file) as database:
        database.execute("UPDATE items SET result = x'00'")
    database.close()
    assert place.decide("i", "srt") == Infer("stored result is damaged")


def test_paths_of_any_bytes_are_kept(place: Place) -> None:
    odd = place.source.parent / os.fsdecode(b"\xff\n\xe9.wav")
    place.source.rename(odd)
    place.source = odd
    output = place.output(os.fsdecode(b"\xff\n\xe9.txt"))
    place.done(outputs=[output])
    assert isinstance(place.decide("i", "txt", output.name), Fresh)
    database = sqlite3.connect(place.file)
    assert database.execute("SELECT source, path FROM items JOIN outputs USING (task, id)").fetchone() == (
        os.fsencode(odd),
        b"\xff\n\xe9.txt",
    )
    database.close()


def test_failures_of_odd_names_can_be_written(place: Place) -> None:
    with Ledger.open(place.root) as ledger:
        ledger.failed(place.item, "decode", "bad \udcff")
    assert place.decide() == Infer("failed before: decode: bad \\xff")


def test_inodes_of_64_bits_and_sizes_over_4_gb_are_kept(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    mark = ledgers.Fingerprint(5 * 2**40, time.time_ns(), 2**64 - 3)
    place.done(fingerprint=mark)
    monkeypatch.setattr(ledgers, "fingerprint", lambda path: mark)
    assert isinstance(place.decide(), Fresh)


def test_an_output_that_is_gone_when_written_down_is_fatal_and_named(place: Place) -> None:
    with pytest.raises(SetupError, match=r"output is gone: .*/no\.txt"):
        place.done(outputs=[place.root / "no.txt"])
    assert place.decide() == Infer("new")


def test_runs_are_written_down_with_their_items(place: Place) -> None:
    with Ledger.open(place.root) as ledger:
        ledger.begin_run("r1", {"command": "transcribe"})
        ledger.failed(place.item, "decode", "x")
        ledger.end_run("r1", {"exit_code": 1})
    database = sqlite3.connect(place.file)
    run = database.execute("SELECT id, facts, outcome, ended_at >= started_at FROM runs").fetchone()
    assert run == ("r1", '{"command": "transcribe"}', '{"exit_code": 1}', 1)
    assert database.execute("SELECT run_id FROM items").fetchone() == ("r1",)
    database.close()


# --- the file itself -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("network", "journal"), [(False, "wal"), (True, "delete")])
def test_wal_on_local_disks_and_a_rollback_journal_on_network_mounts(
    place: Place, monkeypatch: pytest.MonkeyPatch, network: bool, journal: str
) -> None:
    monkeypatch.setattr(ledger_file, "on_network", lambda folder: network)
    place.done()
    with Ledger.open(place.root) as ledger:
        assert ledger._database.execute("PRAGMA journal_mode").fetchone() == (journal,)
        assert isinstance(ledger.decide(place.item, "i", "txt", [place.root / "a.txt"]), Fresh)


def test_a_newer_ledger_is_not_touched(place: Place) -> None:
    place.done()
    with sqlite3.connect(place.file) as database:
        database.execute("PRAGMA user_version = 2")
    database.close()
    with pytest.raises(LedgerError, match=r"newer mlxbatch \(schema 2, this one knows 1\): upgrade, or move it away"):
        Ledger.open(place.root)


def damaged(place: Place) -> str:
    with pytest.raises(LedgerError) as caught:
        Ledger.open(place.root)
    message = str(caught.value)
    assert "\n" not in message
    assert f"mv {place.file} {place.file}.damaged" in message
    assert "outputs are kept, the next run does the files again" in message
    return message


def test_what_is_no_database_is_damaged_and_the_way_out_works(place: Place) -> None:
    place.done()
    place.file.write_bytes(b"this is no database, but it is long enough to be one" * 100)
    message = damaged(place)
    assert message.startswith(f"{place.file} is damaged (file is not a database)")
    subprocess.run(message.partition("with: ")[2].partition(";")[0], shell=True, check=True)
    assert place.decide() == Infer("new")
    assert (place.root / "a.txt").exists()


def test_missing_tables_and_bad_text_are_damage(place: Place) -> None:
    place.done()
    with sqlite3.connect(place.file) as database:
        database.execute("UPDATE items SET stage = CAST(x'ff' AS TEXT)")
    assert "Could not decode to UTF-8" in damaged(place)
    with database:
        database.execute("DROP TABLE items")
    database.close()
    assert "no such table: items" in damaged(place)


def test_wherever_bytes_are_overwritten_it_opens_or_is_called_damaged(place: Place) -> None:
    with Ledger.open(place.root) as ledger:
        fill(ledger, 200)
    whole = place.file.read_bytes()
    chance, called = random.Random(7), 0
    for _ in range(150):
        at, length = chance.randrange(len(whole)), chance.choice([1, 16, 512])
        place.file.write_bytes(whole[:at] + chance.randbytes(length) + whole[at + length :])
        try:
            with Ledger.open(place.root) as ledger:
                ledger.decide(Item("7", place.source, Path("7")), "i", "txt", [])
        except LedgerError:
            called += 1
    assert called > 20


def test_damage_where_no_decision_looks_is_found_on_opening(place: Place) -> None:
    place.done()
    with Ledger.open(place.root) as ledger:
        query = "SELECT rootpage FROM sqlite_master WHERE type = 'index' AND tbl_name = 'items'"
        (page,) = ledger._database.execute(query).fetchone()
        (size,) = ledger._database.execute("PRAGMA page_size").fetchone()
    with place.file.open("r+b") as file:
        file.seek((page - 1) * size)
        file.write(b"\x55" * size)
    damaged(place)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_a_truncated_file_is_damaged(place: Place, share: float) -> None:
    with Ledger.open(place.root) as ledger:
        fill(ledger, 200)
    os.truncate(place.file, int(place.file.stat().st_size * share))
    damaged(place)


def fill(ledger: Ledger, rows: int) -> None:
    for number in range(rows):
        ledger.failed(Item(str(number), Path("x.wav"), Path(str(number))), "decode", "x" * 50)


def test_a_full_disk_is_no_damage(place: Place) -> None:
    with Ledger.open(place.root) as ledger:
        (pages,) = ledger._database.execute("PRAGMA page_count").fetchone()
        ledger._database.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(SetupError, match=r"disk full: cannot write .*ledger\.sqlite3"):
            fill(ledger, 1000)
        ledger._database.execute("PRAGMA max_page_count = 100000")
        ledger.failed(place.item, "decode", "again")
    assert place.decide() == Infer("failed before: decode: again")


def test_a_file_that_cannot_be_written_is_no_damage(place: Place) -> None:
    with Ledger.open(place.root) as ledger:
        ledger._database.execute("PRAGMA query_only = ON")
        with pytest.raises(SetupError, match=r"cannot write .*ledger\.sqlite3: attempt to write a readonly database"):
            ledger.failed(place.item, "decode", "x")


def test_a_folder_in_place_of_the_file_cannot_be_opened(place: Place) -> None:
    place.file.mkdir(parents=True)
    with pytest.raises(SetupError, match=r"cannot write .*ledger\.sqlite3: unable to open database file"):
        Ledger.open(place.root)


def test_a_database_that_another_program_holds_is_locked(place: Place) -> None:
    place.done()
    other = sqlite3.connect(place.file, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with Ledger.open(place.root) as ledger:
        ledger._database.execute("PRAGMA busy_timeout = 10")
        with pytest.raises(LockedError, match="in use by another program"):
            ledger.failed(place.item, "decode", "x")
    other.close()


def test_a_mistake_of_ours_is_not_called_damage(place: Place) -> None:
    ledger = Ledger.open(place.root)
    ledger.close()
    ledger.close()
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        ledger.failed(place.item, "decode", "x")


WRITER = """
import sys
from pathlib import Path
from mlxbatch.ledger import Fingerprint, Ledger
from mlxbatch.types import Item, Segment, Transcript
root = Path(sys.argv[1])
(root / "a.txt").write_text("hello")
transcript = Transcript((Segment(0.0, 1.0, "word " * 2000),), "en", 1.0)
with Ledger.open(root) as ledger:
    number = int(sys.argv[2])
    while True:
        item = Item(str(number), root / "a.wav", Path("a"))
        ledger.done(item, fingerprint=Fingerprint(1, 2, 3), content_hash="c", inference_key="i", rendering_key="txt",
                    transcript=transcript, outputs=[root / "a.txt"], seconds=1.0)
        print(number, flush=True)
        number += 1
"""


@pytest.mark.parametrize("network", [False, True])
def test_kill_9_in_the_middle_of_writing_loses_no_finished_row(place: Place, network: bool) -> None:
    patch = f"import mlxbatch.ledger_file as f; f.on_network = lambda folder: {network}\n"
    total = 0
    for turn in range(6):
        writer = subprocess.Popen(
            [sys.executable, "-c", patch + WRITER, str(place.root), str(total)], stdout=subprocess.PIPE, text=True
        )
        assert writer.stdout is not None
        seen = [writer.stdout.readline() for _ in range(3 + turn)]
        time.sleep(0.003 * turn)
        writer.send_signal(signal.SIGKILL)
        seen += writer.stdout.readlines()
        writer.wait()
        writer.stdout.close()
        printed = [int(line) for line in seen if line.endswith("\n")]
        with Ledger.open(place.root) as ledger:
            rows = {int(name) for _, name in ledger._rows}
            assert set(printed) <= rows
            # The row in flight may be there, unprinted; never half of one, never a gap.
            assert rows == set(range(max(rows) + 1))
            assert len(rows) - (total + len(printed)) in (0, 1)
            assert ledger._database.execute("SELECT count(*) FROM outputs").fetchone() == (len(rows),)
        total = len(rows)


def test_ten_thousand_fresh_files_are_decided_fast(place: Place) -> None:
    # One file stands for all: what is timed is 20,000 stats and the reading of 10,000 rows.
    output = place.output()
    items = [Item(f"{number:032x}", place.source, Path(str(number))) for number in range(10_000)]
    mark, digest = fingerprint(place.source), content_hash(place.source)
    with Ledger.open(place.root) as ledger:
        ledger._database.execute("PRAGMA synchronous = OFF")
        for item in items:
            ledger.done(
                item,
                fingerprint=mark,
                content_hash=digest,
                inference_key="i",
                rendering_key="txt",
                transcript=TRANSCRIPT,
                outputs=[output],
                seconds=1.0,
            )
    begin = time.process_time()
    with Ledger.open(place.root) as ledger:
        decisions = [ledger.decide(item, "i", "txt", [output]) for item in items]
    took = time.process_time() - begin
    print(f"10,000 fresh files: {took:.2f} s")
    assert all(isinstance(decision, Fresh) for decision in decisions)
    assert took < 2.0
