"""`mlxbatch transcribe` beside mlx-audio's own `generate`: whole processes in turn, word error rate beside the speed.

Same weights, float32, same BLAS, English given, same clips (the sentences of en_wer_bench). Sides alternate A B A B, so
that a drift of the machine's speed meets both; medians and the median of the paired ratios are printed.

    python benchmarks/transcribe.py [--rounds 3] [--clips 38] [--data ../shared/data]
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
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from statistics import median

from mlxbatch.models.resolve import resolve
from mlxbatch.quality import wer

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Clip:
    path: Path
    text: str
    seconds: float


@dataclass(frozen=True)
class Measured:
    """One run of one side: seconds of the whole process, peak memory of its largest process, and what it wrote."""

    wall: float
    peak_bytes: int
    texts: dict[str, str]


Side = Callable[[list[Clip], Path], dict[str, str]]


def main() -> int:
    options = arguments()
    clips = read_clips(options.data)[: options.clips]
    model = resolve("whisper-base", offline=False, say=print).path
    sides = {
        "mlx-audio generate": lambda found, out: mlx_audio(found, model, out),
        "mlxbatch": lambda found, out: mlxbatch(found, out),
        "mlxbatch --no-vad": lambda found, out: mlxbatch(found, out, "--no-vad"),
    }
    if options.serial:
        sides["mlxbatch --workers 0"] = lambda found, out: mlxbatch(found, out, "--workers", "0")
    seconds = sum(clip.seconds for clip in clips)
    print(f"{len(clips)} clips, {seconds:.0f} s of audio, {options.rounds} rounds, {describe_machine()}", flush=True)
    runs: dict[str, list[Measured]] = {name: [] for name in sides}
    for number in range(options.rounds):
        for name, side in sides.items():
            runs[name].append(measure(side, clips))
            print(f"  round {number + 1} {name}: {runs[name][-1].wall:.1f} s", flush=True)
    report(runs, clips, seconds)
    return 0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--clips", type=int, default=38)
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    parser.add_argument("--serial", action="store_true", help="a third side: mlxbatch --workers 0")
    return parser.parse_args()


def read_clips(data: Path) -> list[Clip]:
    manifest = data / "manifest.jsonl"
    if not manifest.is_file():
        raise SystemExit(f"no recordings: {manifest} is missing (--data DIR says where they are)")
    rows = [json.loads(line) for line in manifest.read_text("utf-8").splitlines()]
    chosen = [row for row in rows if row["kind"] == "en_wer_bench" and row.get("utt_style") == "sentence"]
    return [Clip(data / row["path"], row["text"], row["duration_s"]) for row in chosen]


def measure(side: Side, clips: list[Clip]) -> Measured:
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        texts = side(clips, Path(folder))
        wall = time.perf_counter() - began
        peak = int(json.loads((Path(folder) / "peak.json").read_text())["peak_bytes"])
    return Measured(wall, peak, texts)


def run(command: list[str], folder: Path, **options: str) -> str:
    """Run a command to its end; its standard output, and its peak memory in peak.json."""
    wrapper = [sys.executable, str(ROOT / "benchmarks" / "peak.py"), str(folder / "peak.json"), *command]
    done = subprocess.run(wrapper, capture_output=True, text=True, env=os.environ | options)
    if done.returncode:
        raise SystemExit(f"{' '.join(command[:4])} ... failed with {done.returncode}:\n{done.stderr[-2000:]}")
    return done.stdout


def mlxbatch(clips: list[Clip], folder: Path, *options: str) -> dict[str, str]:
    listing = folder / "clips.txt"
    listing.write_text("".join(f"{clip.path}\n" for clip in clips), "utf-8")
    command = [sys.executable, "-m", "mlxbatch", "transcribe", "--files-from", str(listing), "--language", "en"]
    run([*command, "--root", str(common(clips)), "-o", str(folder / "out"), "--quiet", *options], folder)
    return {
        str(clip.path): (folder / "out" / clip.path.relative_to(common(clips)).with_suffix(".txt")).read_text("utf-8")
        for clip in clips
    }


def common(clips: list[Clip]) -> Path:
    return Path(os.path.commonpath([clip.path for clip in clips]))


def mlx_audio(clips: list[Clip], model: Path, folder: Path) -> dict[str, str]:
    paths = folder / "clips.json"
    paths.write_text(json.dumps([str(clip.path) for clip in clips]))
    script = str(ROOT / "benchmarks" / "mlx_audio_sequential.py")
    texts: dict[str, str] = json.loads(run([sys.executable, script, str(model), str(paths)], folder))
    return texts


def report(runs: dict[str, list[Measured]], clips: list[Clip], seconds: float) -> None:
    references = [clip.text for clip in clips]
    base = next(iter(runs.values()))
    print(f"\n{'':24}{'wall s':>8}{'RTFx':>8}{'ratio':>8}{'WER':>9}{'peak':>10}")
    for name, found in runs.items():
        wall = median(one.wall for one in found)
        ratio = median(a.wall / b.wall for a, b in zip(base, found, strict=True))
        rate = wer(references, [found[-1].texts[str(clip.path)] for clip in clips])
        peak = max(one.peak_bytes for one in found)
        print(f"{name:24}{wall:8.1f}{seconds / wall:8.2f}{ratio:8.2f}{rate:9.2%}{peak / 1e9:7.2f} GB")
    print("ratio: mlx-audio's wall time over this side's, median of the rounds' pairs; whole processes, load included")


def describe_machine() -> str:
    versions = f"mlx {version('mlx')}, mlx-audio {version('mlx-audio')}"
    machine = f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores"
    return f"{machine}, {versions}, Python {platform.python_version()}"


if __name__ == "__main__":
    raise SystemExit(main())
