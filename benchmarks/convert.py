"""Converting Whisper base and Kokoro: the time beside mlx-audio's converter, and what each precision costs.

    python -m benchmarks.convert [--rounds 3] [--only time,precision,voice] [--data ../shared/data]

Time is that of whole processes in turn, without the proof; mlxbatch's loads and runs its result in a fresh process, the
other does not. What a precision costs is what `mlxbatch convert --verify full` measures: of Whisper on the sentence
clips, of Kokoro on sentences that it says.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.corpus import DATA, Clip, Corpus
from benchmarks.processes import run
from benchmarks.sides import Measured, in_turn
from benchmarks.table import Spread, gigabytes, markdown, percent
from mlxbatch.models.resolve import resolve
from mlxbatch.words import size

MODEL, VOICE = "whisper-base", "kokoro-82m"
BITS = (8, 6, 5, 4, 3)
RECIPE = "encoder8-decoder4"
OURS, BASE = "mlxbatch convert", "mlx_audio.convert"
VOICE_HEAD = ("precision", "size", "bits per weight", "WER heard", "duration", "spectral distance", "voice's likeness")
HEAD = ("precision", "size", "bits per weight", "WER", "loss", "changed hypotheses", "mean KL, nats")


def time_taken(rounds: int) -> str:
    """Both converters on the same directory, to 4 bits in groups of 64."""
    source = resolve(MODEL, offline=False, say=print).path
    runs, _ = in_turn({BASE: partial(_mlx_audio, source), OURS: partial(_ours, source)}, rounds, needed=(BASE, OURS))
    walls = {name: [one.wall for one in found] for name, found in runs.items()}
    rows = [
        [name, Spread.of(walls[name]).text(), Spread.ratios(walls[name], walls[BASE]).text(), gigabytes(_peak(found))]
        for name, found in runs.items()
    ]
    abouts = "\n".join(f"{name}: {found[0].about}" for name, found in runs.items())
    return f"{markdown(['converter', 'wall s', 'of the first', 'peak memory'], rows)}\n\n{abouts}"


def _peak(runs: Sequence[Measured]) -> int:
    return max(one.peak_bytes for one in runs)


def _mlx_audio(source: Path, folder: Path) -> Measured:
    # Told the domain: without it every model that it has is imported first.
    command = [sys.executable, "-m", "mlx_audio.convert", "--hf-path", str(source), "--mlx-path", str(folder / "out")]
    command += ["--quantize", "--q-bits", "4", "--q-group-size", "64", "--model-domain", "stt"]
    ran = run(command, folder)
    return Measured(ran.wall, ran.peak_bytes, (), f"mlx-audio {version('mlx-audio')}, --model-domain stt")


def _ours(source: Path, folder: Path) -> Measured:
    ran = run(_command(str(source), folder, "--bits", "4", "--verify", "none"), folder)
    (record,) = _records(ran.output)
    about = (
        f"loaded and run as well ({record['ran_as']}); the converting process held {gigabytes(record['peak_bytes'])}"
    )
    return Measured(ran.wall, ran.peak_bytes, (), about)


def precisions(clips: Sequence[Clip]) -> str:
    """Each width, the recipe, and bits by sensitivity at the size of 4 bits everywhere."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        manifest = folder / "clips.jsonl"
        lines = ({"path": str(clip.path), "text": clip.text, "language": "en"} for clip in clips)
        manifest.write_text("".join(f"{json.dumps(line)}\n" for line in lines), "utf-8")
        proof = ("--verify", "full", "--calibration", str(manifest))
        widths = _converted(folder, "widths", "--bits", ",".join(map(str, BITS)), *proof)
        four = widths[BITS.index(4)]["weight_bytes"]
        named = {f"{bits} bits": record for bits, record in zip(BITS, widths, strict=True)}
        named |= {RECIPE: _converted(folder, "recipe", "--recipe", RECIPE, *proof)[0]}
        named |= {"by sensitivity": _converted(folder, "goal", "--target-size", f"{four}b", *proof)[0]}
    return markdown(HEAD, [original(widths[0]), *(row(name, record) for name, record in named.items())])


def voices() -> str:
    """Each width of Kokoro: what Whisper base hears of it, and how far its sound is from the original's."""
    with tempfile.TemporaryDirectory() as scratch:
        widths = ("--bits", ",".join(map(str, BITS)), "--verify", "full")
        records = _converted(Path(scratch), "voice", *widths, model=VOICE)
    named = zip(BITS, records, strict=True)
    return markdown(VOICE_HEAD, [original_voice(records[0]), *(voice_row(f"{bits} bits", one) for bits, one in named)])


def original_voice(record: Mapping[str, Any]) -> list[str]:
    stored, heard = record["original"], record["quality"]["synthesis"]["wer"]
    bits = f"{stored['bits_per_weight']:.2f}"
    return ["as published", size(stored["weight_bytes"]), bits, percent(heard["original"]), *[""] * 3]


def voice_row(name: str, record: Mapping[str, Any]) -> list[str]:
    """A converted voice's line: of durations the original's is 1, distance is after time warping, likeness a cosine."""
    found = record["quality"]["synthesis"]
    return [
        name,
        size(record["weight_bytes"]),
        f"{record['bits_per_weight']:.2f}",
        percent(found["wer"]["converted"]),
        f"{found['duration']['value']:.3f}{_error(found['duration']['error'], 3)}",
        f"{found['distance']:.2f} dB",
        f"{found['likeness']:.3f}",
    ]


def _converted(folder: Path, name: str, *options: str, model: str = MODEL) -> list[dict[str, Any]]:
    print(f"  {name}: {' '.join(options[:2])}", flush=True)
    return _records(run(_command(model, folder / name, *options), folder).output)


def _command(source: str, folder: Path, *options: str) -> list[str]:
    command = [sys.executable, "-m", "mlxbatch", "convert", source, "-o", str(folder / "out")]
    return [*command, "--json", "--quiet", *options]


def _records(output: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in output.splitlines()]


def original(record: Mapping[str, Any]) -> list[str]:
    """The line of the model that was converted, as its record has it."""
    stored, wer = record["original"], record["quality"]["recognition"]["wer"]["original"]
    return [
        "as published",
        size(stored["weight_bytes"]),
        f"{stored['bits_per_weight']:.2f}",
        percent(wer),
        *[""] * 3,
    ]


def row(name: str, record: Mapping[str, Any]) -> list[str]:
    """A converted model's line: its record's size, and what its proof measured."""
    found = record["quality"]["recognition"]
    loss, divergence = found["wer_loss"], found["divergence"]["mean"]
    return [
        name,
        size(record["weight_bytes"]),
        f"{record['bits_per_weight']:.2f}",
        percent(found["wer"]["converted"]),
        f"{_points(loss)} points",
        f"{found['changed']} of {found['clips']}",
        f"{divergence['value']:.5f}{_error(divergence['error'], 5)}",
    ]


def _points(loss: Mapping[str, Any]) -> str:
    error = loss["error"]
    return f"{100 * loss['value']:+.2f}{_error(None if error is None else 100 * error, 2)}"


def _error(error: float | None, digits: int) -> str:
    return "" if error is None else f" ± {error:.{digits}f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="time,precision,voice")
    parser.add_argument("--data", type=Path, default=DATA)
    given = parser.parse_args()
    parts: dict[str, Callable[[], str]] = {
        "time": lambda: time_taken(given.rounds),
        "precision": lambda: precisions(Corpus(given.data).sentences()),
        "voice": voices,
    }
    for name in given.only.split(","):
        print(f"\n{parts[name]()}\n", flush=True)


if __name__ == "__main__":
    main()
