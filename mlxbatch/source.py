"""Sound files from front to back, in blocks: what they hold, where they stop, what their headers promised."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Protocol, cast

from mlxbatch.chunks import DataChunk, data_chunk
from mlxbatch.errors import ItemError, item_stage
from mlxbatch.header_sizes import sound_size
from mlxbatch.headerless import DEFAULTS, ENCODINGS, Rule, Rules, rule_for
from mlxbatch.ogg import links
from mlxbatch.plausible import HIGHEST_RATE, LOWEST_RATE
from mlxbatch.regular_file import open_regular
from mlxbatch.signatures import is_mpeg, is_signed, other_content
from mlxbatch.sndfile import Refused, open_raw, open_sndfile, plain_cause
from mlxbatch.uniform import Samples as Samples

_UNREADABLE = "not an audio file that can be read"
_HEAD = 64
# What the user calls standard input.
STANDARD_INPUT = Path("-")


class Source(Protocol):
    """Sound that is read once. `seconds` is its length by its header, or an estimate where that does not say.

    `stopped` is the decoder's word where it gave up before the end; `notes` are what else the user should know, whole
    once all blocks are read.
    """

    sample_rate: int
    channels: int
    seconds: float
    is_float: bool  # whether samples beyond full scale can be in the file itself
    stopped: str | None
    notes: list[str]

    def blocks(self) -> Iterator[Samples]:
        """Blocks of float32, shape [n, channels], up to the end or to where the decoder gives up."""
        ...

    def truncation(self, frames: int) -> str | None:
        """A warning when `frames`, all that were read, are less than the header announces."""
        ...


@contextmanager
def open_source(path: Path, stage: str, rules: Rules = DEFAULTS) -> Iterator[Source]:
    """The sound of a file, by its content whatever it is called; `rules` are for those without a header.

    Raises ItemError of the given stage.
    """
    with item_stage(path, stage), open_regular(path, stage) as file, ExitStack() as stack:
        try:
            source = _opened(file, rule_for(path, rules), stack)
        except _Unreadable as error:
            raise ItemError(path, stage, f"{_UNREADABLE}: {error}") from error
        _check_rate(source, path, stage)
        yield source


@contextmanager
def open_standard_input(stage: str) -> Iterator[Source]:
    """The sound of standard input: of the file that it is read from, or what comes through a pipe, as it comes.

    Of a pipe its length is not known, and a container is read that can be played while it is written: WAV, Ogg, MP3,
    FLAC, Matroska, MPEG-TS and their like. Raises ItemError of the given stage.
    """
    with item_stage(STANDARD_INPUT, stage), ExitStack() as stack:
        file = cast("IO[bytes]", stack.enter_context(os.fdopen(os.dup(0), "rb", buffering=0)))
        try:
            whole = stat.S_ISREG(os.fstat(0).st_mode)
            source = _opened(file, None, stack) if whole else _piped(file, stack)
        except _Unreadable as error:
            raise ItemError(STANDARD_INPUT, stage, f"{_UNREADABLE}: {error}") from error
        _check_rate(source, STANDARD_INPUT, stage)
        yield source


def _check_rate(source: Source, path: Path, stage: str) -> None:
    if not LOWEST_RATE <= source.sample_rate <= HIGHEST_RATE:
        raise ItemError(path, stage, f"{_UNREADABLE}: its header says {source.sample_rate} Hz")


class _Unreadable(Exception):
    """The cause why no library reads a file."""


def _opened(file: IO[bytes], rule: Rule | None, stack: ExitStack) -> Source:
    """libsndfile first, but for MPEG audio: there it prints what it thinks, and guesses lengths."""
    head = file.read(_HEAD)
    if rule and not is_signed(head):
        return _headerless(file, rule, stack)
    chunk = data_chunk(file) or sound_size(file)
    ogg = links(file)
    refused = "no sound found in it"
    if not is_mpeg(head, chunk) and all(link.streams == 1 for link in ogg):
        try:
            return stack.enter_context(open_sndfile(file, chunk, ogg))
        except Refused as error:
            refused = plain_cause(error)
    if kind := other_content(head):
        raise _Unreadable(f"its content is {kind}")
    return _by_libav(file, chunk, refused, stack, whole=all(link.whole for link in ogg))


def _piped(file: IO[bytes], stack: ExitStack) -> Source:
    from mlxbatch import libav

    try:
        return stack.enter_context(libav.open_piped(file))
    except libav.Refused as error:
        raise _Unreadable(error.cause) from error


def _headerless(file: IO[bytes], rule: Rule, stack: ExitStack) -> Source:
    if ENCODINGS[rule.encoding].demuxer:
        return _by_libav(file, None, "", stack, rule=rule)
    try:
        return stack.enter_context(open_raw(file, rule))
    except Refused as error:
        raise _Unreadable(plain_cause(error)) from error


def _by_libav(
    file: IO[bytes],
    chunk: DataChunk | None,
    refused: str,
    stack: ExitStack,
    *,
    rule: Rule | None = None,
    whole: bool = True,
) -> Source:
    """`refused` is libsndfile's word, which stands where ffmpeg has nothing better to say."""
    from mlxbatch import libav  # 0.1 s, and most recordings do without

    try:
        return stack.enter_context(libav.open_libav(file, chunk, rule, whole=whole))
    except libav.Refused as error:
        raise _Unreadable(error.cause if error.said or not refused else refused) from error
