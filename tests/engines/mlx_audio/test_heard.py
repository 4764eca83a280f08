"""mlx-audio's results as segments."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import cast

import pytest

from mlxbatch.engines.mlx_audio.cuts import Cut
from mlxbatch.engines.mlx_audio.decoding import Row
from mlxbatch.engines.mlx_audio.heard import Heard, Token, aligned, code_of, placed, plain, sentence, spoken_segments
from mlxbatch.engines.mlx_audio.vibevoice import VibeVoice, joined, objects
from mlxbatch.types import Segment


def test_text_alone_is_one_segment_for_the_whole_piece() -> None:
    (segment,) = placed(plain(" so be it "), 10.0, 4.5, channel=1)
    assert (segment.start, segment.end, segment.text, segment.channel) == (10.0, 14.5, "so be it", 1)
    assert plain("  ").segments == ()


def test_times_beyond_the_piece_are_moved_to_its_end_and_rounded() -> None:
    heard = Heard((Segment(-1.0, 0.3333333, "a"), Segment(2.0, 99.0, "b"), Segment(50.0, 60.0, "c")))
    assert [(s.start, s.end) for s in placed(heard, 1.0, 3.0, None)] == [(1.0, 1.333), (3.0, 4.0), (4.0, 4.0)]


@pytest.mark.parametrize(
    ("start", "end", "wanted"),
    [
        (1, 2.5, (1.0, 2.5)),
        ("1.0", "2.5s", (1.0, 2.5)),
        ("00:01", "01:02.5", (1.0, 62.5)),
        ("0:00:01", "1:00:00", (1.0, 3600.0)),
        (None, None, (0.0, math.inf)),
        (3.0, 1.0, (3.0, math.inf)),
        ("soon", "nan", (0.0, math.inf)),
        (0.0, 0.0, (0.0, math.inf)),
    ],
)
def test_times_in_every_way_that_models_write_them(start: object, end: object, wanted: tuple[float, float]) -> None:
    (segment,) = spoken_segments([{"text": "x", "start": start, "end": end}])
    assert (segment.start, segment.end) == wanted


def test_segments_without_text_are_none_and_speakers_stay() -> None:
    found = spoken_segments([{"start": 0, "end": 1}, {"text": " "}, {"text": "x", "speaker_id": 0}])
    assert [(one.text, one.speaker) for one in found] == [("x", "0")]


def test_words_are_put_together_from_their_tokens() -> None:
    tokens = [Token(0, " un", 0.0, 0.2, 0.9), Token(1, "do", 0.2, 0.1, 0.5), Token(2, " it", 0.4, 0.2, 0.8)]
    tokens.append(Token(3, ".", 0.6, 0.1, 1.0))
    found = sentence(" undo it.", 0.0, 0.7, tokens)
    assert [(w.text, w.start, w.end, w.probability) for w in found.words] == [
        (" undo", 0.0, pytest.approx(0.3), 0.5),
        (" it.", 0.4, pytest.approx(0.7), 0.8),
    ]
    assert found.avg_logprob == pytest.approx(math.log(0.9 * 0.5 * 0.8) / 4)


def test_sentences_of_mlx_audio_s_own_have_words_that_nobody_knows_the_likelihood_of() -> None:
    one = SimpleNamespace(
        text=" undo it.",
        start=0.0,
        end=0.7,
        tokens=[
            SimpleNamespace(id=0, text=" undo", start=0.0, duration=0.3),
            SimpleNamespace(id=1, text=" it", start=0.4, duration=0.2),
            SimpleNamespace(id=2, text=".", start=0.6, duration=0.1),
        ],
    )
    (found,) = aligned([one, SimpleNamespace(text=" ", start=0.7, end=0.8, tokens=[])])
    assert (found.text, found.start, found.end, found.avg_logprob) == ("undo it.", 0.0, 0.7, 0.0)
    assert [(w.text, w.start, w.end) for w in found.words] == [
        (" undo", 0.0, pytest.approx(0.3)),
        (" it.", 0.4, pytest.approx(0.7)),
    ]
    assert all(math.isnan(word.probability) for word in found.words)
    assert "".join(word.text for word in found.words).strip() == found.text


@pytest.mark.parametrize(
    ("name", "code"),
    [("English", "en"), ("german", "de"), ("<|fr|>", "fr"), ("zh", "zh"), ("Klingon", None), ("", None), (None, None)],
)
def test_languages_by_whatever_name(name: object, code: str | None) -> None:
    assert code_of(name) == code


def test_chunks_of_a_stream_are_joined_to_sentences() -> None:
    texts = ["Good mor", "ning.", "", " Is that", " you?", " I", " see"]
    chunks = [{"text": text, "start": float(n), "end": n + 1.0} for n, text in enumerate(texts)]
    assert [(one.start, one.end, one.text) for one in joined(chunks)] == [
        (0.0, 2.0, "Good morning."),
        (3.0, 5.0, "Is that you?"),
        (5.0, math.inf, "I see"),
    ]


def test_a_list_that_breaks_off_keeps_its_whole_objects() -> None:
    text = '[{"Start time": 0.0, "End time": 1.5, "Speaker ID": 0, "Content": "Yes."}, '
    text += '{"Start": "1.5", "End": "2.0", "Speaker": 1, "Content": "No."}, {"Start time": 2.0, "Con'
    found, whole = objects(text)
    assert found == [
        {"start": 0.0, "end": 1.5, "speaker_id": 0, "text": "Yes."},
        {"start": "1.5", "end": "2.0", "speaker_id": 1, "text": "No."},
    ]
    assert not whole
    assert objects(text[: text.index(', {"Start time')] + "]") == (found, True)
    assert objects("[]") == ([], True)


SAID = '{"Start": 0, "End": 1, "Speaker": 0, "Content": "Yes."}'


@pytest.mark.parametrize(
    ("text", "texts", "cut"),
    [
        ("[]", [], False),
        ("assistant\n[ ]", [], False),
        (f"[{SAID}]", ["Yes."], False),
        (f"assistant [{SAID}, {SAID}", ["Yes.", "Yes."], False),
        (f"```json\n[{SAID}]\n```", ["Yes."], False),
        ('[{"Start": 0, "End": 1, "Content": "x {y} {\\"z\\": 1}"}]', ['x {y} {"z": 1}'], False),
        ('[{"Start": 0, "End": 1, "Content": "two\nlines"}]', ["two\nlines"], False),
        (f'[{SAID}, {{"Start": 1, "Content": "he said "no" to it"}}]', ["Yes."], True),
        ('[{"Start": 0.0, "End": 1.5, "Speaker": 0, "Content": "hello there how', [], True),
        ('{"Start": 0.0, "Con', [], True),
        ("[", [], False),
        ("[Music] Hello {all}.", ["[Music] Hello {all}."], False),
        ("Plain text.", ["Plain text."], False),
    ],
)
def test_an_answer_in_json_is_never_told_as_text(text: str, texts: list[str], cut: bool) -> None:
    class Tokenizer:
        def decode(self, tokens: list[int], skip_special_tokens: bool) -> str:
            return text

    vibevoice = VibeVoice.__new__(VibeVoice)
    vibevoice._model = SimpleNamespace(tokenizer=Tokenizer())
    heard = vibevoice._heard(cast(Cut, SimpleNamespace(alone=True)), Row(9, [1, 2]))
    assert [one.text for one in heard.segments] == texts
    assert heard.cut == cut
