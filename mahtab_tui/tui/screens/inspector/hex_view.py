"""Bytes, in hex and as characters."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import Binding, BindingType

from mahtab_tui.bus.sanitize import plain
from mahtab_tui.tui.commands.inspector import TEXT_COMMANDS
from mahtab_tui.tui.commands.pane_command import bindings
from mahtab_tui.tui.rows.rows_view import RowsView
from mahtab_tui.tui.screens.inspector.hex_rows import BLOCK, ROW, HexRows
from mahtab_tui.tui.screens.inspector.view import LineWanted, Place, View


class HexView(View, RowsView, can_focus=True):
    """Scrolls over the bytes, and searches them."""

    margin = 0

    BINDINGS: ClassVar[list[BindingType]] = [
        *(binding for binding in bindings(TEXT_COMMANDS) if binding.action not in ("wrap", "ask", "regex")),
        Binding("home", "scroll_home", "Beginning", show=False),
        Binding("end", "scroll_end", "End", show=False),
    ]

    def __init__(self, place: Place) -> None:
        self._bytes = HexRows(place.opened.size)
        super().__init__(place, source=self._bytes)
        self._words = ""

    def look_again(self) -> None:
        self._bytes.blocks.clear()
        self.look()

    def look(self) -> None:
        self._bytes.size = self.place.opened.size
        super().look()
        self._fetch()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        self._fetch()

    def _fetch(self) -> None:
        place, first = self.place, self.scroll_offset.y
        self.say((f"byte {first * ROW:,} of {self._bytes.size:,}" + (f"  / {plain(self._words)}" if self._words else ""), "$muted"))
        wanted = self._bytes.missing(first, self.size.height)
        if not wanted:
            return

        def work() -> list[tuple[int, bytes]]:
            return [(number, place.look.data(place.path, number * BLOCK, (number + 1) * BLOCK)) for number in wanted]

        self.fetcher.ask("bytes", work, self._came, self.fail)

    def _came(self, blocks: list[tuple[int, bytes]]) -> None:
        self._bytes.take(blocks)
        self.refresh()

    def action_search(self) -> None:
        self.post_message(LineWanted("search: a text, or 0x and digits of hex", self._words, self._search))

    def _search(self, words: str) -> None:
        self._words, self._bytes.found = words, None
        if words:
            self.action_next(False)
        self.refresh()

    def action_next(self, backwards: bool) -> None:
        if not self._words:
            return
        place, words, found = self.place, self._words, self._bytes.found
        at = self.scroll_offset.y * ROW if found is None else found[0] if backwards else found[1]
        self.fetcher.ask("find", lambda: place.look.find(place.path, words, at, backwards=backwards), self._show_found, self.fail)

    def _show_found(self, found: tuple[int, int] | None) -> None:
        self._bytes.found = found
        if found is None:
            self.fail("It is not among the bytes.")
        else:
            row, top = found[0] // ROW, self.scroll_offset.y
            if not top <= row < top + self.size.height:
                self.scroll_to(y=max(0, row - 3), animate=False, force=True)
        self.refresh()
