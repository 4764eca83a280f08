"""The sides of a comparison: each runs a program over the same recordings, as a whole process, and reads what came."""

from __future__ import annotations

import json
import re
import sys
import tempfile
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import soundfile

from benchmarks import job
from benchmarks.corpus import Clip
from benchmarks.peers import CTRANSLATE2, FASTER_WHISPER, FLOAT32, MODEL, VAYU
from benchmarks.processes import Ran, RunFailed, run
from mlxbatch import blas
from mlxbatch.models.resolve import resolve
from mlxbatch.quality import wer
from mlxbatch.report.log import Log, read_log

SETTINGS = "mlxbatch.toml"


@dataclass(frozen=True, slots=True)
class Measured:
    """One run of one side: seconds of the whole process, peak memory of its largest process, and what came of it.

    `texts` are those of the recordings in their order, channel by channel where they have several; `about` is the
    side's own word on versions, BLAS, number format and options; `log` is mlxbatch's.
    """

    wall: float
    peak_bytes: int
    texts: tuple[str, ...]
    about: str
    log: Log = field(default_factory=Log)


Side = Callable[[Path], Measured]
"""Runs a program in an empty folder."""


def in_turn(
    sides: Mapping[str, Side], rounds: int, needed: Collection[str] = ()
) -> tuple[dict[str, list[Measured]], dict[str, str]]:
    """Run A B C A B C ..., so that a drift of the machine's speed meets all of them.

    Gives the runs of each, and why a side that could not be run was left out; RunFailed where that is one of those
    `needed`, without which the others say nothing.
    """
    runs: dict[str, list[Measured]] = {name: [] for name in sides}
    failures: dict[str, str] = {}
    for number in range(1, rounds + 1):
        for name in [name for name in sides if name not in failures]:
            try:
                with tempfile.TemporaryDirectory() as folder:
                    runs[name].append(sides[name](Path(folder)))
                print(f"  round {number}, {name}: {runs[name][-1].wall:.1f} s", flush=True)
            except RunFailed as failed:
                if name in needed:
                    raise
                failures[name] = str(failed)
                print(f"  round {number}, {name}: {failed}", flush=True)
    return {name: found for name, found in runs.items() if name not in failures}, failures


def mlxbatch(clips: Sequence[Clip], *options: str, settings: str = "") -> Side:
    """`mlxbatch transcribe`, English given; `settings` is TOML that lies over the profile."""
    return partial(_mlxbatch, clips, options, settings)


def _mlxbatch(clips: Sequence[Clip], options: Sequence[str], settings: str, folder: Path) -> Measured:
    ran = run([*mlxbatch_command(clips, folder, settings), "--format", "json", "--quiet", *options], folder)
    (path,) = (folder / "out" / ".mlxbatch" / "runs").glob("*.jsonl")
    log = read_log(path)
    assert log is not None
    written = {Path(item["source"]): json.loads(Path(item["outputs"][0]).read_text("utf-8")) for item in log.items}
    texts = [text for clip in clips for text in spoken(written[clip.path]["segments"], len(clip.channels))]
    start = log.start
    about = f"mlxbatch {start['version']}, mlx {start['versions']['mlx']}, BLAS: {_blas()}; {start['dtype']}; "
    about += f"profile {start['profile']}, batch of {start['batch_size']}; {' '.join(['--language en', *options])}"
    return Measured(ran.wall, ran.peak_bytes, tuple(texts), about, log)


def mlxbatch_command(clips: Sequence[Clip], folder: Path, settings: str = "") -> list[str]:
    """The command over these recordings, which writes to `folder`/out; `settings` are what is read in the folder."""
    (folder / "clips.txt").write_text("".join(f"{clip.path}\n" for clip in clips), "utf-8")
    if settings:
        (folder / SETTINGS).write_text(settings, "utf-8")
    command = [sys.executable, "-m", "mlxbatch", "transcribe", "--files-from", str(folder / "clips.txt")]
    return [*command, "--root", "/", "-o", str(folder / "out"), "--language", "en", "--model", MODEL]


def predicted_bytes(clips: Sequence[Clip], *options: str) -> int:
    """The device memory that the plan counts on at most: of its largest group, the weights and each row's need."""
    with tempfile.TemporaryDirectory() as folder:
        command = [*mlxbatch_command(clips, Path(folder)), "--dry-run", "--json", "--quiet", *options]
        records = [json.loads(line) for line in run(command, Path(folder)).output.splitlines()]
    return int(next(record["memory_bytes"] for record in records if record["event"] == "plan"))


def spoken(segments: Sequence[Mapping[str, object]], channels: int) -> list[str]:
    """A transcript's text: the whole of it, or that of each channel where there are several."""
    if not channels:
        return [" ".join(str(segment["text"]) for segment in segments)]
    return [
        " ".join(str(segment["text"]) for segment in segments if segment["channel"] == number)
        for number in range(channels)
    ]


def mlx_audio(clips: Sequence[Clip]) -> Side:
    """mlx-audio's `generate`; a recording's channels as files of their own, cut before the clock runs."""
    return partial(_mlx_audio, clips)


def _mlx_audio(clips: Sequence[Clip], folder: Path) -> Measured:
    paths = [path for number, clip in enumerate(clips) for path in files(clip, folder / f"{number}")]
    model = str(resolve(MODEL, offline=False, say=print).path)
    return _other(sys.executable, "side_mlx_audio", job.Job(model, paths, "generate"), folder)


def files(clip: Clip, folder: Path) -> list[str]:
    """The clip's file, or a file for each of its channels."""
    if not clip.channels:
        return [str(clip.path)]
    folder.mkdir()
    samples, rate = soundfile.read(clip.path, dtype="float32", always_2d=True)
    paths = [folder / f"{number}.wav" for number in range(len(clip.channels))]
    for number, path in enumerate(paths):
        soundfile.write(path, samples[:, number], rate, subtype="FLOAT")
    return [str(path) for path in paths]


def vayu(clips: Sequence[Clip], way: str) -> Side:
    """vayu-whisper; the ways are in `side_vayu`."""
    asked = job.Job(str(FLOAT32), [str(clip.path) for clip in clips], way)
    return partial(_other, str(VAYU.python), "side_vayu", asked)


def faster_whisper(clips: Sequence[Clip], way: str) -> Side:
    """faster-whisper; the ways are in `side_faster_whisper`."""
    asked = job.Job(str(CTRANSLATE2), [str(clip.path) for clip in clips], way)
    return partial(_other, str(FASTER_WHISPER.python), "side_faster_whisper", asked)


def _other(python: str, module: str, asked: job.Job, folder: Path) -> Measured:
    # CTranslate2 tells which library multiplies for it in its log alone.
    command = [python, "-m", f"benchmarks.{module}", *job.ask(folder, asked)]
    ran = run(command, folder, {"CT2_VERBOSE": "1"})
    told = job.told(folder)
    texts = tuple(told.texts[path] for path in asked.paths)
    return Measured(ran.wall, ran.peak_bytes, texts, told.about + backends(ran), Log())


def backends(ran: Ran) -> str:
    """What CTranslate2's log says it multiplies with: "" of other programs."""
    found = re.findall(r"(Use Intel MKL: \w+|(?:SGEMM|GEMM_S8) backend: \w+)", ran.errors)
    return f"; {', '.join(dict.fromkeys(found))}" if found else ""


def _blas() -> str:
    blas.preload()
    return blas.description()


def references(clips: Sequence[Clip]) -> list[str]:
    """What is said, in the order of a side's texts."""
    return [text for clip in clips for text in clip.channels or (clip.text,)]


def error_rate(clips: Sequence[Clip], measured: Measured) -> float:
    return wer(references(clips), measured.texts)
