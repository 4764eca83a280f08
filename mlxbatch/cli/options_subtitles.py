"""Options of words and subtitles: how wide and how many lines are, when a cue ends, which word is marked."""

from __future__ import annotations

import math
from typing import Annotated

import typer

from mlxbatch.errors import UsageError, show
from mlxbatch.line_rules import USUAL_WIDTH, LineRules

PANEL = "Words and subtitles (srt, vtt)"

LEAST_WIDTH, MOST_WIDTH = 8, 1000
MOST_LINES = 20


def _width(text: str) -> int:
    return _whole("--max-line-width", text, LEAST_WIDTH, MOST_WIDTH)


def _lines(text: str) -> int:
    return _whole("--max-line-count", text, 1, MOST_LINES)


def _whole(option: str, text: str, least: int, most: int) -> int:
    number = int(text) if text.isascii() and text.isdecimal() else -1
    if not least <= number <= most:
        raise UsageError(f"{option} is a whole number from {least} to {most}, not '{show(text)}'")
    return number


def _gap(text: str) -> float:
    try:
        gap = float(text)
    except ValueError:
        gap = math.nan
    if not 0 < gap < math.inf:
        raise UsageError(f"--max-gap is seconds over 0, such as 0.8, not '{show(text)}'")
    return gap


WordTimestamps = Annotated[
    bool | None,
    typer.Option(
        "--word-timestamps/--no-word-timestamps",
        envvar="MLXBATCH_WORD_TIMESTAMPS",
        help="When each word is spoken, and how sure the model is of it; in json and jsonl. Default: no, unless "
        "subtitles need it.",
        rich_help_panel=PANEL,
        show_default=False,
    ),
]
MaxLineWidth = Annotated[
    int | None,
    typer.Option(
        "--max-line-width",
        parser=_width,
        metavar="N",
        envvar="MLXBATCH_MAX_LINE_WIDTH",
        help=f"The most characters of a line, {LEAST_WIDTH} to {MOST_WIDTH}; wide East Asian ones count twice. What is "
        "longer is wrapped, never inside a word.",
        rich_help_panel=PANEL,
        show_default=False,
    ),
]
MaxLineCount = Annotated[
    int | None,
    typer.Option(
        "--max-line-count",
        parser=_lines,
        metavar="N",
        envvar="MLXBATCH_MAX_LINE_COUNT",
        help=f"The most lines of a cue, 1 to {MOST_LINES}, each {USUAL_WIDTH} wide unless told otherwise: longer "
        "segments become several cues. Turns --word-timestamps on.",
        rich_help_panel=PANEL,
        show_default=False,
    ),
]
MaxGap = Annotated[
    float | None,
    typer.Option(
        "--max-gap",
        parser=_gap,
        metavar="SECONDS",
        envvar="MLXBATCH_MAX_GAP",
        help="A longer pause between two words begins a new cue, such as 0.8. Turns --word-timestamps on.",
        rich_help_panel=PANEL,
        show_default=False,
    ),
]
Highlight = Annotated[
    bool | None,
    typer.Option(
        "--highlight/--no-highlight",
        envvar="MLXBATCH_HIGHLIGHT",
        help="Underline each word while it is spoken. Turns --word-timestamps on.",
        rich_help_panel=PANEL,
        show_default=False,
    ),
]


# Key of the settings -> the parameter that stands over it.
KEYS = {
    "transcribe.word_timestamps": "word_timestamps",
    "subtitles.max_line_width": "max_line_width",
    "subtitles.max_line_count": "max_line_count",
    "subtitles.max_gap": "max_gap",
    "subtitles.highlight": "highlight",
}


def agree(word_timestamps: bool | None, lines: LineRules) -> None:
    """UsageError for --no-word-timestamps beside rules that cannot do without."""
    if word_timestamps is False and lines.timed:
        rules = " and ".join(f"--{name.replace('_', '-')}" for name in lines.timed)
        raise UsageError(f"--no-word-timestamps: {rules} go by the times of words; leave out one or the other")
