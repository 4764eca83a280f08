"""Engines with a stream of their own: segments come while the model goes on, and are those of the whole piece."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mlxbatch.engines.mlx_audio.engine import MlxAudioEngine
from mlxbatch.engines.mlx_audio.heard import Heard
from mlxbatch.engines.mlx_audio.hearing import Part, Streaming, parts
from mlxbatch.errors import OutOfMemory
from mlxbatch.types import Job, JobFailed, Output, Segment
from tests.engines.mlx_audio.parts import ENGLISH, engine_over, hear, job, outputs
from tests.engines.mlx_audio.tiny import MAKERS

STREAMS = ("vibevoice_asr", "vibevoice_streaming", "moss_transcribe_diarize", "nemotron_asr")
LONG = replace(ENGLISH, max_tokens=20)
Engines = Callable[[str], MlxAudioEngine]


@pytest.fixture(scope="module")
def streams(models: Callable[[str], Path]) -> Iterator[Engines]:
    """A family's engine as a stream has it: jobs are pieces of recordings."""
    with ExitStack() as stack:
        loaded: dict[str, MlxAudioEngine] = {}

        def find(name: str) -> MlxAudioEngine:
            if name not in loaded:
                engine = engine_over(models(name), segment_seconds=10.0, stream=True)
                loaded[name] = stack.enter_context(closing(engine))
            return loaded[name]

        yield find


class Scripted:
    """A tokenizer that reads tokens as a script: real forwards of random weights say nothing with times in it."""

    def __init__(self, tokenizer: Any, text: Callable[[int], str]) -> None:
        self._tokenizer, self._text = tokenizer, text

    def decode(self, tokens: Sequence[int], **settings: Any) -> str:
        return self._text(len(tokens)) if len(tokens) != 1 else "}]"  # one token: is a segment whole?

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tokenizer, name)


ANSWER = "".join(f'{{"Start": {n}, "End": {n + 1}, "Speaker": {n % 2}, "Content": "Line {n}."}}, ' for n in range(8))
LINES = "".join(f"[{n}.0][S0{n % 2 + 1}] Line {n}.[{n + 1}.0]" for n in range(8))
SCRIPTS: dict[str, Callable[[int], str]] = {
    "vibevoice_asr": lambda count: f"[{ANSWER}"[: 12 * count],
    "moss_transcribe_diarize": lambda count: LINES[: 10 * count],
    "vibevoice_streaming": lambda count: f"{count} words. ",
}


@pytest.fixture
def scripted(streams: Engines, monkeypatch: pytest.MonkeyPatch) -> Engines:
    """The same, with something to say in the form that each family has for it."""

    def find(name: str) -> MlxAudioEngine:
        engine = streams(name)
        model = engine._model._model
        if name == "nemotron_asr":
            ends = ["▁f!" if piece == "▁f" else piece for piece in model.vocabulary]
            monkeypatch.setitem(model, "vocabulary", ends)  # a module is a dictionary
        if script := SCRIPTS.get(name):
            place = "_tokenizer" if name == "moss_transcribe_diarize" else "tokenizer"
            monkeypatch.setattr(model, place, Scripted(getattr(model, place), script))
        return engine

    return find


def whole(engine: MlxAudioEngine, jobs: Sequence[Job]) -> dict[int, list[Output]]:
    """What the same engine says without a stream."""
    engine._spec = replace(engine._spec, stream=False)
    try:
        return outputs(engine, jobs)
    finally:
        engine._spec = replace(engine._spec, stream=True)


def texts(found: Sequence[Output]) -> list[tuple[float, float, str]]:
    return [(one.start, one.end, one.text) for output in found for one in output.segments]


@pytest.mark.parametrize("name", STREAMS)
def test_segments_come_one_by_one_and_are_those_of_the_whole(scripted: Engines, name: str) -> None:
    engine = scripted(name)
    jobs = [job(number, 3.0 + number / 2, engine.sample_rate, LONG) for number in range(2)]
    wanted, found = whole(engine, jobs), outputs(engine, jobs)
    for one in jobs:
        parts, (end,) = found[one.id], wanted[one.id]
        assert texts(parts) == texts([end])
        assert [part.window for part in parts] == list(range(len(parts)))
        assert [part.last for part in parts] == [False] * (len(parts) - 1) + [True]
        assert (parts[-1].stats.tokens, parts[-1].stats.cut) == (end.stats.tokens, end.stats.cut)
        assert len(parts) > 2, "nothing came before the end"
        assert all(len(part.segments) == 1 for part in parts[:-1])


@pytest.mark.parametrize("name", STREAMS)
def test_as_it_is_it_says_what_the_whole_says(streams: Engines, name: str) -> None:
    """Without a script: mostly text that is no answer, told when it is whole."""
    engine = streams(name)
    jobs = [job(number, seconds, engine.sample_rate) for number, seconds in enumerate((1.9, 1.0, 0.3, 0.0))]
    wanted, found = whole(engine, jobs), outputs(engine, jobs)
    assert {n: texts(one) for n, one in found.items()} == {n: texts(one) for n, one in wanted.items()}
    assert all(one[-1].last for one in found.values())


@pytest.mark.parametrize("name", sorted(set(MAKERS) - set(STREAMS)))
def test_the_others_say_a_piece_when_it_is_whole(models: Callable[[str], Path], name: str) -> None:
    with closing(engine_over(models(name), stream=True)) as engine:
        assert not isinstance(engine._model, Streaming)
        (found,) = outputs(engine, [job(0, 1.5, engine.sample_rate)])[0]
        assert found.last


@pytest.mark.parametrize("name", ["vibevoice_asr", "moss_transcribe_diarize"])
def test_nobody_is_named_who_is_known_in_one_piece_only(scripted: Engines, name: str) -> None:
    engine = scripted(name)
    found = outputs(engine, [job(0, 3.0, engine.sample_rate, LONG)])[0]
    assert {segment.speaker for output in found for segment in output.segments} == {None}


@pytest.mark.parametrize("name", STREAMS)
def test_nan_ends_a_piece_with_a_failure(scripted: Engines, name: str) -> None:
    engine = scripted(name)
    good, bad = job(0, 3.0, engine.sample_rate, LONG), job(1, 3.0, engine.sample_rate, LONG)
    bad.samples[100:200] = float("nan")
    events = hear(engine, [good, bad])
    assert [event for event in events if event.job_id == 1][-1] == JobFailed(1, "the model gave NaN")
    fine = [event for event in events if event.job_id == 0 and isinstance(event, Output)]
    assert texts(fine) == texts(whole(engine, [good])[0])


@pytest.mark.parametrize("error", [OutOfMemory("no room"), ValueError("not to my taste")])
def test_what_was_told_before_an_error_is_not_told_again(
    scripted: Engines, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """The pieces of the batch begin anew, fewer at once."""
    engine = scripted("vibevoice_asr")
    jobs = [job(number, 3.0, engine.sample_rate, LONG) for number in range(2)]
    wanted, stream, calls = outputs(engine, jobs), engine._model.stream, [0]

    def short(cuts: Sequence[Any], tick: Callable[[], None]) -> Iterator[Part]:
        calls[0] += 1
        if calls[0] > 1:
            yield from stream(cuts, tick)
            return
        for _, part in zip(range(2), stream(cuts, tick), strict=False):
            yield part
        raise error

    monkeypatch.setattr(engine._model, "stream", short)
    events = hear(engine, jobs)
    assert calls[0] > 1
    for one in jobs:
        mine = [event for event in events if event.job_id == one.id]
        assert texts([event for event in mine if isinstance(event, Output)]) == texts(wanted[one.id])
        assert isinstance(mine[-1], Output)


def test_parts_are_told_once_and_the_last_has_the_rest() -> None:
    segments = [Segment(float(n), n + 1.0, str(n)) for n in range(4)]

    def saying() -> Any:
        yield segments[:1]
        yield segments[:1]
        yield segments[:3]
        return Heard(tuple(segments), "en", 9)

    found = list(parts(5, saying()))
    assert [[one.text for one in part.heard.segments] for part in found] == [["0"], ["1"], ["2"], ["3"]]
    assert [part.last for part in found] == [False, False, False, True]
    assert {part.row for part in found} == {5}
    assert found[-1].heard == Heard((segments[3],), "en", 9)
