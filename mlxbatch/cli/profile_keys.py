"""The document's tables of profile keys, made from the schema: `python -m mlxbatch.cli.profile_keys FILE`."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from pydantic.fields import FieldInfo

from mlxbatch.profile_schema import Profile, Section, When

BEGIN, END = "<!-- profile keys: begin (generated) -->", "<!-- profile keys: end -->"


def tables() -> str:
    """A table of each section's keys, and of the conditions of [[when]]."""
    top = {info.alias or name: info for name, info in Profile.model_fields.items() if _section(info) is None}
    parts = [_table("At the top", top)]
    for name, info in Profile.model_fields.items():
        section = _section(info)
        if section is not None:
            about = " ".join((section.__doc__ or "").split("\n\n")[0].split())
            parts.append(_table(f"`[{name}]`: {about}", section.model_fields))
    parts.append(_table("Conditions of a `[[when]]` rule", When.model_fields))
    return "\n".join(parts)


def updated(text: str) -> str:
    """A document with the tables between its markers made anew; ValueError where it has no markers."""
    pattern = re.compile(f"{re.escape(BEGIN)}\n.*?{re.escape(END)}", re.DOTALL)
    if not pattern.search(text):
        raise ValueError(f"no {BEGIN} ... {END}")
    return pattern.sub(lambda _: f"{BEGIN}\n{tables()}{END}", text)


def _section(info: FieldInfo) -> type[Section] | None:
    kind = info.annotation
    return kind if isinstance(kind, type) and issubclass(kind, Section) else None


def _table(title: str, fields: dict[str, FieldInfo]) -> str:
    return "".join((f"{title}\n\n", "| key | what it may be | default |\n|---|---|---|\n", *_rows(fields)))


def _rows(fields: dict[str, FieldInfo]) -> Iterator[str]:
    for name, info in fields.items():
        if info.is_required():
            default = "to be given"
        else:
            value = info.get_default(call_default_factory=True)
            default = "none" if value is None else f"`{json.dumps(value, ensure_ascii=False, default=str)}`"
        yield f"| `{name}` | {(info.description or '').replace('|', '&#124;')} | {default} |\n"


if __name__ == "__main__":
    document = Path(sys.argv[1])
    document.write_text(updated(document.read_text("utf-8")), "utf-8")
