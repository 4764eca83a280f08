"""What is done, what is to be done again, and what failed."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from pathlib import Path

import pytest

from mlxbatch import decisions, ledger_file
from mlxbatch.errors import LedgerError, SetupError
from mlxbatch.ledger import Fingerprint, Fresh, Infer, Ledger, Quarantined, Render, content_hash, fingerprint
from mlxbatch.types import Item
from tests.ledgers import TRANSCRIPT, Place


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place.make(tmp_path)


def test_a_new_item_is_inferred_and_a_done_one_is_fresh(place: Place) -> None:
    assert place.decide() == Infer("new")
    place.done()
    assert place.decide() == Fresh(f"done on {time.strftime('%Y-%m-%d', time.gmtime())}")


def test_other_options_infer_before_the_content_is_looked_at(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.done()
    monkeypatch.setattr(decisions, "fingerprint", lambda path: pytest.fail("looked at the file"))
    assert place.decide("other") == Infer("options or model changed")


def test_a_result_of_any_model_that_may_take_the_place_holds(place: Place) -> None:
    place.done(inference_key="small", model="whisper-small")
    assert place.value("SELECT model FROM items") == "whisper-small"
    assert place.decide("large") == Infer("options or model changed")
    assert isinstance(place.decide("large small"), Fresh)
    assert place.decide("large small", "srt", "a.srt") == Render(TRANSCRIPT, "formats, lines or speakers changed")


def test_the_content_is_read_only_where_the_stat_changed(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.done()
    monkeypatch.setattr(decisions, "content_hash", lambda path: pytest.fail("read the file"))
    assert isinstance(place.decide(), Fresh)


def test_a_touched_file_stays_fresh_and_is_hashed_once(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.done()
    os.utime(place.source, ns=(1, 1))
    assert isinstance(place.decide(), Fresh)
    monkeypatch.setattr(decisions, "content_hash", lambda path: pytest.fail("hashed again"))
    assert isinstance(place.decide(), Fresh)


def test_a_touched_mark_is_kept_by_the_next_entry_too(place: Place) -> None:
    place.done()
    os.utime(place.source, ns=(1, 1))
    with Ledger.open(place.root) as ledger:
        place.decide_in(ledger)
        ledger.failed(place.other("b"), "probe", "x")
        assert place.value("SELECT mtime_ns FROM items WHERE id = 'a'") == 1


def test_a_touched_mark_does_not_come_back_over_a_later_entry(place: Place) -> None:
    place.done()
    os.utime(place.source, ns=(1, 1))
    with Ledger.open(place.root) as ledger:
        place.decide_in(ledger)
        place.done_in(ledger, fingerprint=Fingerprint(1, 2, 3))
        ledger.failed(place.other("c"), "probe", "x")
    assert place.value("SELECT mtime_ns FROM items WHERE id = 'a'") == 2


def test_touched_marks_are_written_before_they_are_too_many(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mlxbatch.ledger._NOTES", 2)
    place.done()
    with Ledger.open(place.root) as ledger:
        for turn in range(3):
            os.utime(place.source, ns=(turn, turn))
            place.decide_in(ledger)
        assert place.value("SELECT mtime_ns FROM items") == 2


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
    assert place.decide("i", "srt", "a.srt") == Render(TRANSCRIPT, "formats, lines or speakers changed")
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
        assert isinstance(place.decide_in(ledger, "i", "srt", "a.srt"), Fresh)
    assert isinstance(place.decide("i", "srt", "a.srt"), Fresh)
    assert place.decide() == Render(TRANSCRIPT, "formats, lines or speakers changed")


@pytest.mark.parametrize("change", ["UPDATE results SET result = x'00'", "DELETE FROM results"])
def test_a_stored_result_that_is_damaged_is_inferred_again(place: Place, change: str) -> None:
    place.done()
    with place.database() as database:
        database.execute(change)
    assert place.decide("i", "srt") == Infer("stored result is damaged")


def test_paths_of_any_bytes_are_kept(place: Place) -> None:
    odd = place.source.parent / os.fsdecode(b"\xff\n\xe9.wav")
    place.source.rename(odd)
    place.source = odd
    output = place.output(os.fsdecode(b"\xff\n\xe9.txt"))
    place.done(outputs=[output])
    assert isinstance(place.decide("i", "txt", output.name), Fresh)
    with place.database() as database:
        assert database.execute("SELECT source, outputs FROM items").fetchone() == (
            os.fsencode(odd),
            b"\xff\n\xe9.txt\x005\x00",
        )


def test_inodes_of_64_bits_and_sizes_over_4_gb_are_kept(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    mark = Fingerprint(5 * 2**40, time.time_ns(), 2**64 - 3)
    place.done(fingerprint=mark)
    monkeypatch.setattr(decisions, "fingerprint", lambda path: mark)
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
    with place.database() as database:
        run = database.execute("SELECT id, facts, outcome, ended_at >= started_at FROM runs").fetchone()
    assert run == ("r1", '{"command": "transcribe"}', '{"exit_code": 1}', 1)
    assert place.value("SELECT run_id FROM items") == "r1"


# --- failures --------------------------------------------------------------------------------------------------------


def test_a_failed_item_is_tried_again_and_the_reason_is_kept(place: Place) -> None:
    place.failed("decode", "no audio\nstream")
    assert place.decide() == Infer("failed before: decode: no audio\\nstream")
    place.done()
    assert isinstance(place.decide(), Fresh)


def test_failures_in_a_row_are_counted(place: Place) -> None:
    attempts = "SELECT attempts FROM items"
    place.failed()
    assert place.value(attempts) == 1
    place.failed()
    assert place.value(attempts) == 2
    place.done()
    assert place.value(attempts) == 0


def test_failures_of_odd_names_can_be_written(place: Place) -> None:
    place.failed("decode", "bad \udcff")
    assert place.decide() == Infer("failed before: decode: bad \\xff")


def test_a_failure_under_other_options_keeps_the_result_for_those_it_is_of(place: Place) -> None:
    place.done()
    place.failed("infer", "too long")
    assert place.value("SELECT status FROM items") == "failed"
    assert place.decide("other") == Infer("failed before: infer: too long")
    assert place.decide("i", "srt", "a.srt") == Render(TRANSCRIPT, "formats, lines or speakers changed")
    assert place.value("SELECT status FROM items") == "failed"
    assert isinstance(place.decide(), Fresh)
    # Nothing failed of what is asked for now.
    assert place.value("SELECT status || attempts FROM items") == "done0"
    assert place.decide("other") == Infer("options or model changed")


def test_a_rendering_settles_a_failure_too(place: Place) -> None:
    place.done()
    place.failed()
    with Ledger.open(place.root) as ledger:
        ledger.rendered(place.item, "srt", [place.output("a.srt")])
    assert place.value("SELECT status FROM items") == "done"
    assert isinstance(place.decide("i", "srt", "a.srt"), Fresh)


def test_a_failure_on_new_content_keeps_the_result_of_the_old(place: Place) -> None:
    place.done()
    place.source.write_bytes(b"broken")
    place.failed("decode", "no sound")
    assert place.decide() == Infer("failed before: decode: no sound")
    place.source.write_bytes(b"audio")
    assert isinstance(place.decide(), Fresh)


def test_a_result_after_a_failure_takes_the_place_of_the_old(place: Place) -> None:
    place.done()
    place.failed()
    place.done(inference_key="j")
    assert isinstance(place.decide("j"), Fresh)
    assert place.decide("i") == Infer("options or model changed")
    assert place.value("SELECT count(*) FROM results") == 1


# --- quarantine ------------------------------------------------------------------------------------------------------


def test_a_quarantined_item_is_left_alone_until_it_changes(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.failed("infer", "killed by SIGSEGV", quarantined=True)
    assert place.value("SELECT status || attempts FROM items") == "quarantined1"
    quarantined = Quarantined("quarantined: killed by SIGSEGV")
    assert place.decide() == place.decide("other") == quarantined
    os.utime(place.source, ns=(1, 1))
    assert place.decide() == quarantined
    with monkeypatch.context() as patch:
        patch.setattr(decisions, "content_hash", lambda path: pytest.fail("hashed again"))
        assert place.decide() == quarantined
    place.source.write_bytes(b"other")
    assert place.decide() == Infer("content changed")
    place.source.write_bytes(b"audio")
    assert place.decide() == quarantined


def test_a_quarantined_item_is_tried_on_demand(place: Place) -> None:
    place.failed("infer", "killed", quarantined=True)
    assert place.decide(retry_quarantined=True) == Infer("--retry-quarantined")
    place.done()
    assert isinstance(place.decide(), Fresh)
    assert place.value("SELECT coalesce(error, 'none') FROM items") == "none"


def test_an_item_that_fails_as_others_do_leaves_quarantine(place: Place) -> None:
    place.failed("infer", "killed", quarantined=True)
    place.failed("infer", "NaN")
    assert place.decide() == Infer("failed before: infer: NaN")


def test_quarantine_keeps_a_result_of_the_same_content(place: Place) -> None:
    place.done()
    place.failed("infer", "killed", quarantined=True)
    assert place.decide("other") == Quarantined("quarantined: killed")
    assert isinstance(place.decide(), Fresh)
    assert place.decide("i", "srt", "a.srt") == Render(TRANSCRIPT, "formats, lines or speakers changed")
    with Ledger.open(place.root) as ledger:
        ledger.rendered(place.item, "srt", [place.output("a.srt")])
    assert place.decide("other") == Quarantined("quarantined: killed")


def test_quarantine_drops_a_result_of_other_content(place: Place) -> None:
    place.done()
    place.source.write_bytes(b"deadly")
    place.failed("infer", "killed", quarantined=True)
    assert place.decide() == Quarantined("quarantined: killed")
    assert place.value("SELECT count(*) FROM results") == 0
    place.source.write_bytes(b"audio")
    assert place.decide() == Infer("content changed")


def test_what_cannot_be_read_when_it_is_quarantined_has_changed_once_it_can(place: Place) -> None:
    place.source.rename(place.source.with_name("away"))
    place.failed("decode", "killed", quarantined=True)
    assert place.decide() == Infer("source cannot be read: No such file or directory")
    place.source.with_name("away").rename(place.source)
    assert place.decide() == Infer("content changed")
    place.source.write_bytes(b"")
    assert place.decide() == Infer("content changed")


# --- baselines -------------------------------------------------------------------------------------------------------


def test_baselines_are_kept_by_key_from_run_to_run(place: Place) -> None:
    with Ledger.open(place.root) as ledger:
        assert ledger.baselines() == {}
        ledger.set_baselines({"base 8": 3, "base 16": 6})
        ledger.set_baselines({"base 8": 9 << 33})
    with Ledger.open(place.root) as ledger:
        assert ledger.baselines() == {"base 8": 9 << 33, "base 16": 6}


# --- opened to look only ---------------------------------------------------------------------------------------------


def test_read_only_it_decides_and_writes_nothing(place: Place) -> None:
    place.done()
    os.utime(place.source, ns=(1, 1))
    before = place.file.read_bytes()
    with Ledger.open(place.root, read_only=True) as ledger:
        assert isinstance(place.decide_in(ledger), Fresh)
        with pytest.raises(SetupError, match="cannot write"):
            ledger.failed(place.item, "probe", "x")
    assert place.file.read_bytes() == before
    assert ledger_file._closed_in_order(place.file)


def test_read_only_it_has_to_be_there(place: Place) -> None:
    with pytest.raises(SetupError, match=r"cannot open .*ledger\.sqlite3: unable to open database file"):
        Ledger.open(place.root, read_only=True)
    assert list(place.root.iterdir()) == []


# --- use -------------------------------------------------------------------------------------------------------------


def test_threads_may_share_it(place: Place) -> None:
    with Ledger.open(place.root) as ledger:
        failures = lambda name: [ledger.failed(place.other(f"{name}{n}"), "x", "y") for n in range(50)]  # noqa: E731
        threads = [threading.Thread(target=failures, args=(name,)) for name in "abcd"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert place.value("SELECT count(*) FROM items") == 200


def test_an_interrupted_entry_leaves_nothing_and_the_next_one_goes_in(place: Place) -> None:
    def interrupted(ledger: Ledger) -> None:
        with ledger._transaction() as database:
            database.execute("DELETE FROM items")
            raise KeyboardInterrupt

    place.done()
    with Ledger.open(place.root) as ledger:
        with pytest.raises(KeyboardInterrupt):
            interrupted(ledger)
        ledger.failed(place.other("b"), "decode", "x")
    assert place.value("SELECT count(*) FROM items") == 2


def test_what_went_wrong_first_is_told(place: Place) -> None:
    place.done()
    os.utime(place.source, ns=(1, 1))

    def fails_twice() -> None:
        with Ledger.open(place.root) as ledger:
            place.decide_in(ledger)
            ledger._database.connection.execute("PRAGMA query_only = ON")
            raise SetupError("the first")

    with pytest.raises(SetupError, match="the first"):
        fails_twice()


def test_a_mistake_of_ours_is_not_called_damage(place: Place) -> None:
    ledger = Ledger.open(place.root)
    ledger.close()
    ledger.close()
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        ledger.failed(place.item, "decode", "x")


@pytest.mark.parametrize("column", ["inode", "outputs"])
def test_a_row_that_makes_no_sense_is_damage(place: Place, column: str) -> None:
    place.done()
    with place.database() as database:
        database.execute(f"UPDATE items SET {column} = 'nonsense'")
    with pytest.raises(LedgerError, match=r"is damaged \(the row of .*a\.wav"):
        place.decide()


def test_ten_thousand_fresh_files_are_decided_fast(place: Place) -> None:
    # One file stands for all: what is timed is 20,000 stats and the reading of 10,000 rows.
    output = place.output()
    items = [Item(f"{number:032x}", place.source, Path(str(number))) for number in range(10_000)]
    mark, digest = fingerprint(place.source), content_hash(place.source)
    with Ledger.open(place.root) as ledger:
        ledger._database.connection.execute("PRAGMA synchronous = OFF")
        for item in items:
            place.done_in(ledger, item=item, fingerprint=mark, content_hash=digest, outputs=[output])
    begin = time.process_time()
    with Ledger.open(place.root) as ledger:
        decisions = [ledger.decide(item, ["i"], "txt", [output]) for item in items]
    took = time.process_time() - begin
    print(f"10,000 fresh files: {took:.2f} s")
    assert all(isinstance(decision, Fresh) for decision in decisions)
    assert took < 2.0
