"""Words of a window's text: which tokens make one up, when it is said, how sure the model is of it. No MLX.

openai/whisper's way with words (tokenizer.py, `split_to_word_tokens`; timing.py, `merge_punctuations` and
`add_word_timestamps`), but a segment at a time, so that its words are its text, and with a sign's time for its word.
"""

from __future__ import annotations

import math
import string
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from statistics import fmean, median

from mlxbatch.types import Word

Text = Callable[[Sequence[int]], str]
"""The text of tokens; part of a character becomes U+FFFD."""

Part = tuple[str, int]
"""Part of a text, and of how many tokens it is made."""

# Written without blanks between words: there each character is a word.
UNSPACED = frozenset({"zh", "ja", "th", "lo", "my", "yue"})
# Signs that belong to the word after them, to the word before them, and of these the ones that end a sentence.
OPENING = frozenset("\"'“¿([{-")
CLOSING = frozenset("\"'.。,，!！?？:：”)]}、")
SENTENCE_ENDS = frozenset(".。!！?？")
# No median of a window's words counts as longer, in seconds: where it is, the text is not what is said.
LONGEST_MEDIAN = 0.7


def timed_words(
    segments: Sequence[Sequence[int]], times: Sequence[float], logprobs: Sequence[float], text: Text, language: str
) -> list[tuple[Word, ...]]:
    """The words of each of a window's segments, given their text tokens.

    `times` are the seconds at which each token of all segments is begun to be said, and the next token's or the end;
    `logprobs` those of the tokens. A sign has the pause after it: its word is said into that, but no longer than the
    median of all words. A word after the end of a sentence, or of a segment, has the pause before it, and is said in at
    most twice that time.
    """
    bounds = [0, *accumulate(len(tokens) for tokens in segments)]
    parts = [
        _timed(split(tokens, text, language), times[begin : end + 1], logprobs[begin:end])
        for tokens, (begin, end) in zip(segments, pairwise(bounds), strict=True)
    ]
    spans = [part.end - part.start for segment in parts for part in segment if part.end > part.start]
    typical = min(LONGEST_MEDIAN, median(spans)) if spans else 0.0
    return [_merged(_after_pauses(segment, 2 * typical), typical) for segment in parts]


def within(words: Sequence[Word], start: float, end: float) -> tuple[Word, ...]:
    """The words with no time outside of these seconds, rounded to milliseconds as those are."""

    def inside(time: float) -> float:
        return min(max(round(time, 3), start), end)

    return tuple(replace(word, start=inside(word.start), end=inside(word.end)) for word in words)


def split(tokens: Sequence[int], text: Text, language: str) -> list[Part]:
    """A segment's words, and the signs behind them; joined they are its text. "3.5" is one word."""
    groups: list[list[Part]] = []
    for part in _characters(tokens, text):
        if not groups or language in UNSPACED or part[0].startswith(" "):
            groups.append([part])
        else:
            groups[-1].append(part)
    return [part for group in groups for part in _without_signs(group)]


def _without_signs(group: list[Part]) -> list[Part]:
    """The parts of a word as one, then each sign behind it."""
    count = len(group)
    while count > 1 and group[count - 1][0] in string.punctuation:
        count -= 1
    word = "".join(text for text, _ in group[:count]), sum(tokens for _, tokens in group[:count])
    return [word, *group[count:]]


def _characters(tokens: Sequence[int], text: Text) -> list[Part]:
    """Stretches of tokens, as short as they can be with every character whole."""
    whole, told, begin = text(tokens), 0, 0
    found: list[Part] = []
    for end in range(1, len(tokens) + 1):
        part = text(tokens[begin:end])
        # Where part of a character becomes U+FFFD, the whole text has the character.
        if part and whole.startswith(part, told):
            found.append((part, end - begin))
            told, begin = told + len(part), end
    if begin < len(tokens):
        found.append((whole[told:], len(tokens) - begin))  # bytes that are no character at all
    return found


def _timed(parts: Sequence[Part], times: Sequence[float], logprobs: Sequence[float]) -> list[Word]:
    bounds = pairwise([0, *accumulate(count for _, count in parts)])
    return [
        Word(times[begin], times[end], text, fmean(map(math.exp, logprobs[begin:end])))
        for (text, _), (begin, end) in zip(parts, bounds, strict=True)
    ]


def _after_pauses(parts: Sequence[Word], longest: float) -> list[Word]:
    """A segment's parts, those that begin a sentence no longer than this."""
    begins = [True, *(part.text[-1:] in SENTENCE_ENDS for part in parts)]
    return [
        replace(part, start=max(part.start, part.end - longest)) if begin else part
        for part, begin in zip(parts, begins, strict=False)
    ]


def _merged(parts: Sequence[Word], longest: float) -> tuple[Word, ...]:
    """A segment's words with their signs: an opening one begins a word; a closing one lets it last `longest` longer."""
    words: list[Word] = []
    opening = ""
    for part in parts:
        if words and not opening and (not part.text.strip() or set(part.text) <= CLOSING):
            word = words[-1]
            words[-1] = replace(word, text=word.text + part.text, end=max(word.end, min(part.end, word.end + longest)))
        elif part.text.startswith(" ") and part is not parts[-1] and set(part.text[1:]) <= OPENING:
            opening += part.text
        else:
            words.append(replace(part, text=opening + part.text))
            opening = ""
    return tuple(words)
