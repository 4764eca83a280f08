"""Which model a directory holds: one sha256 over all that decides its output, for the key of stored results."""

from __future__ import annotations

import contextlib
import hashlib
import os
from pathlib import Path

from mlxbatch.errors import SetupError, show
from mlxbatch.models.architecture import architecture, read_json
from mlxbatch.models.cache import cache_root
from mlxbatch.models.weights import SETTINGS, weight_files

# Of a Whisper. The generation config is in it for the tokens it suppresses; its absence is as good as any content.
WHISPER_SETTINGS = ("config.json", "generation_config.json", "tokenizer.json")

# What the converter says of a model, beside it: decides nothing, and names the model's own sha.
RECORDS = ("quality.json", "sensitivity.json")


def model_sha(directory: Path, *, keep: bool = True) -> str:
    """sha256 (hex) over the settings, tokenizer and weight files of a model directory.

    Where the directory lies, and what its weight files are called, does not matter. Hashes of files are kept in the
    cache by path, size, mtime and inode, so only the first call reads the weights, unless not to `keep`;
    nothing is written beside the model. Raises SetupError where files are missing or unreadable.
    """
    files = [(name, directory / name) for name in _settings(directory)]
    files += [(f"weights {number}", path) for number, path in enumerate(weight_files(directory))]
    total = hashlib.sha256()
    for role, path in files:
        total.update(f"{role} {file_sha(path, keep=keep)}\n".encode())
    return total.hexdigest()


def _settings(directory: Path) -> list[str]:
    """Files beside the weights that may decide the output: of architectures but Whisper's, all settings there are."""
    if architecture(read_json(directory / "config.json")) == "whisper":
        return [name for name in WHISPER_SETTINGS if (directory / name).exists()]
    names = sorted(path.name for path in directory.iterdir() if path.is_file())
    return [name for name in names if name.endswith(SETTINGS) and not name.endswith((".index.json", *RECORDS))]


def file_sha(path: Path, *, keep: bool = True) -> str:
    """sha256 (hex) of a file, from the cache where the file has not changed since. Raises SetupError."""
    try:
        note = _note(path)
        if known := _recall(note):
            return known
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise SetupError(f"{show(path)}: {error.strerror or error}") from error
    # A cache that cannot be written costs time on the next run, nothing else.
    if keep:
        with contextlib.suppress(OSError):
            _remember(note, digest)
    return digest


def _note(path: Path) -> Path:
    """The cache file for the path in its present state: another size, time or inode is another note."""
    real = path.resolve(strict=True)
    state = real.stat()
    key = f"{state.st_size} {state.st_mtime_ns} {state.st_ino} ".encode() + os.fsencode(real)
    return cache_root() / "sha" / hashlib.sha256(key).hexdigest()


def _recall(note: Path) -> str | None:
    try:
        digest = note.read_text("ascii").strip()
    except (OSError, ValueError):
        return None
    return digest if len(digest) == hashlib.sha256().digest_size * 2 else None


def _remember(note: Path, digest: str) -> None:
    note.parent.mkdir(parents=True, exist_ok=True)
    draft = note.with_name(f"{note.name}.{os.getpid()}")
    draft.write_text(digest + "\n", "ascii")
    draft.replace(note)
