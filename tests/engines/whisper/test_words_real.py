"""Word times of Whisper base on real recordings: beside mlx-audio's, and beside what is known of their times."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mlxbatch.audio import decode
from mlxbatch.engines.base import EngineSpec
from mlxbatch.engines.whisper.engine import WhisperEngine
from mlxbatch.types import Item, Segment, TranscribeOptions, Word
from tests.engines.whisper.parts import job, outputs_by_job
from tests.jobs import RATE, Given

pytestmark = pytest.mark.real
ROOT = Path(__file__).parents[3]
DATA = ROOT.parent / "shared" / "data"
WORDS = TranscribeOptions(language="en", words=True)
CLIP = "calls/dir-instr.wav"


def samples_of(path: Path, channel: int | None = None) -> NDArray[np.float32]:
    return decode(Item(path.name, path, Path(path.name)), channels="mix" if channel is None else channel).samples[0]


@pytest.fixture(scope="module")
def engine(whisper_base: Path, silero_vad: Path) -> Iterator[WhisperEngine]:
    spec = EngineSpec("whisper", whisper_base, encode_streams=2, device={"kind": "cpu"}, vad=silero_vad)
    with closing(WhisperEngine(spec)) as engine:
        yield engine


def heard(
    engine: WhisperEngine, recordings: Sequence[NDArray[np.float32]], options: TranscribeOptions = WORDS
) -> list[list[Segment]]:
    jobs = [job(number, samples, options) for number, samples in enumerate(recordings)]
    found = outputs_by_job(list(engine.run(Given(jobs), lambda live: 8)))
    return [[segment for output in found[number] for segment in output.segments] for number in range(len(jobs))]


def check(segments: Sequence[Segment], seconds: float) -> None:
    said = [word for segment in segments for word in segment.words]
    assert said
    assert all("".join(word.text for word in one.words).strip() == one.text for one in segments)
    assert all(0 <= word.start <= word.end <= seconds and 0 < word.probability <= 1 for word in said)
    assert all(one.end <= other.start for one, other in pairwise(said))
    assert all(one.start <= word.start and word.end <= one.end for one in segments for word in one.words)


def plain(text: str) -> str:
    return re.sub(r"[^a-z0-9]", "", text.lower())


def common(one: Sequence[str], other: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Places of the words that two texts have in common."""
    matcher = difflib.SequenceMatcher(None, [plain(w) for w in one], [plain(w) for w in other], autojunk=False)
    for block in matcher.get_matching_blocks():
        yield from ((block.a + k, block.b + k) for k in range(block.size))


def test_they_are_mlx_audio_s(whisper_base: Path, engine: WhisperEngine) -> None:
    """Which encodes each window again, and decodes it again without timestamps.

    Measured on four clips: starts differ by 0 ms in the median and 40 ms at the 90th percentile, of 41 words.
    """
    import mlx.core as mx
    from mlx_audio.stt import load

    samples = samples_of(ROOT / "examples" / CLIP)
    (segments,) = heard(engine, [samples])
    check(segments, len(samples) / RATE)
    ours = [word for segment in segments for word in segment.words]
    model: Any = load(str(whisper_base))
    model.set_dtype(mx.float32)
    model.dtype = mx.float32
    result = model.generate(mx.array(samples), language="en", word_timestamps=True, fp16=False, verbose=None)
    theirs = [word for segment in result.segments for word in segment["words"]]
    pairs = list(common([word.text for word in ours], [word["word"] for word in theirs]))
    assert len(pairs) > 0.8 * len(ours) > 10
    apart = sorted(abs(ours[a].start - theirs[b]["start"]) for a, b in pairs)
    assert median(apart) <= 0.02
    assert apart[round(0.9 * len(apart))] <= 0.1


def errors(words: Sequence[Word], known: Sequence[dict[str, Any]]) -> tuple[list[float], list[float]]:
    """By how much the first words of stretches whose times are known begin, and the last ones end, too late."""
    reference, starts, ends = list[str](), dict[int, float](), dict[int, float]()
    for stretch in known:
        said = [word for word in re.split(r"[\s-]+", stretch["text"]) if plain(word)]
        starts[len(reference)] = stretch["start"]
        reference += said
        ends[len(reference) - 1] = stretch["end"]
    pairs = list(common([word.text for word in words], reference))
    return (
        [words[a].start - starts[b] for a, b in pairs if b in starts],
        [words[a].end - ends[b] for a, b in pairs if b in ends],
    )


@pytest.mark.corpus
@pytest.mark.skipif(not DATA.exists(), reason="the recordings are not here")
def test_sentences_of_a_reading_begin_and_end_where_they_do(engine: WhisperEngine) -> None:
    """Measured on all 232 s: sentences begin and end within 100 ms of where their clips do (median)."""
    path = DATA / "long" / "ljspeech_LJ001_chapter.ogg"
    known = json.loads(path.with_name(f"{path.name}.segments.json").read_text("utf-8"))
    seconds = next(stretch["end"] for stretch in known if stretch["end"] > 60)
    samples = samples_of(path)[: round(RATE * (seconds + 0.2))]
    (segments,) = heard(engine, [samples])
    check(segments, len(samples) / RATE)
    words = [word for segment in segments for word in segment.words]
    starts, ends = errors(words, [stretch for stretch in known if stretch["end"] <= seconds])
    assert len(starts) >= 5
    assert median(map(abs, starts)) < 0.15
    assert median(map(abs, ends)) < 0.25


@pytest.mark.corpus
@pytest.mark.skipif(not DATA.exists(), reason="the recordings are not here")
def test_turns_of_a_call_begin_and_end_where_they_do(engine: WhisperEngine) -> None:
    path = DATA / "stereo_calls" / "call_s3_alaw.wav"
    known = json.loads(path.with_name("call_s3_alaw.segments.json").read_text("utf-8"))
    samples = samples_of(path, channel=0)
    (segments,) = heard(engine, [samples], replace(WORDS, vad=True))
    check(segments, len(samples) / RATE)
    words = [word for segment in segments for word in segment.words]
    starts, ends = errors(words, [turn for turn in known if turn["channel"] == 0])
    assert len(starts) >= 5
    # A turn's first word reaches into the 0.4 s that are left before speech.
    assert median(map(abs, starts)) < 0.25
    assert median(map(abs, ends)) < 0.3
