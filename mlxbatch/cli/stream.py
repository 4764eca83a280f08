"""`mlxbatch transcribe --stream`: segments on standard output as they are heard, all talk on standard error."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from io import TextIOWrapper
from pathlib import Path
from typing import Any

from mlxbatch import wishes
from mlxbatch.cli import request as asked
from mlxbatch.cli.ending import Ending
from mlxbatch.cli.log import Level, Sink
from mlxbatch.cli.progress import View
from mlxbatch.cli.request import Chosen, Request
from mlxbatch.cli.wording import result_line
from mlxbatch.discover import Found
from mlxbatch.engines.families import WHISPER
from mlxbatch.errors import UsageError, show
from mlxbatch.headerless import rules
from mlxbatch.host import EngineHost, make_host
from mlxbatch.source import STANDARD_INPUT
from mlxbatch.speakers import labelled
from mlxbatch.streaming.order import Heard, Spoken
from mlxbatch.streaming.pieces import FOLLOWING, Length
from mlxbatch.streaming.run import StreamSettings, stream
from mlxbatch.types import Failed, Item, Segment, Transcript
from mlxbatch.watcher import Watcher
from mlxbatch.words import clock, size
from mlxbatch.worker import Loaded
from mlxbatch.writers.plain import one_line
from mlxbatch.writers.record import segment_record


class _ReaderGone(Exception):
    """Nobody reads standard output any more."""


def tell(request: Request, ending: Ending) -> int:
    """Do it, and return the exit code: 0, or 1 where something could not be heard.

    A reader that has gone, as `head` does, wanted no more: the stream ends as if that were all.
    """
    found = _found(request)
    os.nice(request.schedule.nice)  # before there is a child, which inherits it
    with _view(request, ending) as view:
        lines = Lines(request, view, several=len(found.items) > 1)
        for one in found.problems:
            lines.take(Failed(Item("", one.path, one.path), one.stage, one.cause))
        if found.items:
            _stream(request, found.items, lines)
        elif not found.problems:
            view.note(asked.nothing_found(request, found))
    return 1 if lines.failed else 0


def _found(request: Request) -> Found:
    """What is to be heard, in the order in which it was named, and what could not be looked at."""
    inputs = request.where.inputs
    if STANDARD_INPUT not in inputs:
        # No output can collide where there is none: whole paths keep all items apart.
        found = asked.find_inputs(replace(request, where=replace(request.where, root=Path("/"))))
        return replace(found, items=tuple(sorted(found.items, key=lambda item: _place(item, inputs))))
    if request.where.named != [STANDARD_INPUT]:
        raise UsageError("- is standard input, which is one recording: name no other input beside it")
    if sys.stdin.isatty():
        raise UsageError("- is standard input, and that is a terminal: pipe a recording into it")
    item = Item("-", STANDARD_INPUT, STANDARD_INPUT)
    wishes.check_speakers(request.speakers, request.options, [item])
    return Found((item,))


def _place(item: Item, inputs: Sequence[Path]) -> int:
    """Which of the inputs it is, or lies in; behind them where none of them has it in its own name."""
    return next((i for i, one in enumerate(inputs) if item.source.is_relative_to(one)), len(inputs))


def _view(request: Request, ending: Ending) -> View:
    """Lines only: a bar that is redrawn would tear the text on the same terminal apart."""
    flags = request.flags
    level: Level = "error" if flags.quiet else flags.log_level
    others = [Sink(flags.log_level, ending.log.take)] if ending.log else []
    return View(sys.stderr, level=level, verbose=flags.verbose, others=others)


def _stream(request: Request, items: Sequence[Item], lines: Lines) -> None:
    view = lines.view
    for note in asked.notes(request):
        view.note(note)
    (chosen,) = asked.choose_all(request, offline=request.flags.offline, say=view.say, names=[request.model])
    for note in asked.suits(request, [chosen], items):
        view.note(note)
    view.say(f"loading {show(request.model)}")
    host = _host(request, chosen)
    try:
        with closing(stream(items, host, _settings(request, chosen), lines)) as told:
            for one in told:
                lines.take(one)
    except _ReaderGone:
        view.line("nobody reads standard output any more", "debug")
    finally:
        host.close()


def _host(request: Request, chosen: Chosen) -> EngineHost:
    profile = request.profile
    spec = replace(asked.engine_spec(request, chosen), stream=True)
    return make_host(spec, "child" if profile.pipeline.workers else "thread", profile.governor.stall_timeout)


def _settings(request: Request, chosen: Chosen) -> StreamSettings:
    profile, family = request.profile, chosen.family
    return StreamSettings(
        options=request.options,
        batch_size=profile.transcribe.batch_size,
        # Of the others each piece has its own language, in whole recordings too.
        one_language=family is None or family is WHISPER,
        length=_length(request, chosen),
        oversight=asked.oversight(profile),
        headerless=rules(profile.decode.raw),
    )


def _length(request: Request, chosen: Chosen) -> Length:
    """Long enough for a piece of the model's own; a Whisper hears 30 s at a time whatever it is given."""
    family = chosen.family
    if family is None or family is WHISPER:
        return FOLLOWING
    own = min(request.profile.transcribe.segment_seconds or family.segment_seconds, family.longest)
    longest = max(FOLLOWING.longest, own)
    return Length(longest / 2, longest)


class Lines(Watcher):
    """Where all of a stream passes through: segments go to standard output, each flushed, the rest to the view.

    `failed` counts what could not be heard. With `several` recordings each line tells its own.
    """

    def __init__(self, request: Request, view: View, *, several: bool) -> None:
        self.view = view
        self.failed = 0
        self._request = request
        self._render = _object if request.flags.as_json else _with_file if several else _line
        if isinstance(sys.stdout, TextIOWrapper):
            sys.stdout.reconfigure(errors="backslashreplace")

    def take(self, told: Spoken | Heard | Failed) -> None:
        match told:
            case Spoken():
                self._print(told)
            case Heard():
                self._note_end(told)
            case Failed():
                self.failed += 1
                self.view.line(result_line(told), "error")

    def _print(self, spoken: Spoken) -> None:
        if not one_line(spoken.segment.text):
            return
        try:
            print(self._render(spoken.item, self._named(spoken), spoken.language), flush=True)
        except BrokenPipeError as error:
            raise _ReaderGone from error

    def _named(self, spoken: Spoken) -> Segment:
        """The segment with its speaker, by the rules for whole transcripts."""
        options, item = self._request.options, spoken.item
        names = wishes.speakers_for(self._request.speakers, options, item)
        alone = Transcript((spoken.segment,), spoken.language, 0.0, channels=spoken.channels)
        return labelled(alone, names, wishes.options_for(options, item).channels).segments[0]

    def _note_end(self, heard: Heard) -> None:
        notes = "".join(f"; {warning}" for warning in heard.warnings)
        level: Level = "warning" if notes else "info" if self.view.verbose else "debug"
        self.view.line(f"heard: {show(heard.item.source)} ({clock(heard.seconds)}){notes}", level)

    # ---- Watcher

    def loaded(self, loaded: Loaded) -> None:
        self.view.line(f"loaded: weights {size(loaded.weights)}, memory limit {size(loaded.memory_limit)}", "debug")

    def event(self, kind: str, facts: Mapping[str, Any]) -> None:
        self.view.event(kind, facts)


def _line(item: Item, segment: Segment, language: str | None) -> str:
    """ "[00:01:02.340 --> 00:01:05.100] agent: Good morning." """
    times = " --> ".join(_time(seconds) for seconds in (segment.start, segment.end))
    speaker = one_line(segment.speaker or "")
    return f"[{times}] {f'{speaker}: ' if speaker else ''}{one_line(segment.text)}"


def _with_file(item: Item, segment: Segment, language: str | None) -> str:
    return f"{show(item.source)}: {_line(item, segment, language)}"


def _object(item: Item, segment: Segment, language: str | None) -> str:
    """A line of the format jsonl (line.schema.json), and the recording by the path that was given."""
    about = {"file": show(item.source), "source": show(item.source.name), "language": language}
    return json.dumps(about | segment_record(segment))


def _time(seconds: float) -> str:
    milliseconds = round(seconds * 1000)
    hours, minutes = divmod(milliseconds // 60_000, 60)
    return f"{hours:02}:{minutes:02}:{milliseconds // 1000 % 60:02}.{milliseconds % 1000:03}"
