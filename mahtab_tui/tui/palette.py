"""The command palette and jump mode."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from functools import partial
from operator import attrgetter
from typing import Any, NamedTuple

from textual.app import ComposeResult
from textual.command import DiscoveryHit, Hit, Hits, Provider
from textual.content import Content
from textual.events import Click, Key
from textual.geometry import Offset
from textual.widget import Widget
from textual.widgets import Label

from mahtab_tui.tui.commands import COMMANDS
from mahtab_tui.tui.commands.command import Command
from mahtab_tui.tui.screens.dialog import Dialog

_TITLE_LINE = 1


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


class CommandProvider(Provider):
    """Finds all commands, and shows their keys."""

    async def discover(self) -> Hits:
        for command in COMMANDS:
            title, run = self._title(command), self._run(command)
            yield DiscoveryHit(title, run, command.title, command.help)

    async def search(self, query: str) -> Hits:
        matcher = self.matcher(query)
        for command in COMMANDS:
            if (score := matcher.match(f"{command.title} {command.help}")) > 0:
                title, run = self._title(command), self._run(command)
                yield Hit(score, title, run, command.title, command.help)

    def _title(self, command: Command) -> Content:
        if key := self.app._keymap.get(command.id, command.keys):
            return Content.assemble(command.title, "  ", (key, "$accent"))
        return Content(command.title)

    def _run(self, command: Command) -> partial[Coroutine[Any, Any, bool]]:
        return partial(self.app.run_action, command.action)
