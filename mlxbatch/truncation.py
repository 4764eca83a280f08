"""Words for a recording that ends before its header says."""

from __future__ import annotations

# Lengths that differ by less are not worth a warning: padding of codecs, a missing last byte.
TOLERANCE_S = 0.1


def truncation(decoded: float, announced: float | None, why: str = "") -> str | None:
    """A warning where `decoded` seconds fall short of those `announced` (None: not said), else None.

    `announced` may be infinite: sound of a length that nothing is left to tell from. `why` is the decoder's word.
    """
    if announced is None or announced - decoded <= TOLERANCE_S:
        return None
    if announced == float("inf"):
        return "truncated: nothing is left of the sound that its header announces"
    return f"truncated: {decoded:.2f} s decoded of the {announced:.2f} s in its header{f' ({why})' if why else ''}"
