"""What a family does with a batch of pieces, as the engine sees it."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from mlxbatch.engines.mlx_audio.cuts import Cut
from mlxbatch.engines.mlx_audio.heard import Heard
from mlxbatch.types import Segment

NOT_A_NUMBER = "the model gave NaN"
# Models fail on less: their first convolutions have nothing to look at.
SHORTEST = 1.0

Tick = Callable[[], None]
"""To be called at each step: the engine is seen to come on."""


class Hearing(Protocol):
    """A loaded model of one family."""

    def hear(self, cuts: Sequence[Cut], tick: Tick) -> list[Heard]:
        """What was heard in each piece, in their order; none of them is silent.

        No row's text depends on the others. What is wrong with one piece is its `problem`; an exception is the whole
        batch's.
        """
        ...

    def problem(self, language: str | None) -> str | None:
        """Why the model cannot transcribe in that language, where its own files say so."""
        ...


@dataclass(frozen=True, slots=True)
class Part:
    """What a model has said of the piece in `row` since its part before; `last`: that was all, and how it went."""

    row: int
    heard: Heard
    last: bool


@runtime_checkable
class Streaming(Protocol):
    """A loaded model whose segments are known, with their times, while it goes on."""

    def stream(self, cuts: Sequence[Cut], tick: Tick) -> Iterator[Part]:
        """What `Hearing.hear` says of each piece, in parts of one segment; the last of a piece has the rest of it."""
        ...


def parts(row: int, saying: Generator[Sequence[Segment], None, Heard]) -> Iterator[Part]:
    """`saying` gives all that was said so far, again and again, and returns what was heard in the end."""
    told = 0
    while True:
        try:
            segments = next(saying)
        except StopIteration as end:
            heard: Heard = end.value
            yield Part(row, replace(heard, segments=heard.segments[told:]), last=True)
            return
        yield from (Part(row, Heard((segment,)), last=False) for segment in segments[told:])
        told = max(told, len(segments))


def samples_of(cut: Cut) -> NDArray[np.float32]:
    """The piece's samples [n], with silence behind them where it is shorter than a second."""
    missing = int(SHORTEST * cut.sample_rate) - len(cut.samples)
    return np.pad(cut.samples, (0, max(0, missing)))


def context_of(cut: Cut) -> str:
    """What the user says of the recording, words to expect, and the text before this piece: a line each."""
    parts = (cut.options.prompt, ", ".join(cut.options.hotwords), cut.context)
    # Nobody's text may pass for a model's own tokens.
    return "\n".join(re.sub(r"<\|[^|]*\|>", "", part).strip() for part in parts if part.strip())
