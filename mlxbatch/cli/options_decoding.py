"""Options of how text is decoded, and the checks of their values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Literal

import typer

from mlxbatch.errors import UsageError, show

PANEL = "Decoding"

# Fewer tokens than these hold no sentence and its times; more a window never says (half of Whisper's context).
LEAST_TOKENS, MOST_TOKENS = 8, 32_768


def _prompt(text: str) -> str:
    """--prompt: the text itself, or with @ before it the name of a file; on one line."""
    if text.startswith("@"):
        text = _read(Path(text[1:]))
    return " ".join(text.split())


def _read(path: Path) -> str:
    try:
        return path.expanduser().read_text("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"--prompt: {show(path)}: not UTF-8 text") from error
    except (OSError, RuntimeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise UsageError(f"--prompt: cannot read {show(path)}: {reason} (@ before it means a file)") from error


def _hotwords(text: str) -> list[str]:
    """ "Zsófia, Kubernetes" -> ["Zsófia", "Kubernetes"], each once; an empty text is none, whatever the profile has."""
    words = list(dict.fromkeys(" ".join(word.split()) for word in text.split(",") if word.strip()))
    if text and not words:
        raise UsageError("--hotwords names no word: give some with commas between, such as 'Zsófia, Kubernetes'")
    return words


def _max_tokens(text: str) -> int:
    number = int(text) if text.isascii() and text.isdecimal() else 0
    if not LEAST_TOKENS <= number <= MOST_TOKENS:
        raise UsageError(f"--max-tokens is a whole number from {LEAST_TOKENS} to {MOST_TOKENS}, not '{show(text)}'")
    return number


def _temperatures(text: str) -> list[float]:
    """ "0,0.2,0.4" -> [0.0, 0.2, 0.4]: rising, or a text would be tried again at what it failed at."""
    ladder = [_number(part) for part in text.split(",")]
    if not (all(0 <= step <= 2 for step in ladder) and all(low < high for low, high in pairwise(ladder))):
        raise UsageError(f"--temperature is rising numbers from 0 to 2, such as 0 or 0,0.2,0.4, not '{show(text)}'")
    return ladder


def _compression_ratio(text: str) -> float:
    ratio = _number(text)
    if not 0 < ratio < math.inf:
        raise UsageError(f"--compression-ratio-threshold is a number over 0, not '{show(text)}'")
    return ratio


def _logprob(text: str) -> float:
    logprob = _number(text)
    if not -math.inf < logprob <= 0:
        raise UsageError(f"--logprob-threshold is a number of at most 0, not '{show(text)}'")
    return logprob


def _no_speech(text: str) -> float:
    probability = _number(text)
    if not 0 <= probability <= 1:
        raise UsageError(f"--no-speech-threshold is a number from 0 to 1, not '{show(text)}'")
    return probability


def _number(text: str) -> float:
    """NaN, which is in no range, for what is none."""
    try:
        return float(text)
    except ValueError:
        return math.nan


Task = Annotated[
    Literal["transcribe", "translate"] | None,
    typer.Option(
        "--task",
        envvar="MLXBATCH_TASK",
        help="transcribe writes what is said in its own language, translate says it in English. Default: transcribe.",
        rich_help_panel=PANEL,
        show_default=False,
    ),
]
Prompt = Annotated[
    str | None,
    typer.Option(
        "--prompt",
        parser=_prompt,
        metavar="TEXT|@FILE",
        envvar="MLXBATCH_PROMPT",
        help="Text as if said before, whose names, spelling and style the model follows; @FILE reads it from a file.",
        rich_help_panel=PANEL,
        show_default=False,
    ),
]
Hotwords = Annotated[
    Sequence[str] | None,  # not list, which typer takes for an option that is given again and again
    typer.Option(
        "--hotwords",
        parser=_hotwords,
        metavar="LIST",
        envvar="MLXBATCH_HOTWORDS",
        help="Names and terms to be expected, with commas between: the model spells them so where it hears them.",
        rich_help_panel=PANEL,
        show_default=False,
    ),
]
MaxTokens = Annotated[
    int | None,
    typer.Option(
        "--max-tokens",
        parser=_max_tokens,
        metavar="N",
        envvar="MLXBATCH_MAX_TOKENS",
        help=f"The most tokens of text in a window, {LEAST_TOKENS} to {MOST_TOKENS}, as far as the model goes (Whisper "
        "224 in 30 s); a text that is cut off is told. Default: what the model can.",
        rich_help_panel=PANEL,
        show_default=False,
    ),
]
Temperature = Annotated[
    Sequence[float] | None,
    typer.Option(
        "--temperature",
        parser=_temperatures,
        metavar="LIST",
        envvar="MLXBATCH_TEMPERATURE",
        help="Tried in turn while a window's text is doubtful; 0 alone never samples. Default: 0,0.2,0.4,0.6,0.8,1.",
        rich_help_panel=PANEL,
        show_default=False,
    ),
]
CompressionRatio = Annotated[
    float | None,
    typer.Option(
        "--compression-ratio-threshold",
        parser=_compression_ratio,
        metavar="RATIO",
        envvar="MLXBATCH_COMPRESSION_RATIO_THRESHOLD",
        help="A text that compresses better than this repeats itself: it is doubtful. Default: 2.4.",
        rich_help_panel=PANEL,
        show_default=False,
    ),
]
Logprob = Annotated[
    float | None,
    typer.Option(
        "--logprob-threshold",
        parser=_logprob,
        metavar="LOGPROB",
        envvar="MLXBATCH_LOGPROB_THRESHOLD",
        help="A text whose mean log-probability is below this is doubtful. Default: -1.",
        rich_help_panel=PANEL,
        show_default=False,
    ),
]
NoSpeech = Annotated[
    float | None,
    typer.Option(
        "--no-speech-threshold",
        parser=_no_speech,
        metavar="PROBABILITY",
        envvar="MLXBATCH_NO_SPEECH_THRESHOLD",
        help="A doubtful text is silence where the model finds no speech with more than this. Default: 0.6.",
        rich_help_panel=PANEL,
        show_default=False,
    ),
]
EncoderContext = Annotated[
    Literal["auto", "full"] | None,
    typer.Option(
        "--encoder-context",
        envvar="MLXBATCH_ENCODER_CONTEXT",
        help="What Whisper's encoder gets of a short window: auto as long as it is, full 30 s, as in openai/whisper, "
        "which is slower. Default: auto.",
        rich_help_panel=PANEL,
        show_default=False,
    ),
]


# Key of the settings -> the parameter that stands over it.
KEYS = {
    "transcribe.task": "task",
    "transcribe.prompt": "prompt",
    "transcribe.hotwords": "hotwords",
    "transcribe.max_tokens": "max_tokens",
    "transcribe.temperatures": "temperature",
    "transcribe.compression_ratio_threshold": "compression_ratio_threshold",
    "transcribe.logprob_threshold": "logprob_threshold",
    "transcribe.no_speech_threshold": "no_speech_threshold",
    "transcribe.encoder_context": "encoder_context",
}
