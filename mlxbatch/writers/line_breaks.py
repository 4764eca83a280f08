"""Where a text may be broken, where it had better be, and how many columns of a screen it takes. Pure.

Sources: Unicode Standard Annex 11, "East Asian Width", and Annex 14, "Unicode Line Breaking Algorithm". Of it this is
what subtitles need: spaces; characters of scripts that put none between words, with the ones that may not begin or end
a line (Japanese kinsoku among them).
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

# Wide scripts have no spaces, but Korean does; those of South-East Asia have none either, and are not wide.
_HANGUL = ((0x1100, 0x11FF), (0x3130, 0x318F), (0xA960, 0xA97F), (0xAC00, 0xD7FF), (0xFFA0, 0xFFDC))
_SPACELESS = ((0x0E00, 0x0EFF), (0x1000, 0x109F), (0x1780, 0x17FF))  # Thai and Lao, Myanmar, Khmer
# General categories: marks, joiners, closing and other punctuation; opening punctuation.
_NEVER_FIRST = frozenset({"Mn", "Mc", "Me", "Cf", "Lm", "Sk", "Pe", "Pf", "Po"})
_NEVER_LAST = frozenset({"Ps", "Pi"})
# Small kana, and Thai and Lao vowels that stand behind their consonant; those before theirs, and what stacks or joins.
_NO_START = frozenset("ぁぃぅぇぉっゃゅょゎゕゖァィゥェォッャュョヮヵヶะาำๅະາຳ")
_NO_END = frozenset("เแโใไເແໂໃໄ\u1039\u17d2\u200d\u2060")
# The zero width space, and Tibetan's mark between syllables: there for it.
_ALWAYS_AFTER = frozenset("\u200b\u0f0b")

_CLOSING = "\"'”’»)\\]）」』】"
_SENTENCE = re.compile(f"[.!?…。！？．｡؟۔।።][{_CLOSING}]*$")
_CLAUSE = re.compile(f"[,;:—–、，；：؛،][{_CLOSING}]*$")
_ABBREVIATION = re.compile(r"\W*([^\W\d_]|Mrs?|Ms|Dr|Prof|St|Mme|Hr|Fr|Nr)\.$")


def columns(text: str) -> int:
    """Wide and fullwidth characters take two columns, combining and format characters none."""
    return len(text) if text.isascii() else sum(map(_columns, text))


def breaks(text: str) -> list[int]:
    """Where a new line may begin, as indices of its first character; `text` is one line with single spaces."""
    return [at for at in range(1, len(text)) if _may_break(text[at - 1], text[at])]


def ends_sentence(word: str) -> bool:
    """Whether a word, with its punctuation, is the last of a sentence; "Dr." and "J." are not."""
    return bool(_SENTENCE.search(word)) and not _ABBREVIATION.match(word)


def ends_clause(word: str) -> bool:
    return bool(_CLAUSE.search(word))


def _may_break(before: str, after: str) -> bool:
    if before == " " or before in _ALWAYS_AFTER:
        return after != " "
    if not (_spaceless(before) or _spaceless(after)) or after in _NO_START or before in _NO_END:
        return False
    return after != " " and _category(after) not in _NEVER_FIRST and _category(before) not in _NEVER_LAST


@lru_cache(maxsize=4096)
def _columns(character: str) -> int:
    if _category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


@lru_cache(maxsize=4096)
def _spaceless(character: str) -> bool:
    """Whether it is of a script whose words have no spaces between them."""
    code = ord(character)
    if _within(code, _HANGUL):
        return False
    return _within(code, _SPACELESS) or unicodedata.east_asian_width(character) in "WF"


def _within(code: int, ranges: tuple[tuple[int, int], ...]) -> bool:
    return any(first <= code <= last for first, last in ranges)


def _category(character: str) -> str:
    return unicodedata.category(character)
