"""The engine on Whisper base and real recordings: the same words whatever the batch, and the right ones."""

from __future__ import annotations

import csv
import random
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from mlxbatch.audio import decode
from mlxbatch.engines.base import EngineSpec
from mlxbatch.engines.whisper.engine import WhisperEngine
from mlxbatch.quality import wer
from mlxbatch.types import Item, Job, Output, TranscribeOptions
from tests.engines.whisper.parts import job, outputs_by_job
from tests.jobs import RATE, Given

pytestmark = pytest.mark.real
EXAMPLES = Path(__file__).parents[3] / "examples"
ENGLISH = TranscribeOptions(language="en")
SHORT = ("books/sense_and_sensibility_01_austen_64kb-0880.wav", "books/sense_and_sensibility_01_austen_64kb-0930.wav")
TOLD = (
    *SHORT,
    "calls/demo-thanks.wav",
    "calls/dir-instr.wav",
    "calls/ss-noservice.wav",
    "calls/vm-instructions.wav",
)
Told = list[tuple[float, float, str]]


def samples_of(name: str) -> NDArray[np.float32]:
    return decode(Item(name, EXAMPLES / name, Path(name))).samples[0]


@pytest.fixture(scope="module")
def texts() -> dict[str, str]:
    with (EXAMPLES / "texts.tsv").open(encoding="utf-8", newline="") as file:
        return {row["file"]: row["text"] for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)}


def transcribe(model: Path, jobs: Sequence[Job], batch_size: int) -> dict[int, list[Output]]:
    device = {"kind": "cpu"}
    spec = EngineSpec("whisper", model, batch_size=batch_size, encode_rows=1, encode_streams=2, device=device)
    with closing(WhisperEngine(spec)) as engine:
        return outputs_by_job(list(engine.run(Given(jobs), lambda live: batch_size)))


def told(outputs: Sequence[Output]) -> Told:
    return [(segment.start, segment.end, segment.text) for output in outputs for segment in output.segments]


def text(outputs: Sequence[Output]) -> str:
    return " ".join(words for _, _, words in told(outputs))


@pytest.fixture(scope="module")
def alone(whisper_base: Path) -> dict[int, list[Output]]:
    """Six recordings one after the other; the language of the first two is to be found."""
    jobs = [
        job(number, samples_of(name), TranscribeOptions() if name in SHORT else ENGLISH)
        for number, name in enumerate(TOLD)
    ]
    return transcribe(whisper_base, jobs, 1)


def test_the_words_are_right_and_the_language_is_found(alone: dict[int, list[Output]], texts: dict[str, str]) -> None:
    assert {output.language for outputs in alone.values() for output in outputs} == {"en"}
    found = [text(alone[number]) for number in range(len(TOLD))]
    assert wer([texts[name] for name in TOLD], found) < 0.15


@pytest.mark.parametrize("batch_size", [4, 8])
def test_a_batch_says_what_each_says_alone(whisper_base: Path, alone: dict[int, list[Output]], batch_size: int) -> None:
    """With a hold of digital silence among them, which says nothing."""
    jobs = [job(number, samples_of(name), ENGLISH) for number, name in enumerate(TOLD)]
    jobs.append(job(10, np.zeros(40 * RATE, np.float32), ENGLISH))
    random.Random(batch_size).shuffle(jobs)
    found = transcribe(whisper_base, jobs, batch_size)
    for number in range(len(TOLD)):
        assert told(found[number]) == told(alone[number])
        assert len(found[number]) == len(alone[number])
    assert told(found[10]) == []


def test_a_long_recording_goes_window_by_window(whisper_base: Path, texts: dict[str, str]) -> None:
    names = [name for name in texts if name.startswith("books/")] + ["calls/dir-intro.wav", "calls/demo-echotest.wav"]
    pause = np.zeros(RATE, np.float32)
    samples = np.concatenate([part for name in names for part in (samples_of(name), pause)])
    seconds = len(samples) / RATE
    assert 55 < seconds < 85
    outputs = transcribe(whisper_base, [job(0, samples)], 4)[0]
    assert len(outputs) >= 3
    assert [output.stats.start for output in outputs] == sorted({output.stats.start for output in outputs})
    time = 0.0
    for start, end, _ in told(outputs):
        assert time <= start < end <= seconds
        time = end
    assert time > seconds - 5
    assert wer([" ".join(texts[name] for name in names)], [text(outputs)]) < 0.15
