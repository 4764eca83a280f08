"""`mlxbatch convert`: a published checkpoint to a quantized MLX model, and what that cost."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import typer

from mlxbatch.cli import options, options_convert
from mlxbatch.cli.convert_text import kept_lines, plan_record, result_record, rows
from mlxbatch.errors import QualityLost, UsageError, show

if TYPE_CHECKING:
    from mlxbatch.cli.convert_progress import Lines
    from mlxbatch.convert.run import Listener, Order, Plan, Result

EPILOG = """
Examples:

mlxbatch convert openai/whisper-small -o models/small

mlxbatch convert whisper-base -o models/base --bits 8,6,4 --verify full

mlxbatch convert my-fine-tune/ -o models/mine --recipe encoder8-decoder4 --max-wer-loss 0.3 --calibration calls.csv

mlxbatch convert my-fine-tune/ -o models/mine --dtype bfloat16

mlxbatch convert large-v3.pt -o models/large --bits 4 --dry-run

Afterwards: mlxbatch transcribe calls/ -o text/ --model models/small

Exit codes: 0 done, 1 the model loses more than was allowed and is not made, 2 usage, 3 environment, 4 another \
conversion to this directory.
"""


def convert(
    source: options_convert.Source,
    output: options_convert.Target,
    revision: options_convert.Revision = None,
    task: options_convert.Task = None,
    bits: options_convert.Bits = None,
    group_size: options_convert.GroupSize = None,
    mode: options_convert.Mode = "affine",
    dtype: options_convert.Dtype = None,
    recipe: options_convert.Recipe = "uniform",
    target_size: options_convert.TargetSize = None,
    target_wer_loss: options_convert.TargetWerLoss = None,
    verify: options_convert.Verify = "quick",
    calibration: options_convert.Calibration = None,
    max_wer_loss: options_convert.MaxWerLoss = None,
    max_kl: options_convert.MaxKl = None,
    force: options_convert.Force = False,
    offline: options.Offline = False,
    break_lock: options.BreakLock = False,
    dry_run: options_convert.DryRun = False,
    quiet: options.Quiet = False,
    as_json: options.Json = False,
    debug: options.Debug = False,
) -> None:
    """Turn a published checkpoint into a quantized MLX model, and say what that cost.

    Weights are read, quantized and written one after the other, so that a model larger than memory can be converted.
    The result is loaded and run in a fresh process, compared with the original, and only then put into DIR.

    It works wherever mlxbatch takes a model, and in plain mlx-audio.
    """
    from mlxbatch import blas

    blas.preload()
    # After the BLAS: MLX binds to the one that is there first.
    from mlxbatch.convert.recipe import asked_for
    from mlxbatch.convert.run import Goal, Order, Wanted

    given = {"--bits": bits, "--group-size": group_size, "--mode": mode if mode != "affine" else None}
    given["--recipe"] = recipe if recipe != "uniform" else None
    goals = {"--target-size": target_size, "--target-wer-loss": target_wer_loss}
    gates = {"--max-wer-loss": max_wer_loss, "--max-kl": max_kl}
    options_convert.agree(goals=_given(goals), precise=_given(given), gates=_given(gates), verify=verify)
    if calibration is not None and not calibration.exists():
        raise UsageError(f"--calibration: {show(calibration)}: no such file or directory")
    order = Order(
        source,
        output,
        tuple(asked_for(one, group_size, mode, dtype, recipe) for one in options_convert.bits_of(bits)),
        Goal(options_convert.size_of(target_size), target_wer_loss) if _given(goals) else None,
        Wanted(verify, calibration, max_wer_loss, max_kl),
        revision=revision,
        task=task,
        offline=offline,
        force=force,
        break_lock=break_lock,
    )
    raise typer.Exit(_preview(order, quiet, as_json) if dry_run else _perform(order, quiet, as_json))


def _given(values: Mapping[str, object]) -> list[str]:
    return [option for option, value in values.items() if value is not None]


def _preview(order: Order, quiet: bool, as_json: bool) -> int:
    from mlxbatch.cli.convert_progress import view
    from mlxbatch.cli.model_table import table
    from mlxbatch.convert.run import preview

    with view(quiet=quiet, as_json=as_json) as shown:
        plan = preview(order, _listener(shown))
    if as_json:
        for model in plan.models:
            print(json.dumps(plan_record(model, plan)))
        return 0
    for line in table(rows(plan, plan.models)):
        print(line)
    for line in dict.fromkeys(line for model in plan.models for line in kept_lines(model)):
        print(line)
    print(f"the conversion {plan.need}; nothing was written")
    return 0


def _perform(order: Order, quiet: bool, as_json: bool) -> int:
    """Do it, and return the exit code: 0, or 1 where a model loses more than was allowed."""
    from mlxbatch.cli.convert_progress import view
    from mlxbatch.convert.run import convert

    results: list[Result] = []
    began = time.monotonic()
    with view(quiet=quiet, as_json=as_json) as shown:

        def done(plan: Plan, result: Result) -> None:
            results.append(result)
            if result.refused:
                shown.fail(f"{show(result.model.place.target)}: {result.refused}")
            if as_json:
                print(json.dumps(result_record(result, plan, time.monotonic() - began)), flush=True)

        plan = convert(order, _listener(shown), done)
    if not as_json and not quiet:
        _show(plan, results, time.monotonic() - began)
    return QualityLost.exit_code if any(result.refused for result in results) else 0


def _listener(shown: Lines) -> Listener:
    from mlxbatch.convert.run import Listener

    return Listener(shown.say, shown.note, shown.step)


def _show(plan: Plan, results: list[Result], seconds: float) -> None:
    """The table, and what there is to say of it."""
    from mlxbatch.cli.model_table import table
    from mlxbatch.words import elapsed, size

    for line in table(rows(plan, [result.model for result in results if not result.refused])):
        print(line)
    for result in results:
        for line in kept_lines(result.model):
            print(line)
    for result in results:
        for line in _cost(result):
            print(line)
    tried = dict.fromkeys(
        f"loaded and run in a fresh process, {result.reloaded.form}" if result.reloaded.ran else result.reloaded.why
        for result in results
    )
    print(*tried, sep="\n")
    print(f"{elapsed(seconds)}, at most {size(results[0].peak_bytes)} of memory")


def _cost(result: Result) -> Iterator[str]:
    """What was measured of a model beside its original; nothing where nothing was."""
    if result.quality is not None:
        from mlxbatch.convert.proof.figures import plain

        yield f"\n{show(result.model.place.target)}, compared with the original:"
        yield from plain(result.quality)
        yield ""
