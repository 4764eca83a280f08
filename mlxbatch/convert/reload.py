"""Does a converted model load, and run: `python -m mlxbatch.convert.reload DIRECTORY`, whose answer is a line of JSON.

A process of its own has nothing in memory that the directory lacks, and can be ended by MLX without ending anything
else. What it hears is noise: whether the words are right is for the proof to say.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlxbatch.errors import MlxBatchError, SetupError, show
from mlxbatch.models.architecture import architecture, read_json
from mlxbatch.models.weights import weight_files
from mlxbatch.words import size

if TYPE_CHECKING:
    import mlx.core as mx

    from mlxbatch.engines.base import EngineSpec
    from mlxbatch.engines.families import Family
    from mlxbatch.types import Job

# Frames of log-mel that a Whisper hears: few, as its layers stay quantized, which makes products slow on a CPU.
FRAMES = 8
# What an engine hears, and the tokens it may make of it.
SECONDS, TOKENS = 1.0, 8


@dataclass(frozen=True, slots=True)
class Reloaded:
    """What became of it: whether the model `ran`, "" or `why` it was only read, and how it ran: "float32 on cpu"."""

    ran: bool
    why: str = ""
    form: str = ""


def reload(directory: Path) -> Reloaded:
    """Load and run the model in a fresh process; SetupError, with that one's last word, where it cannot be."""
    command = [sys.executable, "-m", "mlxbatch.convert.reload", str(directory)]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode:
        raise SetupError(f"the converted model does not load: {_last_word(done)}")
    return Reloaded(**json.loads(done.stdout.splitlines()[-1]))


def _last_word(done: subprocess.CompletedProcess[str]) -> str:
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    if done.returncode < 0:
        return f"the process that tried was ended by signal {-done.returncode}, out of memory perhaps"
    return lines[-1] if lines else f"the process that tried ended with {done.returncode}"


def examine(directory: Path) -> Reloaded:
    """What the fresh process does. Models that no engine here runs are read from end to end."""
    from mlxbatch.engines.families import FAMILIES, WHISPER

    family = FAMILIES.get(architecture(read_json(directory / "config.json")))
    if family is WHISPER:
        return _hear(directory)
    if family is not None:
        return _run(directory, family)
    _read(directory)
    return Reloaded(False, "no engine here runs such a model: its weights were read and are numbers")


# ---- a Whisper: one pass of the network with its layers as they are stored, which takes little more memory than they


def _hear(directory: Path) -> Reloaded:
    from mlxbatch.models.check import check_whisper

    files = check_whisper(directory)
    if why := _lacks_memory(sum(path.stat().st_size for path in files.weights), directory):
        return Reloaded(False, why)
    import mlx.core as mx

    from mlxbatch import kernels
    from mlxbatch.engines.whisper import network

    # On a CPU other products of layers that stay quantized are tens of times as slow.
    dtype = _stored_dtype(files.weights) if kernels.on_gpu() else mx.float32
    model = network.load(list(files.weights), read_json(files.config), dtype)
    features, _ = model.encoder(0.1 * mx.random.normal((1, FRAMES, files.dims.n_mels), dtype, key=mx.random.key(0)))
    first = mx.zeros((1, 1), mx.int32)
    logits = model.decoder.logits(model.decoder(first, first, _Nothing(), model.decoder.cross(features)))
    if not mx.isfinite(logits).all():
        raise SetupError(f"{show(directory)}: it loads, and what it makes of sound is not finite")
    return Reloaded(True, form=f"{str(dtype).rpartition('.')[2]} on {mx.default_device().type.name}")


def _stored_dtype(files: tuple[Path, ...]) -> mx.Dtype:
    """That of the weights which no layer packs, such as the decoder's positions."""
    import mlx.core as mx

    return next(
        array.dtype
        for path in files
        for array in mx.load(str(path)).values()
        if mx.issubdtype(array.dtype, mx.floating)
    )


class _Nothing:
    """The cache of a decoder before its first token (network.SelfCache)."""

    def append(self, layer: int, keys: mx.array, values: mx.array) -> tuple[mx.array, mx.array, mx.array | None]:
        return keys, values, None


# ---- a model of mlx-audio's: by the engine, as `mlxbatch transcribe` does by this machine's profile


def _run(directory: Path, family: Family) -> Reloaded:
    from mlxbatch.engines import registry
    from mlxbatch.models.whole import check_model
    from mlxbatch.types import JobFailed

    check_model(directory)
    spec = _spec(directory, family)
    footprint = registry.footprint(spec)
    assert footprint is not None
    if why := _lacks_memory(footprint.group([footprint.need(SECONDS)], SECONDS), directory):
        return Reloaded(False, why)
    engine = registry.build(spec)
    try:
        for output in engine.run(_One(_noise(engine.sample_rate, family)), lambda live: 1):
            if isinstance(output, JobFailed):
                raise SetupError(f"{show(directory)}: it loads, and cannot be run: {output.cause}")
    finally:
        engine.close()
    return Reloaded(True, form=f"{spec.dtype} on {spec.device['kind']}")


def _spec(directory: Path, family: Family) -> EngineSpec:
    from mlxbatch import profile
    from mlxbatch.engines.base import EngineSpec

    settings = profile.load().profile
    device = {name: getattr(settings.device, name) for name in ("kind", "memory_limit", "cache_limit", "blas")}
    return EngineSpec(family.engine, directory, batch_size=1, dtype=settings.transcribe.dtype, device=device)


def _noise(rate: int, family: Family) -> Job:
    import numpy as np

    from mlxbatch.types import Job, TranscribeOptions

    language = None if family.detects else family.languages[0]
    options = TranscribeOptions(language=language, temperatures=(0.0,), max_tokens=TOKENS)
    samples = np.random.default_rng(0).normal(0, 0.01, int(SECONDS * rate)).astype(np.float32)
    return Job(0, "noise", samples, SECONDS, options=options)


class _One:
    """A single job, as engines take them (engines.base.Jobs)."""

    def __init__(self, job: Job) -> None:
        self._jobs = iter([job])

    def __iter__(self) -> Iterator[Job]:
        return self

    def __next__(self) -> Job:
        return next(self._jobs)

    def ready(self) -> bool:
        return True


# ---- any other, and where memory is short


def _lacks_memory(needed: int, directory: Path) -> str:
    """Why the model is not run, after it has been read; "" where there is the memory."""
    from mlxbatch.machine import read_machine

    free = read_machine().available
    if needed <= free:
        return ""
    _read(directory)
    return f"to run it takes {size(needed)} of memory, {size(free)} are free: it was only read"


def _read(directory: Path) -> None:
    """Read each weight, one at a time; SetupError where one holds what is no number."""
    import mlx.core as mx

    with mx.stream(mx.cpu):
        for path in weight_files(directory):
            weights: dict[str, Any] = mx.load(str(path))
            for name in list(weights):
                weight = weights.pop(name)  # what was read goes with it
                if mx.issubdtype(weight.dtype, mx.floating) and not mx.isfinite(weight).all():
                    raise SetupError(f"{show(path)}: {name} holds numbers that are not finite")


def main() -> None:
    try:
        print(json.dumps(asdict(examine(Path(sys.argv[1])))))
    except MlxBatchError as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
