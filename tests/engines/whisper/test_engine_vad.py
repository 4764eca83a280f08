"""The engine hears speech alone: windows where somebody speaks, nothing said of the rest."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile as sf
from numpy.typing import NDArray

from mlxbatch.audio import decode
from mlxbatch.engines.base import EngineSpec
from mlxbatch.engines.whisper.engine import WhisperEngine
from mlxbatch.types import Item, Job, JobFailed, Output, Span, TranscribeOptions
from mlxbatch.vad import ahead
from mlxbatch.vad.speech import Interval
from tests.engines.whisper.parts import GREEDY, job, noise, outputs_by_job
from tests.jobs import RATE, Given
from tests.vad.tiny import no_speech, write_tiny_silero

ROOT = Path(__file__).resolve().parents[3]
DATA = ROOT.parent / "shared" / "data"
SPEECH_ONLY = replace(GREEDY, vad=True)


def run(engine: WhisperEngine, jobs: Sequence[Job], batch_size: int = 4) -> list[Output | JobFailed]:
    return list(engine.run(Given(jobs), lambda live: batch_size))


def made(model: Path, vad: Path | None) -> WhisperEngine:
    return WhisperEngine(EngineSpec("whisper", model, batch_size=4, device={"kind": "cpu"}, vad=vad))


def told(outputs: Sequence[Output]) -> list[object]:
    return [(o.window, o.last, o.language, replace(o.stats, latency=0), [s.text for s in o.segments]) for o in outputs]


@pytest.fixture
def vad(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A detector that hears speech from 2 to 3 s, and from 10 s to the end, where there is so much."""

    def speech(_: object, count: int, *__: object) -> list[Interval]:
        return [(a, min(b, count)) for a, b in ((2 * RATE, 3 * RATE), (10 * RATE, 38 * RATE)) if a < count]

    monkeypatch.setattr(ahead, "speech_intervals", speech)
    return write_tiny_silero(tmp_path / "vad")


def test_windows_lie_where_there_is_speech(short: Path, vad: Path) -> None:
    with closing(made(short, vad)) as engine:
        found = outputs_by_job(run(engine, [job(0, noise(38 * RATE), SPEECH_ONLY), job(1, noise(RATE), SPEECH_ONLY)]))
    starts = [output.stats.start for output in found[0]]
    assert starts[0] == 2.0
    assert starts[1] >= 10.0 or starts[1] < 3.0
    assert all(2.0 <= start < 3.0 or 10.0 <= start < 38.0 for start in starts)
    for output in found[0]:
        end = output.stats.start + output.stats.seconds
        assert end in (3.0, 38.0)
        assert all(output.stats.start <= s.start < s.end <= end for s in output.segments)
    assert [output.last for output in found[0]] == [False] * (len(starts) - 1) + [True]


def test_without_speech_there_is_one_output_and_no_text(short: Path, vad: Path) -> None:
    options = TranscribeOptions(vad=True)
    with closing(made(short, vad)) as engine:
        found = outputs_by_job(run(engine, [job(number, noise(RATE), options) for number in range(20)]))
    assert len(found) == 20
    for (output,) in found.values():
        assert (output.window, output.segments, output.language, output.last) == (0, (), None, True)
        assert (output.stats.start, output.stats.seconds, output.stats.tokens) == (0.0, 1.0, 0)


def test_a_job_that_asks_for_all_is_heard_as_ever(short: Path, vad: Path) -> None:
    jobs = [job(number, noise(count), GREEDY) for number, count in enumerate((RATE, 12 * RATE))]
    with closing(made(short, vad)) as engine:
        beside = [*jobs, job(2, noise(12 * RATE), SPEECH_ONLY)]
        found = outputs_by_job(run(engine, beside))
    with closing(made(short, None)) as engine:
        plain = outputs_by_job(run(engine, jobs))
    assert {number: told(found[number]) for number in range(2)} == {number: told(plain[number]) for number in range(2)}


def test_speech_is_said_to_be_looked_for(short: Path, vad: Path) -> None:
    with closing(made(short, vad)) as engine:
        spans: list[Span] = []
        for _ in engine.run(Given([job(n, noise(12 * RATE), SPEECH_ONLY) for n in range(6)]), lambda live: 4):
            spans += engine.readings().spans
        more = engine.working(10.0), engine.weights(), engine.pulse().progress
    assert {"vad", "features", "encode", "decode"} <= {span.stage for span in spans}
    with closing(made(short, None)) as engine:
        assert more[0] > engine.working(10.0)
        assert more[1] > engine.weights()
    assert more[2] > sum(span.stage == "vad" for span in spans)


def test_what_cannot_be_looked_through_fails_alone(short: Path, vad: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise MemoryError("no room")

    monkeypatch.setattr(ahead.Detector, "advance", fail)
    with closing(made(short, vad)) as engine:
        events = run(engine, [job(0, noise(12 * RATE), SPEECH_ONLY), job(1, noise(RATE), GREEDY)])
    (failed,) = [event for event in events if isinstance(event, JobFailed)]
    assert (failed.job_id, failed.cause) == (0, "its speech cannot be told from silence: no room")
    assert {event.job_id for event in events if isinstance(event, Output)} == {1}


def test_a_run_that_is_given_up_ends_the_thread(short: Path, vad: Path) -> None:
    with closing(made(short, vad)) as engine:
        running = engine.run(Given([job(n, noise(12 * RATE), SPEECH_ONLY) for n in range(9)]), lambda live: 4)
        next(running)
        assert "vad" in {thread.name for thread in threading.enumerate()}
        running.close()
        assert "vad" not in {thread.name for thread in threading.enumerate()}
        assert len(outputs_by_job(run(engine, [job(0, noise(12 * RATE), SPEECH_ONLY)]))) == 1


@pytest.fixture(scope="module")
def base(whisper_base: Path, silero_vad: Path) -> Iterator[WhisperEngine]:
    with closing(made(whisper_base, silero_vad)) as engine:
        yield engine


@pytest.mark.real
def test_nothing_is_said_of_tones_noise_and_music(base: WhisperEngine) -> None:
    signals = no_speech()
    found = outputs_by_job(
        run(base, [job(n, samples, TranscribeOptions(vad=True)) for n, samples in enumerate(signals.values())])
    )
    said = {name: [s.text for o in found[n] for s in o.segments] for n, name in enumerate(signals)}
    assert said == {name: [] for name in signals}


@pytest.mark.real
def test_the_language_is_that_of_the_first_speech(base: WhisperEngine) -> None:
    samples, _ = sf.read(ROOT / "examples/books/sense_and_sensibility_01_austen_64kb-0880.wav", dtype="float32")
    held: NDArray[np.float32] = np.concatenate([no_speech()["ringing"], no_speech()["melody"], samples])
    found = outputs_by_job(run(base, [job(0, held, TranscribeOptions(vad=True))]))[0]
    assert [output.language for output in found] == ["en"]
    assert 21.9 <= found[0].segments[0].start < 22.6
    assert found[0].segments[-1].end <= 25.0


def silent_rows() -> list[tuple[str, Path]]:
    if not (DATA / "manifest.jsonl").exists():
        return []
    rows = map(json.loads, (DATA / "manifest.jsonl").read_text("utf-8").splitlines())
    return [(row["id"], DATA / row["path"]) for row in rows if row.get("text") == "" and row["expect_decode"]]


@pytest.mark.real
@pytest.mark.corpus
@pytest.mark.skipif(not DATA.exists(), reason="the recordings are not here")
def test_the_corpus_recordings_without_speech_come_out_empty(base: WhisperEngine) -> None:
    rows = silent_rows()
    assert len(rows) >= 12
    samples = [decode(Item(name, path, Path(name))).samples[0] for name, path in rows]
    jobs = [job(n, one, TranscribeOptions(vad=True)) for n, one in enumerate(samples)]
    found = outputs_by_job(run(base, jobs))
    assert {name: [s.text for o in found[n] for s in o.segments] for n, (name, _) in enumerate(rows)} == {
        name: [] for name, _ in rows
    }
