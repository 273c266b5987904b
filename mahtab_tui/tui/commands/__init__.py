"""All commands of the application, and their typed names."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from mahtab_tui.tui.commands import panes, session
from mahtab_tui.tui.commands.command import Command
from mahtab_tui.tui.commands.declarations import PANE_COMMANDS

if TYPE_CHECKING:
    from mahtab_tui.kernel.values import Completions

# A command is what the decorator `command` has made of a function in these modules.
COMMANDS: tuple[Command, ...] = tuple(
    value
    for module in (session, panes)
    for value in vars(module).values()
    if isinstance(value, Command)
)
BY_SLASH = {command.slash: command for command in COMMANDS if command.slash}
"""Commands by the name that is typed after a slash."""
BY_ID = {command.id: command for command in COMMANDS}
COMMAND_IDS = tuple(command.id for command in (*COMMANDS, *PANE_COMMANDS))
"""The ids of all commands, which a key map may name."""
BY_ACTION = {command.action: command for command in COMMANDS}

_SLASH = re.compile(r"/([a-z-]+)(?:\s+(.*))?", re.DOTALL)
_PARTIAL_SLASH = re.compile(r"\s*(/[a-z-]*)")


class TypedCommand(NamedTuple):
    """A command as it was typed."""

    name: str
    """The name without the slash; there need not be such a command."""
    argument: str
    """Empty if nothing follows the name."""


def parse_slash(text: str) -> TypedCommand | None:
    """Read a typed command; None for any other text."""
    match = _SLASH.fullmatch(text.strip())
    if match is None:
        return None
    return TypedCommand(match[1], (match[2] or "").strip())


def complete_slash(text: str, cursor: int) -> Completions | None:
    """Complete the name of a command before the cursor; None if there is none."""
    match = _PARTIAL_SLASH.fullmatch(text, 0, cursor)
    if match is None:
        return None
    from mahtab_tui.kernel.values import Completion, Completions

    items = []
    for slash, command in sorted(BY_SLASH.items()):
        if not f"/{slash}".startswith(match[1]):
            continue
        label = f"/{slash} {command.argument}".rstrip()
        inserted_text = f"/{slash} " if command.argument else f"/{slash}"
        items.append(Completion(label, inserted_text, "command", command.help))
    return Completions(match.start(1), tuple(items), 0)
