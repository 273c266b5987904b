"""The list of all commands."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content

from mahtab_tui.tui.commands.declarations import PaneCommand
from mahtab_tui.tui.screens.listing import ListScreen, matches_words

_TITLE_WIDTH = 20
_KEYS_WIDTH = 16


class CommandPalette(ListScreen[str | None, PaneCommand]):
    """Lists commands."""

    heading_text = "Commands"
    hint = "Enter runs it · ↑ ↓ choose · Esc cancels"

    def __init__(self, commands: Sequence[PaneCommand]) -> None:
        super().__init__()
        self._commands = commands

    def find_rows(self, typed: str) -> Sequence[PaneCommand]:
        return [
            command
            for command in self._commands
            if matches_words(typed, f"{command.title} {command.help}")
        ]

    def line(self, row: PaneCommand, width: int) -> Content:
        keys = self.app._keymap.get(row.id, row.keys)
        return Content.assemble(
            f"{row.title:<{_TITLE_WIDTH}} ",
            (f"{keys:<{_KEYS_WIDTH}} ", "$accent"),
            (row.help, "$muted"),
        )

    def describe(self, row: PaneCommand | None) -> Content:
        if row:
            return Content(row.help)
        return super().describe(row)

    def choose(self, row: PaneCommand) -> None:
        self.dismiss(row.action)
