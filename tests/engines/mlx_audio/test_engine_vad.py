"""The engine hears speech alone: pieces where somebody speaks, at either rate, nothing said of the rest."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile as sf
import soxr
from numpy.typing import NDArray

from mlxbatch.audio import decode
from mlxbatch.engines import registry
from mlxbatch.engines.base import EngineSpec
from mlxbatch.engines.mlx_audio.cuts import Cut
from mlxbatch.engines.mlx_audio.engine import MlxAudioEngine
from mlxbatch.engines.mlx_audio.heard import Heard
from mlxbatch.types import Item, Job, JobFailed, Output, Segment
from mlxbatch.vad import ahead
from mlxbatch.vad.speech import Interval
from tests.engines.mlx_audio.parts import ENGLISH, engine_over, hear, job, outputs, said
from tests.engines.mlx_audio.tiny import NAMED
from tests.jobs import Given
from tests.vad.tiny import RATE, no_speech, write_tiny_silero

ROOT = Path(__file__).resolve().parents[3]
DATA = ROOT.parent / "shared" / "data"
SPEECH_ONLY = replace(ENGLISH, vad=True)
SPEECH = ((0.5, 1.75), (4.0, 5.5), (5.5, 6.5), (9.0, 11.0))  # seconds; the third does not fit beside the second

Models = Callable[[str], Path]
Listening = Callable[[str], MlxAudioEngine]


@pytest.fixture
def speech(monkeypatch: pytest.MonkeyPatch) -> None:
    """The detector finds SPEECH, as far as a recording goes."""

    def find(_: object, count: int, rate: int, *__: object) -> list[Interval]:
        return [(int(a * rate), int(b * rate)) for a, b in SPEECH if int(b * rate) <= count]

    monkeypatch.setattr(ahead, "speech_intervals", find)


@pytest.fixture(scope="module")
def listening(models: Models, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Listening]:
    """A family's engine with a detector of random weights."""
    vad = write_tiny_silero(tmp_path_factory.mktemp("vad") / "model")
    with ExitStack() as stack:
        loaded: dict[str, MlxAudioEngine] = {}

        def find(name: str) -> MlxAudioEngine:
            if name not in loaded:
                loaded[name] = stack.enter_context(closing(engine_over(models(name), vad=vad)))
            return loaded[name]

        yield find


def spoken(number: int, seconds: float, engine: MlxAudioEngine) -> Job:
    return job(number, seconds, engine.sample_rate, SPEECH_ONLY)


def pieces_of(found: Sequence[Output]) -> list[tuple[float, float]]:
    return [(one.stats.start, one.stats.start + one.stats.seconds) for one in found]


@pytest.mark.usefixtures("speech")
@pytest.mark.parametrize("name", NAMED)
def test_pieces_lie_where_there_is_speech_in_a_batch_as_alone(listening: Listening, name: str) -> None:
    engine = listening(name)
    jobs = [spoken(number, seconds, engine) for number, seconds in enumerate((12.0, 6.0, 0.4, 2.0))]
    together = outputs(engine, jobs)
    assert pieces_of(together[0]) == [(0.5, 1.75), (4.0, 5.5), (5.5, 6.5), (9.0, 11.0)]
    assert [one.last for one in together[0]] == [False] * 3 + [True]
    for one in together[0]:
        end = one.stats.start + one.stats.seconds
        assert all(one.stats.start <= s.start <= s.end <= end + 1e-3 for s in one.segments)
    for one in jobs:
        assert said(together[one.id]) == said(outputs(engine, [one])[one.id])


@pytest.mark.usefixtures("speech")
@pytest.mark.parametrize("name", ["parakeet", "vibevoice_asr"])
def test_a_piece_of_speech_says_what_its_samples_say(listening: Listening, name: str) -> None:
    engine = listening(name)
    whole = spoken(0, 3.0, engine)
    (piece,) = outputs(engine, [whole])[0]
    samples = whole.samples[int(0.5 * engine.sample_rate) : int(1.75 * engine.sample_rate)]
    (plain,) = outputs(engine, [replace(whole, samples=samples, seconds=1.25, options=ENGLISH)])[0]
    moved = [(round(s.start + 0.5, 3), round(s.end + 0.5, 3), s.text) for s in plain.segments]
    assert [(s.start, s.end, s.text) for s in piece.segments] == moved
    assert moved


@pytest.mark.usefixtures("speech")
@pytest.mark.parametrize("name", NAMED)
def test_without_speech_there_is_one_output_and_no_text(listening: Listening, name: str) -> None:
    engine = listening(name)
    for found in outputs(engine, [spoken(number, 1.5, engine) for number in range(9)]).values():
        (output,) = found
        assert (output.window, output.segments, output.language, output.last) == (0, (), None, True)
        assert (output.stats.start, output.stats.seconds, output.stats.tokens) == (0.0, 1.5, 0)


@pytest.mark.usefixtures("speech")
def test_a_job_that_asks_for_all_is_heard_as_ever(listening: Listening, engines: Listening) -> None:
    rate = listening("parakeet").sample_rate
    jobs = [job(number, seconds, rate) for number, seconds in enumerate((1.0, 5.0))]
    beside = outputs(listening("parakeet"), [*jobs, job(2, 12.0, rate, SPEECH_ONLY)])
    plain = outputs(engines("parakeet"), jobs)
    assert [said(beside[number]) for number in range(2)] == [said(plain[number]) for number in range(2)]


@pytest.mark.usefixtures("speech")
@pytest.mark.parametrize(("name", "pieces"), [("qwen3_asr", [1.25, 2.5, 2.0]), ("vibevoice_asr", [10.5])])
def test_families_that_tell_speakers_hear_long_pauses_as_silence(
    models: Models, tmp_path: Path, name: str, pieces: list[float]
) -> None:
    vad = write_tiny_silero(tmp_path / "vad")
    with closing(engine_over(models(name), vad=vad, segment_seconds=30.0)) as engine:
        seen: list[Cut] = []

        class Told:
            def problem(self, language: str | None) -> None:
                return None

            def hear(self, cuts: Sequence[Cut], tick: Callable[[], None]) -> list[Heard]:
                seen.extend(cuts)
                return [Heard((Segment(0.0, 1.0, "x", speaker="0"),)) for _ in cuts]

        engine._model = Told()
        outputs(engine, [spoken(0, 12.0, engine)])
        assert [cut.seconds for cut in seen] == pieces
        rate = engine.sample_rate
        for cut in seen:
            for before, after in ((1.75, 4.0), (6.5, 9.0)):
                start, end = int(before * rate) - cut.start, int(after * rate) - cut.start
                assert not cut.samples[max(0, start) : max(0, end)].any()
            assert cut.samples[:10].all()
            assert cut.samples[-10:].all()


@pytest.mark.usefixtures("speech")
def test_speech_is_said_to_be_looked_for_and_its_memory_counts(listening: Listening, engines: Listening) -> None:
    engine, plain = listening("vibevoice_asr"), engines("vibevoice_asr")
    engine.readings()
    before, spans = engine.pulse().progress, list(engine.readings().spans)
    for _ in engine.run(Given([spoken(n, 3.0, engine) for n in range(6)]), lambda live: 4):
        spans += engine.readings().spans
    assert {span.stage for span in spans} == {"vad", "infer"}
    assert engine.pulse().progress > before
    assert engine.need(10.0) - plain.need(10.0) == 32 * 10**6 + 10 * 64_000
    assert engine.weights() > plain.weights()


def test_the_footprint_is_what_the_engine_says_of_itself(listening: Listening) -> None:
    engine = listening("vibevoice_asr")
    footprint = registry.footprint(engine._spec)
    assert footprint is not None
    assert footprint.need(10.0) == engine.need(10.0)
    without = registry.footprint(replace(engine._spec, vad=None))
    assert without is not None
    detector = engine.weights() - footprint.weights
    assert abs(detector) < 0.5 * (footprint.weights - without.weights)


@pytest.mark.usefixtures("speech")
def test_what_cannot_be_looked_through_fails_alone(listening: Listening, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise MemoryError("no room")

    monkeypatch.setattr(ahead.Detector, "advance", fail)
    engine = listening("parakeet")
    events = {event.job_id: event for event in hear(engine, [spoken(0, 3.0, engine), job(1, 1.0, engine.sample_rate)])}
    assert events[0] == JobFailed(0, "its speech cannot be told from silence: no room")
    assert isinstance(events[1], Output)


@pytest.mark.usefixtures("speech")
def test_a_run_that_is_given_up_ends_the_thread(listening: Listening) -> None:
    engine = listening("parakeet")
    running = engine.run(Given([spoken(n, 12.0, engine) for n in range(9)]), lambda live: 4)
    next(running)
    assert "vad" in {thread.name for thread in threading.enumerate()}
    running.close()
    assert "vad" not in {thread.name for thread in threading.enumerate()}
    assert len(outputs(engine, [spoken(0, 12.0, engine)])[0]) == 4


@pytest.fixture(scope="module")
def real(models: Models, silero_vad: Path) -> Iterator[Listening]:
    """Tiny models, which put text to anything, behind the real detector."""
    with ExitStack() as stack:

        def find(name: str) -> MlxAudioEngine:
            spec = EngineSpec("mlx-audio", models(name), batch_size=4, vad=silero_vad)
            engine = registry.build(spec)
            assert isinstance(engine, MlxAudioEngine)
            return stack.enter_context(closing(engine))

        yield find


def at_rate(samples: NDArray[np.float32], rate: int) -> NDArray[np.float32]:
    return samples if rate == RATE else np.asarray(soxr.resample(samples, RATE, rate), np.float32)


@pytest.mark.real
@pytest.mark.parametrize("name", ["parakeet", "vibevoice_asr"])
def test_only_the_sentence_is_heard_of_ringing_music_and_a_sentence(real: Listening, name: str) -> None:
    sentence, _ = sf.read(ROOT / "examples/books/sense_and_sensibility_01_austen_64kb-0880.wav", dtype="float32")
    signals = no_speech()
    mixed = np.concatenate([signals["ringing"], signals["melody"], sentence, signals["dtmf"], signals["busy"]])
    engine = real(name)
    sounds = [at_rate(samples, engine.sample_rate) for samples in (mixed, *signals.values())]
    jobs = [Job(n, f"{n}", one, len(one) / engine.sample_rate, options=SPEECH_ONLY) for n, one in enumerate(sounds)]
    found = outputs(engine, jobs)
    assert {name: found[n][0].segments for n, name in enumerate(signals, 1)} == dict.fromkeys(signals, ())
    ends = 22.0 + len(sentence) / RATE
    assert 21.9 <= found[0][0].stats.start < 22.6
    assert found[0][-1].stats.start + found[0][-1].stats.seconds <= ends + 0.4
    assert any(one.segments for one in found[0])
    assert all(21.9 <= s.start <= s.end <= ends + 0.4 for one in found[0] for s in one.segments)


@pytest.mark.real
@pytest.mark.corpus
@pytest.mark.skipif(not DATA.exists(), reason="the recordings are not here")
@pytest.mark.parametrize("name", ["parakeet", "vibevoice_asr"])
def test_the_corpus_recordings_without_speech_come_out_empty(real: Listening, name: str) -> None:
    engine = real(name)
    rows = [json.loads(line) for line in (DATA / "manifest.jsonl").read_text("utf-8").splitlines()]
    paths = [DATA / row["path"] for row in rows if row.get("text") == "" and row["expect_decode"]]
    assert len(paths) >= 12
    sounds = [decode(Item(path.name, path, Path(path.name)), engine.sample_rate).samples[0] for path in paths]
    jobs = [Job(n, f"{n}", one, len(one) / engine.sample_rate, options=SPEECH_ONLY) for n, one in enumerate(sounds)]
    found = outputs(engine, jobs)
    assert {path.name: found[n][0].segments for n, path in enumerate(paths)} == {path.name: () for path in paths}
