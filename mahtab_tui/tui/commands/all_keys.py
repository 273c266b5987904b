"""All commands of single panes and screens. A user can change their keys, as those of the application's commands."""

from __future__ import annotations

from mahtab_tui.tui.commands.calls import NODE_COMMANDS
from mahtab_tui.tui.commands.entries import TRANSCRIPT_COMMANDS
from mahtab_tui.tui.commands.inspector import INSPECTOR
from mahtab_tui.tui.commands.output import OUTPUT
from mahtab_tui.tui.commands.pane_command import VARIABLE_COMMANDS, PaneCommand
from mahtab_tui.tui.commands.replay import REPLAY

PANE_COMMANDS: tuple[PaneCommand, ...] = (*TRANSCRIPT_COMMANDS, *NODE_COMMANDS, *OUTPUT, *INSPECTOR, *VARIABLE_COMMANDS, *REPLAY)
