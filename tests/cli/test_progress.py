"""What a run shows while it goes: figures, plain lines, a live view, and when which."""

from __future__ import annotations

import errno
import io
import os
import pty
import re
import select
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from mlxbatch.cli import progress as progress_module
from mlxbatch.cli.log import LogFile, Sink
from mlxbatch.cli.progress import LiveView, Progress, View, is_terminal, make_view
from mlxbatch.cli.request import Flags
from mlxbatch.types import Done, Failed, Item, Output, Planned, Probed, Readings, Skipped, WindowStats
from mlxbatch.words import clock, count, elapsed, minutes, size

from .conftest import ROOT, finish, program

ANSI = "\x1b["


def planned(name: str, seconds: float, group: int) -> Planned:
    return Planned(Probed(Item(name, Path(f"{name}.wav"), Path(name)), seconds, 16_000, 1), group)


A, B = planned("a", 60.0, 0), planned("b", 40.0, 1)


def window(start: float, seconds: float) -> Output:
    return Output(0, 0, (), WindowStats(start, seconds, 1, 1.0), last=False)


def done(one: Planned) -> Done:
    return Done(one.probed.item, (), one.probed.seconds, (WindowStats(0.0, 30.0, 1, 1.0),))


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_progress_is_counted_in_audio_seconds() -> None:
    clock = Clock()
    progress = Progress(clock)
    assert not progress.running
    progress.planned([A, B])
    assert (progress.total, progress.groups, progress.share, progress.rtfx, progress.eta) == (100, 2, 0, None, None)
    clock.now = 5.0
    progress.window(A, window(0.0, 30.0))
    progress.window(A, window(20.0, 5.0))  # never back
    assert (progress.seconds, progress.group) == (30.0, 1)
    assert (progress.rtfx, progress.eta) == (6.0, pytest.approx(70 / 6))
    progress.result(done(A))
    progress.window(B, window(30.0, 30.0))  # never over its end
    assert (progress.seconds, progress.group, progress.share) == (100.0, 2, 1.0)


def test_a_split_recording_is_as_far_as_its_channels_are_on_average() -> None:
    progress, call = Progress(Clock()), replace(A, rows=2)
    progress.planned([call])
    agent, customer = window(0.0, 30.0), replace(window(0.0, 30.0), job_id=1)
    progress.window(call, agent)
    assert (progress.seconds, progress.share) == (15.0, 0.25)
    progress.window(call, customer)
    progress.window(call, customer)  # begun anew after a crash
    assert progress.seconds == 30.0
    progress.window(call, replace(window(30.0, 30.0), job_id=1))
    assert progress.seconds == 45.0
    progress.planned([call])
    assert (progress.seconds, progress.total) == (0.0, 60.0)
    progress.window(call, agent)
    assert progress.seconds == 15.0
    progress.result(done(call))
    assert progress.share == 1.0


def test_a_second_plan_is_what_is_left_from_its_beginning() -> None:
    """As when another model takes over: B had been worked on, and is begun anew."""
    clock = Clock()
    progress = Progress(clock)
    progress.planned([A, B])
    clock.now = 10.0
    progress.result(done(A))
    progress.window(B, window(0.0, 30.0))
    progress.planned([replace(B, group=0)])
    assert (progress.total, progress.seconds, progress.share, progress.elapsed) == (100.0, 60.0, 0.6, 10.0)
    assert (progress.groups, progress.group) == (1, 0)
    progress.result(done(B))
    assert progress.share == 1.0


def test_one_that_was_in_no_plan_counts_from_its_first_window() -> None:
    progress = Progress()
    progress.planned([A])
    progress.window(B, window(0.0, 30.0))
    assert (progress.total, progress.seconds) == (100.0, 30.0)


def test_a_failure_counts_as_gone_through() -> None:
    progress = Progress()
    progress.planned([A, B])
    progress.result(Failed(A.probed.item, "decode", "no audio"))
    progress.result(Skipped(Item("z", Path("z"), Path("z")), "done"))
    assert (progress.seconds, progress.failed, progress.skipped) == (60.0, 1, 1)


def test_the_figures_of_a_line() -> None:
    clock = Clock()
    progress = Progress(clock)
    progress.planned([A, B])
    clock.now = 10.0
    progress.window(A, window(0.0, 30.0))
    progress.readings(Readings(active=600_000_000, peak=1_500_000_000))
    progress.result(Failed(B.probed.item, "infer", "x"))
    line = ", ".join(progress.figures())
    assert (
        line == "1.2 min of 1.7 min, 0:10 so far, RTFx 7.0, 0:04 left, group 1/2, memory 600 MB, peak 1.5 GB, 1 failed"
    )


def test_nothing_planned_is_all_done() -> None:
    progress = Progress()
    progress.planned([])
    assert progress.share == 1.0


def test_a_plain_view_writes_a_line_every_five_seconds_of_work() -> None:
    stream, clock = io.StringIO(), Clock()
    view = View(stream, clock=clock)
    with view:
        view.found(2)
        view.say("loading whisper-base")
        clock.now = 100.0
        view.readings(Readings())  # before there is a plan
        view.planned([A, B])
        for _ in range(24):
            clock.now += 0.5
            view.readings(Readings())
        view.result(done(A))
    lines = stream.getvalue().splitlines()
    assert lines[:3] == [
        "mlxbatch: 2 files found",
        "mlxbatch: loading whisper-base",
        "mlxbatch: 2 files to do: 1.7 min of audio in 2 groups",
    ]
    assert len(lines[3:]) == 2
    assert all(line.startswith("mlxbatch: 0%: 0 s of 1.7 min") for line in lines[3:])


def test_in_a_long_run_the_lines_get_rarer() -> None:
    stream, clock = io.StringIO(), Clock()
    view = View(stream, clock=clock)
    view.planned([A, B])
    counts = []
    for _ in range(4):
        stream.truncate(0)
        for _ in range(900):
            clock.now += 1
            view.readings(Readings())
        counts.append(stream.getvalue().count("0%: "))
    assert counts[0] > counts[1] > 14
    assert counts[2:] == [15, 15], "one a minute"


def test_which_lines_are_shown() -> None:
    failed = Failed(A.probed.item, "decode", "no audio")
    views = {
        "quiet": View(io.StringIO(), level="error"),
        "warning": View(io.StringIO(), level="warning"),
        "usual": View(io.StringIO()),
        "verbose": View(io.StringIO(), verbose=True),
        "debug": View(io.StringIO(), level="debug"),
    }
    seen = {}
    for name, view in views.items():
        view.say("loading")
        view.note("a note")
        view.result(done(B))
        view.result(failed)
        view.event("governor", {"step": "hold"})
        view.event("sample", {"rss": 10**9})
        view.event("span", {})
        assert isinstance(view.stream, io.StringIO)
        seen[name] = [line.removeprefix("mlxbatch: ") for line in view.stream.getvalue().splitlines()]
    loading, note, held, sample = "loading", "a note", "new work waits", "sample: rss 1.0 GB"
    finished, failure = "done: b.wav (0:40)", "failed: a.wav: decode: no audio"
    assert seen["quiet"] == [failure]
    assert seen["warning"] == [note, failure, held]
    assert seen["usual"] == [loading, note, failure, held]
    assert seen["verbose"] == [loading, note, finished, failure, held]
    assert seen["debug"] == [loading, note, finished, failure, held, sample]


def test_a_log_takes_what_the_screen_does_not(tmp_path: Path) -> None:
    log, stream = LogFile(tmp_path / "log"), io.StringIO()
    view = View(stream, level="error", others=[Sink("info", log.take)])
    view.say("loading")
    view.result(done(B))
    view.result(Failed(A.probed.item, "decode", "no audio"))
    assert stream.getvalue() == "mlxbatch: failed: a.wav: decode: no audio\n"
    assert [line.split("]: ")[1] for line in log.path.read_text().splitlines()] == [
        "loading",
        "failed: a.wav: decode: no audio",
    ]


class Broken(io.StringIO):
    def write(self, text: str) -> int:
        raise OSError(errno.EIO, "Input/output error")


def test_a_stream_that_is_gone_ends_no_run() -> None:
    with View(Broken()) as view:
        view.note("nobody reads this")
        view.result(done(A))
    assert view.progress.done == 1


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_the_view_fits_the_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert type(make_view(Flags(), None)) is View
    monkeypatch.setattr(sys, "stderr", Terminal())
    assert type(make_view(Flags(), None)) is LiveView
    assert type(make_view(Flags(quiet=True), None)) is View
    monkeypatch.setattr(sys, "stdout", Terminal())
    assert type(make_view(Flags(as_json=True), None)) is View
    monkeypatch.setenv("TERM", "dumb")
    assert type(make_view(Flags(), None)) is View
    assert not is_terminal(sys.stderr)


def test_quiet_is_about_the_screen_and_the_level_about_all(tmp_path: Path) -> None:
    log = LogFile(tmp_path / "log")
    view = make_view(Flags(quiet=True, log_level="warning"), log)
    assert view.shows("error")
    assert not view.shows("warning")
    for level in ("info", "warning"):
        view.line(level, level)
    assert log.path.read_text().endswith("]: warning\n")
    assert make_view(Flags(log_level="debug"), None).shows("debug")


def test_the_live_view_goes_from_spinner_to_bar() -> None:
    stream = Terminal()
    with LiveView(stream, verbose=True) as view:
        view.found(2)
        view.say("loading whisper-base")
        view._live.refresh()
        view.planned([A, B])
        view.window(A, window(0.0, 30.0))
        view.readings(Readings(active=10**9, peak=2 * 10**9))
        view._live.refresh()
        view.note("a [bold]note[/bold] with brackets")
        view.event("child", {"what": "died", "cause": "killed"})
        view.line("29%: half an hour so far", passing=True)
        view.result(done(A))
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", stream.getvalue())
    assert "loading whisper-base" in text
    assert " 30%" in text
    assert "group 1/2" in text
    assert "mlxbatch: a [bold]note[/bold] with brackets" in text
    assert "mlxbatch: done: a.wav (1:00)" in text
    assert "mlxbatch: the engine's process died (killed); another is started" in text
    assert "half an hour" not in text


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (size(812_400_000), "812 MB"),
        (size(1_234_000_000), "1.2 GB"),
        (minutes(41.6), "42 s"),
        (minutes(210), "3.5 min"),
        (minutes(44_280), "12.3 h"),
        (clock(7.4), "0:07"),
        (clock(3723), "1:02:03"),
        (elapsed(0.64), "0.6 s"),
        (elapsed(75), "1:15"),
        (count(1, "group"), "1 group"),
        (count(3, "group"), "3 groups"),
    ],
)
def test_figures_as_people_read_them(text: str, wanted: str) -> None:
    assert text == wanted


# --- real processes --------------------------------------------------------------------------------------------------

RUN = ("transcribe", "in", "-o", "out")


def in_a_terminal(*arguments: str, **environment: str) -> tuple[int, str]:
    """Run over the fake engine with standard error on a pseudo-terminal: exit code, what was drawn."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.cli.fake_run", *RUN, *arguments],
        env=os.environ | {"PYTHONPATH": str(ROOT), "TERM": "xterm", "COLUMNS": "100"} | environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=theirs,
    )
    os.close(theirs)
    drawn = b""
    while process.poll() is None or select.select([ours], [], [], 0)[0]:
        if select.select([ours], [], [], 0.1)[0]:
            try:
                drawn += os.read(ours, 4096)
            except OSError:  # Linux: the other side is closed
                break
    os.close(ours)
    return process.wait(10), drawn.decode("utf-8")


def test_a_terminal_gets_a_live_view_and_a_table(recordings: Path) -> None:
    code, drawn = in_a_terminal(FAKE_ENGINE='{"seconds_per_batch": 0.6}')
    assert code == 0
    assert ANSI in drawn
    assert "group 1/1" in drawn or "loading" in drawn
    assert re.search(r"done +3 *\r\n", re.sub(r"\x1b\[[0-9;]*m", "", drawn))
    assert drawn.count("\x1b[?25l") == drawn.count("\x1b[?25h"), "the cursor is back"


def test_no_color_means_none(recordings: Path) -> None:
    _, drawn = in_a_terminal(NO_COLOR="1")
    colours = [code for code in re.findall(r"\x1b\[([0-9;]*)m", drawn) if re.search(r"(^|;)(3|4|9|10)\d", code)]
    assert colours == []


def test_a_line_leaves_the_live_view_whole(recordings: Path) -> None:
    """Each line stands alone from the first column on; the bar is wiped before and drawn again below it."""
    (recordings / "text.wav").write_text("no recording")
    code, drawn = in_a_terminal("-v", "--log-level", "debug", FAKE_ENGINE='{"seconds_per_batch": 0.4}')
    assert code == 1
    lines = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", drawn).replace("\r\n", "\n").split("\n")
    ours = [re.split("\r", line)[-1] for line in lines if "mlxbatch: " in line]
    assert all(line.startswith("mlxbatch: ") for line in ours), ours
    assert any(line.startswith("mlxbatch: failed: in/text.wav: probe: ") for line in ours)
    assert any(line.startswith("mlxbatch: done: in/a.wav (0:01)") for line in ours)
    assert any(line.startswith("mlxbatch: loaded: weights ") for line in ours)
    assert not any("3 files done" in line for line in ours), "the table says it"


def test_a_dumb_terminal_gets_plain_lines(recordings: Path) -> None:
    code, drawn = in_a_terminal(TERM="dumb")
    assert code == 0
    assert "\x1b" not in drawn
    assert "mlxbatch: 3 files done" in drawn


def test_quiet_in_a_terminal_draws_nothing(recordings: Path) -> None:
    assert in_a_terminal("-q") == (0, "")


def test_without_a_terminal_there_are_no_escapes(recordings: Path) -> None:
    (recordings / "text.wav").write_text("no recording")
    ran = finish(program(*RUN, "-v", fake={}))
    assert ran.code == 1
    assert "\x1b" not in ran.err + ran.out
    assert ran.out == ""
    assert "mlxbatch: failed: in/text.wav: probe: " in ran.err
    assert "3 files done, 0 skipped, 1 failed" in ran.err


def test_quiet_without_a_terminal_says_nothing(recordings: Path) -> None:
    ran = finish(program(*RUN, "-q", fake={}))
    assert (ran.code, ran.out, ran.err) == (0, "", "")


def test_json_is_alone_on_standard_output(recordings: Path) -> None:
    ran = finish(program(*RUN, "--json", fake={}))
    assert [record["event"] for record in ran.records] == ["item"] * 3 + ["summary"]
    assert ran.summary["run"] in {path.stem for path in Path("out/.mlxbatch/runs").iterdir()}
    assert "  done  " not in ran.err


def test_plain_lines_keep_coming_while_nothing_is_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress_module, "EVERY", 0.05)
    stream = io.StringIO()
    with View(stream) as view:
        view.planned([A])
        deadline = time.monotonic() + 10
        while stream.getvalue().count("0%: 0 s of") < 3 and time.monotonic() < deadline:
            time.sleep(0.02)
    lines = stream.getvalue().count("0%: 0 s of")
    assert lines >= 3
    time.sleep(0.2)
    assert stream.getvalue().count("0%: 0 s of") == lines
