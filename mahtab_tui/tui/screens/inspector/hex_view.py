"""Bytes, in hex and as characters."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import Binding, BindingType

from mahtab_tui.bus.sanitize import plain
from mahtab_tui.tui.commands.inspector import TEXT_COMMANDS
from mahtab_tui.tui.commands.pane_command import bindings
from mahtab_tui.tui.rows.rows_view import RowsView
from mahtab_tui.tui.screens.inspector.hex_rows import BLOCK, ROW, HexRows
from mahtab_tui.tui.screens.inspector.view import Subject, View


class HexView(View, RowsView, can_focus=True):
    """Scrolls over the bytes, and searches them."""

    margin = 0

    BINDINGS: ClassVar[list[BindingType]] = [
        *(binding for binding in bindings(TEXT_COMMANDS) if binding.action not in ("wrap", "ask", "regex")),
        Binding("home", "scroll_home", "Beginning", show=False),
        Binding("end", "scroll_end", "End", show=False),
    ]

    def __init__(self, subject: Subject) -> None:
        self._bytes = HexRows(subject.opened.size)
        super().__init__(subject, source=self._bytes)
        self._words = ""

    def reload(self) -> None:
        self._bytes.blocks.clear()
        self.look()

    def look(self) -> None:
        self._bytes.size = self.subject.opened.size
        super().look()
        self._fetch()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        self._fetch()

    def _fetch(self) -> None:
        subject, first = self.subject, self.scroll_offset.y
        self.say((f"byte {first * ROW:,} of {self._bytes.size:,}" + (f"  / {plain(self._words)}" if self._words else ""), "$muted"))
        wanted = self._bytes.missing(first, self.size.height)
        if not wanted:
            return

        def work() -> list[tuple[int, bytes]]:
            return [(number, subject.look.data(subject.path, number * BLOCK, (number + 1) * BLOCK)) for number in wanted]

        self.fetcher.ask("bytes", work, self._take, self.fail)

    def _take(self, blocks: list[tuple[int, bytes]]) -> None:
        self._bytes.take(blocks)
        self.refresh()

    def action_search(self) -> None:
        self.ask("search: a text, or 0x and digits of hex", self._words, self._search)

    def _search(self, words: str) -> None:
        self._words, self._bytes.found = words, None
        if words:
            self.action_next(False)
        self.refresh()

    def action_next(self, backwards: bool) -> None:
        if not self._words:
            return
        subject, words, found = self.subject, self._words, self._bytes.found
        at = self.scroll_offset.y * ROW if found is None else found[0] if backwards else found[1]
        self.fetcher.ask("find", lambda: subject.look.find(subject.path, words, at, backwards=backwards), self._show_found, self.fail)

    def _show_found(self, found: tuple[int, int] | None) -> None:
        self._bytes.found = found
        if found is None:
            self.fail("Not found among the bytes.")
        else:
            row, top = found[0] // ROW, self.scroll_offset.y
            if not top <= row < top + self.size.height:
                self.scroll_to(y=max(0, row - 3), animate=False, force=True)
        self.refresh()
