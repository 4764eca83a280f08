"""What a run would do, decided as the run decides it; loads no model, fetches none, writes nothing."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from mlxbatch.cli import request as asked
from mlxbatch.cli.request import Request
from mlxbatch.errors import ItemError, SetupError, show
from mlxbatch.headerless import Rules, rules
from mlxbatch.ledger import Decision, Fresh, Infer, Ledger, Quarantined, Render
from mlxbatch.ledger_file import FILE
from mlxbatch.plan import groups, padding_ratio, plan
from mlxbatch.probe import probe
from mlxbatch.runner import decide
from mlxbatch.state import FOLDER
from mlxbatch.types import Item, Planned, Probed
from mlxbatch.words import clock, count, minutes


def preview(request: Request) -> int:
    """List every input with what would be done and why, then the groups; 0 even where something would fail."""
    found = asked.find_inputs(request)
    decisions, missing = _decisions(request, found.items)
    notes = [*asked.notes(request), *([f"the model would be fetched first: {missing}"] if missing else [])]
    notes += [f"would fail: {problem}" for problem in found.problems]
    notes += [] if decisions or found.problems else [asked.nothing_found(request, found)]
    for note in notes if not request.flags.quiet else ():
        print(f"mlxbatch: {note}", file=sys.stderr)
    infer = [item for item, decision in decisions if isinstance(decision, Infer)]
    probed, problems = _probe(infer, rules(request.profile.decode.raw))
    planned = plan(probed, batch_size=request.profile.transcribe.batch_size, need=lambda seconds: 0, budget=0)
    show_plan = _print_json if request.flags.as_json else _print_text
    show_plan(decisions, planned, problems)
    return 0


Decisions = list[tuple[Item, Decision]]


def _decisions(request: Request, items: Sequence[Item]) -> tuple[Decisions, str]:
    """What is to be done for each item, and what is missing of the model, in which case nothing stored can hold."""
    try:
        chosen = asked.choose_all(request, offline=True, say=lambda text: None)
    except SetupError as error:
        return [(item, Infer("new")) for item in items], str(error)
    settings = asked.run_settings(request, chosen)
    with ExitStack() as stack:
        ledger = None
        if (request.output / FOLDER / FILE).exists():
            ledger = stack.enter_context(Ledger.open(request.output, read_only=True))
        return [(item, decide(item, ledger, settings)) for item in items], ""


def _probe(items: Sequence[Item], headerless: Rules) -> tuple[list[Probed], list[ItemError]]:
    probed, problems = [], []
    for item in items:
        try:
            probed.append(probe(item, headerless))
        except ItemError as error:
            problems.append(error)
    return probed, problems


def _verb(decision: Decision) -> str:
    return {Fresh: "skip", Quarantined: "skip", Render: "render", Infer: "transcribe"}[type(decision)]


def _print_text(decisions: Decisions, planned: Sequence[Planned], problems: Sequence[ItemError]) -> None:
    for item, decision in decisions:
        print(f"{_verb(decision):<10}  {show(item.source)}  ({decision.why})")
    for number, group in enumerate(groups(planned), 1):
        lengths = [one.seconds for one in group]
        print(f"group {number}: {count(len(group), 'file')}, {clock(min(lengths))} to {clock(max(lengths))}")
    for problem in problems:
        print(f"would fail: {problem}")
    verbs = [_verb(decision) for _, decision in decisions]
    seconds = sum(one.probed.seconds for one in planned)
    print(
        f"{verbs.count('transcribe')} to transcribe ({minutes(seconds)} of audio), {verbs.count('render')} to render, "
        f"{verbs.count('skip')} to skip; groups by batch size alone, memory may make them smaller"
    )


def _print_json(decisions: Decisions, planned: Sequence[Planned], problems: Sequence[ItemError]) -> None:
    group_of = {one.probed.item.id: one for one in planned}
    for item, decision in decisions:
        record: dict[str, Any] = {"event": "would", "source": show(item.source)}
        record |= {"do": _verb(decision), "why": decision.why}
        if one := group_of.get(item.id):
            record |= {"group": one.group + 1, "seconds": one.probed.seconds}
        print(json.dumps(record))
    for problem in problems:
        failure = {"source": show(problem.path), "stage": problem.stage, "error": show(problem.cause)}
        print(json.dumps({"event": "would fail", **failure}))
    plan_facts = {"items": len(planned), "groups": len(groups(planned)), "padding_ratio": padding_ratio(planned)}
    print(json.dumps({"event": "plan", **plan_facts}))
