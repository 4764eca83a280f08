"""What synthesizers are tried on: short sentences and how they are said, so that no other package has to say it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mlxbatch.convert.proof.quality import Level

# Of the sentences, how many a quick proof has spoken.
QUICK = 2


@dataclass(frozen=True, slots=True)
class Sentence:
    """A text in English, and its phonemes in American English as Kokoro has them (A, I, O, W are diphthongs)."""

    text: str
    phonemes: str


SENTENCES = (
    Sentence("He was not an ill disposed young man.", "hˌi wʌz nˌɑt ɐn ˈɪl dəspˈOzd jˈʌŋ mˈæn."),
    Sentence("He might even have been made amiable himself.", "hˌi mˌIt ˈivən hæv bɪn mˈAd ˈAmiəbᵊl hɪmsˈɛlf."),
    Sentence("Please press the pound sign after the tone.", "plˈiz pɹˈɛs ðə pˈWnd sˈIn ˈæftəɹ ðə tˈOn."),
    Sentence("Three trains were late on Sunday morning.", "θɹˈi tɹˈAnz wɜɹ lˈAt ˌɔn sˈʌndˌA mˈɔɹnɪŋ."),
    Sentence("The window was open and it began to rain.", "ðə wˈɪndˌO wʌz ˈOpᵊn ænd ɪt bəɡˈæn tə ɹˈAn."),
)


def sentences_for(level: Level) -> Sequence[Sentence]:
    """The first ones for a quick proof, else all."""
    return SENTENCES[:QUICK] if level == "quick" else SENTENCES


def words(sentences: Sequence[Sentence]) -> int:
    """How many words their texts have."""
    return sum(len(sentence.text.split()) for sentence in sentences)
