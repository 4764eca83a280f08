"""Speech found on another thread: what comes back, and what nobody speaks in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest
import soundfile as sf
import soxr

from mlxbatch.types import Job
from mlxbatch.vad import ahead as ahead_module
from mlxbatch.vad.ahead import Heard, SpeechAhead
from mlxbatch.vad.detector import Detector, load
from tests.vad.tiny import RATE, no_speech, write_tiny_silero

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
LONGEST = 30 * RATE


def job(number: int, samples: np.ndarray) -> Job:
    return Job(number, f"item {number}", samples, len(samples) / RATE)


def hear(ahead: SpeechAhead, jobs: list[Job]) -> dict[int, Heard]:
    for one in jobs:
        ahead.put(one)
    found: dict[int, Heard] = {}
    while ahead.pending:
        found.update({heard.job.id: heard for heard in ahead.take(wait=True)})
    return found


@pytest.fixture
def tiny(tmp_path: Path) -> Iterator[SpeechAhead]:
    ahead = SpeechAhead(load(write_tiny_silero(tmp_path / "vad")), LONGEST)
    yield ahead
    ahead.close()


@pytest.fixture(scope="module")
def real(silero_vad: Path) -> Iterator[SpeechAhead]:
    ahead = SpeechAhead(load(silero_vad), LONGEST)
    yield ahead
    ahead.close()


def test_every_job_comes_back_once_whatever_its_length(tiny: SpeechAhead) -> None:
    rng = np.random.default_rng(0)
    jobs = [job(n, rng.standard_normal(count).astype(np.float32)) for n, count in enumerate([0, 1, 511, 16_000] * 6)]
    found = hear(tiny, jobs)
    assert sorted(found) == list(range(24))
    assert all(heard.problem == "" for heard in found.values())
    spans = tiny.spans()
    assert {span.stage for span in spans} == {"vad"}
    assert max(span.rows for span in spans) > 1
    assert tiny.spans() == []
    assert tiny.steps == len(spans)


def test_nothing_is_waited_for_where_nothing_is_pending(tiny: SpeechAhead) -> None:
    assert tiny.take(wait=True) == []


def test_closing_does_not_wait_for_what_is_pending(tmp_path: Path) -> None:
    ahead = SpeechAhead(load(write_tiny_silero(tmp_path / "vad")), LONGEST)
    for number in range(20):
        ahead.put(job(number, np.zeros(40 * RATE, np.float32)))
    ahead.close()
    assert ahead.steps < 20


def test_where_memory_is_short_it_is_tried_again_and_then_told(
    tiny: SpeechAhead, monkeypatch: pytest.MonkeyPatch
) -> None:
    real_advance, failures = Detector.advance, [2, 0]

    def advance(self: Detector[Job]) -> object:
        if failures[0]:
            failures[0] -= 1
            raise RuntimeError("[malloc] Unable to allocate 1 bytes")
        return real_advance(self)

    monkeypatch.setattr(Detector, "advance", advance)
    lost = hear(tiny, [job(0, np.zeros(RATE, np.float32))])[0]
    assert "Unable to allocate" in lost.problem
    failures[0] = 1
    assert hear(tiny, [job(1, np.zeros(RATE, np.float32))])[1].problem == ""


@pytest.mark.parametrize("place", ["is_narrow", "speech_intervals"])
def test_memory_that_ends_beside_the_network_fails_one_job(
    tiny: SpeechAhead, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    work, calls = getattr(ahead_module, place), iter([True, False])

    def short(*arguments: object) -> object:
        if next(calls):
            raise MemoryError
        return work(*arguments)

    monkeypatch.setattr(ahead_module, place, short)
    found = hear(tiny, [job(number, np.zeros(RATE, np.float32)) for number in range(2)])
    assert found[0].problem == "its speech cannot be told from silence: MemoryError"
    assert found[1].problem == ""


def test_what_ends_the_thread_is_raised_where_it_is_waited_for(
    tiny: SpeechAhead, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("a fault of ours")

    monkeypatch.setattr(ahead_module, "is_narrow", fail)
    tiny.put(job(0, np.zeros(RATE, np.float32)))
    for _ in range(2):  # nobody waits for a thread that is no more
        with pytest.raises(RuntimeError, match=r"speech cannot be looked for any more: a fault of ours"):
            tiny.take(wait=True)


def test_the_default_device_is_left_alone(tiny: SpeechAhead, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is that of all threads, the model's too: `with mx.stream(...)` on this one would move that to the CPU."""
    before = mx.default_device()
    other = mx.Device(mx.cpu, 3)
    mx.set_default_device(other)
    seen: list[mx.Device] = []
    advance = Detector.advance

    def noted(self: Detector[Job]) -> object:
        seen.append(mx.default_device())
        return advance(self)

    monkeypatch.setattr(Detector, "advance", noted)
    try:
        hear(tiny, [job(0, np.zeros(RATE, np.float32))])
    finally:
        mx.set_default_device(before)
    assert seen == [other]


def test_where_resampling_has_no_memory_that_job_fails(tiny: SpeechAhead, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(samples: np.ndarray, _: int) -> np.ndarray:
        if len(samples) > RATE:
            raise MemoryError("no room")
        return samples

    monkeypatch.setattr(ahead_module, "_resampled", fail)
    monkeypatch.setattr(tiny, "_rate", 24_000)
    found = hear(tiny, [job(0, np.zeros(2 * RATE, np.float32)), job(1, np.zeros(RATE, np.float32))])
    assert [found[number].problem for number in range(2)] == ["its speech cannot be told from silence: no room", ""]


@pytest.mark.real
def test_speech_is_found_in_the_samples_of_another_rate(real: SpeechAhead, silero_vad: Path) -> None:
    """At 24 kHz where it is at 16 kHz, within a step; the network for 8 kHz still hears what comes from a telephone."""
    telephone, rate = sf.read(EXAMPLES / "calls/demo-thanks.wav", dtype="float32")
    sentence, _ = sf.read(EXAMPLES / "books/sense_and_sensibility_01_austen_64kb-0880.wav", dtype="float32")
    plain = [soxr.resample(telephone, rate, RATE), sentence]
    given = [soxr.resample(telephone, rate, 24_000), soxr.resample(sentence, RATE, 24_000)]
    other = SpeechAhead(load(silero_vad), 30 * 24_000, 24_000)
    try:
        found = hear(other, [Job(n, f"{n}", one, len(one) / 24_000) for n, one in enumerate(given)])
    finally:
        other.close()
    wanted = hear(real, [job(n, one) for n, one in enumerate(plain)])
    for number in range(2):
        there = np.array(wanted[number].speech) / RATE
        assert len(there) > 0
        assert np.array(found[number].speech) / 24_000 == pytest.approx(there, abs=0.033)


@pytest.mark.real
def test_nobody_speaks_in_tones_noise_and_music(real: SpeechAhead) -> None:
    signals = no_speech()
    telephone = {
        f"{name}, 8 kHz": soxr.resample(soxr.resample(x, RATE, 8000), 8000, RATE) for name, x in signals.items()
    }
    given = signals | telephone
    found = hear(real, [job(number, samples) for number, samples in enumerate(given.values())])
    assert {name: found[number].speech for number, name in enumerate(given) if found[number].speech} == {}


@pytest.mark.real
@pytest.mark.parametrize("level", [1.0, 0.003])
def test_a_sentence_is_heard_between_silence_and_ringing_even_a_quiet_one(real: SpeechAhead, level: float) -> None:
    sentence, rate = sf.read(EXAMPLES / "books/sense_and_sensibility_01_austen_64kb-0880.wav", dtype="float32")
    assert rate == RATE
    parts = [level * no_speech()["ringing"], level * sentence, np.zeros(8 * RATE, np.float32)]
    speech = hear(real, [job(0, np.concatenate(parts).astype(np.float32))])[0].speech
    assert 11.5 <= speech[0][0] / RATE < 12.5
    assert 14.3 < speech[-1][1] / RATE < 15.3


@pytest.mark.real
def test_a_telephone_call_is_heard_by_the_network_for_8_khz(real: SpeechAhead, monkeypatch: pytest.MonkeyPatch) -> None:
    seated: list[int] = []
    join = Detector.join

    def noted(self: Detector[Job], key: Job, samples: np.ndarray, gain: float = 1.0) -> None:
        seated.append(len(samples))
        join(self, key, samples, gain)

    monkeypatch.setattr(ahead_module.Detector, "join", noted)
    samples, rate = sf.read(EXAMPLES / "calls/demo-thanks.wav", dtype="float32")
    call = soxr.resample(samples, rate, RATE)
    (heard,) = hear(real, [job(0, call)]).values()
    assert seated == [-(-len(call) // 2)]
    assert sum(end - start for start, end in heard.speech) > 0.8 * len(call)
