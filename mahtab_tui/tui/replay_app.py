"""An application that plays a recorded search."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widgets import Input, Static, TextArea

from mahtab_tui.bus.records import Record
from mahtab_tui.search.control import NoControl
from mahtab_tui.settings.model import resource_folder
from mahtab_tui.tui.drain import RATE
from mahtab_tui.tui.panes.search_tree import SearchTreePane
from mahtab_tui.tui.player import Player
from mahtab_tui.tui.terminal_app import TerminalApp
from mahtab_tui.tui.textual_fixes.key_line import KeyLine
from mahtab_tui.tui.widgets.find_row import FindRow

_AT_ONCE = 2_000
"""Events that are folded at a time; keys come between."""


class ReplayApp(TerminalApp[None]):
    """Shows the tree of calls over the whole screen, and opens the screens of calls."""

    TITLE = "mahtab"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "pause", "Pause", priority=True, id="replay-pause"),
        Binding("plus,equals_sign", "pace(1)", "Faster", priority=True, id="replay-faster", key_display="+"),
        Binding("minus", "pace(-1)", "Slower", priority=True, id="replay-slower", key_display="-"),
        Binding("greater_than_sign", "finish", "To the end", priority=True, id="replay-finish", key_display=">"),
        Binding("f10", "dark_light", "Dark / light", show=False, priority=True, id="dark-light"),
        Binding("ctrl+q", "quit", "Leave", priority=True, id="quit"),
        Binding("q", "quit", "Leave", show=False),
    ]

    def __init__(self, events: Iterator[tuple[float, Record]], *, note: str = "", theme: str = "", keymap: dict[str, str] | None = None) -> None:
        """events: records, each with the seconds to wait before it. note: shown at the beginning, for example that the log is damaged."""
        styles = resource_folder("styles")
        super().__init__(css_path=[styles / name for name in ("app.tcss", "dialogs.tcss", "node.tcss", "panes.tcss")], theme=theme)
        self.player = Player(events)
        self._note = note
        self._keymap_given = keymap or {}
        self._state = ""

    def compose(self) -> ComposeResult:
        yield Static(id="replay-head", markup=False)
        control = NoControl(self._say, "This is a recording and cannot be changed.")
        yield (recursion := SearchTreePane(control, lambda: self.player.now, id="recursion"))
        yield FindRow(recursion, id="recursion-find")
        yield KeyLine()

    def on_mount(self) -> None:
        self.set_keymap(self._keymap_given)
        self._pane = self.query_one(SearchTreePane)
        self._head = self.query_one("#replay-head", Static)
        self._pane.focus()
        self.set_interval(RATE, self._look)
        if self._note:
            self._say(self._note)

    def _look(self) -> None:
        """Show the events that are due."""
        if records := self.player.take(_AT_ONCE):
            self._pane.fold(records)
            if self.player.ended:
                self._pane.end()
        state = "ended" if self.player.ended else "paused" if self.player.paused else f"{self.player.pace:g} x"
        if state != self._state:
            if self._state and len(self.screen_stack) > 1:  # an open call covers the head line
                self._say(f"The recording: {state}.")
            self._state = state
            self._head.update(Content.assemble(("◐ ", "$moon"), ("mahtab", "bold $moon"), ("  a recorded search  ", "$muted"), (state, "$model")))

    # Actions

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """The keys of the player are letters while the user types."""
        if action in ("pause", "pace", "finish") and isinstance(self.focused, Input | TextArea):
            return False
        return super().check_action(action, parameters)

    def action_pause(self) -> None:
        self.player.paused = not self.player.paused

    def action_pace(self, step: int) -> None:
        self.player.change_pace(step)

    def action_finish(self) -> None:
        self.player.finish()

    def _say(self, text: str) -> None:
        self.notify(text, markup=False, timeout=4)
