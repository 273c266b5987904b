"""Commands of Ask mode: ``/name argument``."""

from __future__ import annotations

import re

from mahtab_tui.kernel.base import Completion, Completions
from mahtab_tui.tui.commands import COMMANDS, Command

_SLASH = re.compile(r"/([a-z-]+)(?:\s+(.*))?", re.DOTALL)
_BEGUN = re.compile(r"\s*(/[a-z-]*)")


def parse_slash(text: str) -> tuple[Command | str, str] | None:
    """The command and its argument; the bare name where there is no such command; None where the text is a question."""
    matched = _SLASH.fullmatch(text.strip())
    if matched is None:
        return None
    name, argument = matched[1], (matched[2] or "").strip()
    command = next((command for command in COMMANDS if command.slash == name), None)
    return (command or name), argument


def slash_completions(text: str, cursor: int) -> Completions | None:
    """The commands whose name may end at the cursor; None where no command begins the text."""
    begun = _BEGUN.fullmatch(text, 0, cursor)
    if begun is None:
        return None
    commands = sorted((command for command in COMMANDS if command.slash and f"/{command.slash}".startswith(begun[1])), key=lambda each: each.slash)
    items = tuple(
        Completion(f"/{each.slash} {each.argument}".rstrip(), f"/{each.slash}{' ' if each.argument else ''}", "command", each.help)
        for each in commands
    )
    return Completions(begun.start(1), items, 0)
