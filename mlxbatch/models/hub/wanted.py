"""What is asked of the hub, and which of a repository's files that takes."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from mlxbatch.models.weights import SETTINGS

HUB_ID = re.compile(r"(?P<repo>[\w-][\w.-]*/[\w-][\w.-]*)(?:@(?P<revision>\S+))?")

# Folders of a repository in which models keep what they need: Kokoro its voices, Qwen3-TTS its tokenizer of speech.
FOLDERS = ("voices", "speech_tokenizer")

CTRANSLATE2 = "model.bin"

_SHARD = re.compile(r"model-\d+-of-\d+\.safetensors")


@dataclass(frozen=True, slots=True)
class Wanted:
    """A model of the hub. `name` is what the user called it: a catalogue name, or the hub id itself.

    `to_convert`: it need not be in a layout that MLX loads, and what its files say of the licence is wanted too.
    """

    name: str
    repo: str
    revision: str | None = None
    to_convert: bool = False

    def __str__(self) -> str:
        """For messages: the name, and the hub's where that is another."""
        there = f"{self.repo}@{self.revision}" if self.revision else self.repo
        return there if self.name in (there, self.repo) else f"{self.name} ({there})"


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """A file on the hub. `sha256` where the hub tells one, as it does for all large files (those kept by Git LFS)."""

    name: str
    bytes: int | None
    sha256: str | None


def needed(names: Collection[str], *, to_convert: bool = False) -> list[str]:
    """Of a repository's files those that a model in MLX's or Hugging Face's layout is loaded from.

    One set of weights: `model.safetensors`, else its shards, `weights.safetensors`, any other safetensors files, or
    NumPy's `weights.npz`. No code, no other framework's weights, nothing in folders, no float32 copies. Empty where
    there are no such weights.

    `to_convert`: where there are none, CTranslate2's `model.bin` counts; and the model card, the licence and FOLDERS
    belong to it.
    """
    top = sorted(name for name in names if "/" not in name and "fp32" not in name)
    weights = _weights(top)
    if to_convert:
        weights = weights or [name for name in top if name == CTRANSLATE2]
    if not weights:
        return []
    along = _along(names) if to_convert else []
    return [name for name in top if name.endswith(SETTINGS) or name in weights] + along


def _along(names: Collection[str]) -> list[str]:
    folders = tuple(f"{folder}/" for folder in FOLDERS)
    papers = [name for name in names if name in ("README.md", "LICENSE", "LICENSE.md")]
    inside = [name for name in names if name.startswith(folders) and name.endswith((".safetensors", *SETTINGS))]
    return sorted([*papers, *inside])


def _weights(top: Collection[str]) -> list[str]:
    arrays = [name for name in top if name.endswith(".safetensors")]
    choices = (
        [name for name in arrays if name == "model.safetensors"],
        [name for name in arrays if _SHARD.fullmatch(name)],
        [name for name in arrays if name == "weights.safetensors"],
        arrays,
        [name for name in top if name == "weights.npz"],
    )
    return next((choice for choice in choices if choice), [])
