"""Options of recordings with several channels: which are heard, and who speaks in them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, TypeVar

import typer

from mlxbatch import types, wishes
from mlxbatch.cli.options import PANEL_HOW
from mlxbatch.errors import UsageError

Channels = Annotated[
    str | None,
    typer.Option(
        "--channels",
        metavar="mix|split|N",
        envvar="MLXBATCH_CHANNELS",
        help="Mix all channels to one; split: hear each by itself, as in a call with a side on each; or channel N "
        "alone, counted from 0. Default: the profile's, mostly mix.",
        rich_help_panel=PANEL_HOW,
        show_default=False,
    ),
]
Speakers = Annotated[
    str | None,
    typer.Option(
        "--speakers",
        metavar="NAMES",
        envvar="MLXBATCH_SPEAKERS",
        help="Who speaks in each channel, from channel 0 on, with commas between: agent,customer. Other names need no "
        "second inference.",
        rich_help_panel=PANEL_HOW,
        show_default=False,
    ),
]


def channels_of(text: str | None) -> types.Channels | None:
    """--channels; UsageError where it is none."""
    return _parsed("--channels", wishes.parse_channels, text) if text else None


def speakers_of(text: str | None) -> tuple[str, ...]:
    """--speakers; UsageError where a name is empty, or given twice."""
    return _parsed("--speakers", wishes.parse_speakers, text) if text else ()


T = TypeVar("T")


def _parsed(option: str, parse: Callable[[str], T], text: str) -> T:
    try:
        return parse(text)
    except UsageError as error:
        raise UsageError(f"{option}: {error}") from error
