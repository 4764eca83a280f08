"""Sound files from front to back, in blocks: what they hold, where they stop, what their headers promised."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Protocol

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
        if not LOWEST_RATE <= source.sample_rate <= HIGHEST_RATE:
            raise ItemError(path, stage, f"{_UNREADABLE}: its header says {source.sample_rate} Hz")
        yield source


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
