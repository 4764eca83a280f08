"""The catalogue as people read it, a line per model, and as programs do.

`python -m mlxbatch.cli.model_table docs/models.md` makes the document's table anew.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from mlxbatch.models.catalogue import CATALOGUE, CatalogueModel
from mlxbatch.words import minutes, size

HEAD = ("NAME", "TASK", "LANGUAGES", "PARAMETERS", "MEMORY", "BITS", "BATCH", "SEGMENT", "LICENCE", "HERE")
BEGIN, END = "<!-- catalogue: begin (generated) -->", "<!-- catalogue: end -->"
_TO_THE_RIGHT = frozenset({"LANGUAGES", "PARAMETERS", "MEMORY", "BITS", "BATCH", "SEGMENT", "SIZE", "WER LOSS", "KL"})


def record(model: CatalogueModel, here: bool) -> dict[str, Any]:
    """All of it, in bytes and seconds; null where nothing is known."""
    facts = model.facts
    return {
        "name": model.name,
        "task": model.task,
        "title": model.title,
        "engine": model.engine,
        "licence": model.licence,
        "on_disk": here,
        "source": model.where,
        "hub": model.hub or None,
        "gated": model.gated,
        "size_bytes": model.size_bytes or None,
        "parameters": facts.parameters if facts else None,
        "memory_bytes": facts.memory_bytes if facts else None,
        "languages": facts.languages if facts else None,
        "bits": facts.bits if facts else None,
        "batch_size": facts.batch if facts else None,
        "segment_seconds": facts.segment_seconds if facts else None,
        "published": facts.source if facts else None,
    }


def rows(found: Iterable[tuple[CatalogueModel, bool]]) -> Iterator[tuple[str, ...]]:
    yield HEAD
    for model, here in found:
        yield (model.name, model.task, *_figures(model), model.licence, "yes" if here else "no")


def _figures(model: CatalogueModel) -> tuple[str, ...]:
    facts = model.facts
    if facts is None:
        return ("",) * 6
    memory, segment = size(facts.memory_bytes), minutes(facts.segment_seconds)
    return (str(facts.languages), _parameters(facts.parameters), memory, str(facts.bits), str(facts.batch), segment)


def _parameters(number: int) -> str:
    return f"{number / 1e9:g} B" if number >= 1e9 else f"{number / 1e6:g} M"


def table(lines: Iterable[Sequence[str]]) -> Iterator[str]:
    """The rows with their columns aligned, the first being the head."""
    cells = [tuple(line) for line in lines]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for line in cells:
        padded = (
            cell.rjust(width) if head in _TO_THE_RIGHT else cell.ljust(width)
            for cell, width, head in zip(line, widths, cells[0], strict=True)
        )
        yield "  ".join(padded).rstrip()


def details(model: CatalogueModel, here: bool) -> Iterator[str]:
    """One model, a line per fact."""
    facts = model.facts
    comes = f"the model hub, as {model.hub}" if model.hub else f"a package index, {size(model.size_bytes)} to download"
    yield f"{model.name}: {model.title}"
    yield f"licence      {model.licence}{', and terms to accept on the hub first' if model.gated else ''}"
    yield f"comes from   {comes}"
    yield f"here         {'yes' if here else f'no: mlxbatch models pull {model.name}'}"
    yield f"engine       {model.engine}"
    if facts:
        yield f"languages    {facts.languages}"
        yield f"parameters   {_parameters(facts.parameters)}, as published at {facts.source}"
        yield f"memory       {size(facts.memory_bytes)} of weights: parameters times {facts.bits} bits"
        yield f"begin with   {facts.bits} bits, batches of {facts.batch}, segments of {minutes(facts.segment_seconds)}"


def markdown() -> str:
    """The catalogue as the table of docs/models.md."""
    head = ("name", "languages", "parameters", "memory", "bits", "batch", "segment", "licence", "comes from")
    lines = [
        (f"`{model.name}`", *_figures(model), model.licence, f"`{model.hub}`" if model.hub else model.where)
        for model in CATALOGUE
        if model.facts
    ]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in (head, ("---",) * len(head), *lines))


def updated(text: str) -> str:
    """A document with the table between its markers made anew; ValueError where it has no markers."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"no {BEGIN} ... {END}")
    return f"{before}{BEGIN}\n{markdown()}{END}{after}"


if __name__ == "__main__":
    document = Path(sys.argv[1])
    document.write_text(updated(document.read_text("utf-8")), "utf-8")
