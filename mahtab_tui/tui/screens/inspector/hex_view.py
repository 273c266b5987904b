"""Bytes as rows of sixteen, in hex and as characters."""

from __future__ import annotations

from collections import OrderedDict
from typing import ClassVar

from textual.binding import Binding, BindingType

from mahtab_tui.bus.sanitize import plain
from mahtab_tui.tui.commands.on_screens import TEXT_COMMANDS
from mahtab_tui.tui.commands.pane_command import bindings
from mahtab_tui.tui.rows.palette import Palette
from mahtab_tui.tui.rows.row import Row, Span
from mahtab_tui.tui.rows.rows_view import RowsView
from mahtab_tui.tui.screens.inspector.view import Subject, View

ROW = 16
"""Bytes of a row."""
BLOCK = 4096
_KEPT = 64


class HexRows:
    """A `RowSource` of the blocks that were fetched."""

    def __init__(self, size: int) -> None:
        self.size = size
        """Bytes."""
        self.blocks: OrderedDict[int, bytes] = OrderedDict()
        self.found: tuple[int, int] | None = None
        """The bytes that a search found."""

    def lay_out(self, width: int, palette: Palette) -> None:
        self._palette = palette

    def __len__(self) -> int:
        return max(1, -(-self.size // ROW))

    def __getitem__(self, index: int) -> Row:
        palette, start = self._palette, index * ROW
        if start >= self.size:
            return Row([(" It is empty.", palette.muted)])
        spans: list[Span] = [(f" {start:08x}  ", palette.muted)]
        block = self.blocks.get(start // BLOCK)
        if block is None:
            return Row([*spans, ("·", palette.hairline)])
        row = block[start % BLOCK : start % BLOCK + ROW]
        for place, byte in enumerate(row):
            found = self.found is not None and self.found[0] <= start + place < self.found[1]
            style = palette.moon if found else palette.muted if byte == 0 else palette.text
            spans.append((f"{byte:02x} " + (" " if place == ROW // 2 - 1 else ""), style))
        spans.append(("   " * (ROW - len(row)) + ("  " if len(row) < ROW // 2 else " "), palette.text))
        return Row([*spans, ("".join(chr(byte) if 32 <= byte < 127 else "·" for byte in row), palette.person)])

    def missing(self, first: int, rows: int) -> list[int]:
        """The numbers of the blocks that some rows need and that are not here."""
        last = min(self.size, (first + rows) * ROW)
        return [number for number in range(first * ROW // BLOCK, -(-last // BLOCK)) if number not in self.blocks]

    def take(self, blocks: list[tuple[int, bytes]]) -> None:
        self.blocks.update(blocks)
        while len(self.blocks) > _KEPT:
            self.blocks.popitem(last=False)


class HexView(View, RowsView, can_focus=True):
    """Scrolls over the bytes, and searches them."""

    margin = 0

    BINDINGS: ClassVar[list[BindingType]] = [
        *bindings(each for each in TEXT_COMMANDS if each.action not in ("wrap", "ask", "regex")),
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
        self.ask("a text, or 0x and digits of hex", self._words, self._search, "search:")

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
