"""Which settings a run would have, and why these."""

from __future__ import annotations

import os
from collections.abc import Iterator

from mlxbatch.doctor.finding import Case, Finding, settings
from mlxbatch.errors import UsageError, show


def check(case: Case) -> Iterator[Finding]:
    try:
        loaded = settings(case)
    except UsageError as error:
        yield Finding("problem", "profile", str(error), "mend that line; `mlxbatch profiles check FILE` says when")
        return
    why = loaded.why
    if why == "--profile" and os.environ.get("MLXBATCH_PROFILE") == case.profile:
        why = "--profile or MLXBATCH_PROFILE"
    yield Finding("ok", "profile", f"{loaded.name}, chosen by {why}")
    layers = " < ".join(show(path) for path in loaded.sources)
    yield Finding("ok", "profile", f"settings from {layers} (`mlxbatch profiles show` prints them)")
    for note in loaded.notes:
        yield Finding("warning", "profile", note, "choose another with --profile: `mlxbatch profiles list`")
