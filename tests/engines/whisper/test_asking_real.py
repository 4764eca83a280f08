"""Whisper base asked for more than a transcript: prompts, hotwords, translations, limits, side by side in a batch."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mlxbatch.audio import decode
from mlxbatch.engines.base import EngineSpec
from mlxbatch.engines.whisper.engine import WhisperEngine
from mlxbatch.types import Item, Job, Output, TranscribeOptions
from tests.engines.whisper.parts import job, outputs_by_job
from tests.engines.whisper.test_engine_real import samples_of, told
from tests.jobs import RATE, Given

pytestmark = pytest.mark.real
DATA = Path(__file__).parents[4] / "shared" / "data"
AUSTEN, THANKS = "books/sense_and_sensibility_01_austen_64kb-0870.wav", "calls/demo-thanks.wav"
SPANISH = DATA / "tel_asterisk" / "es" / "vm-instructions.wav"
BANK = "A call about Zsófia Kovács and Kubernetes at the Grimmelshausen bank."


def english(**options: Any) -> TranscribeOptions:
    return TranscribeOptions(language="en", **options)


def hiss() -> np.ndarray:
    return (1e-4 * np.random.default_rng(0).standard_normal(5 * RATE)).astype(np.float32)


def asked() -> list[Job]:
    austen = samples_of(AUSTEN)
    return [
        job(0, austen, english()),
        job(1, austen, english(prompt="Mr. Jon Dashwoode came in.")),
        job(2, samples_of(THANKS), english(hotwords=("Asterisk",))),
        job(3, austen, english(max_tokens=12)),
        job(4, hiss(), english(prompt=BANK)),
    ]


@pytest.fixture(scope="module")
def engine(whisper_base: Path) -> Any:
    spec = EngineSpec("whisper", whisper_base, batch_size=8, encode_streams=2, device={"kind": "cpu"})
    with closing(WhisperEngine(spec)) as engine:
        yield engine


@pytest.fixture(scope="module")
def found(engine: WhisperEngine) -> dict[int, list[Output]]:
    return outputs_by_job(list(engine.run(Given(asked()), lambda live: 8)))


def text(outputs: list[Output]) -> str:
    return " ".join(words for _, _, words in told(outputs))


def test_a_prompt_spells_a_name(found: dict[int, list[Output]]) -> None:
    assert "Mr. John Dashwood had" in text(found[0])
    assert "Mr. Jon Dashwoode had" in text(found[1])
    assert text(found[1]).replace("Jon Dashwoode", "John Dashwood") == text(found[0])


def test_a_hotword_is_spelled_as_it_was_given(found: dict[int, list[Output]]) -> None:
    assert "the Asterisk Open Source PBX" in text(found[2])


def test_a_text_that_is_cut_off_says_so(found: dict[int, list[Output]]) -> None:
    (output,) = found[3]
    assert (output.stats.cut, output.stats.tokens) == (True, 12)
    assert text(found[0]).startswith(text(found[3]))
    assert not any(output.stats.cut for number in (0, 1, 2) for output in found[number])


def test_a_prompt_is_not_heard_where_nothing_is_said(found: dict[int, list[Output]]) -> None:
    """Without the check for echoes it is: "We are going to talk about the Zsófia Kovács and Kubernetes at the ..."."""
    assert (told(found[4]), found[4][0].stats.tokens > 5) == ([], True)


def test_side_by_side_as_alone(engine: WhisperEngine, found: dict[int, list[Output]]) -> None:
    alone = outputs_by_job(list(engine.run(Given([asked()[2]]), lambda live: 1)))[2]
    assert told(alone) == told(found[2])


@pytest.mark.corpus
@pytest.mark.skipif(not SPANISH.is_file(), reason="needs ../shared/data")
def test_spanish_comes_out_in_english(engine: WhisperEngine) -> None:
    samples = decode(Item("es", SPANISH, Path("es"))).samples[0]
    ways = (TranscribeOptions(), TranscribeOptions(task="translate"))
    outputs = outputs_by_job(
        list(engine.run(Given([job(n, samples, way) for n, way in enumerate(ways)]), lambda live: 8))
    )
    spanish, translated = (text(outputs[number]).lower() for number in (0, 1))
    assert {outputs[number][0].language for number in (0, 1)} == {"es"}
    assert "mensajes" in spanish
    assert "message" in translated
    assert "mensajes" not in translated
