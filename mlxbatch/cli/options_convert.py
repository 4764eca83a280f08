"""Options of `mlxbatch convert`, and what does not go together."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Literal

import typer

from mlxbatch.budget import parse_bytes
from mlxbatch.cli.options import PANEL_RUN, PANEL_WHAT
from mlxbatch.errors import UsageError, show

PANEL_PRECISION = "Precision"
PANEL_PROOF = "Proof"


def _bits(text: str) -> tuple[int, ...]:
    """ "8,6,4" -> (8, 6, 4), each once; UsageError for what is no number."""
    parts = list(dict.fromkeys(part.strip() for part in text.split(",")))
    if not all(part.isascii() and part.isdecimal() for part in parts):
        raise UsageError(f"--bits is a number such as 6, or several with commas between, not '{show(text)}'")
    return tuple(map(int, parts))


def _size(text: str) -> int:
    try:
        return parse_bytes(text)
    except UsageError as error:
        raise UsageError(f"--target-size: {error}") from error


def _loss(option: str) -> Callable[[str], float]:
    """A parser of a loss, a number from 0 on."""

    def parse(text: str) -> float:
        try:
            number = float(text)
        except ValueError:
            number = math.nan
        if not 0 <= number < math.inf:
            raise UsageError(f"{option} is a number from 0 on, not '{show(text)}'")
        return number

    return parse


Source = Annotated[
    str,
    typer.Argument(
        metavar="SOURCE",
        help="A model's directory or file (Hugging Face, MLX, CTranslate2, OpenAI's .pt, ONNX), a name of `mlxbatch "
        "models list`, or a hub id org/name.",
        show_default=False,
    ),
]
Target = Annotated[
    Path,
    typer.Option(
        "--output",
        "-o",
        metavar="DIR",
        help="Where the model goes. It appears there whole and tried, or not at all.",
        rich_help_panel=PANEL_WHAT,
        show_default=False,
    ),
]
Revision = Annotated[
    str | None,
    typer.Option(
        "--revision",
        metavar="COMMIT|TAG",
        help="Which version of a hub repository to take. Default: the newest.",
        rich_help_panel=PANEL_WHAT,
        show_default=False,
    ),
]
Task = Annotated[
    Literal["transcribe", "synthesize", "separate"] | None,
    typer.Option(
        "--task",
        help="What the model does, where its config.json does not tell.",
        rich_help_panel=PANEL_WHAT,
        show_default=False,
    ),
]
Bits = Annotated[
    str | None,
    typer.Option(
        "--bits",
        metavar="BITS",
        help="2, 3, 4, 5, 6 or 8 bits a weight. Several, as 8,6,4, make DIR-8bit, DIR-6bit and DIR-4bit from one "
        "reading. Default: 6 for speech recognition, 8 for other tasks.",
        rich_help_panel=PANEL_PRECISION,
        show_default=False,
    ),
]
GroupSize = Annotated[
    int | None,
    typer.Option(
        "--group-size",
        metavar="WEIGHTS",
        help="32, 64 or 128 weights share a scale. A layer too narrow for it gets the next smaller. Default: 64.",
        rich_help_panel=PANEL_PRECISION,
        show_default=False,
    ),
]
Mode = Annotated[
    Literal["affine", "mxfp4", "mxfp8", "nvfp4"],
    typer.Option(
        "--mode",
        help="How weights are packed. All but affine only for models that have been seen to load so.",
        rich_help_panel=PANEL_PRECISION,
    ),
]
Dtype = Annotated[
    Literal["float32", "float16", "bfloat16"] | None,
    typer.Option(
        "--dtype",
        help="What all other weights, and the scales, are stored in. By itself: nothing is quantized. Default: as in "
        "the source.",
        rich_help_panel=PANEL_PRECISION,
        show_default=False,
    ),
]
Recipe = Annotated[
    str,
    typer.Option(
        "--recipe",
        metavar="NAME|FILE.toml",
        help="Which layers get how many bits: uniform, encoder8-decoder4, or a file of patterns (docs/convert.md).",
        rich_help_panel=PANEL_PRECISION,
    ),
]
TargetSize = Annotated[
    str | None,
    typer.Option(
        "--target-size",
        metavar="SIZE",
        help="Measure how sensitive each layer is, and put the bits where they count: weights of at most 400MB, say.",
        rich_help_panel=PANEL_PRECISION,
        show_default=False,
    ),
]
TargetWerLoss = Annotated[
    float | None,
    typer.Option(
        "--target-wer-loss",
        parser=_loss("--target-wer-loss"),
        metavar="POINTS",
        help="The same, with the fewest bits whose word error rate is at most so many points above the original's.",
        rich_help_panel=PANEL_PRECISION,
        show_default=False,
    ),
]
Verify = Annotated[
    Literal["quick", "full", "none"],
    typer.Option(
        "--verify",
        help="How thoroughly to measure what was lost. none: the model is still loaded and run once.",
        rich_help_panel=PANEL_PROOF,
    ),
]
Calibration = Annotated[
    Path | None,
    typer.Option(
        "--calibration",
        metavar="DIR|MANIFEST",
        help="Your own recordings with their texts, to measure on. Default: short ones that come along.",
        rich_help_panel=PANEL_PROOF,
        show_default=False,
    ),
]
MaxWerLoss = Annotated[
    float | None,
    typer.Option(
        "--max-wer-loss",
        parser=_loss("--max-wer-loss"),
        metavar="POINTS",
        help="Make no model whose word error rate is more points above the original's (exit 1).",
        rich_help_panel=PANEL_PROOF,
        show_default=False,
    ),
]
MaxKl = Annotated[
    float | None,
    typer.Option(
        "--max-kl",
        parser=_loss("--max-kl"),
        metavar="NATS",
        help="Make no model whose tokens' mean Kullback-Leibler divergence is more than this (exit 1).",
        rich_help_panel=PANEL_PROOF,
        show_default=False,
    ),
]
Force = Annotated[
    bool,
    typer.Option("--force", help="Replace the model in DIR, once the new one is proven.", rich_help_panel=PANEL_RUN),
]
DryRun = Annotated[
    bool,
    typer.Option(
        "--dry-run",
        help="Tell what would be made, its size, and the room it takes; fetch and write nothing.",
        rich_help_panel=PANEL_RUN,
    ),
]


def bits_of(text: str | None) -> tuple[int | None, ...]:
    """The bits asked for, one for each model; (None,) for the task's own."""
    return (None,) if text is None else _bits(text)


def size_of(text: str | None) -> int | None:
    """Bytes of --target-size."""
    return None if text is None else _size(text)


def agree(*, goals: list[str], precise: list[str], gates: list[str], verify: str) -> None:
    """UsageError for options that contradict each other: names of those given, by kind."""
    if len(goals) > 1:
        raise UsageError(f"{' and '.join(goals)} are two goals: give one")
    if goals and precise:
        raise UsageError(f"{goals[0]} finds the bits of each layer by itself: leave out {' and '.join(precise)}")
    if gates and verify == "none":
        raise UsageError(f"{gates[0]} has to be measured: leave out --verify none")
