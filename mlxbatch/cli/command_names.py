"""Commands whose name is two words, beside a command that the first of them is by itself."""

from __future__ import annotations

from typing import Any

from typer.core import TyperGroup


class WithTwoWords(TyperGroup):
    """Finds `convert compare` where there is such a command, and `convert` with an argument where that is another."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name = " ".join(args[:2])
        return super().resolve_command(ctx, [name, *args[2:]] if name in self.commands else args)
