"""Where a checkpoint came from. No MLX: what is known of a converted model is read without it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a checkpoint came from: as the user named it, the hub's revision, the licence as its files say it, and the
    sha256 (hex) of each of the files it was read from."""

    source: str
    revision: str | None = None
    licence: str | None = None
    sha256: Mapping[str, str] = field(default_factory=dict)
