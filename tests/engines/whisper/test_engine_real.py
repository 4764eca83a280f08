"""The engine on Whisper base and real recordings: the same words whatever the batch, and the right ones."""

from __future__ import annotations

import csv
import random
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
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
# The same recordings asked for in other ways; the first is doubtful however sure the model is, and so is sampled.
ASKED = (
    (SHORT[0], replace(ENGLISH, temperatures=(0.0, 0.8), logprob_threshold=0.0)),
    (SHORT[1], replace(ENGLISH, prompt="Mr. Jon Dashwoode came in.", hotwords=("Norland",))),
    (SHORT[1], TranscribeOptions(language="de")),
    (SHORT[0], TranscribeOptions(task="translate", temperatures=(0.4,))),
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


def jobs() -> list[Job]:
    """Six recordings, of which two are to be heard in whatever language they are, and those that ask for more."""
    plain = [(name, TranscribeOptions() if name in SHORT else ENGLISH) for name in TOLD]
    return [job(number, samples_of(name), options) for number, (name, options) in enumerate([*plain, *ASKED])]


@pytest.fixture(scope="module")
def alone(whisper_base: Path) -> dict[int, list[Output]]:
    """One after the other."""
    return transcribe(whisper_base, jobs(), 1)


def test_the_words_are_right_and_the_language_is_found(alone: dict[int, list[Output]], texts: dict[str, str]) -> None:
    assert {output.language for number in range(len(TOLD)) for output in alone[number]} == {"en"}
    found = [text(alone[number]) for number in range(len(TOLD))]
    assert wer([texts[name] for name in TOLD], found) < 0.15


def test_a_batch_says_what_each_says_alone(whisper_base: Path, alone: dict[int, list[Output]]) -> None:
    """Whatever the others are asked for, and with a hold of digital silence among them, which says nothing."""
    given = [*jobs(), job(len(alone), np.zeros(40 * RATE, np.float32), ENGLISH)]
    random.Random(4).shuffle(given)
    found = transcribe(whisper_base, given, 4)
    assert told(found.pop(len(alone))) == []
    for number, outputs in found.items():
        assert told(outputs) == told(alone[number])
        assert [o.stats.attempts for o in outputs] == [o.stats.attempts for o in alone[number]]
    (sampled,) = found[len(TOLD)]
    assert (sampled.stats.attempts, {segment.temperature for segment in sampled.segments}) == (3, {0.8})
    assert len({text(alone[number]) for number in range(len(TOLD), len(alone))}) == len(ASKED), "all ask for more"


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
