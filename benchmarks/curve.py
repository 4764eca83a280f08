"""Time and accuracy over settings: how the profile's numbers are chosen. One run a setting, in turn, on the same clips.

    python -m benchmarks.curve margin [--rounds 2] [--on sentences] [--clips N]
    python -m benchmarks.curve streams --option "--batch-size 16"
    python -m benchmarks.curve --set "transcribe.encode_streams=2 device.blas_threads=1" --set transcribe.encode_rows=4

A setting is profile keys with their values as TOML writes them; spaces part several that belong together. The first row
is what the others are compared with: the encoder's full context for `margin`, the profile as it is otherwise.
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from benchmarks.corpus import DATA, Clip, Corpus, seconds
from benchmarks.figures import describe_machine
from benchmarks.sides import Measured, error_rate, in_turn, mlxbatch
from benchmarks.spans import stage_seconds
from benchmarks.table import markdown, percent
from mlxbatch.quality import normalizer


@dataclass(frozen=True, slots=True)
class Curve:
    """Settings to be run; `base` are the options of the row that they are compared with."""

    settings: tuple[str, ...]
    base: tuple[str, ...] = ()


CURVES = {
    "margin": Curve(
        (
            *(f"transcribe.encoder_margin_seconds={margin}" for margin in ("1.0", "2.0", "4.0", "8.0")),
            *(f"transcribe.encoder_stride={stride}" for stride in (4, 8, 32)),
            "transcribe.encoder_bucket_seconds=5.0",
        ),
        ("--encoder-context", "full"),
    ),
    "streams": Curve(
        (
            "transcribe.encode_streams=1 transcribe.encode_rows=1",
            "transcribe.encode_streams=1 transcribe.encode_rows=8",
            "transcribe.encode_streams=2 transcribe.encode_rows=1 device.blas_threads=1",
            "transcribe.encode_streams=2 transcribe.encode_rows=1 device.blas_threads=2",
            "transcribe.encode_streams=2 transcribe.encode_rows=4 device.blas_threads=1",
            "transcribe.encode_streams=2 transcribe.encode_rows=8 device.blas_threads=1",
            "transcribe.encode_streams=3 transcribe.encode_rows=1 device.blas_threads=1",
            "transcribe.encode_streams=4 transcribe.encode_rows=1 device.blas_threads=1",
            "transcribe.cpu_streams=2",
            "transcribe.cpu_streams=4",
        )
    ),
}
SETS: Mapping[str, Callable[[Corpus], list[Clip]]] = {
    "sentences": Corpus.sentences,
    "short": Corpus.english_short,
}


def toml(setting: str) -> str:
    """A setting as the text of a settings file.

    >>> toml("transcribe.vad=false device.blas_threads=1")
    'transcribe.vad=false\\ndevice.blas_threads=1\\n'
    """
    return "".join(f"{one}\n" for one in setting.split())


def curve_table(runs: Mapping[str, list[Measured]], clips: Sequence[Clip]) -> str:
    """Medians of the rounds; texts are compared with the first row's, normalized as for the word error rate."""
    base = next(iter(runs.values()))[-1]
    rows = [
        [
            name,
            f"{median(one.wall for one in found):.1f}",
            *(f"{median(stage_seconds(one.log.spans, stage) for one in found):.1f}" for stage in ("encode", "decode")),
            percent(error_rate(clips, found[-1])),
            str(texts_changed(base, found[-1])),
        ]
        for name, found in runs.items()
    ]
    return markdown(["settings", "wall s", "encoder s", "decoder s", "WER", "texts changed"], rows)


def texts_changed(base: Measured, other: Measured) -> int:
    """How many recordings' words are not the same."""
    normalize = normalizer("en")
    return sum(normalize(a) != normalize(b) for a, b in zip(base.texts, other.texts, strict=True))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("curve", nargs="?", choices=list(CURVES), help="a list of settings by its name")
    parser.add_argument("--set", dest="settings", action="append", default=[], help="a setting of your own; repeatable")
    parser.add_argument("--option", default="", help='options of every run, such as "--batch-size 16"')
    parser.add_argument("--on", choices=list(SETS), default="sentences", help="which recordings (default sentences)")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--clips", type=int, help="the first so many alone, for a quick look")
    parser.add_argument("--data", type=Path, default=DATA)
    options = parser.parse_args()
    if not (options.curve or options.settings):
        parser.error(f"nothing to run: name one of {', '.join(CURVES)}, or give settings with --set")
    return options


def main() -> int:
    options = arguments()
    named = CURVES[options.curve] if options.curve else Curve(())
    always = shlex.split(options.option)
    clips = SETS[options.on](Corpus(options.data))[: options.clips]
    sides = {" ".join(named.base) or "the profile": mlxbatch(clips, *always, *named.base)}
    sides |= {one: mlxbatch(clips, *always, settings=toml(one)) for one in (*named.settings, *options.settings)}
    print(f"{describe_machine()}; {len(clips)} clips, {seconds(clips):.0f} s, {options.rounds} rounds", flush=True)
    runs, failures = in_turn(sides, options.rounds)
    if runs:
        print("\n" + curve_table(runs, clips))
    for name, failed in failures.items():
        print(f"{name}: not measured: {failed}")
    return 1 if failures else 0


if __name__ == "__main__":
    raise SystemExit(main())
