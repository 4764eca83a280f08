"""Recordings without a header: what their names say of encoding, sample rate and channels, by rules.

The names of Asterisk and of other switches are known; the profile's section [decode.raw] adds names or says otherwise:
`vox8 = "mulaw 8000 1"`. A file with a header of its own is read by that, whatever it is called.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mlxbatch.plausible import HIGHEST_RATE, LOWEST_RATE
from mlxbatch.words import nearest

_MOST_CHANNELS = 64


@dataclass(frozen=True, slots=True)
class Encoding:
    """How a library is told to read it: soundfile's keywords, or ffmpeg's demuxer and its options."""

    soundfile: Mapping[str, Any] = field(default_factory=dict)
    demuxer: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    fixed_rate: int | None = None  # where the codec knows no other


@dataclass(frozen=True, slots=True)
class Rule:
    """One kind of headerless recording; `rate` in Hz."""

    encoding: str
    rate: int = 8000
    channels: int = 1

    def __str__(self) -> str:
        return f"{self.encoding} {self.rate} {self.channels}"


Rules = Mapping[str, Rule]  # by suffix, lower case, without the dot


def _pcm(subtype: str, endian: str) -> Encoding:
    return Encoding(soundfile={"subtype": subtype, "endian": endian})


def _g726(bits: int) -> Encoding:
    """Packed as RFC 3551 has it, which is how switches write it."""
    return Encoding(demuxer="g726le", options={"code_size": str(bits), "sample_rate": "8000"}, fixed_rate=8000)


_ENDS = (("le", "LITTLE"), ("be", "BIG"))
ENCODINGS: Mapping[str, Encoding] = {
    "mulaw": _pcm("ULAW", "FILE"),
    "alaw": _pcm("ALAW", "FILE"),
    "u8": _pcm("PCM_U8", "FILE"),
    "s8": _pcm("PCM_S8", "FILE"),
    **{f"s{bits}{end}": _pcm(f"PCM_{bits}", word) for bits in (16, 24, 32) for end, word in _ENDS},
    **{f"f32{end}": _pcm("FLOAT", word) for end, word in _ENDS},
    **{f"f64{end}": _pcm("DOUBLE", word) for end, word in _ENDS},
    "gsm": _pcm("GSM610", "FILE"),
    "vox": _pcm("VOX_ADPCM", "FILE"),
    "g722": Encoding(demuxer="g722", fixed_rate=16000),
    **{f"g726-{bits * 8}": _g726(bits) for bits in (2, 3, 4, 5)},
    "g729": Encoding(demuxer="g729", fixed_rate=8000),
    "g723.1": Encoding(demuxer="g723_1", fixed_rate=8000),
}

# Names that switches and recorders use. sln: Asterisk's signed linear, with the rate in kHz behind it.
_NAMES = {
    "mulaw": "ulaw ul ulw mulaw mu",
    "alaw": "alaw al alw",
    "gsm": "gsm",
    "vox": "vox",
    "g722": "g722",
    "g726-16": "g726-16",
    "g726-24": "g726-24",
    "g726-32": "g726 g726-32",
    "g726-40": "g726-40",
    "g729": "g729",
    "g723.1": "g723",
    "s16le": "sln sln8",
}
_SLN = {12: 12000, 16: 16000, 24: 24000, 32: 32000, 44: 44100, 48: 48000, 96: 96000, 192: 192000}

SPELLING = (
    'an encoding, with sample rate and channels where they are not 8000 and 1, such as "mulaw 8000 1" '
    f"(encodings: {', '.join(ENCODINGS)})"
)


class RuleError(ValueError):
    """What is wrong with a rule, or with the name it is for."""


def parse(text: str) -> Rule:
    """A rule as it stands in a profile: "mulaw", "s16le 16000", "alaw 8000 2". Raises RuleError."""
    encoding, *numbers = text.split() or [""]
    if encoding not in ENCODINGS:
        raise RuleError(f"unknown encoding {encoding!r}{nearest(encoding, ENCODINGS)}")
    if len(numbers) > 2 or not all(re.fullmatch("[0-9]{1,9}", number) for number in numbers):
        raise RuleError('must be "ENCODING RATE CHANNELS", such as "mulaw 8000 1"')
    fixed = ENCODINGS[encoding].fixed_rate
    rate, channels = [*map(int, numbers), *(fixed or 8000, 1)[len(numbers) :]]
    if fixed and (rate, channels) != (fixed, 1):
        raise RuleError(f"{encoding} is always at {fixed} Hz with 1 channel")
    if not LOWEST_RATE <= rate <= HIGHEST_RATE:
        raise RuleError(f"the sample rate must be from {LOWEST_RATE} to {HIGHEST_RATE} Hz, not {rate}")
    if not 1 <= channels <= _MOST_CHANNELS:
        raise RuleError(f"the channels must be from 1 to {_MOST_CHANNELS}, not {channels}")
    return Rule(encoding, rate, channels)


def suffix(name: str) -> str:
    """A suffix as it stands in a profile, ".VOX8" or "vox8", as the rules have it. Raises RuleError for others."""
    bare = name.removeprefix(".").lower()
    if not bare or bare != os.path.basename(bare) or "." in bare:  # noqa: PTH119 (a name, no path)
        raise RuleError(f"{name!r} is no file name suffix")
    return bare


DEFAULTS: Rules = {
    **{name: parse(encoding) for encoding, names in _NAMES.items() for name in names.split()},
    **{f"sln{khz}": Rule("s16le", rate) for khz, rate in _SLN.items()},
}


def rules(own: Mapping[str, str]) -> Rules:
    """A profile's [decode.raw] over the names that are known anyhow. Raises RuleError where one is no rule."""
    return {**DEFAULTS, **{suffix(name): parse(text) for name, text in own.items()}}


def rule_for(path: Path, known: Rules) -> Rule | None:
    return known.get(path.suffix[1:].lower())


def departure(path: Path, known: Rules) -> str:
    """The rule for a path where it is not the one that holds anyhow, else "": what its transcript depends on."""
    rule = rule_for(path, known)
    return "" if rule is None or rule == DEFAULTS.get(path.suffix[1:].lower()) else str(rule)
