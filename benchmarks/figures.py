"""The table of figures: speed beside mlx-audio, vayu-whisper and faster-whisper, accuracy, slots, memory, words.

Sides run in turn within one run, as whole processes over the same recordings; medians, and medians of the rounds'
paired ratios; the word error rate (whisper-normalizer, jiwer) stands beside each.

    python -m benchmarks.figures [--rounds 3] [--only sentences,calls,slots,words] [--clips N] [--data ../shared/data]
"""

from __future__ import annotations

import argparse
import os
import platform
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from benchmarks import peers
from benchmarks.corpus import DATA, Clip, Corpus, seconds
from benchmarks.processes import RunFailed
from benchmarks.sides import (
    Measured,
    Side,
    error_rate,
    faster_whisper,
    in_turn,
    mlx_audio,
    mlxbatch,
    predicted_bytes,
    vayu,
)
from benchmarks.spans import by_stage, live_share, outside_seconds
from benchmarks.table import Figure, Spread, figures_table, gigabytes, markdown, percent
from mlxbatch.quality import wer
from mlxbatch.report.log import number

OURS, BASE = "mlxbatch", "mlx-audio"
SLOTS = 16
HOUR = 3600.0
Runs = Mapping[str, list[Measured]]


@dataclass(frozen=True, slots=True)
class Asked:
    """What is measured on, how often each side runs, and at most how many recordings it gets (None: all)."""

    corpus: Corpus
    rounds: int
    clips: int | None = None

    def some(self, clips: Sequence[Clip]) -> list[Clip]:
        return list(clips[: self.clips])


@dataclass(frozen=True, slots=True)
class Rival:
    """A side to be compared with, and how many times as fast mlxbatch shall be; "" where no goal is set."""

    side: Callable[[list[Clip]], Side]
    reach: str = ""
    aim: str = ""


RIVALS = {
    BASE: Rival(mlx_audio, "4x", "6x"),
    "vayu, batch 8": Rival(lambda clips: vayu(clips, "transcribe"), "6x", "9x"),
    "vayu, 8 clips a call": Rival(lambda clips: vayu(clips, "decode"), "6x", "9x"),
    "faster-whisper, float32": Rival(lambda clips: faster_whisper(clips, "float32 sequential"), "1x", "1.4x"),
    "faster-whisper, int8": Rival(lambda clips: faster_whisper(clips, "int8 sequential")),
    "faster-whisper, int8, batch 8": Rival(lambda clips: faster_whisper(clips, "int8 batched"), "0.7x", "1x"),
    "faster-whisper, int8, 8 clips a call": Rival(lambda clips: faster_whisper(clips, "int8 joined"), "0.7x", "1x"),
}


def sentences(asked: Asked) -> list[Figure]:
    clips = asked.some(asked.corpus.sentences())
    sides = {name: rival.side(clips) for name, rival in RIVALS.items()}
    sides |= {OURS: mlxbatch(clips), f"{OURS}, --no-vad": mlxbatch(clips, "--no-vad")}
    runs, failures = compare("Sentence clips", clips, sides, asked.rounds, needed=[OURS])
    figures = [
        speed_figure(f"sentences, against {name}", name, runs, failures, rival, clips) for name, rival in RIVALS.items()
    ]
    return [*figures, *accuracy_figures(runs, clips)]


def calls(asked: Asked) -> list[Figure]:
    clips = asked.some(asked.corpus.calls())
    sides = {BASE: mlx_audio(clips), OURS: mlxbatch(clips, "--channels", "split")}
    runs, failures = compare("Calls, each channel by itself", clips, sides, asked.rounds, needed=sides)
    print("\n" + channels_table(runs, clips))
    rival = Rival(mlx_audio, "6x", "10x")
    return [speed_figure("calls split, against mlx-audio on each channel", BASE, runs, failures, rival, clips)]


def compare(
    title: str, clips: Sequence[Clip], sides: Mapping[str, Side], rounds: int, needed: Collection[str]
) -> tuple[Runs, Mapping[str, str]]:
    """Run the sides in turn and print what came of each; gives also why one that is not `needed` is missing."""
    print(f"\n### {title}\n\n{len(clips)} recordings, {seconds(clips):.0f} s of audio\n", flush=True)
    runs, failures = in_turn(sides, rounds, needed)
    print("\n" + sides_table(runs, clips) + "\n")
    for name, found in runs.items():
        print(f"- {name}: {found[-1].about}")
    return runs, failures


def sides_table(runs: Runs, clips: Sequence[Clip]) -> str:
    """`times as fast`: mlxbatch than the line's side, the median of the rounds' pairs, with the least and the most."""
    rows = []
    for name, found in runs.items():
        wall = median(one.wall for one in found)
        ratio = ratios(name, OURS, runs).text() if name != OURS else ""
        peak = gigabytes(max(one.peak_bytes for one in found))
        rows.append(
            [name, f"{wall:.1f}", f"{seconds(clips) / wall:.2f}", ratio, percent(error_rate(clips, found[-1])), peak]
        )
    return markdown(["side", "wall s", "RTFx", "mlxbatch, times as fast", "WER", "peak memory"], rows)


def channels_table(runs: Runs, clips: Sequence[Clip]) -> str:
    """Each side's word error rate by channel, of all recordings that have so many."""
    spoken = [(number, text) for clip in clips for number, text in enumerate(clip.channels)]
    numbers = sorted({number for number, _ in spoken})
    rows = []
    for name, found in runs.items():
        pairs = [(number, text, heard) for (number, text), heard in zip(spoken, found[-1].texts, strict=True)]
        rates = [
            wer([text for at, text, _ in pairs if at == number], [heard for at, _, heard in pairs if at == number])
            for number in numbers
        ]
        rows.append([name, *map(percent, rates)])
    return markdown(["side", *(f"WER, channel {number}" for number in numbers)], rows)


def ratios(above: str, below: str, runs: Runs) -> Spread:
    """Of wall times."""
    return Spread.ratios([one.wall for one in runs[above]], [one.wall for one in runs[below]])


def speed_figure(
    what: str, name: str, runs: Runs, failures: Mapping[str, str], rival: Rival, clips: Sequence[Clip]
) -> Figure:
    goals = (rival.reach, rival.aim)
    if failed := failures.get(name):
        return Figure(what, "not measured", *goals, failed)
    rates = [percent(error_rate(clips, runs[side][-1])) for side in (OURS, name)]
    return Figure(what, f"{ratios(name, OURS, runs).median:.2f}x", *goals, f"WER {rates[0]} against {rates[1]}")


def accuracy_figures(runs: Runs, clips: Sequence[Clip]) -> list[Figure]:
    if BASE not in runs:
        return []
    ours, theirs = (100 * error_rate(clips, runs[side][-1]) for side in (OURS, BASE))
    what = "WER on the sentences, less mlx-audio's"
    return [Figure(what, f"{ours - theirs:+.2f} points", "+0.2 at most", "lower", f"{ours:.2f} % less {theirs:.2f} %")]


def slots(asked: Asked) -> list[Figure]:
    """A run over enough short clips to fill 16 slots: slots, time outside the network, memory, and where time goes."""
    clips, options = asked.some(asked.corpus.english_short()), ("--batch-size", str(SLOTS))
    sides = {OURS: mlxbatch(clips, *options)}
    runs, _ = compare("Short English clips, batch of 16", clips, sides, asked.rounds, needed=sides)
    found = runs[OURS]
    print("\n" + stages_table(found))
    beside = f"{len(clips)} clips, {seconds(clips) / 60:.0f} min, WER {percent(error_rate(clips, found[-1]))}"
    return [*slots_figures(found, seconds(clips), beside), memory_figure(found, predicted_bytes(clips, *options))]


def slots_figures(found: Sequence[Measured], audio: float, beside: str) -> list[Figure]:
    alive = Spread.of([live_share(one.log.spans, SLOTS) for one in found])
    outside = Spread.of([outside_seconds(one.wall, one.log.spans) * HOUR / audio for one in found])
    return [
        Figure(
            f"slots alive while decoding, of {SLOTS}, mean over time", f"{alive.median:.3f}", "0.85", "0.95", beside
        ),
        Figure("seconds outside encoder and decoder, an hour of audio", outside.text(1), "40", "20", beside),
    ]


def memory_figure(found: Sequence[Measured], predicted: int) -> Figure:
    """The device's peak by the log's own word, against what `--dry-run` says of the same plan."""
    peak = max(number(one.log.end, "peak_bytes") or 0.0 for one in found)
    off, beside = f"{100 * (peak / predicted - 1):+.1f} %", f"{gigabytes(peak)} of {gigabytes(predicted)} predicted"
    return Figure(f"peak memory at batch {SLOTS}, off the plan's", off, "within 15 %", "within 5 %", beside)


def stages_table(found: Sequence[Measured]) -> str:
    """Medians over the rounds; stages that overlap count in each."""
    stages = [by_stage(one.wall, one.log) for one in found]
    wall = median(one.wall for one in found)
    rows = []
    for stage in stages[0]:
        took = median(one.get(stage, 0.0) for one in stages)
        rows.append([stage, f"{took:.1f}", f"{took / wall:.0%}"])
    return markdown(["stage", "seconds", "of the wall time"], [*rows, ["wall time", f"{wall:.1f}", "100%"]])


def words(asked: Asked) -> list[Figure]:
    clips = [asked.corpus.chapter()]
    with_words = f"{OURS}, --word-timestamps"
    sides = {with_words: mlxbatch(clips, "--word-timestamps"), OURS: mlxbatch(clips)}
    runs, _ = compare("A chapter, with word times and without", clips, sides, asked.rounds, needed=sides)
    rates = [percent(error_rate(clips, runs[side][-1])) for side in (with_words, OURS)]
    beside = f"WER {rates[0]} against {rates[1]}"
    ratio = ratios(with_words, OURS, runs).median
    return [Figure("a chapter with word times, against without", f"{ratio:.3f}x", "1.15x", "1.05x", beside)]


ROWS: Mapping[str, Callable[[Asked], list[Figure]]] = {
    "sentences": sentences,
    "calls": calls,
    "slots": slots,
    "words": words,
}


def measured(name: str, asked: Asked) -> list[Figure]:
    """A row's figures; where it could not be measured, one that says why."""
    try:
        return ROWS[name](asked)
    except RunFailed as failed:
        print(f"\n{name}: {failed}", flush=True)
        return [Figure(name, "not measured", "", "", str(failed))]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=3, help="how often each side runs (default 3)")
    parser.add_argument("--only", type=chosen, default=list(ROWS), help=f"of {','.join(ROWS)}, with commas between")
    parser.add_argument("--clips", type=int, help="the first so many recordings of each set alone, for a quick look")
    parser.add_argument("--data", type=Path, default=DATA, help="the recordings, with their manifest.jsonl")
    return parser.parse_args()


def chosen(text: str) -> list[str]:
    names = text.split(",")
    if unknown := set(names) - set(ROWS):
        raise argparse.ArgumentTypeError(f"no {', '.join(sorted(unknown))}; there are {', '.join(ROWS)}")
    return names


def describe_machine() -> str:
    machine = f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores"
    return f"{machine}, Python {platform.python_version()}"


def main() -> int:
    options = arguments()
    peers.require(peers.PEERS if "sentences" in options.only else ())
    asked = Asked(Corpus(options.data), options.rounds, options.clips)
    print(f"{describe_machine()}, {options.rounds} rounds", flush=True)
    figures = [figure for name in options.only for figure in measured(name, asked)]
    print(f"\n### Figures\n\n{figures_table(figures)}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
