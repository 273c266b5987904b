"""All commands of the application, and their typed names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mahtab_tui.session.open_session import complete_command
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


def complete_slash(text: str, cursor: int) -> Completions | None:
    """Complete the name of a command before the cursor; None if there is none."""
    return complete_command(text, cursor, BY_SLASH)
