"""The command palette and jump mode."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import NamedTuple

from textual.app import ComposeResult
from textual.content import Content
from textual.events import Click, Key
from textual.geometry import Offset
from textual.widget import Widget
from textual.widgets import Label

from mahtab_tui.tui.commands import COMMANDS
from mahtab_tui.tui.commands.command import Command
from mahtab_tui.tui.screens.dialog import Dialog
from mahtab_tui.tui.screens.listing import ListScreen, matches_words

_TITLE_LINE = 1
_TITLE, _KEYS = 20, 16
"""Columns for titles and keys in the list of commands."""


class JumpTarget(NamedTuple):
    letter: str
    widget: Widget
    hidden: bool = False


class JumpScreen(Dialog[Widget | None]):
    """Shows a letter at each target, and lists the hidden ones; any other key closes it."""

    def __init__(self, targets: Sequence[JumpTarget]) -> None:
        super().__init__()
        self._targets = targets

    def compose(self) -> ComposeResult:
        for target in self._targets:
            if not target.hidden:  # in the margin, so that it does not cover text
                yield self._label(target.letter, target.widget.region.x, target.widget.region.y)
        end = self.app.size.width
        for target in reversed([target for target in self._targets if target.hidden]):
            text = f" {target.letter} opens {target.widget.id} "
            end -= len(text) + 1
            yield self._label(text, end, _TITLE_LINE)

    def _label(self, text: str, x: int, y: int) -> Label:
        label = Label(text, classes="jump-letter", markup=False)
        label.absolute_offset = Offset(x, y)
        return label

    def on_key(self, event: Key) -> None:
        event.stop()
        chosen = {target.letter: target.widget for target in self._targets}.get(event.key)
        if chosen is not None and self.is_active:
            # At once, because the next key of a burst is meant for the pane.
            widgets = (chosen, *chosen.query("*"))
            chosen.screen.set_focus(next(filter(attrgetter("focusable"), widgets), None))
        self.dismiss(chosen)

    def on_click(self, event: Click) -> None:
        shown = [target.widget for target in self._targets if not target.hidden]
        at = event.screen_offset
        self.dismiss(next((widget for widget in shown if widget.region.contains_point(at)), None))


class CommandPalette(ListScreen[str | None, Command]):
    """Lists all commands with their keys; returns the action of the chosen one."""

    heading_text = "Commands"
    hint = "Enter runs it · ↑ ↓ choose · Esc cancels"

    def find_rows(self, typed: str) -> Sequence[Command]:
        return [each for each in COMMANDS if matches_words(typed, f"{each.title} {each.help}")]

    def line(self, row: Command, width: int) -> Content:
        keys = self.app._keymap.get(row.id, row.keys)
        return Content.assemble(
            f"{row.title:<{_TITLE}} ", (f"{keys:<{_KEYS}} ", "$accent"), (row.help, "$muted")
        )

    def describe(self, row: Command | None) -> Content:
        return Content("Nothing matches." if row is None else row.help)

    def take(self) -> None:
        if self.chosen is not None:
            self.dismiss(self.chosen.action)
