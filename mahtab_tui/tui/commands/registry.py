"""All commands of the application, in the order in which footer, help and palette show them."""

from __future__ import annotations

import mahtab_tui.tui.commands.input as input_commands
import mahtab_tui.tui.commands.panes as pane_commands
import mahtab_tui.tui.commands.screen as screen_commands
import mahtab_tui.tui.commands.session as session_commands
import mahtab_tui.tui.commands.skills as skill_commands
from mahtab_tui.tui.commands.command import Command

COMMANDS: tuple[Command, ...] = (
    session_commands.answer,
    *input_commands.COMMANDS,
    *session_commands.KERNEL,
    *session_commands.AGENTS,
    *skill_commands.COMMANDS,
    session_commands.usage,
    session_commands.context,
    session_commands.compact,
    session_commands.export,
    session_commands.sessions,
    session_commands.rename,
    *session_commands.NOTEBOOK,
    session_commands.clear,
    *pane_commands.COMMANDS,
    *screen_commands.COMMANDS,
)
BY_SLASH = {command.slash: command for command in COMMANDS if command.slash}
BY_ID = {command.id: command for command in COMMANDS}
BY_ACTION = {command.action: command for command in COMMANDS}
