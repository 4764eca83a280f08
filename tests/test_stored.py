"""Transcripts to JSON and back, and the keys."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlxbatch.stored import (
    inference_key,
    named_key,
    pack,
    pack_outputs,
    rendering_key,
    transcript_from_json,
    transcript_to_json,
    unpack,
    unpack_outputs,
)
from mlxbatch.types import Segment, TranscribeOptions, Transcript, Word
from mlxbatch.writers import LineRules

TIMES = st.floats(0, 1e6)
# st.characters of every category: text decoded from odd bytes may hold lone surrogates.
TEXT = st.text(st.characters(exclude_categories=()), max_size=20)
WORDS = st.builds(Word, TIMES, TIMES, TEXT, st.floats(0, 1))
SEGMENTS = st.builds(
    Segment,
    start=TIMES,
    end=TIMES,
    text=TEXT,
    words=st.lists(WORDS, max_size=3).map(tuple),
    speaker=st.none() | TEXT,
    channel=st.none() | st.integers(0, 7),
    avg_logprob=st.floats(allow_nan=False),
    no_speech_prob=st.floats(0, 1),
    compression_ratio=st.floats(0, 100),
    temperature=st.floats(0, 1),
)
TRANSCRIPTS = st.builds(
    Transcript,
    segments=st.lists(SEGMENTS, max_size=4).map(tuple),
    language=st.none() | st.sampled_from(["en", "de"]),
    seconds=TIMES,
    warnings=st.lists(TEXT, max_size=2).map(tuple),
    truncated=st.booleans(),
    model=TEXT,
)


@given(TRANSCRIPTS)
def test_a_transcript_comes_back_as_it_was(transcript: Transcript) -> None:
    assert transcript_from_json(json.loads(json.dumps(transcript_to_json(transcript)))) == transcript
    assert unpack(pack(transcript)) == transcript


def test_a_transcript_of_an_older_version_has_no_model() -> None:
    data = transcript_to_json(Transcript((), "en", 1.0, model="m"))
    del data["model"]
    assert transcript_from_json(data) == Transcript((), "en", 1.0)


@pytest.mark.parametrize("blob", [b"", b"x", pack(Transcript((), "en", 1.0))[:-1], b"x\x9c\x03\x00\x00\x00\x00\x01"])
def test_what_pack_did_not_write_is_a_value_error(blob: bytes) -> None:
    with pytest.raises(ValueError, match=r"stored transcript|Expecting value"):
        unpack(blob)


def test_any_flipped_bit_of_a_stored_transcript_is_noticed() -> None:
    blob = pack(Transcript((Segment(0.0, 1.0, "the quick brown fox"),), "en", 1.0))
    for place in range(2, len(blob)):
        with pytest.raises(ValueError, match=r"stored transcript|JSON|Expecting|codec"):
            unpack(blob[:place] + bytes([blob[place] ^ 16]) + blob[place + 1 :])


def key(options: TranscribeOptions | None = None, **facts: str) -> str:
    given = {"model_sha": "m", "engine": "whisper", "engine_version": "1", "dtype": "float32"} | facts
    return inference_key(options=options or TranscribeOptions(), **given)


def test_each_fact_that_changes_the_result_changes_the_inference_key() -> None:
    options = TranscribeOptions()
    others = [
        key(model_sha="n"),
        key(engine="fake"),
        key(engine_version="2"),
        key(dtype="float16"),
        key(replace(options, language="en")),
        key(replace(options, task="translate")),
        key(replace(options, temperatures=(0.0,))),
        key(replace(options, compression_ratio_threshold=2.5)),
        key(replace(options, logprob_threshold=-0.5)),
        key(replace(options, no_speech_threshold=0.5)),
        key(replace(options, vad=True)),
        key(replace(options, vad=True), vad_sha="v"),
        key(replace(options, vad=True), vad_sha="w"),
    ]
    assert len({key(), *others}) == len(others) + 1
    assert key() == key(replace(options, temperatures=(0, 0.2, 0.4, 0.6, 0.8, 1)))


def test_the_inference_key_is_the_same_in_every_version_of_the_toolkit() -> None:
    # A change here makes every user's next run do all files again: change it only together with the results.
    assert key() == "60b0582ba1ec72b39e954d5e7b6a442b"


@given(st.permutations(["srt", "txt", "json", "txt"]))
def test_the_order_of_formats_is_no_difference(formats: list[str]) -> None:
    assert rendering_key(formats) == "json srt txt"


def test_rules_for_lines_are() -> None:
    rules = LineRules(42, 2, 0.5, True)
    assert rendering_key(["srt"], rules.asked) == (
        'srt {"highlight": true, "max_gap": 0.5, "max_line_count": 2.0, "max_line_width": 42.0}'
    )
    assert rendering_key(["srt"], LineRules().asked) == rendering_key(["srt"]) == "srt"
    assert rendering_key(["srt"], LineRules(max_gap=1.0).asked) == rendering_key(["srt"], LineRules(max_gap=1).asked)


def test_words_and_the_encoder_s_context_are_a_difference_in_inference_where_they_are_asked_for() -> None:
    options = TranscribeOptions()
    assert key(replace(options, words=False, encoder_context="auto")) == key(options)
    assert len({key(options), key(replace(options, words=True)), key(replace(options, encoder_context="full"))}) == 3


def test_names_of_channels_are_a_difference_in_rendering_alone() -> None:
    assert named_key("srt txt", ()) == "srt txt"
    assert named_key("srt txt", ("agent", "customer")) == 'srt txt ["agent", "customer"]'


def test_channels_are_a_difference_in_inference_unless_mixed() -> None:
    options = TranscribeOptions()
    assert key(replace(options, channels="mix")) == key(options)
    assert len({key(options), key(replace(options, channels="split")), key(replace(options, channels=0))}) == 3


def test_a_transcript_of_an_older_version_is_one_of_a_mix() -> None:
    data = transcript_to_json(Transcript((), "en", 1.0, channels=(0, 1)))
    assert transcript_from_json(data).channels == (0, 1)
    del data["channels"]
    assert transcript_from_json(data).channels == (None,)


PATHS = st.binary(min_size=1).filter(lambda path: b"\0" not in path)


@given(st.dictionaries(PATHS, st.integers(0, 1 << 63), max_size=4))
def test_outputs_come_back_as_they_were(sizes: dict[bytes, int]) -> None:
    assert unpack_outputs(pack_outputs(sizes)) == sizes


@pytest.mark.parametrize("packed", [b"a", b"a\0", b"a\x001", b"a\0x\0", b"a\x001\0b\0"])
def test_what_pack_outputs_did_not_write_is_a_value_error(packed: bytes) -> None:
    with pytest.raises(ValueError, match=r"not a list of outputs|invalid literal"):
        unpack_outputs(packed)
