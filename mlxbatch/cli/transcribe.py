"""`mlxbatch transcribe`: what was asked for, checked, and done in order."""

from __future__ import annotations

import shlex
import sys

import typer

from mlxbatch.cli import options

EPILOG = """
Examples:

mlxbatch transcribe talks/ -o text/

mlxbatch transcribe calls/ -o out/ --format txt,srt,json --language en

find /data -name '*.mp3' -print0 | mlxbatch transcribe --files-from - --root /data -o out/ --json

mlxbatch transcribe calls/ -o out/ --time-limit 6h --wait 30m --nice 10 --max-load 8

Run the same command again and only new and changed files are done.

Exit codes: 0 all done, 1 some files failed, 2 usage, 3 environment, 4 another run works on this output.
"""


def transcribe(
    context: typer.Context,
    output: options.Output,
    inputs: options.Inputs = None,
    files_from: options.FilesFrom = None,
    root: options.Root = None,
    model: options.Model = None,
    profile: options.ProfileName = None,
    language: options.Language = None,
    vad: options.Vad = None,
    formats: options.Formats = "txt",
    batch_size: options.BatchSize = None,
    workers: options.Workers = None,
    memory_limit: options.MemoryLimit = None,
    on_pressure: options.OnPressure = None,
    fallback_model: options.FallbackModel = None,
    latency_limit: options.LatencyLimit = None,
    force: options.Force = False,
    retry_quarantined: options.RetryQuarantined = False,
    offline: options.Offline = False,
    break_lock: options.BreakLock = False,
    wait: options.Wait = None,
    time_limit: options.TimeLimit = None,
    max_load: options.MaxLoad = None,
    nice: options.Nice = None,
    keep_runs: options.KeepRuns = None,
    metrics_file: options.MetricsFile = None,
    dry_run: options.DryRun = False,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
    as_json: options.Json = False,
    log_level: options.LogLevel = "info",
    log_file: options.LogFile = None,
    debug: options.Debug = False,
) -> None:
    """Turn speech into text: every recording below INPUTS, in one batch.

    Each recording gets a text file of its own below the output directory, or subtitles, or JSON.

    Windows of many recordings share each pass of the model. A crash or Ctrl-C costs the work in flight, no more.
    """
    from mlxbatch.cli.dry_run import preview
    from mlxbatch.cli.request import Flags, Request, Schedule, Where
    from mlxbatch.cli.session import perform
    from mlxbatch.languages import language_code
    from mlxbatch.profile import load
    from mlxbatch.writers import WRITERS

    ending = options.ending_of(context)
    if not dry_run:
        ending.open("transcribe", output, log_file, metrics_file)
    code = language_code(language) if language else None
    wanted = options.formats_of(formats, list(WRITERS))
    overrides = {
        "transcribe.model": model,
        "transcribe.vad": vad,
        "transcribe.batch_size": batch_size,
        "pipeline.workers": workers,
        "device.memory_limit": memory_limit,
        "governor.on_pressure": on_pressure,
        "governor.fallback_model": fallback_model,
        "governor.latency_limit": latency_limit,
        "state.keep_runs": keep_runs,
    }
    settings = load(profile, overrides=overrides)
    where = Where(tuple(inputs or ()), files_from, root, output)
    flags = Flags(
        force=force,
        retry_quarantined=retry_quarantined,
        offline=offline,
        break_lock=break_lock,
        quiet=quiet,
        verbose=verbose,
        as_json=as_json,
        log_level=log_level,
    )
    schedule = Schedule(wait or 0.0, time_limit, max_load, nice or 0)
    request = Request(where, flags, settings, code, wanted, schedule, command=shlex.join(["mlxbatch", *sys.argv[1:]]))
    raise typer.Exit(preview(request) if dry_run else perform(request, ending))
