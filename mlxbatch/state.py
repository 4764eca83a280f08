"""The folder of a run's state, `OUT/.mlxbatch`, and the kind of disk it lies on."""

from __future__ import annotations

import os
from pathlib import Path

from mlxbatch.disk import cause
from mlxbatch.errors import SetupError, show

FOLDER = ".mlxbatch"

# File systems that another host may be writing to, or that pass a host's locks and shared memory on badly.
_NETWORK = frozenset(
    {"9p", "afpfs", "afs", "beegfs", "ceph", "cifs", "davfs", "davfs2", "glusterfs", "gpfs", "lustre", "ncpfs", "nfs"}
    | {"nfs4", "prl_fs", "smb2", "smb3", "smbfs", "vboxsf", "virtiofs", "webdav"}
)


def state_folder(output_root: Path) -> Path:
    """Make `OUT/.mlxbatch` where it is not there yet; SetupError names the path when that cannot be done."""
    folder = output_root / FOLDER
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SetupError(f"cannot write to {show(output_root)}: {cause(error)}") from error
    if not os.access(folder, os.W_OK | os.X_OK):
        raise SetupError(f"cannot write to {show(folder)}: not writable")
    return folder


def on_network(folder: Path) -> bool:
    """Whether an existing folder lies on a network mount, or on one that cannot be told from it (FUSE)."""
    kind = file_system(folder).lower()
    return kind in _NETWORK or kind.startswith(("fuse.", "osxfuse", "macfuse"))


def file_system(folder: Path) -> str:
    """The type of the file system that holds an existing folder: "ext4", "apfs", "nfs4" ...; "" where unknown."""
    import psutil  # type: ignore[import-untyped,unused-ignore]

    real = os.path.realpath(folder)
    # Later mounts cover earlier ones at the same place, so of equally long mount points the last one counts.
    best = max(
        (
            (len(part.mountpoint), place, part.fstype)
            for place, part in enumerate(psutil.disk_partitions(all=True))
            if _inside(real, part.mountpoint)
        ),
        default=(0, 0, ""),
    )
    return str(best[2])


def _inside(path: str, mountpoint: str) -> bool:
    return path == mountpoint or path.startswith(mountpoint.rstrip("/") + "/")
