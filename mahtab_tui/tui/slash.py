"""Commands of Ask mode: ``/name argument``."""

from __future__ import annotations

import re

from mahtab_tui.tui.commands import COMMANDS, Command

_SLASH = re.compile(r"/([a-z-]+)(?:\s+(.*))?", re.DOTALL)


def parse_slash(text: str) -> tuple[Command | str, str] | None:
    """The command and its argument; the bare name where there is no such command; None where the text is a question."""
    matched = _SLASH.fullmatch(text.strip())
    if matched is None:
        return None
    name, argument = matched[1], (matched[2] or "").strip()
    command = next((command for command in COMMANDS if command.slash == name), None)
    return (command or name), argument
