"""What is asked of each recording."""

from __future__ import annotations

from pathlib import Path

import pytest

from mlxbatch.errors import ItemError, UsageError
from mlxbatch.types import Channels, Item, Probed, TranscribeOptions, Wishes
from mlxbatch.wishes import check_speakers, options_for, parse_channels, parse_speakers, rows, speakers_for

MIX, SPLIT = TranscribeOptions(language="en"), TranscribeOptions(language="en", channels="split")


def item(**wishes: object) -> Item:
    return Item("a", Path("calls/a.wav"), Path("a"), wishes=Wishes(**wishes))  # type: ignore[arg-type]


@pytest.mark.parametrize(("text", "channels"), [("mix", "mix"), (" Split ", "split"), ("0", 0), ("11", 11)])
def test_channels(text: str, channels: Channels) -> None:
    assert parse_channels(text) == channels


@pytest.mark.parametrize(
    ("text", "end"),
    [("-1", "'-1' is not "), ("1.0", "'1.0' is not "), ("spilt", "from 0; did you mean 'split'?"), ("", "")],
)
def test_no_channels(text: str, end: str) -> None:
    with pytest.raises(UsageError, match=r"is not mix, split, or a channel's number, counted from 0") as raised:
        parse_channels(text)
    assert end in str(raised.value)


def test_speakers() -> None:
    assert parse_speakers("agent, second  customer") == parse_speakers("agent;second customer")
    assert parse_speakers("agent, second  customer") == ("agent", "second customer")


@pytest.mark.parametrize("text", ["agent,,customer", "", ",", "agent,customer,agent"])
def test_no_speakers(text: str) -> None:
    with pytest.raises(UsageError) as raised:
        parse_speakers(text)
    assert str(raised.value) == f"'{text}' does not name each channel once, as in agent,customer"


def test_an_items_own_wishes_stand_before_the_runs() -> None:
    assert options_for(MIX, item()) is MIX
    asked = options_for(MIX, item(language="de", channels=0, prompt="Grüß Gott.", speakers=("a",)))
    assert asked == TranscribeOptions(language="de", channels=0, prompt="Grüß Gott.")
    assert options_for(SPLIT, item(channels="mix")) == MIX
    assert options_for(MIX, item(prompt="")) == MIX


def test_names_are_for_channels() -> None:
    names = ("agent", "customer")
    assert speakers_for(names, SPLIT, item()) == names
    assert speakers_for(names, SPLIT, item(speakers=("x", "y"))) == ("x", "y")
    assert speakers_for(names, SPLIT, item(channels="mix")) == ()
    assert speakers_for(names, MIX, item()) == ()
    assert speakers_for((), MIX, item(channels=1, speakers=("x", "y"))) == ("x", "y")


def test_names_that_could_name_nobody() -> None:
    names = ("agent", "customer")
    with pytest.raises(UsageError, match=r"--speakers agent,customer: there are no channels .* add --channels split"):
        check_speakers(names, MIX, [item(), item()])
    with pytest.raises(UsageError, match=r"calls/a\.wav: its speakers have no channels of their own in a mix"):
        check_speakers((), SPLIT, [item(), item(channels="mix", speakers=("a", "b"))])
    check_speakers(names, MIX, [item(), item(channels="split")])
    check_speakers(names, SPLIT, [item()])
    check_speakers((), MIX, [item()])
    check_speakers(names, MIX, [])


def test_rows() -> None:
    def of(channels: Channels, there: int) -> int:
        return rows(Probed(item(channels=channels), 1.0, 8000, there), MIX)

    assert [of("mix", 6), of("split", 6), of("split", 1), of(5, 6)] == [1, 6, 1, 1]
    with pytest.raises(ItemError, match="probe: it has only channels 0 to 1, and channel 2 was asked for"):
        of(2, 2)
    with pytest.raises(ItemError, match="it has only channel 0, and channel 1 was asked for"):
        of(1, 1)
