"""Options of recordings with several channels: which are heard, and who speaks in them."""

from __future__ import annotations

from typing import Annotated

import typer

from mlxbatch.cli.options import PANEL_HOW

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
