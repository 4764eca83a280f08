"""The whole engine on tiny weights: recordings of all lengths, whoever their neighbours are."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file

from mlxbatch.engines.base import EngineSpec
from mlxbatch.engines.whisper import engine as engine_module
from mlxbatch.engines.whisper import network
from mlxbatch.engines.whisper.engine import WhisperEngine
from mlxbatch.engines.whisper.features import log_mel
from mlxbatch.engines.whisper.slots import Slots, Trial
from mlxbatch.engines.whisper.windows import Window
from mlxbatch.types import Job, JobFailed, Output, Span, TranscribeOptions
from tests.engines.whisper.parts import GREEDY, edit_json, job, noise, outputs_by_job, short_whisper
from tests.jobs import RATE, Given
from tests.models.tiny import TOKEN_IDS

Events = list[Output | JobFailed]
SAMPLED = replace(GREEDY, temperatures=(0.0, 0.7))  # tiny weights are always unsure: the second is always tried
DETECT = TranscribeOptions(temperatures=(0.0,))


def spec(model: Path, batch_size: int = 4, **more: Any) -> EngineSpec:
    return EngineSpec("whisper", model, batch_size=batch_size, device={"kind": "cpu"}, **more)


def run(
    model: Path | EngineSpec, jobs: Sequence[Job], batch_size: int = 4, admit: Callable[[int], int] | None = None
) -> Events:
    with closing(WhisperEngine(model if isinstance(model, EngineSpec) else spec(model, batch_size))) as engine:
        return list(engine.run(Given(jobs), admit or (lambda live: batch_size)))


def silence(count: int) -> NDArray[np.float32]:
    return np.zeros(count, np.float32)


def recordings() -> list[Job]:
    """Of many lengths, with digital silence at the front, inside and alone."""
    lengths = (0, 1, 160, 1500, 2 * RATE, 31 * RATE, 3 * RATE)
    jobs = [job(number, noise(count), SAMPLED if number % 2 else GREEDY) for number, count in enumerate(lengths)]
    holed = noise(95 * RATE)
    holed[20 * RATE : 60 * RATE] = 0
    more = [holed, np.concatenate([silence(40 * RATE), noise(5 * RATE)]), silence(65 * RATE), 0.3 * noise(8 * RATE)]
    jobs += [job(len(jobs) + number, samples, DETECT) for number, samples in enumerate(more)]
    return jobs


def told(outputs: Sequence[Output]) -> list[Any]:
    """All that must not depend on the batch."""
    return [
        (
            output.window,
            output.last,
            output.language,
            replace(output.stats, latency=0),
            [(s.start, s.end, s.text, s.temperature, s.channel) for s in output.segments],
        )
        for output in outputs
    ]


@pytest.fixture(scope="module")
def alone(short: Path) -> dict[int, list[Output]]:
    """What each recording gets with no neighbour."""
    with closing(WhisperEngine(spec(short, 1))) as engine:
        return {one.id: outputs_by_job(list(engine.run(Given([one]), lambda live: 1)))[one.id] for one in recordings()}


@pytest.mark.parametrize(
    ("batch_size", "rows", "streams", "order"),
    [(4, 8, 1, None), (8, 2, 2, 3)],
)
def test_a_recording_gets_in_a_batch_what_it_gets_alone(
    short: Path, alone: dict[int, list[Output]], batch_size: int, rows: int, streams: int, order: int | None
) -> None:
    jobs = recordings()
    if order is not None:
        random.Random(order).shuffle(jobs)
    found = outputs_by_job(run(spec(short, batch_size, encode_rows=rows, encode_streams=streams), jobs, batch_size))
    assert found.keys() == alone.keys()
    for number, outputs in found.items():
        assert told(outputs) == told(alone[number])
        for ours, theirs in zip(outputs, alone[number], strict=True):
            for one, other in zip(ours.segments, theirs.segments, strict=True):
                assert one.avg_logprob == pytest.approx(other.avg_logprob, abs=1e-4)
                assert one.no_speech_prob == pytest.approx(other.no_speech_prob, abs=1e-4)


def test_windows_and_times_are_in_order(alone: dict[int, list[Output]]) -> None:
    for one in recordings():
        outputs = alone[one.id]
        assert [output.window for output in outputs] == list(range(len(outputs)))
        assert [output.last for output in outputs] == [False] * (len(outputs) - 1) + [True]
        time = 0.0
        for output in outputs:
            for segment in output.segments:
                assert time <= segment.start < segment.end <= round(one.seconds, 3)
                time = segment.end
        assert outputs[-1].stats.start + outputs[-1].stats.seconds == pytest.approx(one.seconds)
    assert any(output.segments for outputs in alone.values() for output in outputs)
    assert max(len(outputs) for outputs in alone.values()) > 3


def test_digital_silence_is_never_heard(alone: dict[int, list[Output]]) -> None:
    silent = alone[9]
    assert [(output.window, output.last, output.segments, output.language) for output in silent] == [
        (0, False, (), None),
        (1, False, (), None),
        (2, True, (), None),
    ]
    assert [output.stats.tokens for output in silent] == [0, 0, 0]
    assert (alone[8][0].segments, alone[8][0].stats.attempts, alone[8][0].language) == ((), 0, None)
    assert alone[8][1].language is not None
    assert alone[8][1].stats.start == 30


def test_options_and_channel_of_the_job_come_back(short: Path) -> None:
    one = replace(job(7, noise(2 * RATE)), channel=1)
    found = outputs_by_job(run(short, [one]))[7]
    assert found[0].language == "en"
    assert {segment.channel for output in found for segment in output.segments} == {1}


def test_the_language_is_that_of_the_first_window_with_sound(short: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, str | None, str]] = []
    prompt = WhisperEngine._prompt

    def watch(self: WhisperEngine, window: Window, language: str) -> list[int]:
        asked.append((window.index, window.language, language))
        return prompt(self, window, language)

    monkeypatch.setattr(WhisperEngine, "_prompt", watch)
    samples = np.concatenate([silence(30 * RATE), noise(31 * RATE)])
    outputs = outputs_by_job(run(short, [job(0, samples, DETECT)]))[0]
    language = asked[0][2]
    assert asked[0] == (1, None, language)
    assert [(given, used) for _, given, used in asked[1:]] == [(language, language)] * (len(asked) - 1)
    assert len(asked) > 1
    assert [output.language for output in outputs] == [None] + [language] * (len(outputs) - 1)


# ---- prompts, tasks and limits


def asked() -> list[Job]:
    """Recordings of which each is asked for in another way; the last prompt is the longest that this model takes."""
    ways: list[dict[str, Any]] = [
        {},
        {"prompt": "the a and"},
        {"prompt": "a the a", "hotwords": ("Zoe", "Ann")},
        {"task": "translate", "language": "de"},
        {"hotwords": ("the",), "max_tokens": 3},
        {"prompt": "and", "language": None},
        {"max_tokens": 2, "temperatures": (0.4,)},
        {"prompt": "a " * 31, "task": "translate", "temperatures": (0.9,)},
    ]
    lengths = (2, 2, 2, 2, 1, 3, 1, 2)
    return [
        job(n, noise(length * RATE, n), replace(GREEDY, **way))
        for n, (length, way) in enumerate(zip(lengths, ways, strict=True))
    ]


def test_rows_of_many_prompts_get_what_each_gets_alone(short: Path) -> None:
    with closing(WhisperEngine(spec(short, 1))) as engine:
        single = [told(outputs_by_job(list(engine.run(Given([one]), lambda live: 1)))[one.id]) for one in asked()]
    jobs = asked()
    random.Random(1).shuffle(jobs)
    found = outputs_by_job(run(spec(short, 4, encode_rows=4), jobs, 4))
    assert [told(found[number]) for number in sorted(found)] == single


def test_what_is_asked_changes_what_is_said(short: Path) -> None:
    """Or the test above would prove nothing."""
    ways: list[dict[str, Any]] = [
        {},
        {"prompt": "the a and"},
        {"hotwords": ("the a and", "Ann")},
        {"task": "translate"},
        {"language": "de"},
        {"temperatures": (0.7,)},
        {"temperatures": (0.7,), "prompt": "the a and"},
    ]
    jobs = [job(n, noise(2 * RATE, 1), replace(GREEDY, **way)) for n, way in enumerate(ways)]
    found = outputs_by_job(run(short, jobs, 8))
    assert len({str(told(found[n])[0][4]) for n in found}) == len(ways)


def test_the_prompt_comes_before_every_window(short: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun = attempts(monkeypatch)
    outputs = outputs_by_job(run(short, [job(0, noise(65 * RATE), replace(GREEDY, prompt="the a"))]))[0]
    assert len(outputs) >= 3
    previous, the, a = (TOKEN_IDS[token] for token in ("<|startofprev|>", "Ġthe", "Ġa"))
    assert all(trial.prompt[:3] == [previous, the, a] and len(trial.prompt) == 6 for trial in begun)
    assert all(trial.tokens[0] >= TOKEN_IDS["<|0.00|>"] for trial in begun)  # the rules begin behind the prompt


def test_neither_language_nor_speech_is_judged_by_the_prompt(short: Path) -> None:
    samples = noise(3 * RATE)
    ways = (DETECT, replace(DETECT, prompt="the a and", hotwords=("Ann",)))
    plain, prompted = (outputs_by_job(run(short, [job(0, samples, way)]))[0] for way in ways)
    assert plain[0].language == prompted[0].language
    assert plain[0].segments[0].no_speech_prob == pytest.approx(prompted[0].segments[0].no_speech_prob, abs=1e-6)
    assert told(plain) != told(prompted)


def test_random_keys_follow_the_prompt(short: Path) -> None:
    window = Window(job(0, noise(RATE)), (0, RATE), [(0, RATE)])
    assert window.seed(0.2, ()) == window.seed(0.2)
    assert len({window.seed(0.2), window.seed(0.4), window.seed(0.2, (1, 2)), window.seed(0.2, (12,))}) == 4


def test_a_prompt_that_does_not_fit_fails_its_recording(short: Path) -> None:
    jobs = [job(number, noise(RATE), replace(GREEDY, prompt="a " * length)) for number, length in enumerate((32, 31))]
    events = run(short, jobs)
    (failed,) = [event for event in events if isinstance(event, JobFailed)]
    assert failed == JobFailed(0, "the model has room for 31 tokens of prompt and hotwords, these are 32: shorten them")
    assert any(isinstance(event, Output) and event.last for event in events if event.job_id == 1)


@pytest.mark.parametrize("most", [2, 8])
def test_a_limit_of_tokens_loses_no_order_and_ends(short: Path, monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    begun = attempts(monkeypatch)
    one = job(0, noise(40 * RATE), replace(GREEDY, max_tokens=most))
    outputs = outputs_by_job(run(short, [one]))[0]
    assert outputs[-1].last
    assert max(len(trial.tokens) for trial in begun) == most
    assert all(output.stats.tokens <= most for output in outputs)
    # A time and a word are no segment that is told to the end.
    assert all(output.stats.cut for output in outputs) or most > 2
    time = 0.0
    for segment in (segment for output in outputs for segment in output.segments):
        assert time <= segment.start < segment.end <= one.seconds
        time = segment.end
    # Where a text was cut off, the whole window is over; else the next begins at the last time that was told.
    starts = [output.stats.start for output in outputs]
    for output, following in zip(outputs, starts[1:], strict=False):
        assert output.stats.start < following <= output.stats.start + 30
        assert following == output.stats.start + 30 if output.stats.cut else True


def test_a_text_that_is_cut_off_at_a_time_goes_on_there(short: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit falls on the time that ends a segment: the next window begins at it, and nothing is lost."""
    begin = TOKEN_IDS["<|0.00|>"]

    def say(self: Slots) -> list[Trial]:
        for trial in self.live:
            trial.tokens, trial.cut, trial.finished = [begin, 5, 6, begin + 100], True, True
        return self.live

    monkeypatch.setattr(Slots, "step", say)
    options = replace(GREEDY, max_tokens=4, compression_ratio_threshold=99.0)
    outputs = outputs_by_job(run(short, [job(0, noise(5 * RATE), options)]))[0]
    assert [output.stats.start for output in outputs] == [0.0, 2.0, 4.0]
    assert not any(output.stats.cut for output in outputs)


def test_a_limit_that_leaves_room_for_a_time_alone_says_that_text_is_lost(
    short: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def say(self: Slots) -> list[Trial]:
        for trial in self.live:
            trial.tokens, trial.cut, trial.finished = [TOKEN_IDS["<|0.00|>"]], True, True
        return self.live

    monkeypatch.setattr(Slots, "step", say)
    (output,) = outputs_by_job(run(short, [job(0, noise(5 * RATE), replace(GREEDY, max_tokens=1))]))[0]
    assert (output.segments, output.stats.cut, output.last) == ((), True, True)


# ---- the gates


def attempts(monkeypatch: pytest.MonkeyPatch) -> list[Trial]:
    """All trials that begin from now on."""
    begun: list[Trial] = []
    begin = Slots._begin

    def watch(self: Slots, row: int, trial: Trial) -> None:
        begun.append(trial)
        begin(self, row, trial)

    monkeypatch.setattr(Slots, "_begin", watch)
    return begun


@pytest.mark.parametrize(
    "gate",
    [{}, {"logprob_threshold": -100.0, "compression_ratio_threshold": 0.01}],
    ids=["log-probability", "compression"],
)
def test_temperatures_are_tried_in_order_and_the_last_is_accepted(
    short: Path, monkeypatch: pytest.MonkeyPatch, gate: dict[str, float]
) -> None:
    begun = attempts(monkeypatch)
    options = TranscribeOptions(language="en", **gate)  # type: ignore[arg-type]
    samples = noise(2 * RATE)
    outputs = outputs_by_job(run(short, [job(0, samples, options)]))[0]
    # First with the encoder's context of the window's own length, then with the full one, then warmer.
    assert [trial.temperature for trial in begun[:7]] == [0.0, 0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    assert begun[0].audio < 1500
    assert {trial.audio for trial in begun[1:7]} == {1500}
    assert len({trial.seed for trial in begun[:7]}) == 6
    assert len(begun) == 7 * len(outputs)
    assert {output.stats.attempts for output in outputs} == {7}
    assert {segment.temperature for output in outputs for segment in output.segments} == {1.0}
    assert outputs[0].stats.tokens == len(begun[6].tokens)


def test_a_text_that_passes_is_not_tried_again(short: Path) -> None:
    options = TranscribeOptions(language="en", logprob_threshold=-100, compression_ratio_threshold=100)
    outputs = outputs_by_job(run(short, [job(0, noise(2 * RATE), options)]))[0]
    assert {output.stats.attempts for output in outputs} == {1}
    assert {segment.temperature for output in outputs for segment in output.segments} == {0.0}


def test_no_speech_ends_a_window_without_text_or_language(short: Path) -> None:
    options = TranscribeOptions(no_speech_threshold=-1)
    outputs = outputs_by_job(run(short, [job(0, noise(31 * RATE), options)]))[0]
    assert [(output.segments, output.stats.attempts, output.language) for output in outputs] == [((), 1, None)] * 2
    assert [output.stats.start for output in outputs] == [0, 30]


# ---- what goes wrong


def test_nan_fails_its_recording_and_no_other(
    short: Path, alone: dict[int, list[Output]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def poisoned(samples: NDArray[np.float32], n_mels: int, dtype: mx.Dtype, frames: int) -> mx.array:
        mel = log_mel(samples, n_mels, dtype, frames)
        return mel * mx.nan if len(samples) == 12_345 else mel

    monkeypatch.setattr(engine_module, "log_mel", poisoned)
    jobs = [one for one in recordings() if one.seconds < 10]
    bad = [job(100 + number, noise(12_345, number), SAMPLED) for number in range(3)]
    # In this order into the slots, so that bad ones are first and in between.
    mixed = [replace(one, id=number) for number, one in enumerate([*bad[:2], *jobs[:4], bad[2], *jobs[4:]])]
    for batch_size in (1, 3):
        events = run(short, mixed, batch_size)
        failed = [event for event in events if isinstance(event, JobFailed)]
        assert sorted(failure.job_id for failure in failed) == [0, 1, 6]
        assert all("NaN" in failure.cause and "0.0 s" in failure.cause for failure in failed)
        found = outputs_by_job([event for event in events if isinstance(event, Output)])
        assert {number: told(outputs) for number, outputs in found.items()} == {
            number: told(alone[int(one.item_id.removeprefix("item"))])
            for number, one in enumerate(mixed)
            if number not in (0, 1, 6)
        }


def test_weights_of_nan_fail_all_that_is_heard(tmp_path: Path) -> None:
    directory = short_whisper(tmp_path / "nan")
    tensors = load_file(directory / "model.safetensors")
    tensors["encoder.ln_post.bias"][3] = np.nan
    save_file(tensors, directory / "model.safetensors")
    events = run(directory, [job(0, noise(RATE)), job(1, silence(RATE)), job(2, noise(40 * RATE))])
    assert {event.job_id for event in events if isinstance(event, JobFailed)} == {0, 2}
    assert [event.job_id for event in events if isinstance(event, Output)] == [1]


def test_nan_in_a_later_window_fails_it_there_and_what_came_before_is_out(short: Path) -> None:
    samples, broken = noise(50 * RATE), noise(50 * RATE)
    broken[35 * RATE] = np.nan
    jobs = [job(0, broken, SAMPLED), job(1, samples, SAMPLED), job(2, noise(3 * RATE), SAMPLED)]
    events = run(short, jobs, 3)
    whole = outputs_by_job([event for event in events if isinstance(event, Output)])
    (failed,) = [event for event in events if isinstance(event, JobFailed)]
    said = re.fullmatch(r"the model gave NaN for the window at (\d+\.\d) s", failed.cause)
    assert said
    assert (failed.job_id, 5 < float(said[1]) <= 35) == (0, True)
    # Windows that do not reach the fault say what they say in the same recording without it.
    assert told(whole[0]) == told(whole[1])[: len(whole[0])]
    assert all(output.stats.start + output.stats.seconds <= 35 for output in whole[0])
    assert whole[1][-1].last
    assert whole[2][-1].last


def no_timestamp(logits: mx.array, begin: int) -> mx.array:
    return mx.where(mx.arange(logits.shape[-1]) >= begin, -mx.inf, logits)


@pytest.mark.parametrize(
    "hostile",
    [no_timestamp, lambda logits, _: logits * mx.nan, lambda logits, _: logits * mx.inf],
    ids=["no timestamp is possible", "nan", "infinite"],
)
def test_logits_that_leave_no_choice_never_become_a_text(
    short: Path, monkeypatch: pytest.MonkeyPatch, hostile: Callable[[mx.array, int], mx.array]
) -> None:
    """A rule that blocks all, and takes the first token for the best, makes texts of "!"."""
    logits, begin = network.Decoder.logits, TOKEN_IDS["<|0.00|>"]
    monkeypatch.setattr(network.Decoder, "logits", lambda self, hidden: hostile(logits(self, hidden), begin))
    jobs = [job(number, noise(count), SAMPLED) for number, count in enumerate((RATE, 31 * RATE, 2000))]
    events = run(short, jobs, 2)
    assert sorted((event.job_id, event.cause) for event in events if isinstance(event, JobFailed)) == [
        (number, "the model gave NaN for the window at 0.0 s") for number in range(3)
    ]
    assert not any(isinstance(event, Output) for event in events)


def test_a_language_that_the_model_lacks_fails_its_recording(short: Path) -> None:
    """Cantonese came with large-v3."""
    jobs = [job(number, noise(RATE), replace(GREEDY, language=code)) for number, code in enumerate(("yue", "en"))]
    events = run(short, jobs)
    assert [event for event in events if event.job_id == 0] == [
        JobFailed(0, "the model knows 99 languages, but not Cantonese (yue); the nearest is Chinese (zh)")
    ]
    assert any(isinstance(event, Output) and event.last for event in events if event.job_id == 1)


def test_a_failure_to_load_leaves_the_device_as_it_was(short: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("[metal::malloc] Unable to allocate 9 bytes.")

    monkeypatch.setattr(network, "load", fail)
    before = mx.set_memory_limit(3 * 10**9)
    try:
        with pytest.raises(engine_module.device.OutOfMemory):
            WhisperEngine(spec(short))
        assert mx.set_memory_limit(before) == 3 * 10**9
    finally:
        mx.set_memory_limit(before)


# ---- English-only models


def test_an_english_only_model_has_no_language_in_its_prompt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = short_whisper(tmp_path / "english")
    edit_json(directory / "generation_config.json", is_multilingual=False)
    begun = attempts(monkeypatch)
    jobs = [
        job(number, noise(RATE, number), replace(GREEDY, language=code))
        for number, code in enumerate((None, "en", "de"))
    ]
    events = run(directory, jobs, 2)
    assert {len(trial.prompt) for trial in begun} == {1}
    assert {event.language for event in events if isinstance(event, Output)} == {"en"}
    assert [event.job_id for event in events if isinstance(event, JobFailed)] == [2]


# ---- how much at once


@pytest.mark.parametrize("allowed", [1, 2, 3])
def test_never_more_rows_than_admitted(short: Path, monkeypatch: pytest.MonkeyPatch, allowed: int) -> None:
    live: list[int] = []
    step = Slots.step

    def watch(self: Slots) -> list[Trial]:
        live.append(len(self.live))
        return step(self)

    monkeypatch.setattr(Slots, "step", watch)
    asked: list[int] = []

    def admit(now: int) -> int:
        asked.append(now)
        return allowed

    jobs = [job(number, noise(1500, number)) for number in range(6)]
    found = outputs_by_job(run(spec(short, 4), jobs, admit=admit))
    assert len(found) == 6
    assert max(live) == allowed
    assert max(asked) <= allowed


def test_an_admission_that_shrinks_waits_for_rows_to_leave(short: Path) -> None:
    answers = iter([4, 4, 0, 0, 1])
    jobs = [job(number, noise(1500, number)) for number in range(6)]
    found = outputs_by_job(run(spec(short, 4), jobs, admit=lambda live: max(next(answers, 2), live == 0)))
    assert len(found) == 6


def test_need_grows_with_the_length(tiny: Path) -> None:
    with closing(WhisperEngine(spec(tiny))) as engine:
        needs = [engine.need(seconds) for seconds in (0, 1, 30, 3600, 7200)]
        assert needs == sorted(set(needs))
        assert needs[-1] - needs[-2] == 3600 * RATE * 4, "no window is longer than 30 s"
        assert engine.weights() == sum(weight.size * 4 for weight in load_file(tiny / "model.safetensors").values())
        assert engine.memory_limit() > 0


class OneByOne:
    """Jobs of which each comes only when the one before is done, as with a prefetch of one recording."""

    def __init__(self, jobs: Sequence[Job]) -> None:
        self.waiting, self.done, self.given = list(jobs), 0, 0

    def __iter__(self) -> Iterator[Job]:
        return self

    def __next__(self) -> Job:
        if not self.waiting:
            raise StopIteration
        assert self.done == self.given, "deadlock: it waits for a job, and holds back the output that frees its place"
        self.given += 1
        return self.waiting.pop(0)

    def ready(self) -> bool:
        return self.done == self.given


def test_outputs_go_out_before_it_waits_for_the_next_job(short: Path) -> None:
    jobs = OneByOne([job(0, silence(RATE)), job(1, noise(RATE)), job(2, silence(0)), job(3, silence(40 * RATE))])
    with closing(WhisperEngine(spec(short))) as engine:
        for event in engine.run(jobs, lambda live: 4):
            assert isinstance(event, Output)
            jobs.done += event.last
    assert jobs.done == 4


def test_no_jobs_no_outputs(short: Path) -> None:
    assert run(short, []) == []


def test_an_engine_runs_again(short: Path) -> None:
    one = job(0, noise(2 * RATE))
    with closing(WhisperEngine(spec(short))) as engine:
        first, second = (list(engine.run(Given([one]), lambda live: 4)) for _ in range(2))
    assert told(outputs_by_job(first)[0]) == told(outputs_by_job(second)[0])


# ---- short of memory


def test_rows_that_are_sent_back_begin_again_and_say_the_same(short: Path, alone: dict[int, list[Output]]) -> None:
    """The allowance falls and rises as a governor's may; what is live beyond it goes back, the latest first."""
    dice = random.Random(5)
    seen: list[tuple[int, int]] = []

    def admit(live: int) -> int:
        allowed = dice.choice([1, 1, 2, 4]) if dice.random() < 0.2 else 4
        seen.append((live, allowed))
        return allowed

    found = outputs_by_job(run(short, recordings(), 4, admit))
    assert {number: told(outputs) for number, outputs in found.items()} == {n: told(o) for n, o in alone.items()}
    assert sum(live > allowed for live, allowed in seen) > 5
    assert max(live for live, _ in seen) >= 4  # those that are seated, or all that are begun


class Short:
    """Before a method of the engine's: has no memory for more than `room` rows, and none at `moments`."""

    def __init__(
        self, work: Callable[..., Any], rows: Callable[..., int], room: int, moments: Iterable[int] = ()
    ) -> None:
        self._work, self._rows, self._room, self._moments = work, rows, room, set(moments)
        self.calls = self.refusals = 0

    def __call__(self, *arguments: Any) -> Any:
        self.calls += 1
        if self._rows(*arguments) > self._room or self.calls in self._moments:
            self.refusals += 1
            raise RuntimeError("[metal::malloc] Attempting to allocate 1 bytes: out of memory")
        return self._work(*arguments)


def test_no_memory_for_so_many_rows(
    short: Path, alone: dict[int, list[Output]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Halved until they fit, tried again with more after a while, and nothing lost or said otherwise."""
    with closing(WhisperEngine(spec(short, 4, encode_rows=4))) as engine:
        shortage = Short(engine._listen, len, 1)
        monkeypatch.setattr(engine, "_listen", shortage)
        found = outputs_by_job(list(engine.run(Given(recordings()), lambda live: 4)))
        assert engine.readings().shortages == shortage.refusals
    assert {number: told(outputs) for number, outputs in found.items()} == {n: told(o) for n, o in alone.items()}
    assert shortage.refusals >= 3


def test_memory_that_ends_in_the_middle_of_a_step(
    short: Path, alone: dict[int, list[Output]], monkeypatch: pytest.MonkeyPatch
) -> None:
    step = Short(Slots.step, lambda slots: 0, 1, moments=(5, 200))
    monkeypatch.setattr(Slots, "step", lambda self: step(self))
    found = outputs_by_job(run(short, recordings(), 4))
    assert step.refusals == 2
    assert {number: told(outputs) for number, outputs in found.items()} == {n: told(o) for n, o in alone.items()}


def test_a_window_that_does_not_fit_alone_fails_alone(short: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = replace(GREEDY, logprob_threshold=-99.0, compression_ratio_threshold=99.0)
    long, brief = job(0, noise(31 * RATE), content), job(1, noise(RATE), content)
    with closing(WhisperEngine(spec(short, 4))) as engine:
        longest = Short(engine._listen, lambda mel: mel.shape[1], 2000)
        monkeypatch.setattr(engine, "_listen", longest)
        events = list(engine.run(Given([long, brief]), lambda live: 4))
    (failed,) = [event for event in events if isinstance(event, JobFailed)]
    assert failed.job_id == 0
    assert failed.cause.startswith("the window at 0.0 s needs more memory than there is, even alone: out of memory on")
    assert {event.job_id for event in events if isinstance(event, Output)} == {1}


# ---- readings


def test_progress_is_counted_and_live_rows_are(short: Path) -> None:
    with closing(WhisperEngine(spec(short, 4))) as engine:
        before = engine.pulse()
        for _ in engine.run(Given(recordings()[2:5]), lambda live: 4):
            pass
        after = engine.pulse()
        assert (before.progress, before.live) == (0, 0)
        assert (after.progress > 10, after.live) == (True, 0)
        engine.reclaim()
        assert engine.pulse().cache == 0


def test_spans_of_every_stage_and_a_look_ahead_that_is_real(short: Path) -> None:
    jobs = [job(number, noise(RATE, number)) for number in range(4)]
    spans: list[Span] = []
    with closing(WhisperEngine(spec(short, 1))) as engine:
        for _ in engine.run(Given(jobs), lambda live: 1):
            readings = engine.readings()
            assert readings.active > 0
            spans += readings.spans
        spans += engine.readings().spans
        assert engine.readings().spans == ()
    assert {span.stage for span in spans} == {"features", "encode", "decode"}
    assert all(span.begin <= span.end and span.rows >= 1 for span in spans)
    first_decode = next(span for span in spans if span.stage == "decode")
    features = [span for span in spans if span.stage == "features"]
    assert len(features) >= 4
    assert sum(span.begin < first_decode.end for span in features) >= 2  # the second window's, while the first decodes
    assert sum(span.rows for span in spans if span.stage == "encode") == len(features)


# ---- precision


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_runs(short: Path, dtype: str) -> None:
    outputs = outputs_by_job(run(spec(short, 2, dtype=dtype), [job(0, noise(RATE)), job(1, noise(1500))]))
    assert outputs.keys() == {0, 1}
    assert all(np.isfinite(segment.avg_logprob) for found in outputs.values() for o in found for segment in o.segments)
