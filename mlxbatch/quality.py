"""Error rates of words and characters as the Whisper paper has them. Needs the extra `quality` (jiwer, normalizer)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from mlxbatch.errors import SetupError
from mlxbatch.languages import language_code

Unit = Literal["word", "character"]
# Written without spaces between words, so that words cannot be counted: Radford et al. 2022, appendix C, puts a space
# between all letters, which makes the rate one of characters.
NO_SPACES = frozenset({"zh", "ja", "th", "lo", "my", "yue"})


def wer(references: Sequence[str], hypotheses: Sequence[str], language: str = "en") -> float:
    """The corpus word error rate on normalized text: all edits (S + D + I) over all reference words; may be over 1.

    Normalized as in Radford et al. 2022, "Robust Speech Recognition via Large-Scale Weak Supervision", appendix C:
    case, punctuation, fillers, contractions, spelling and number words in English; case, punctuation and diacritics
    elsewhere. References and hypotheses pair up by position. No reference words at all: 0.0 without insertions, else
    infinity.

    ValueError: not the same number of texts. SetupError: the extra is not installed. UsageError: unknown language.
    """
    found = errors(references, hypotheses, language)
    edits, words = sum(one.edits for one in found), sum(one.of for one in found)
    if words == 0:
        return float("inf") if edits else 0.0
    return edits / words


@dataclass(frozen=True, slots=True)
class Errors:
    """Edits (S + D + I) of one hypothesis, and how many words, or characters, its reference has."""

    edits: int
    of: int


def errors(
    references: Sequence[str],
    hypotheses: Sequence[str],
    language: str = "en",
    unit: Unit = "word",
) -> list[Errors]:
    """The edits of each hypothesis, on text normalized as for `wer`, and with its errors.

    Characters are counted with the spaces between words; where a language has none, without those the normalizer makes.
    """
    if len(references) != len(hypotheses):
        raise ValueError(f"{len(references)} references, but {len(hypotheses)} hypotheses")
    normalize = normalizer(language)
    try:
        import jiwer
    except ImportError as error:
        raise _missing(error) from error
    measure = jiwer.process_words if unit == "word" else jiwer.process_characters
    joined = unit == "character" and language_code(language) in NO_SPACES

    def prepared(text: str) -> str:
        return normalize(text).replace(" ", "") if joined else normalize(text)

    found = [measure(prepared(one), prepared(other)) for one, other in zip(references, hypotheses, strict=True)]
    return [
        Errors(one.substitutions + one.deletions + one.insertions, one.hits + one.substitutions + one.deletions)
        for one in found
    ]


def normalizer(language: str) -> Callable[[str], str]:
    """Text -> normalized text for one language (a Whisper code or English name), with no space at either end."""
    code = language_code(language)
    try:
        if code == "en":
            from whisper_normalizer.english import EnglishTextNormalizer

            normalize = EnglishTextNormalizer()
        else:
            from whisper_normalizer.basic import BasicTextNormalizer

            normalize = BasicTextNormalizer(split_letters=code in NO_SPACES)
    except ImportError as error:
        raise _missing(error) from error
    return lambda text: str(normalize(text)).strip()


def _missing(error: ImportError) -> SetupError:
    return SetupError(f"measuring quality needs {error.name}: pip install 'mlxbatch[quality]'")
