"""All commands of the application, in the order in which footer, help and palette show them."""

from __future__ import annotations

from mahtab_tui.tui.commands import input, kernel, panes, screen, session
from mahtab_tui.tui.commands.command import Command

COMMANDS: tuple[Command, ...] = tuple(
    each
    for module in (input, kernel, session, panes, screen)
    for each in vars(module).values()
    if isinstance(each, Command)
)
BY_SLASH = {command.slash: command for command in COMMANDS if command.slash}
BY_ID = {command.id: command for command in COMMANDS}
BY_ACTION = {command.action: command for command in COMMANDS}
