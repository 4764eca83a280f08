"""Whisper directories whose tokenizer is missing, or lacks parts, made whole without writing into them.

The repaired model is a directory of links in our cache: to the model's own files, and to the canonical tokenizer of its
vocabulary's size, or a completed copy of its own. The model's directory may be another program's cache, or read-only.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

from mlxbatch.convert.whisper_files import preprocessor_config, tokenizer_config
from mlxbatch.convert.whisper_tokenizer import SIZES, add_merges, add_timestamps
from mlxbatch.engines.whisper.layout import Dims
from mlxbatch.errors import SetupError, show
from mlxbatch.models.architecture import architecture, read_json
from mlxbatch.models.cache import cache_root
from mlxbatch.models.canonical import tokenizer_file
from mlxbatch.models.check import check_whisper
from mlxbatch.models.fetch import disk_errors
from mlxbatch.models.one_fetch import Say

# What a file of the repaired directory is: a link to a path, or content of its own.
Files = Mapping[str, Path | bytes]


def repaired(directory: Path, name: str, *, offline: bool, say: Say, scratch: Path | None = None) -> Path:
    """The directory itself where nothing can or need be done, else that of the repaired model; `say` tells of it.

    With `scratch`, a directory of the caller's, it is made there instead of in the cache. A directory that is not to be
    repaired is for `models.check`. Raises SetupError where the canonical tokenizer cannot be fetched, or the model is
    not whole with what was done about its tokenizer; then nothing is left.
    """
    what, files = plan(directory, offline=offline, say=say)
    if not what:
        return directory
    overlay = _overlay(directory, files, scratch)
    say(f"{name}: {what}; the model itself is left as it is")
    return overlay


def plan(directory: Path, *, offline: bool, say: Say) -> tuple[str, Files]:
    """What is wrong and is done about it, for people, and the files of the repaired model that are not its own.

    "" where nothing can or need be done. Raises SetupError as `repaired` does.
    """
    dims = _whisper_dims(directory)
    if dims is None:
        return "", {}
    own = directory / "tokenizer.json"
    return _completed(own, dims.n_vocab) if own.exists() else _canonical(own, dims, offline=offline, say=say)


def _whisper_dims(directory: Path) -> Dims | None:
    """The sizes of a Whisper; None where it is none, or config.json does not tell them."""
    with contextlib.suppress(SetupError, ValueError):
        config = read_json(directory / "config.json")
        if architecture(config) == "whisper":
            return Dims.from_config(config)
    return None


def _canonical(own: Path, dims: Dims, *, offline: bool, say: Say) -> tuple[str, Files]:
    if dims.n_vocab not in SIZES:
        return "", {}
    try:
        tokenizer = tokenizer_file(dims.n_vocab, offline=offline, say=say)
    except SetupError as error:
        raise type(error)(
            f"{show(own)}: missing, and the canonical one of {dims.n_vocab} tokens cannot be had: {error}; "
            "run `mlxbatch models pull` with the model's name once, or copy the original's into the directory"
        ) from error
    settings = {"tokenizer_config.json": tokenizer_config(dims), "preprocessor_config.json": preprocessor_config(dims)}
    missing = {name: json.dumps(value).encode() for name, value in settings.items() if not (own.parent / name).exists()}
    return f"no tokenizer in it: taking the canonical one of {dims.n_vocab} tokens", {own.name: tokenizer, **missing}


def _completed(own: Path, n_vocab: int) -> tuple[str, Files]:
    """What was done to the model's own tokenizer, and the outcome; nothing where it is whole, or beyond repair."""
    try:
        tokenizer = read_json(own)
        before = len(tokenizer["added_tokens"])
        add_timestamps(tokenizer, n_vocab)
        stamps, merges = len(tokenizer["added_tokens"]) - before, add_merges(tokenizer)
    except (SetupError, ValueError, KeyError, TypeError):
        return "", {}
    added = [f"{stamps} timestamps" if stamps else "", f"{merges} of its merges" if merges else ""]
    if not any(added):
        return "", {}
    what = f"its tokenizer.json lacks {' and '.join(part for part in added if part)}: taking a completed copy"
    return what, {own.name: json.dumps(tokenizer, ensure_ascii=False).encode()}


def _overlay(directory: Path, files: Files, scratch: Path | None) -> Path:
    """A directory in our cache, or in `scratch`, with links to the model's files, and `files` in place of its own."""
    place = os.fsencode(directory.resolve())
    name = f"{directory.name}-{hashlib.sha256(place).hexdigest()[:12]}"
    target = cache_root() / "repaired" / name
    own = {path.name: path.absolute() for path in sorted(directory.iterdir()) if path.is_file()}
    wanted: Files = {**own, **files}
    if _holds(target, wanted):
        _check(target, directory)
        return target
    target = target if scratch is None else scratch / name
    with disk_errors(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".repair-", dir=target.parent) as draft:
            made = Path(draft) / "made"
            _write(made, wanted)
            _check(made, directory)
            if target.exists():
                target.rename(Path(draft) / "old")
            made.replace(target)
    return target


def _check(made: Path, directory: Path) -> None:
    """SetupError as of `check_whisper`, which names the model's own files: what lies in our cache nobody can mend."""
    try:
        check_whisper(made)
    except SetupError as error:
        raise SetupError(str(error).replace(show(made), show(directory))) from error


def _write(directory: Path, files: Files) -> None:
    directory.mkdir()
    for name, content in files.items():
        if isinstance(content, Path):
            (directory / name).symlink_to(content)
        else:
            (directory / name).write_bytes(content)


def _holds(directory: Path, files: Files) -> bool:
    """Whether the directory is what `_write` would make, so that runs side by side do not take it from each other."""
    try:
        if {path.name for path in directory.iterdir()} != set(files):
            return False
        return all(
            (directory / name).readlink() == content
            if isinstance(content, Path)
            else (directory / name).read_bytes() == content
            for name, content in files.items()
        )
    except OSError:
        return False
