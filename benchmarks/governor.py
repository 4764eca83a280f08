"""What do the child process, governor, run log and metrics cost? `mlxbatch transcribe` beside the bare runner.

The bare side has the engine on a thread, no governor, no log and no metrics. The same real clips on Whisper base,
float32, English given: 27 pieces of 3 s, cut from the repository's examples. Each run is a process of its own, timed
from the moment the plan is made, with the model loaded, to the last result. Pairs alternate A B, B A, so that a drift
of the machine's speed meets both; medians and the median of the pairs' ratios are printed.

    python benchmarks/governor.py [--rounds 10]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from statistics import median

import soundfile

ROOT = Path(__file__).resolve().parent.parent
CLIPS, SECONDS = 27, 3.0
MODEL = "whisper-base"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--bare", nargs=2, type=Path, metavar=("IN", "OUT"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.bare:
        print(run_bare(*options.bare))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        compare(Path(folder), options.rounds)
    return 0


def compare(folder: Path, rounds: int) -> None:
    source = folder / "in"
    cut(source)
    print(f"{CLIPS} clips of {SECONDS:.0f} s, {rounds} pairs, {describe_machine()}", flush=True)
    sides = {"bare": bare, "whole": whole}
    times: dict[str, list[float]] = {name: [] for name in sides}
    for number in range(rounds):
        for name in list(sides)[:: 1 if number % 2 == 0 else -1]:
            output = folder / f"{name}{number}"
            times[name].append(sides[name](source, output))
            print(f"  pair {number + 1} {name}: {times[name][-1]:.2f} s", flush=True)
        if texts(folder / f"bare{number}") != texts(folder / f"whole{number}"):
            print(f"  pair {number + 1}: THE TEXTS DIFFER", flush=True)
    report(times)


def cut(folder: Path) -> None:
    """The first whole pieces of the examples, in the order of their names, one of each in turn."""
    folder.mkdir()
    sounds = [soundfile.read(path) for path in sorted((ROOT / "examples").rglob("*.wav"))]
    pieces = [
        (number, name, samples[begin : begin + size], rate)
        for name, (samples, rate) in enumerate(sounds)
        for size in [int(SECONDS * rate)]
        for number, begin in enumerate(range(0, len(samples) - size + 1, size))
    ]
    for number, name, samples, rate in sorted(pieces, key=lambda piece: piece[:2])[:CLIPS]:
        soundfile.write(folder / f"{name:02}-{number}.wav", samples, rate)


def whole(source: Path, output: Path) -> float:
    """The program as it is: its seconds by its own log."""
    command = [
        "mlxbatch",
        "transcribe",
        str(source),
        "-o",
        str(output),
        "--model",
        MODEL,
        "--language",
        "en",
        "--no-vad",
        "--quiet",
        "--metrics-file",
        f"{output}.prom",
    ]
    run(["-m", *command])
    (log,) = (output / ".mlxbatch" / "runs").glob("*.jsonl")
    events = [json.loads(line) for line in log.read_text("utf-8").splitlines()]
    planned = next(event["t"] for event in events if event["event"] == "plan")
    last = max(event["t"] for event in events if event["event"] == "item")
    return float(last - planned)


def bare(source: Path, output: Path) -> float:
    return float(run([__file__, "--bare", str(source), str(output)]))


def run(arguments: Sequence[str]) -> str:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path[1:]])}
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, env=environment)
    if done.returncode:
        raise SystemExit(f"{' '.join(arguments[:4])} ... failed with {done.returncode}:\n{done.stderr[-2000:]}")
    return done.stdout


def run_bare(source: Path, output: Path) -> float:
    """The runner with the engine on a thread and the same profile: seconds from the plan to the last result."""
    from mlxbatch import runner
    from mlxbatch.cli.request import Flags, Request, Where, choose, engine_spec
    from mlxbatch.discover import discover
    from mlxbatch.governor import Room
    from mlxbatch.host import make_host
    from mlxbatch.ledger import Ledger
    from mlxbatch.profile import load
    from mlxbatch.runner import ModelKey, RunSettings, Watcher, transcribe
    from mlxbatch.types import Allowance, Done, Planned, TranscribeOptions

    class Blind:
        """In the overseer's place: looks at nothing."""

        def __init__(self, host: object, loaded: object, room: Room, *rest: object, **more: object) -> None:
            self.allowance = Allowance(room.rows)

        def see(self, happening: object) -> None:
            pass

        needs = busy = group_done = see

        def baselines(self) -> dict[str, int]:
            return {}

    class Stopwatch(Watcher):
        began = 0.0

        def planned(self, planned: Sequence[Planned]) -> None:
            self.began = time.monotonic()

    loaded = load(None)
    profile, where = loaded.profile, Where((source,), None, None, output)
    request = Request(where, Flags(), loaded, "en", ("txt",))
    settings = RunSettings(
        output,
        ("txt",),
        (ModelKey(MODEL, lambda options: "key"),),
        "txt",
        options=TranscribeOptions(language="en"),
        batch_size=profile.transcribe.batch_size,
        workers=profile.pipeline.workers,
    )
    runner.Overseer = Blind  # type: ignore[attr-defined,assignment]
    host = make_host(engine_spec(request, choose(MODEL, offline=False, say=lambda text: None)), "thread")
    items, watch, ended = discover([source], output=output).items, Stopwatch(), 0.0
    with Ledger.open(output) as ledger:
        for result in transcribe(items, [host], ledger, settings, watch):
            assert isinstance(result, Done), result
            ended = time.monotonic()
    return ended - watch.began


def texts(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text("utf-8") for path in sorted(folder.glob("*.txt"))}


def report(times: dict[str, list[float]]) -> None:
    print(f"\n{'':8}{'seconds':>9}{'RTFx':>8}")
    for name, found in times.items():
        print(f"{name:8}{median(found):9.2f}{CLIPS * SECONDS / median(found):8.2f}")
    ratios = [whole / bare for bare, whole in zip(times["bare"], times["whole"], strict=True)]
    cost, least, most = (100 * (ratio - 1) for ratio in (median(ratios), min(ratios), max(ratios)))
    print(f"the whole costs {cost:+.1f} % of the time, median of {len(ratios)} pairs ({least:+.1f} to {most:+.1f} %)")


def describe_machine() -> str:
    machine = f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores"
    return f"{machine}, mlx {version('mlx')}, Python {platform.python_version()}"


if __name__ == "__main__":
    raise SystemExit(main())
