"""The JSON Schemas of what is written, which come with the package."""

from __future__ import annotations

from importlib import resources


def schema_text(name: str) -> str:
    """The file of a schema (JSON Schema 2020-12): "transcript" for a .json file, "line" for a line of a .jsonl file."""
    return resources.files("mlxbatch.writers").joinpath(f"{name}.schema.json").read_text("utf-8")
