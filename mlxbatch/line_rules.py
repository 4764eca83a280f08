"""How the lines and cues of subtitles are to be: what a user may ask for, beside the text itself."""

from __future__ import annotations

from dataclasses import asdict, dataclass

# Columns of a line where only the number of lines is limited: what Netflix's and Amara's guides name for Latin scripts.
USUAL_WIDTH = 42


@dataclass(frozen=True, slots=True)
class LineRules:
    """Nothing asked for: a cue is a segment, on one line.

    `max_line_width` are columns, of which wide East Asian characters take two; what is longer is wrapped.
    `max_line_count` are the lines of a cue; what does not fit is a further cue. A pause between two words of more than
    `max_gap` seconds begins a new cue. `highlight`: each word is marked while it is spoken.
    """

    max_line_width: int | None = None
    max_line_count: int | None = None
    max_gap: float | None = None
    highlight: bool = False

    @property
    def timed(self) -> tuple[str, ...]:
        """The rules asked for that have to know when each word is spoken, by their names."""
        return tuple(name for name in self.asked if name != "max_line_width")

    @property
    def asked(self) -> dict[str, object]:
        """The rules asked for, with their values; what the outputs depend on."""
        return {name: value for name, value in asdict(self).items() if value is not None and value is not False}

    @property
    def width(self) -> int | None:
        """Columns of a line; None for as many as it takes."""
        return self.max_line_width or (USUAL_WIDTH if self.max_line_count else None)
