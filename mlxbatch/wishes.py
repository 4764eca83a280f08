"""What is asked of each recording: its own wishes over the run's, and what channels and speakers may be. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mlxbatch.errors import ItemError, UsageError, show
from mlxbatch.types import Channels, Item, Probed, TranscribeOptions, Wishes
from mlxbatch.words import nearest

_NONE = Wishes()
_NOBODY = "{} no channels of their own in a mix; add --channels split, or a channel's number"


def parse_channels(text: str) -> Channels:
    """ "mix", "split", or a channel's number, counted from 0; UsageError for anything else."""
    word = text.strip().lower()
    if word in ("mix", "split"):
        return "mix" if word == "mix" else "split"
    if word.isascii() and word.isdecimal():
        return int(word)
    hint = nearest(word, ("mix", "split"))
    raise UsageError(f"'{show(text)}' is not mix, split, or a channel's number, counted from 0{hint}")


def parse_speakers(text: str) -> tuple[str, ...]:
    """ "agent, customer" -> ("agent", "customer"), with "," or ";" between; UsageError for an empty or double name."""
    names = tuple(" ".join(name.split()) for name in text.replace(";", ",").split(","))
    if not all(names) or len(set(names)) < len(names):
        raise UsageError(f"'{show(text)}' does not name each channel once, as in agent,customer")
    return names


def options_for(options: TranscribeOptions, item: Item) -> TranscribeOptions:
    """The run's options, with the item's own language, channels and prompt where it has any."""
    wishes = item.wishes
    if wishes == _NONE:
        return options
    asked = {"language": wishes.language, "channels": wishes.channels, "prompt": wishes.prompt}
    return replace(options, **{name: value for name, value in asked.items() if value is not None})  # type: ignore[arg-type]


def speakers_for(speakers: tuple[str, ...], options: TranscribeOptions, item: Item) -> tuple[str, ...]:
    """The names of an item's channels, from the first; none for a mix, in which nobody can be told apart."""
    names = speakers if item.wishes.speakers is None else item.wishes.speakers
    return names if names and options_for(options, item).channels != "mix" else ()


def check_speakers(speakers: tuple[str, ...], options: TranscribeOptions, items: Sequence[Item]) -> None:
    """UsageError for names that could name nobody: the run's where every recording is mixed, an item's where it is."""
    for item in items:
        if item.wishes.speakers and options_for(options, item).channels == "mix":
            raise UsageError(f"{show(item.source)}: {_NOBODY.format('its speakers have')}")
    if speakers and items and all(options_for(options, item).channels == "mix" for item in items):
        raise UsageError(f"--speakers {show(','.join(speakers))}: {_NOBODY.format('there are')}")


def rows(probed: Probed, options: TranscribeOptions) -> int:
    """How many tracks become of a recording, each a row of a batch. ItemError where the channel asked for is not there.

    By its header; what is decoded may come to fewer (see `audio.decode`), never to more.
    """
    channels = options_for(options, probed.item).channels
    if isinstance(channels, int):
        if channels >= probed.channels:
            raise ItemError(probed.item.source, "probe", no_such_channel(channels, probed.channels))
        return 1
    return max(1, probed.channels) if channels == "split" else 1


def no_such_channel(channel: int, there: int) -> str:
    """The cause of the failure of a recording that has only so many channels."""
    has = "only channel 0" if there == 1 else f"only channels 0 to {there - 1}"
    return f"it has {has}, and channel {channel} was asked for"
