"""Options that mean the same in every command, and the checks of their values."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated

import typer

from mlxbatch.cli.ending import Ending
from mlxbatch.cli.log import Level
from mlxbatch.durations import parse_duration
from mlxbatch.errors import UsageError, show
from mlxbatch.pacing import load_average
from mlxbatch.words import nearest

PANEL_WHAT = "What to work on"
PANEL_HOW = "How to do it"
PANEL_RUN = "The run"
PANEL_SHOW = "What is shown"


def ending_of(context: typer.Context) -> Ending:
    """What this command line leaves behind: the object of its context."""
    ending = context.find_root().obj
    assert isinstance(ending, Ending)
    return ending


def _debug(context: typer.Context, value: bool) -> bool:
    if value:
        ending_of(context).debug = True
    return value


Debug = Annotated[
    bool,
    typer.Option(
        "--debug",
        help="Show a traceback when something fails.",
        callback=_debug,
        is_eager=True,
        rich_help_panel=PANEL_SHOW,
    ),
]
Inputs = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="INPUTS",
        help="Files, directories, and quoted patterns such as 'calls/**/*.wav'. A directory is searched to the bottom "
        "for audio and video files.",
        show_default=False,
    ),
]
FilesFrom = Annotated[
    Path | None,
    typer.Option(
        "--files-from",
        metavar="FILE",
        help="Take inputs from a list, one path a line or with NUL bytes between (-0); - is standard input.",
        rich_help_panel=PANEL_WHAT,
        show_default=False,
    ),
]
Root = Annotated[
    Path | None,
    typer.Option(
        "--root",
        metavar="DIR",
        help="Keep output paths relative to this directory, which holds all inputs.",
        rich_help_panel=PANEL_WHAT,
        show_default=False,
    ),
]
Output = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="DIR",
        envvar="MLXBATCH_OUTPUT",
        help="Where results go. Made if it is not there; its .mlxbatch folder remembers what is done.",
        rich_help_panel=PANEL_WHAT,
        show_default=False,
    ),
]
Model = Annotated[
    str | None,
    typer.Option(
        "--model",
        metavar="NAME|DIR|ORG/NAME",
        envvar="MLXBATCH_MODEL",
        help="A name of `mlxbatch models list`, a model's directory, or a hub id. Default: the profile's.",
        rich_help_panel=PANEL_HOW,
        show_default=False,
    ),
]
ProfileName = Annotated[
    str | None,
    typer.Option(
        "--profile",
        metavar="NAME|FILE",
        envvar="MLXBATCH_PROFILE",
        help="A hardware profile's name or TOML file. Default: this machine's.",
        rich_help_panel=PANEL_HOW,
        show_default=False,
    ),
]
Preset = Annotated[
    str | None,
    typer.Option(
        "--preset",
        metavar="NAME|FILE",
        envvar="MLXBATCH_PRESET",
        help="Settings for a purpose, over the profile: qa (calls for review), live (long conversations), or a file.",
        rich_help_panel=PANEL_HOW,
        show_default=False,
    ),
]
Language = Annotated[
    str | None,
    typer.Option(
        "--language",
        metavar="CODE|NAME",
        envvar="MLXBATCH_LANGUAGE",
        help="The language spoken, such as en or German. Default: detected in each recording.",
        rich_help_panel=PANEL_HOW,
        show_default=False,
    ),
]
Vad = Annotated[
    bool | None,
    typer.Option(
        "--vad/--no-vad",
        envvar="MLXBATCH_VAD",
        help="Hear speech only, as Silero VAD finds it, or everything. Default: the profile's, mostly speech only.",
        rich_help_panel=PANEL_HOW,
        show_default=False,
    ),
]
Formats = Annotated[
    str,
    typer.Option(
        "--format",
        metavar="LIST",
        envvar="MLXBATCH_FORMAT",
        help="Any of txt, srt, vtt, tsv, csv, json, jsonl and rttm, with commas between. A further format needs no "
        "second inference.",
        rich_help_panel=PANEL_HOW,
    ),
]
BatchSize = Annotated[
    int | None,
    typer.Option(
        "--batch-size",
        metavar="ROWS",
        envvar="MLXBATCH_BATCH_SIZE",
        help="Windows of audio that the model works on at once, 1 to 64. Default: the profile's.",
        rich_help_panel=PANEL_HOW,
        show_default=False,
    ),
]
Workers = Annotated[
    int | None,
    typer.Option(
        "--workers",
        metavar="THREADS",
        envvar="MLXBATCH_WORKERS",
        help="Threads that decode ahead; 0 does all in this process, in turn. Default: the profile's.",
        rich_help_panel=PANEL_HOW,
        show_default=False,
    ),
]
MemoryLimit = Annotated[
    str | None,
    typer.Option(
        "--memory-limit",
        metavar="SIZE|SHARE",
        envvar="MLXBATCH_MEMORY_LIMIT",
        help="What the model may hold, such as 12GB or 75%. From 80 % of it on work waits. Default: the profile's.",
        rich_help_panel=PANEL_RUN,
        show_default=False,
    ),
]
OnPressure = Annotated[
    str | None,
    typer.Option(
        "--on-pressure",
        metavar="wait|refuse",
        envvar="MLXBATCH_ON_PRESSURE",
        help="At 90 % of the memory limit: wait halves the live rows and goes on, refuse ends the run (exit 3).",
        rich_help_panel=PANEL_RUN,
        show_default=False,
    ),
]
FallbackModel = Annotated[
    str | None,
    typer.Option(
        "--fallback-model",
        metavar="NAME|DIR|ORG/NAME",
        envvar="MLXBATCH_FALLBACK_MODEL",
        help="A smaller model that takes over at 90 % of the memory limit. Default: the profile's, mostly none.",
        rich_help_panel=PANEL_RUN,
        show_default=False,
    ),
]
LatencyLimit = Annotated[
    float | None,
    typer.Option(
        "--latency-limit",
        metavar="SECONDS",
        envvar="MLXBATCH_LATENCY_LIMIT",
        help="From 85 % of the memory limit on, fewer rows while the p99 of seconds per window is over this.",
        rich_help_panel=PANEL_RUN,
        show_default=False,
    ),
]
Force = Annotated[
    bool,
    typer.Option("--force", help="Do everything again, done or not.", rich_help_panel=PANEL_RUN),
]
RetryQuarantined = Annotated[
    bool,
    typer.Option(
        "--retry-quarantined",
        help="Try files again that brought the engine down, though they are what they were.",
        rich_help_panel=PANEL_RUN,
    ),
]
Offline = Annotated[
    bool,
    typer.Option(
        "--offline",
        envvar="MLXBATCH_OFFLINE",
        help="Download nothing: the model has to be on this machine.",
        rich_help_panel=PANEL_RUN,
    ),
]
BreakLock = Annotated[
    bool,
    typer.Option(
        "--break-lock",
        help="Take over the lock of a run on another host that has ended without letting it go.",
        rich_help_panel=PANEL_RUN,
    ),
]


def _wait(text: str) -> float:
    """Seconds of --wait."""
    return duration("--wait", text)


def _time_limit(text: str) -> float:
    """Seconds of --time-limit; UsageError for none at all, in which nothing could be done."""
    limit = duration("--time-limit", text)
    if limit == 0:
        raise UsageError("--time-limit is to be over 0, such as 30m or 6h")
    return limit


def duration(option: str, text: str) -> float:
    """Seconds of an option's value; UsageError, which names the option, for what is no duration."""
    try:
        return parse_duration(text)
    except UsageError as error:
        raise UsageError(f"{option}: {error}") from error


def _max_load(text: str) -> float:
    """--max-load; UsageError where it is not over 0, or this system has no load average to compare it with."""
    try:
        load = float(text)
        load_average()
    except ValueError:
        load = math.nan
    except OSError as error:
        raise UsageError("--max-load: this system tells no load average") from error
    if not 0 < load < math.inf:
        raise UsageError(f"--max-load is a number over 0, not '{show(text)}'")
    return load


def _nice(text: str) -> int:
    """--nice; UsageError out of range. Below 0, a priority over others, only root could."""
    level = int(text) if text.isascii() and text.isdecimal() else -1
    if not 0 <= level <= 19:
        raise UsageError(f"--nice is a whole number from 0 (as it is) to 19, not '{show(text)}'")
    return level


Wait = Annotated[
    float | None,
    typer.Option(
        "--wait",
        parser=_wait,
        metavar="DURATION",
        envvar="MLXBATCH_WAIT",
        help="Wait so long for another run on this output to end, such as 90s, 10m or 2h. Default: not at all.",
        rich_help_panel=PANEL_RUN,
        show_default=False,
    ),
]
TimeLimit = Annotated[
    float | None,
    typer.Option(
        "--time-limit",
        parser=_time_limit,
        metavar="DURATION",
        envvar="MLXBATCH_TIME_LIMIT",
        help="Begin no recording after so long, such as 6h, waiting included; the next run goes on. Those begun have "
        "60 s to finish.",
        rich_help_panel=PANEL_RUN,
        show_default=False,
    ),
]
MaxLoad = Annotated[
    float | None,
    typer.Option(
        "--max-load",
        parser=_max_load,
        metavar="LOAD",
        envvar="MLXBATCH_MAX_LOAD",
        help="While the 1-minute load average is over this, begin a recording only when none is being worked on.",
        rich_help_panel=PANEL_RUN,
        show_default=False,
    ),
]
Nice = Annotated[
    int | None,
    typer.Option(
        "--nice",
        parser=_nice,
        metavar="N",
        envvar="MLXBATCH_NICE",
        help="Give way to other programs: 1 a little, 19 whenever they want the processor, as nice(1) does.",
        rich_help_panel=PANEL_RUN,
        show_default=False,
    ),
]
DryRun = Annotated[
    bool,
    typer.Option(
        "--dry-run",
        help="List what would be done, and in which order; load no model, write nothing.",
        rich_help_panel=PANEL_RUN,
    ),
]
KeepRuns = Annotated[
    int | None,
    typer.Option(
        "--keep-runs",
        metavar="N",
        envvar="MLXBATCH_KEEP_RUNS",
        help="Keep the logs of the newest N runs on this output, this one included. Default: the profile's.",
        rich_help_panel=PANEL_RUN,
        show_default=False,
    ),
]
MetricsFile = Annotated[
    Path | None,
    typer.Option(
        "--metrics-file",
        metavar="FILE",
        envvar="MLXBATCH_METRICS_FILE",
        help="Write the run's figures at its end, for Prometheus: node_exporter's textfile collector reads *.prom.",
        rich_help_panel=PANEL_RUN,
        show_default=False,
    ),
]
LogLevel = Annotated[
    Level,
    typer.Option(
        "--log-level",
        envvar="MLXBATCH_LOG_LEVEL",
        help="The least that is logged. debug adds memory samples, groups and the engine's process.",
        rich_help_panel=PANEL_SHOW,
    ),
]
LogFile = Annotated[
    Path | None,
    typer.Option(
        "--log-file",
        metavar="FILE",
        envvar="MLXBATCH_LOG_FILE",
        help="Append what is logged to a file, with time and level; --quiet does not change what it gets.",
        rich_help_panel=PANEL_SHOW,
        show_default=False,
    ),
]
Quiet = Annotated[
    bool,
    typer.Option("--quiet", "-q", help="Show only errors and failed files.", rich_help_panel=PANEL_SHOW),
]
Verbose = Annotated[
    bool,
    typer.Option("--verbose", "-v", help="A line for each finished file.", rich_help_panel=PANEL_SHOW),
]
Json = Annotated[
    bool,
    typer.Option("--json", help="JSON lines on standard output, for programs.", rich_help_panel=PANEL_SHOW),
]


def formats_of(text: str, known: list[str]) -> tuple[str, ...]:
    """ "srt, txt" -> ("srt", "txt"), each once, in the order given; UsageError names the nearest known format."""
    names = list(dict.fromkeys(name.strip().lower() for name in text.split(",") if name.strip()))
    for name in names:
        if name not in known:
            raise UsageError(f"unknown format {name!r}{nearest(name, known)} (there are: {', '.join(known)})")
    if not names:
        raise UsageError(f"--format names no format (there are: {', '.join(known)})")
    return tuple(names)
