"""Which licence a model is under, by the files that were published with it."""

from __future__ import annotations

import re
from pathlib import Path

# What a licence's text begins with (SPDX names).
_TEXTS = (
    ("MIT", r"MIT License|Permission is hereby granted, free of charge"),
    ("Apache-2.0", r"Apache License\s+Version 2\.0"),
    ("BSD-3-Clause", r"BSD 3-Clause License"),
    ("BSD-2-Clause", r"BSD 2-Clause License"),
    ("CC-BY-NC-4.0", r"Attribution-NonCommercial 4\.0 International"),
    ("CC-BY-SA-4.0", r"Attribution-ShareAlike 4\.0 International"),
    ("CC-BY-4.0", r"Attribution 4\.0 International"),
)
_BEGINNING = 2000  # characters, in which the name stands


def licence_of(directory: Path) -> str | None:
    """As README.md's front matter names it (the hub's names: "mit"), else by the text of LICENSE ("MIT"); None where
    neither tells."""
    return _named(directory / "README.md") or _by_text(directory)


def _named(card: Path) -> str | None:
    front = re.match(r"---\n(.*?)\n---", _text(card), re.DOTALL)
    found = re.search(r"^license(?:_name)?: *[\"']?([\w.+-]+)", front[1], re.MULTILINE) if front else None
    return found[1] if found else None


def _by_text(directory: Path) -> str | None:
    for path in sorted(directory.glob("LICEN[CS]E*")):
        beginning = _text(path)[:_BEGINNING]
        for name, text in _TEXTS:
            if re.search(text, beginning):
                return name
    return None


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace")
    except OSError:
        return ""
