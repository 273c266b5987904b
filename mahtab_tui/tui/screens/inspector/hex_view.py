"""Bytes, in hex and as characters."""

from __future__ import annotations

from collections import OrderedDict
from typing import ClassVar

from rich.segment import Segment
from textual.binding import Binding, BindingType
from textual.events import Resize
from textual.geometry import Size
from textual.strip import Strip

from mahtab_tui.bus.sanitize import plain
from mahtab_tui.tui.commands.inspector import TEXT_COMMANDS
from mahtab_tui.tui.commands.pane_command import bindings
from mahtab_tui.tui.screens.inspector.view import LineWanted, Place, ScrolledView

ROW = 16
"""Bytes of a row."""
BLOCK = 4096
_KEPT = 64


class HexView(ScrolledView):
    """Rows of sixteen bytes."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *(binding for binding in bindings(TEXT_COMMANDS) if binding.action not in ("wrap", "ask", "regex")),
        Binding("home", "scroll_home", "Beginning", show=False),
        Binding("end", "scroll_end", "End", show=False),
    ]

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self._blocks: OrderedDict[int, bytes] = OrderedDict()
        self._found: tuple[int, int] | None = None
        self._words = ""

    def look_again(self) -> None:
        self._blocks.clear()
        self._measure()

    def on_resize(self, event: Resize) -> None:
        self._measure()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        self._fetch()

    def _measure(self) -> None:
        self.virtual_size = Size(self.scrollable_content_region.width, max(1, -(-self.place.opened.size // ROW)))
        self._fetch()
        self.refresh()

    def _fetch(self) -> None:
        first = self.scroll_offset.y * ROW
        last = min(self.place.opened.size, first + self.size.height * ROW)
        wanted = [number for number in range(first // BLOCK, -(-last // BLOCK)) if number not in self._blocks]
        self.say((f"byte {first:,} of {self.place.opened.size:,}" + (f"  / {plain(self._words)}" if self._words else ""), "$muted"))
        if not wanted:
            return
        place = self.place

        def work() -> list[tuple[int, bytes]]:
            return [(number, place.look.data(place.path, number * BLOCK, (number + 1) * BLOCK)) for number in wanted]

        self.fetcher.ask("bytes", work, self._came, self.fail)

    def _came(self, found: list[tuple[int, bytes]]) -> None:
        self._blocks.update(found)
        while len(self._blocks) > _KEPT:
            self._blocks.popitem(last=False)
        self.refresh()

    def render_line(self, y: int) -> Strip:
        width, base, palette = self.scrollable_content_region.width, self.visual_style.rich_style, self.palette
        start = (self.scroll_offset.y + y) * ROW
        if start >= self.place.opened.size:
            return Strip([Segment(" It is empty." if start == 0 else "", base + palette.muted)]).crop_extend(0, width, base)
        block = self._blocks.get(start // BLOCK)
        segments = [Segment(f" {start:08x}  ", base + palette.muted)]
        if block is None:
            return Strip([*segments, Segment("·", base + palette.hairline)]).crop_extend(0, width, base)
        row = block[start % BLOCK : start % BLOCK + ROW]
        for place, byte in enumerate(row):
            found = self._found is not None and self._found[0] <= start + place < self._found[1]
            style = base + (palette.moon if found else palette.muted if byte == 0 else palette.text)
            segments.append(Segment(f"{byte:02x} " + (" " if place == ROW // 2 - 1 else ""), style))
        segments.append(Segment("   " * (ROW - len(row)) + ("  " if len(row) < ROW // 2 else " "), base))
        shown = "".join(chr(byte) if 32 <= byte < 127 else "·" for byte in row)
        return Strip([*segments, Segment(shown, base + palette.person)]).crop_extend(0, width, base)

    def action_search(self) -> None:
        self.post_message(LineWanted("search: a text, or 0x and digits of hex", self._words, self._search))

    def _search(self, words: str) -> None:
        self._words, self._found = words, None
        if words:
            self.action_next(False)
        self.refresh()

    def action_next(self, backwards: bool) -> None:
        if not self._words:
            return
        place, words = self.place, self._words
        at = self.scroll_offset.y * ROW if self._found is None else self._found[0] if backwards else self._found[1]
        self.fetcher.ask("find", lambda: place.look.find(place.path, words, at, backwards=backwards), self._show_found, self.fail)

    def _show_found(self, found: tuple[int, int] | None) -> None:
        self._found = found
        if found is None:
            self.fail("It is not among the bytes.")
        else:
            row, top = found[0] // ROW, self.scroll_offset.y
            if not top <= row < top + self.size.height:
                self.scroll_to(y=max(0, row - 3), animate=False, force=True)
        self.refresh()
