"""Word times out of the whole engine, on tiny weights: whose they are, where they lie, what they must not change."""

from __future__ import annotations

import random
import threading
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mlxbatch.engines.base import EngineSpec
from mlxbatch.engines.whisper import word_times
from mlxbatch.engines.whisper.alignment import Floats
from mlxbatch.engines.whisper.engine import WhisperEngine
from mlxbatch.engines.whisper.slots import Slots, Trial
from mlxbatch.errors import OutOfMemory
from mlxbatch.types import Job, JobFailed, Output, Segment, TranscribeOptions, Word
from tests.engines.whisper.parts import GREEDY, job, noise, outputs_by_job
from tests.jobs import RATE, Given

WORDS = replace(GREEDY, words=True)


def recordings() -> list[Job]:
    """Of many lengths, prompts and temperatures; the fourth goes on in digital silence."""
    ways: list[dict[str, Any]] = [{}, {"temperatures": (0.0, 0.7)}, {"prompt": "the a and"}, {}, {"language": "ja"}, {}]
    seconds = (1, 2, 2, 31, 1, 3)
    samples = [noise(length * RATE, length) for length in seconds]
    samples[3][RATE:] = 0
    return [job(n, one, replace(WORDS, **way)) for n, (one, way) in enumerate(zip(samples, ways, strict=True))]


def run(model: Path, jobs: Sequence[Job], batch_size: int = 4, **more: Any) -> list[Output | JobFailed]:
    spec = EngineSpec("whisper", model, batch_size=batch_size, device={"kind": "cpu"}, **more)
    with closing(WhisperEngine(spec)) as engine:
        return list(engine.run(Given(jobs), lambda live: batch_size))


@pytest.fixture(scope="module")
def alone(short: Path) -> dict[int, list[Output]]:
    """What each recording gets with no neighbour."""
    found: dict[int, list[Output]] = {}
    for one in recordings():
        found |= outputs_by_job(run(short, [one], 1))
    return found


def segments(outputs: dict[int, list[Output]]) -> list[Segment]:
    return [segment for number in sorted(outputs) for output in outputs[number] for segment in output.segments]


def words(outputs: dict[int, list[Output]]) -> list[Word]:
    return [word for segment in segments(outputs) for word in segment.words]


def bare(outputs: dict[int, list[Output]]) -> list[tuple[float, float, str]]:
    return [(segment.start, segment.end, segment.text) for segment in segments(outputs)]


def test_words_are_their_segment_and_lie_in_it(alone: dict[int, list[Output]]) -> None:
    found = segments(alone)
    assert len(words(alone)) > len(found) > 10
    for segment in found:
        assert "".join(word.text for word in segment.words).strip() == segment.text
        assert all(segment.start <= word.start <= word.end <= segment.end for word in segment.words)
        assert all(one.end <= other.start for one, other in pairwise(segment.words))
        assert all(0 < word.probability <= 1 for word in segment.words)


def test_a_recording_gets_in_a_batch_the_words_it_gets_alone(short: Path, alone: dict[int, list[Output]]) -> None:
    jobs = recordings()
    random.Random(1).shuffle(jobs)
    found = outputs_by_job(run(short, jobs, 6, encode_rows=2, encode_streams=2))
    assert bare(found) == bare(alone)
    assert [word.text for word in words(found)] == [word.text for word in words(alone)]
    pairs = list(zip(words(found), words(alone), strict=True))
    assert [one.probability for one, _ in pairs] == pytest.approx([other.probability for _, other in pairs], abs=1e-4)
    # Random weights look everywhere alike: rounding may move a word from one of two places to another as good.
    moved = [one for one, other in pairs if abs(one.start - other.start) > 0.021 or abs(one.end - other.end) > 0.021]
    assert len(moved) <= 0.02 * len(pairs)


def test_outputs_come_in_order_though_words_take_time(alone: dict[int, list[Output]]) -> None:
    """What is passed over in no time, digital silence, waits for the words before it."""
    for outputs in alone.values():
        assert [output.window for output in outputs] == list(range(len(outputs)))
        assert [output.last for output in outputs] == [False] * (len(outputs) - 1) + [True]
    assert (alone[3][-1].segments, alone[3][-1].stats.attempts) == ((), 0)


def test_only_who_asks_gets_them_and_nothing_else_changes(short: Path, alone: dict[int, list[Output]]) -> None:
    jobs = [replace(one, options=replace(one.options, words=one.id % 2 == 0)) for one in recordings()]
    found = outputs_by_job(run(short, jobs))
    assert bare(found) == bare(alone)
    for number, outputs in found.items():
        for segment in (segment for output in outputs for segment in output.segments):
            assert bool(segment.words) == (number % 2 == 0)


def test_without_them_no_attention_is_looked_at_and_no_memory_counted(
    short: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise AssertionError("nobody asked")

    for owner, name in ((Slots, "attention"), (word_times, "add_words")):
        monkeypatch.setattr(owner, name, fail)
    assert segments(outputs_by_job(run(short, [job(0, noise(2 * RATE), GREEDY)])))
    needs = []
    for asked in (False, True):
        with closing(WhisperEngine(EngineSpec("whisper", short, words=asked))) as engine:
            needs.append(engine.need(10.0))
    assert needs[0] < needs[1] < 1.1 * needs[0]


def test_where_there_is_no_memory_to_look_the_window_begins_again(
    short: Path, alone: dict[int, list[Output]], monkeypatch: pytest.MonkeyPatch
) -> None:
    attention, failed = Slots.attention, list[Trial]()

    def short_of_memory(self: Slots, trial: Trial) -> Floats:
        if len(self.live) > 1 and not failed:
            failed.append(trial)
            raise OutOfMemory("not now")
        return attention(self, trial)

    monkeypatch.setattr(Slots, "attention", short_of_memory)
    found = outputs_by_job(run(short, recordings()[:3]))
    assert len(failed) == 1
    assert bare(found) == bare({number: alone[number] for number in range(3)})
    assert all(segment.words for segment in segments(found))


@pytest.mark.parametrize(("task", "wanted"), [("transcribe", "ja"), ("translate", "en")])
def test_a_translation_is_split_as_english(
    short: Path, monkeypatch: pytest.MonkeyPatch, task: Any, wanted: str
) -> None:
    languages: list[str] = []
    timed = word_times.timed_words

    def note(*args: Any) -> list[tuple[Word, ...]]:
        languages.append(args[-1])
        return timed(*args)

    monkeypatch.setattr(word_times, "timed_words", note)
    run(short, [job(0, noise(2 * RATE), replace(WORDS, language="ja", task=task))])
    assert set(languages) == {wanted}


def test_silence_has_none(short: Path) -> None:
    options = TranscribeOptions(no_speech_threshold=-1, words=True)
    assert segments(outputs_by_job(run(short, [job(0, noise(2 * RATE), options)]))) == []


def test_a_run_that_is_given_up_ends_the_thread(short: Path) -> None:
    with closing(WhisperEngine(EngineSpec("whisper", short, batch_size=4, device={"kind": "cpu"}))) as engine:
        running = engine.run(Given(recordings()[:3]), lambda live: 4)
        next(running)
        assert any(thread.name.startswith("words") for thread in threading.enumerate())
        running.close()
        assert not any(thread.name.startswith("words") for thread in threading.enumerate())
        again = outputs_by_job(list(engine.run(Given(recordings()[:1]), lambda live: 4)))
        assert words(again)


def test_an_engine_that_fails_to_time_words_says_so(short: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ValueError("a bug")

    monkeypatch.setattr(word_times, "emphasis", fail)
    with pytest.raises(ValueError, match="a bug"):
        run(short, [job(0, noise(2 * RATE), WORDS)])


def test_pieces_of_one_window_share_its_tokens() -> None:
    """Segments, a text that breaks off behind them, timestamps between: each word has the times of its own tokens."""
    begin = 100
    tokens = [begin, 1, 2, begin + 20, begin + 20, 3, begin + 40, begin + 40, 4]
    steps = {1: (0, 10), 2: (10, 20), 5: (25, 35), 8: (40, 50), 9: (50, 60)}
    attention = np.full((1, 10, 60), -20, np.float32)
    for row, (first, last) in steps.items():
        attention[0, row, first:last] = 0
    parts = [Segment(5.0, 5.4, "a b"), Segment(5.4, 5.8, "c")]
    spoken = word_times.Spoken.of(parts, [[1, 2], [3]], tokens, [-0.1] * 9, attention, begin, 5.0, "en")
    found = word_times.add_words([spoken], lambda ids: "".join(f" {'abc'[i - 1]}" for i in ids))[0]
    assert [[word.text for word in segment.words] for segment in found] == [[" a", " b"], [" c"]]
    starts = [word.start for segment in found for word in segment.words]
    assert starts == pytest.approx([5.0, 5.2, 5.5], abs=0.06)
    assert found[1].words[0].end == pytest.approx(5.8, abs=0.06)
