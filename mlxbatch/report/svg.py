"""Matplotlib figures as SVG for a page: the page's colours and fonts, unique ids, the same bytes for the same data."""

from __future__ import annotations

import html
import io
import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Matplotlib wants colours, the page has variables, light and dark: these stand for them, and no other colour is used.
COLOURS = {
    "ink": "#000001",
    "muted": "#000002",
    "grid": "#000003",
    "first": "#000004",
    "second": "#000005",
    "third": "#000006",
    "good": "#000007",
    "fair": "#000008",
    "bad": "#000009",
    "paper": "#00000a",
}
_STYLE = {
    "svg.fonttype": "none",
    "svg.hashsalt": "mlxbatch",
    # File and model names are no formulas, though they may have dollars in them.
    "text.parse_math": False,
    "font.size": 9.0,
    "axes.titlesize": 9.0,
    "axes.titlelocation": "left",
    "axes.edgecolor": COLOURS["muted"],
    "axes.labelcolor": COLOURS["muted"],
    "axes.titlecolor": COLOURS["ink"],
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "grid.color": COLOURS["grid"],
    "grid.linewidth": 0.8,
    "lines.linewidth": 1.5,
    "legend.frameon": False,
    "legend.fontsize": 8.0,
    "legend.labelcolor": COLOURS["ink"],
    "text.color": COLOURS["ink"],
    "xtick.color": COLOURS["muted"],
    "ytick.color": COLOURS["muted"],
    "ytick.left": False,
}
_NO_METADATA = dict.fromkeys(("Date", "Creator", "Format", "Type"))


@contextmanager
def drawing() -> Iterator[None]:
    """Matplotlib as it is out of the box with this style, whatever the user's matplotlibrc says; restored after.

    Without a home directory it warns of making a temporary one for its fonts, which is nobody's concern here.
    """
    logger = logging.getLogger("matplotlib")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        from matplotlib import style

        with style.context(["default", _STYLE], after_reset=True):
            yield
    finally:
        logger.setLevel(level)


def to_svg(figure: Figure, name: str, title: str, description: str) -> str:
    """One SVG element, to be put into a page; `name` is in no other picture of it."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata=_NO_METADATA, transparent=True)
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r' (id="|xlink:href="#)', rf" \1{name}-", text)
    text = text.replace("url(#", f"url(#{name}-")
    for variable, colour in COLOURS.items():
        text = text.replace(colour, f"var(--{variable})")
    return _named(text, name, title, description)


def _named(text: str, name: str, title: str, description: str) -> str:
    """The root element made to fit its place, with a title and a description for those who do not see it."""
    view = re.search(r'viewBox="[^"]*"', text)
    assert view is not None
    body = text[text.index(">") + 1 :]
    return (
        f'<svg xmlns:xlink="http://www.w3.org/1999/xlink" {view[0]} role="img" '
        f'aria-labelledby="{name}-title {name}-text"><title id="{name}-title">{html.escape(title)}</title>'
        f'<desc id="{name}-text">{html.escape(description)}</desc>{body}'
    )
