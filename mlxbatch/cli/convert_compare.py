"""`mlxbatch convert compare`: two models on the same recordings, as the proof of a conversion has it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from mlxbatch.cli import options
from mlxbatch.stdio import complain

if TYPE_CHECKING:
    from mlxbatch.convert.proof.gates import Gates
    from mlxbatch.convert.proof.quality import Quality

EPILOG = """
Examples:

mlxbatch convert compare whisper-base models/base-4bit

mlxbatch convert compare whisper-base models/base-4bit --calibration recordings/ --max-wer-loss 0.3

mlxbatch convert compare A B --json | jq .recognition.divergence.mean

Exit codes: 0 compared, 1 B loses more than was allowed, 2 usage, or recordings too few to tell, 3 environment.
"""

Original = Annotated[
    str,
    typer.Argument(metavar="A", help="The original: a directory, a name of `mlxbatch models list`, or a hub id."),
]
Converted = Annotated[str, typer.Argument(metavar="B", help="What was made of it, or another model of its kind.")]
Calibration = Annotated[
    Path | None,
    typer.Option(
        "--calibration",
        metavar="DIR|MANIFEST",
        help="Recordings to try both on, with a text of the same name beside each (.txt), or a .csv or .jsonl of path, "
        "text and language. Default: 25 s of read English.",
        rich_help_panel=options.PANEL_WHAT,
        show_default=False,
    ),
]
Verify = Annotated[
    Literal["quick", "full"],
    typer.Option("--verify", help="Try the first minute of them, or all.", rich_help_panel=options.PANEL_HOW),
]
MaxWerLoss = Annotated[
    float | None,
    typer.Option(
        "--max-wer-loss",
        metavar="POINTS",
        help="End with code 1 where B's word error rate is more points above A's.",
        rich_help_panel=options.PANEL_HOW,
        show_default=False,
    ),
]
MaxKl = Annotated[
    float | None,
    typer.Option(
        "--max-kl",
        metavar="NATS",
        help="End with code 1 where B's next-token distributions are farther from A's, in the mean.",
        rich_help_panel=options.PANEL_HOW,
        show_default=False,
    ),
]
Output = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="DIR",
        help="Leave quality.json here as well.",
        rich_help_panel=options.PANEL_WHAT,
        show_default=False,
    ),
]


def compare(
    context: typer.Context,
    original: Original,
    converted: Converted,
    calibration: Calibration = None,
    verify: Verify = "full",
    max_wer_loss: MaxWerLoss = None,
    max_kl: MaxKl = None,
    output: Output = None,
    profile: options.ProfileName = None,
    offline: options.Offline = False,
    quiet: options.Quiet = False,
    as_json: options.Json = False,
    debug: options.Debug = False,
) -> None:
    """Compare two models on the same recordings: size, error rates, how sure they are of the same words, speed.

    A converted model beside its original mostly; two conversions, or a model and a larger one, compare as well.
    """
    from mlxbatch.convert.proof.gates import Gates

    gates = Gates(max_wer_loss, max_kl)
    found = _compared(original, converted, calibration, verify, gates, profile, offline=offline, quiet=quiet)
    if output is not None:
        from mlxbatch.convert.proof import quality

        quality.write(found, output)
    _tell(found, as_json=as_json)
    gates.judge(found)


def _compared(
    original: str,
    converted: str,
    calibration: Path | None,
    level: Literal["quick", "full"],
    gates: Gates,
    profile: str | None,
    *,
    offline: bool,
    quiet: bool,
) -> Quality:
    from mlxbatch import blas
    from mlxbatch.models.resolve import resolve

    def say(text: str) -> None:
        if not quiet:
            complain(text)

    blas.preload()  # before anything imports MLX, which binds to the one that is there
    first, second = (resolve(name, offline=offline, say=say).path for name in (original, converted))
    from mlxbatch.convert.proof.conversion import clips_of, foresee
    from mlxbatch.convert.proof.hearing import profile_spec
    from mlxbatch.convert.proof.prove import prove

    clips = clips_of(calibration)
    foresee(clips, level, gates)
    # Every family that there is an engine for, which `resolve` has seen to, transcribes.
    return prove(first, second, clips, level, task="transcribe", spec=profile_spec(profile), say=say)


def _tell(found: Quality, *, as_json: bool) -> None:
    from mlxbatch.convert.proof import quality
    from mlxbatch.convert.proof.figures import plain

    if as_json:
        print(quality.text(found, indent=None))
        return
    for line in plain(found):
        print(line)
    sys.stdout.flush()
