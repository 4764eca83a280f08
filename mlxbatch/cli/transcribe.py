"""`mlxbatch transcribe`: what was asked for, checked, and done in order."""

from __future__ import annotations

import os
import shlex
import sys

import typer

from mlxbatch.cli import (
    options,
    options_channels,
    options_decoding,
    options_inputs,
    options_stream,
    options_subtitles,
)

EPILOG = """
Examples:

mlxbatch transcribe talks/ -o text/

mlxbatch transcribe calls/ -o out/ --format txt,srt,json --language en

find /data -name '*.mp3' -print0 | mlxbatch transcribe --files-from - -0 --root /data -o out/ --json

mlxbatch transcribe --manifest calls/calls.csv -o out/

mlxbatch transcribe calls/ -o out/ --channels split --speakers agent,customer

mlxbatch transcribe 'calls/2026-*/*.wav' -o out/ --exclude '*-hold.wav' --newer-than 24h --min-age 1m

mlxbatch transcribe calls/ -o english/ --task translate --hotwords 'Grimmelshausen, Fuchshaim'

mlxbatch transcribe talks/ -o text/ --format srt --max-line-width 42 --max-line-count 2

mlxbatch transcribe lecture.mp3 --stream

ffmpeg -i https://radio.example/live -f wav - | mlxbatch transcribe - --stream --json

mlxbatch transcribe calls/ -o out/ --time-limit 6h --wait 30m --nice 10 --max-load 8

Run the same command again and only new and changed files are done.

Exit codes: 0 all done, 1 some files failed, 2 usage, 3 environment, 4 another run works on this output.
"""

# Options that stand over the settings of a profile: key -> the parameter's name, by which the context has its value.
_KEYS = {
    "transcribe.model": "model",
    "transcribe.vad": "vad",
    "transcribe.batch_size": "batch_size",
    "pipeline.workers": "workers",
    "device.memory_limit": "memory_limit",
    "governor.on_pressure": "on_pressure",
    "governor.fallback_model": "fallback_model",
    "governor.latency_limit": "latency_limit",
    "state.keep_runs": "keep_runs",
    **options_decoding.KEYS,
    **options_subtitles.KEYS,
}


def transcribe(
    context: typer.Context,
    output: options.Output = None,
    inputs: options.Inputs = None,
    stream: options_stream.Stream = False,
    files_from: options.FilesFrom = None,
    null: options_inputs.Null = False,
    manifest: options_inputs.Manifest = None,
    root: options.Root = None,
    include: options_inputs.Include = None,
    exclude: options_inputs.Exclude = None,
    newer_than: options_inputs.NewerThan = None,
    min_age: options_inputs.MinAge = None,
    model: options.Model = None,
    profile: options.ProfileName = None,
    preset: options.Preset = None,
    language: options.Language = None,
    channels: options_channels.Channels = None,
    speakers: options_channels.Speakers = None,
    vad: options.Vad = None,
    formats: options.Formats = "txt",
    task: options_decoding.Task = None,
    prompt: options_decoding.Prompt = None,
    hotwords: options_decoding.Hotwords = None,
    max_tokens: options_decoding.MaxTokens = None,
    temperature: options_decoding.Temperature = None,
    compression_ratio_threshold: options_decoding.CompressionRatio = None,
    logprob_threshold: options_decoding.Logprob = None,
    no_speech_threshold: options_decoding.NoSpeech = None,
    encoder_context: options_decoding.EncoderContext = None,
    word_timestamps: options_subtitles.WordTimestamps = None,
    max_line_width: options_subtitles.MaxLineWidth = None,
    max_line_count: options_subtitles.MaxLineCount = None,
    max_gap: options_subtitles.MaxGap = None,
    highlight: options_subtitles.Highlight = None,
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

    Each recording gets a text file of its own below the output directory, or subtitles, tables or JSON.

    Windows of many recordings share each pass of the model. A crash or Ctrl-C costs the work in flight, no more.

    With --stream the text comes to standard output as it is heard, and no file is written.
    """
    from mlxbatch.cli.dry_run import preview
    from mlxbatch.cli.environment import check_variables
    from mlxbatch.cli.request import Flags, Request, Schedule, Where
    from mlxbatch.cli.session import perform
    from mlxbatch.filters import Filters
    from mlxbatch.languages import language_code
    from mlxbatch.profile import load
    from mlxbatch.writers import WRITERS

    check_variables(context.find_root().command, os.environ)
    ending, output = options.ending_of(context), options_stream.output_of(context, output, stream=stream)
    if not dry_run:
        ending.open("transcribe", output, log_file, metrics_file)
    code = language_code(language) if language else None
    wanted = options.formats_of(formats, list(WRITERS))
    names = options_channels.speakers_of(speakers)
    overrides = {key: context.params[name] for key, name in _KEYS.items()}
    overrides["transcribe.channels"] = options_channels.channels_of(channels)
    settings = load(profile, preset=preset, overrides=overrides)
    filters = Filters(tuple(include or ()), tuple(exclude or ()), newer_than, min_age or 0.0)
    where = Where(tuple(inputs or ()), files_from, root, output, null, manifest, filters)
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
    command = shlex.join(["mlxbatch", *sys.argv[1:]])
    request = Request(where, flags, settings, code, wanted, schedule, names, command)
    options_subtitles.agree(word_timestamps, request.lines)
    if stream:
        from mlxbatch.cli.stream import tell

        raise typer.Exit(tell(request, ending))
    raise typer.Exit(preview(request) if dry_run else perform(request, ending))
