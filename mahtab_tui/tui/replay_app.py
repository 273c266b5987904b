"""An application that plays a recorded search."""

from __future__ import annotations

from collections.abc import Iterator

from textual.app import ComposeResult

from mahtab_tui.bus.records import Record
from mahtab_tui.tui.player import Player
from mahtab_tui.tui.player_app import PlayerApp
from mahtab_tui.tui.widgets.find_row import FindRow
from mahtab_tui.tui.widgets.key_line import KeyLine

_AT_ONCE = 2_000
"""Events that are folded at a time; keys come between."""


class ReplayApp(PlayerApp):
    """Shows the tree of calls over the whole screen, and opens the screens of calls."""

    def __init__(self, events: Iterator[tuple[float, Record]], *, note: str = "", theme: str = "", keymap: dict[str, str] | None = None) -> None:
        """events: records, each with the seconds to wait before it. note: shown at the beginning, for example that the log is damaged."""
        super().__init__(Player(events), (), theme=theme, keymap=keymap)
        self._note = note
        self._state = ""

    def compose(self) -> ComposeResult:
        yield self.head
        yield self.searches
        yield FindRow(self.searches, id="recursion-find")
        yield KeyLine()

    def on_mount(self) -> None:
        self.searches.focus()
        if self._note:
            self.say(self._note)

    def look(self) -> None:
        if records := self.player.take(_AT_ONCE):
            self.searches.fold(records)
            if self.player.ended:
                self.searches.end()
        if self.state != self._state:
            if self._state and len(self.screen_stack) > 1:  # an open call covers the head line
                self.say(f"The recording: {self.state}.")
            self._state = self.state
            self.show_head(("  a recorded search  ", "$muted"), (self.state, "$model"))
