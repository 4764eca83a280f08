"""A prompt that comes back as text."""

from __future__ import annotations

import pytest

from mlxbatch.engines.whisper.echo import is_echo
from mlxbatch.engines.whisper.windows import is_silence
from mlxbatch.types import TranscribeOptions

PROMPT = "A call about Zsófia Kovács and Kubernetes at the Grimmelshausen bank."
WORDS = ("Zsófia", "Kubernetes", "Grimmelshausen")


@pytest.mark.parametrize(
    ("text", "echo"),
    [
        (" We are going to talk about the Zsófia Kovács and Kubernetes at the Grimmelshausen bank.", True),
        (" THE GRIMMELSHAUSEN BANK.", True),
        (" Zsófia, Kubernetes, Grimmelshausen", True),
        (" Good morning, this is Zsófia Kovács, I am calling because of my order of last week.", False),
        (" you", False),
        ("", False),
    ],
)
def test_half_of_the_text_stands_in_the_prompt(text: str, echo: bool) -> None:
    assert is_echo(text, TranscribeOptions(prompt=PROMPT, hotwords=WORDS)) is echo


def test_scripts_without_blanks() -> None:
    options = TranscribeOptions(prompt="東京の銀行についての電話です。")
    assert is_echo("銀行についての電話", options)
    assert not is_echo("今日は天気がいいですね", options)


def test_without_a_prompt_nothing_is_an_echo() -> None:
    assert not is_echo("anything", TranscribeOptions())


def test_an_echo_is_silence_only_where_the_model_hears_no_speech() -> None:
    """Somebody may well say the very words that were expected."""
    assert is_silence(0.7, -0.1, TranscribeOptions(), echo=lambda: True)
    assert not is_silence(0.5, -0.1, TranscribeOptions(), echo=lambda: True)
    assert not is_silence(0.7, -0.1, TranscribeOptions(), echo=lambda: False)
