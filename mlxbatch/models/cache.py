"""Where fetched models and what is known of them are kept on this machine."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import platformdirs

ENVIRONMENT = "MLXBATCH_CACHE"


def cache_root() -> Path:
    """`$MLXBATCH_CACHE`, else the user's cache directory; nothing is made.

    Without a home directory (a bare cron or container environment) it is a directory of this user's own below the
    system's temporary one.
    """
    if chosen := os.environ.get(ENVIRONMENT):
        return Path(os.path.abspath(os.path.expanduser(chosen)))  # noqa: PTH100, PTH111 (Path's own may raise here)
    try:
        usual = platformdirs.user_cache_path("mlxbatch", appauthor=False)
    except (RuntimeError, OSError, KeyError):
        usual = Path()
    # An unknown home leaves "~" in the path, which would become a directory of that name.
    return usual if usual.is_absolute() else Path(tempfile.gettempdir()) / f"mlxbatch-{_user()}"


def _user() -> str:
    return str(os.getuid()) if hasattr(os, "getuid") else "user"


def models_root() -> Path:
    return cache_root() / "models"


def model_directory(name: str) -> Path:
    """Where the catalogue model of this name lives once it is fetched."""
    return models_root() / name
