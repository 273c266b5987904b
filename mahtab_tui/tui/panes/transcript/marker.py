"""The marked entry of the transcript, on which keys act."""

from __future__ import annotations

from mahtab_tui.tui.panes.transcript.entries import Cell, Entry, Question, ToolUse, Words
from mahtab_tui.tui.panes.transcript.viewport import Viewport
from mahtab_tui.tui.panes.transcript.window import RowPosition


class Marker:
    """Marks the last visible entry until the user moves the mark. When the marked entry is scrolled
    away, a visible one is marked instead."""

    def __init__(self, viewport: Viewport) -> None:
        self._viewport = viewport
        self.entry: Entry | None = None
        """The marked entry; None until it is first needed."""

    @property
    def marked(self) -> Entry | None:
        """The entry on which keys act; None in an empty transcript."""
        if self.entry is None:
            self.entry = next(
                (entry for entry in reversed(self._viewport.entries()) if can_be_marked(entry)),
                None,
            )
        return self.entry

    def stay_in_sight(self) -> bool:
        """Move the mark to a visible entry after scrolling; returns whether it moved."""
        seen = [entry for entry in self._viewport.entries() if can_be_marked(entry)]
        if self.entry is None or self.entry in seen or not seen:
            return False
        above = self._position(self.entry) < self._position(seen[0])
        first = not self._viewport.following and (above or self._viewport.top == RowPosition(0, 0))
        self.entry = seen[0] if first else seen[-1]
        return True

    def next(self, entry: Entry, step: int) -> Entry | None:
        """Return the next entry that can be marked (1), or the previous one (-1)."""
        entries = self._viewport.transcript.entries
        place = self._position(entry) + step
        while 0 <= place < len(entries) and not can_be_marked(entries[place]):
            place += step
        return entries[place] if 0 <= place < len(entries) else None

    def next_pinned(self) -> Entry | None:
        """Return the pinned entry after the marked one, or the first one."""
        pinned = [entry for entry in self._viewport.transcript.pinned if can_be_marked(entry)]
        at = pinned.index(self.entry) + 1 if self.entry in pinned else 0
        return pinned[at % len(pinned)] if pinned else None

    def scrolls_within(self, entry: Entry, step: int) -> bool:
        """Return whether a long entry has more rows in this direction."""
        top, end = self._viewport.span(entry)
        first, page = self._viewport.first, self._viewport.page
        return end - top > page and (end > first + page if step > 0 else top < first)

    def mark(self, entry: Entry) -> int | None:
        """Mark an entry; returns the row to scroll to, or None if it is fully visible."""
        down = self.entry is None or self._position(entry) > self._position(self.entry)
        self.entry = entry
        top, end = self._viewport.span(entry)
        first, page = self._viewport.first, self._viewport.page
        if first <= top and end <= first + page:
            return None
        return end - page if (end - top <= page) == down else top

    def _position(self, entry: Entry) -> int:
        return self._viewport.transcript.positions[entry]


def can_be_marked(entry: Entry) -> bool:
    return not entry.hidden and isinstance(entry, Cell | Words | Question | ToolUse)
