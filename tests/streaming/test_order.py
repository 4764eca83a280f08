"""Whatever order the engine works in, segments come out in that of time, each once."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from mlxbatch.streaming.order import Heard, Order, Piece, Spoken
from mlxbatch.types import Failed, Item, JobFailed, Output, Segment, WindowStats, Word

ITEM = Item("a", Path("a.wav"), Path("a"))
OTHER = Item("b", Path("b.wav"), Path("b"))


def piece(start: float, *jobs: int, item: Item = ITEM, channels: tuple[int | None, ...] = (None,)) -> Piece:
    return Piece(item, start, 10.0, jobs, channels)


def output(job: int, window: int, *starts: float, last: bool = False, at: float = 0.0, cut: bool = False) -> Output:
    segments = tuple(Segment(start, start + 0.5, f"{job}:{start:g}") for start in starts)
    return Output(job, window, segments, WindowStats(at, 5.0, 7, 0.1, cut=cut), last, "en")


def told(order: Order) -> list[str]:
    """Texts, and how recordings end."""
    words = []
    for one in order.told():
        match one:
            case Spoken():
                words.append(one.segment.text)
            case Heard():
                words.append(f"end of {one.item.id}")
            case Failed():
                words.append(f"{one.item.id} {one.error}")
    return words


def test_a_piece_waits_for_those_before_it_and_for_nothing_else() -> None:
    order = Order()
    for number in range(3):
        order.begin(piece(10.0 * number, number))
    order.take(output(1, 0, 1.0))
    assert told(order) == []
    order.take(output(0, 0, 2.0))
    assert told(order) == ["0:2"]
    order.take(output(0, 1, 7.0, last=True))
    assert told(order) == ["0:7", "1:1"]
    order.take(output(2, 0, last=True))
    order.take(output(1, 1, last=True))
    order.end(Heard(ITEM, 30.0))
    assert told(order) == ["end of a"]


def test_times_are_those_of_the_recording() -> None:
    order = Order()
    order.begin(Piece(ITEM, 62.34, 10.0, (0,), (1,)))
    word = Word(1.0, 1.5, " Hello", 0.9)
    order.take(Output(0, 0, (Segment(1.0, 2.001, "Hello", (word,)),), WindowStats(0, 5, 7, 0.1), True, "de"))
    (spoken,) = order.told()
    assert isinstance(spoken, Spoken)
    assert (spoken.language, spoken.segment.channel) == ("de", 1)
    assert (spoken.segment.start, spoken.segment.end) == (63.34, 64.341)
    assert spoken.segment.words == (Word(63.34, 63.84, " Hello", 0.9),)


def test_tracks_take_turns_by_time() -> None:
    order = Order()
    order.begin(piece(0.0, 0, 1, channels=(0, 1)))
    order.take(output(0, 0, 1.0, 4.0))
    assert told(order) == [], "channel 1 may have said something before"
    order.take(output(1, 0, 2.0))
    assert told(order) == ["0:1", "1:2"]
    order.take(output(1, 1, at=3.0))
    assert told(order) == [], "its next window may still begin at 3 s"
    order.take(output(1, 2, at=4.5))
    assert told(order) == ["0:4"]
    order.take(output(1, 3, 6.0, last=True))
    order.take(output(0, 1, last=True))
    assert told(order) == ["1:6"]


def test_a_window_that_comes_again_is_told_once() -> None:
    """As when the engine's process died, and the job began anew in the next one."""
    order = Order()
    order.begin(piece(0.0, 0))
    order.take(output(0, 0, 1.0))
    order.take(output(0, 1, 2.0))
    assert told(order) == ["0:1", "0:2"]
    for window, start in enumerate((1.0, 2.0, 3.0)):
        order.take(output(0, window, start, last=window == 2))
    assert told(order) == ["0:3"]


def test_a_piece_that_comes_to_fewer_windows_the_second_time_ends() -> None:
    order = Order()
    order.begin(piece(0.0, 0))
    order.begin(piece(10.0, 1))
    for window in range(3):
        order.take(output(0, window, float(window)))
    order.take(output(0, 0, 0.0, last=True))
    order.take(output(1, 0, 1.0, last=True))
    assert told(order) == ["0:0", "0:1", "0:2", "1:1"]


def test_a_piece_that_fails_says_so_in_its_place_and_the_recording_goes_on() -> None:
    order = Order()
    for number in range(3):
        order.begin(piece(10.0 * number, number))
    order.take(JobFailed(1, "the model gave NaN"))
    order.take(output(2, 0, 1.0, last=True))
    order.take(output(0, 0, 2.0, last=True))
    assert told(order) == ["0:2", "a from 10.0 to 20.0 s: the model gave NaN", "2:1"]


def test_one_track_that_fails_leaves_the_other() -> None:
    order = Order()
    order.begin(piece(0.0, 0, 1, channels=(0, 1)))
    order.take(output(1, 0, 2.0))
    order.take(JobFailed(0, "bad"))
    order.take(output(1, 1, 3.0, last=True))
    assert told(order) == ["1:2", "1:3", "a from 0.0 to 10.0 s: bad"]


def test_recordings_follow_each_other_and_say_what_was_cut_off() -> None:
    order = Order()
    order.begin(piece(60.0, 0))
    order.end(Heard(ITEM, 70.0, ("truncated",)))
    order.end(Failed(Item("x", Path("x.wav"), Path("x")), "decode", "no audio"))
    order.begin(piece(0.0, 1, item=OTHER))
    order.take(output(1, 0, 1.0, last=True))
    assert told(order) == []
    order.take(output(0, 0, 1.0, last=True, at=3.0, cut=True))
    first, heard, failed, last = order.told()
    assert isinstance(first, Spoken)
    assert isinstance(last, Spoken)
    assert heard == Heard(ITEM, 70.0, ("truncated", heard.warnings[1]))  # type: ignore[union-attr]
    assert "was cut off after 7 tokens" in heard.warnings[1]  # type: ignore[union-attr]
    assert "window at 1:03" in heard.warnings[1]  # type: ignore[union-attr]
    assert isinstance(failed, Failed)


def test_what_the_engine_never_answered_has_failed() -> None:
    order = Order()
    order.begin(piece(0.0, 0))
    order.begin(piece(10.0, 1))
    order.take(output(0, 0, 1.0))
    order.give_up("gone")
    assert told(order) == ["0:1", "a from 0.0 to 10.0 s: gone", "a from 10.0 to 20.0 s: gone"]


@given(data=st.data(), tracks=st.integers(1, 3), count=st.integers(1, 4))
def test_any_order_of_windows_comes_out_in_the_order_of_time(data: st.DataObject, tracks: int, count: int) -> None:
    order, queues, wanted = Order(), [], []
    for number in range(count):
        jobs = tuple(range(number * tracks, (number + 1) * tracks))
        order.begin(piece(10.0 * number, *jobs, channels=tuple(range(tracks))))
        for job in jobs:
            times = sorted(data.draw(st.lists(st.integers(0, 18), max_size=4, unique=True)))
            windows = [output(job, n, time / 2, at=time / 2) for n, time in enumerate(times)]
            queues.append([*windows, output(job, len(times), at=9.5, last=True)])
            wanted += [10.0 * number + time / 2 for time in times]
    found = []
    while waiting := [queue for queue in queues if queue]:
        order.take(data.draw(st.sampled_from(waiting)).pop(0))
        found += [one.segment.start for one in order.told() if isinstance(one, Spoken)]
    assert found == sorted(wanted)
