"""The documents' table of exit codes, made from the error classes: `python -m mlxbatch.cli.exit_codes FILE`."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from mlxbatch.errors import MlxBatchError

BEGIN, END = "<!-- exit codes: begin (generated) -->", "<!-- exit codes: end -->"
_DONE = "all done, nothing to do, or ended by --time-limit with files left for the next run"


def subclasses(kind: type[MlxBatchError]) -> Iterator[type[MlxBatchError]]:
    """All classes below one, parents before children."""
    for child in kind.__subclasses__():
        yield child
        yield from subclasses(child)


def meanings() -> dict[int, str]:
    """Exit code -> what it means; the class that is nearest the root speaks for its code."""
    table = {0: _DONE}
    kinds: list[type[MlxBatchError]] = [MlxBatchError, *subclasses(MlxBatchError)]
    for kind in kinds:
        table.setdefault(kind.exit_code, kind.meaning)
    return dict(sorted(table.items()))


def table() -> str:
    rows = "".join(f"| {code} | {meaning} |\n" for code, meaning in meanings().items())
    return f"| code | meaning |\n|---|---|\n{rows}"


def updated(text: str) -> str:
    """A document with the table between its markers made anew; ValueError where it has no markers."""
    pattern = re.compile(f"{re.escape(BEGIN)}\n.*?{re.escape(END)}", re.DOTALL)
    if not pattern.search(text):
        raise ValueError(f"no {BEGIN} ... {END}")
    return pattern.sub(lambda _: f"{BEGIN}\n{table()}{END}", text)


if __name__ == "__main__":
    document = Path(sys.argv[1])
    document.write_text(updated(document.read_text("utf-8")), "utf-8")
