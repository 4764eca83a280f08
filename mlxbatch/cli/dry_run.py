"""What a run would do, decided as the run decides it; loads no model, fetches none, writes nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial

from mlxbatch import budget, prediction
from mlxbatch.cli import request as asked
from mlxbatch.cli.dry_run_text import Preview, print_json, print_text
from mlxbatch.cli.request import Chosen, Request
from mlxbatch.engines import registry
from mlxbatch.engines.base import Footprint
from mlxbatch.errors import ItemError, SetupError
from mlxbatch.headerless import Rules, rules
from mlxbatch.history import History
from mlxbatch.ledger import Decision, Infer, Ledger
from mlxbatch.ledger_file import FILE
from mlxbatch.plan import plan
from mlxbatch.prediction import Pace
from mlxbatch.probe import probe
from mlxbatch.runner import decide
from mlxbatch.state import FOLDER
from mlxbatch.types import Item, Planned, Probed
from mlxbatch.wishes import rows


def preview(request: Request) -> int:
    """List every input with what would be done and why, groups, memory, time; 0 even where something would fail."""
    found = asked.find_inputs(request)
    chosen, missing = _choose(request)
    decisions = _decisions(request, found.items, chosen)
    notes = [*asked.notes(request), *asked.suits(request, chosen, found.items)]
    notes += [f"the model would be fetched first: {missing}"] if missing else []
    notes += [] if decisions or found.problems else [asked.nothing_found(request, found)]
    for note in notes if not request.flags.quiet else ():
        print(f"mlxbatch: {note}", file=sys.stderr)
    infer = [item for item, decision in decisions if isinstance(decision, Infer)]
    rows_of = partial(rows, options=request.options)
    probed, unread = _probe(infer, rules(request.profile.decode.raw), rows_of)
    footprint = registry.footprint(asked.engine_spec(request.profile, chosen[0])) if chosen else None
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
        pace=_pace(request, chosen[0]) if chosen else None,
    )
    (print_json if request.flags.as_json else print_text)(shown)
    return 0


def _choose(request: Request) -> tuple[list[Chosen], str]:
    """The models of the run, or none, and what is missing of them."""
    try:
        return asked.choose_all(request, offline=True, say=lambda text: None), ""
    except SetupError as error:
        return [], str(error)


def _decisions(request: Request, items: Sequence[Item], chosen: Sequence[Chosen]) -> list[tuple[Item, Decision]]:
    """What is to be done for each item. Without a model, nothing stored can hold."""
    if not chosen:
        return [(item, Infer("new")) for item in items]
    settings = asked.run_settings(request, chosen)
    with ExitStack() as stack:
        ledger = stack.enter_context(Ledger.open(request.output, read_only=True)) if _has_ledger(request) else None
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
    fits = budget.planning_budget(limit, footprint.weights)
    return plan(probed, batch_size=size, need=footprint.need, budget=fits, rows=rows_of)


def _pace(request: Request, chosen: Chosen) -> Pace | None:
    if not _has_ledger(request):
        return None
    with History.open(request.output) as history:
        return prediction.pace(history.runs(), asked.conditions(request, chosen))
