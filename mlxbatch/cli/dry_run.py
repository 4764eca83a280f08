"""What a run would do, decided as the run decides it; loads no model, fetches none, leaves nothing written."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

from mlxbatch import budget, prediction
from mlxbatch.cli import request as asked
from mlxbatch.cli.dry_run_text import Preview, print_json, print_text
from mlxbatch.cli.request import Chosen, Request
from mlxbatch.engines import registry
from mlxbatch.engines.base import Footprint
from mlxbatch.engines.registry import DETECTING
from mlxbatch.errors import ItemError, NotHere, show
from mlxbatch.headerless import Rules, rules
from mlxbatch.history import History
from mlxbatch.ledger import Decision, Infer, Ledger
from mlxbatch.ledger_file import FILE
from mlxbatch.models import catalogue
from mlxbatch.plan import plan
from mlxbatch.prediction import Pace
from mlxbatch.probe import probe
from mlxbatch.runner import decide
from mlxbatch.state import FOLDER
from mlxbatch.types import Item, Planned, Probed
from mlxbatch.wishes import rows

Found = TypeVar("Found")


def preview(request: Request) -> int:
    """List every input with what would be done and why, groups, memory, time; 0 even where a recording would fail.

    Raises what the run would raise before its first recording.
    """
    with TemporaryDirectory(prefix="mlxbatch-") as scratch:
        return _preview(request, Path(scratch))


def _preview(request: Request, scratch: Path) -> int:
    found = asked.find_inputs(request)
    models = _choose(request, scratch)
    main = models.main
    decisions = _decisions(request, found.items, models)
    notes = [*asked.notes(request), *asked.suits(request, models.here, found.items)]
    notes += [f"{show(name)} is not here yet: a run would fetch it first" for name in models.missing]
    notes += [] if decisions or found.problems else [asked.nothing_found(request, found)]
    for note in notes if not request.flags.quiet else ():
        print(f"mlxbatch: {note}", file=sys.stderr)
    infer = [item for item, decision in decisions if isinstance(decision, Infer)]
    rows_of = partial(rows, options=request.options)
    probed, unread = _probe(infer, rules(request.profile.decode.raw), rows_of)
    footprint = registry.footprint(asked.engine_spec(request, main)) if main else None
    limit = prediction.memory_limit(request.profile.device.kind, request.profile.device.memory_limit)
    planned = _plan(request, probed, rows_of, footprint, limit)
    shown = Preview(
        decisions=decisions,
        planned=planned,
        problems=[*found.problems, *unread],
        not_taken=found.by_reason(),
        groups=prediction.groups(planned, footprint),
        weights=footprint.weights if footprint else None,
        limit=limit,
        pace=_pace(request, main) if main else None,
    )
    (print_json if request.flags.as_json else print_text)(shown)
    return 0


@dataclass(frozen=True, slots=True)
class Models:
    """Those of the run: which are on this machine, as the run would choose them, and the names of the others.

    `main` is the model asked for, None where it is missing; `known` tells whether what was stored can be compared with
    what a run would do: by the model asked for, and by what finds speech for it.
    """

    here: list[Chosen]
    missing: list[str]
    main: Chosen | None
    known: bool


def _choose(request: Request, scratch: Path) -> Models:
    """Look for each model by itself. Raises SetupError where fetching would not help, or is not to be done."""
    missing: list[str] = []

    def look(name: str, find: Callable[[], Found]) -> Found | None:
        try:
            return find()
        except NotHere:
            if request.flags.offline:
                raise
            missing.append(name)
            return None

    silent: Callable[[str], None] = lambda text: None  # noqa: E731
    finders = {name: partial(asked.choose, name, offline=True, say=silent, scratch=scratch) for name in request.models}
    looked = [look(name, find) for name, find in finders.items()]
    here, main = [one for one in looked if one is not None], looked[0]
    if request.options.vad and _detects(here, missing):
        vad = look(asked.VAD, partial(asked.detector, offline=True, say=silent))
        here = asked.with_detector(here, vad) if vad else here
        main = here[0] if main else None
    known = main is not None and not (main.engine in DETECTING and asked.VAD in missing)
    return Models(here, missing, main, known)


def _detects(here: Sequence[Chosen], missing: Sequence[str]) -> bool:
    """Whether one of the models hears speech only; of those that are not here, as far as the catalogue tells."""
    listed = [model.engine for name in missing if (model := catalogue.find(name))]
    return any(engine in DETECTING for engine in [*(one.engine for one in here), *listed])


def _decisions(request: Request, items: Sequence[Item], models: Models) -> list[tuple[Item, Decision]]:
    """What is to be done for each item. Where a model is missing, nobody knows yet whether what is stored holds."""
    ledger_there = _has_ledger(request)
    if not models.known:
        why = f"{', '.join(map(show, models.missing))} is not here yet" if ledger_there else "new"
        return [(item, Infer(why)) for item in items]
    settings = asked.run_settings(request, models.here)
    with ExitStack() as stack:
        ledger = stack.enter_context(Ledger.open(request.output, read_only=True)) if ledger_there else None
        return [(item, decide(item, ledger, settings)) for item in items]


def _has_ledger(request: Request) -> bool:
    return (request.output / FOLDER / FILE).exists()


def _probe(
    items: Sequence[Item], headerless: Rules, rows_of: Callable[[Probed], int]
) -> tuple[list[Probed], list[ItemError]]:
    probed, problems = [], []
    for item in items:
        try:
            header = probe(item, headerless)
            rows_of(header)  # raises where the channel that is asked for is not there
            probed.append(header)
        except ItemError as error:
            problems.append(error)
    return probed, problems


def _plan(
    request: Request,
    probed: Sequence[Probed],
    rows_of: Callable[[Probed], int],
    footprint: Footprint | None,
    limit: int | None,
) -> list[Planned]:
    """The run's own plan; by batch size alone where nobody knows yet what memory allows."""
    size = request.profile.transcribe.batch_size
    if footprint is None or limit is None:
        return plan(probed, batch_size=size, need=lambda seconds: 0, budget=0, rows=rows_of)
    longest = max((one.seconds for one in probed), default=0.0)
    fits = budget.planning_budget(limit, footprint.weights + footprint.working(longest))
    return plan(probed, batch_size=size, need=footprint.need, budget=fits, rows=rows_of)


def _pace(request: Request, chosen: Chosen) -> Pace | None:
    if not _has_ledger(request):
        return None
    with History.open(request.output) as history:
        return prediction.pace(history.runs(), asked.conditions(request, chosen))
