"""All commands of the application, and their typed names."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from mahtab_tui.tui.commands import panes, session
from mahtab_tui.tui.commands.command import Command

if TYPE_CHECKING:
    from mahtab_tui.kernel.base import Completions

COMMANDS: tuple[Command, ...] = tuple(
    each
    for module in (session, panes)
    for each in vars(module).values()
    if isinstance(each, Command)
)
BY_SLASH = {command.slash: command for command in COMMANDS if command.slash}
BY_ID = {command.id: command for command in COMMANDS}
BY_ACTION = {command.action: command for command in COMMANDS}


_SLASH = re.compile(r"/([a-z-]+)(?:\s+(.*))?", re.DOTALL)
_BEGUN = re.compile(r"\s*(/[a-z-]*)")


def parse_slash(text: str) -> tuple[str, str] | None:
    """Split a typed command into name and argument; None for a question."""
    matched = _SLASH.fullmatch(text.strip())
    return None if matched is None else (matched[1], (matched[2] or "").strip())


def complete_slash(text: str, cursor: int) -> Completions | None:
    begun = _BEGUN.fullmatch(text, 0, cursor)
    if begun is None:
        return None
    from mahtab_tui.kernel.base import Completion, Completions

    items = []
    for slash, each in sorted(BY_SLASH.items()):
        if f"/{slash}".startswith(begun[1]):
            shown = f"/{slash} {each.argument}"
            inserted = f"/{slash} " if each.argument else f"/{slash}"
            items.append(Completion(shown.rstrip(), inserted, "command", each.help))
    return Completions(begun.start(1), tuple(items), 0)
