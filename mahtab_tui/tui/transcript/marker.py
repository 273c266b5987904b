"""Which entry of the transcript is marked, and where the mark moves."""

from __future__ import annotations

from mahtab_tui.bus.entries import AnswerText, Cell, Entry, Question, ToolUse
from mahtab_tui.tui.transcript.entry_window import RowPosition
from mahtab_tui.tui.transcript.viewport import Viewport


def can_be_marked(entry: Entry) -> bool:
    """Return whether keys can act on an entry."""
    return not entry.hidden and isinstance(entry, Cell | AnswerText | Question | ToolUse)


class Marker:
    """Which entry is marked, and moves the mark."""

    def __init__(self, viewport: Viewport) -> None:
        """Begin without a marked entry."""
        self._viewport = viewport
        self.entry: Entry | None = None
        """The marked entry; None until one is asked for."""

    @property
    def marked(self) -> Entry | None:
        """The marked entry; if there is none, the last visible one becomes it."""
        if self.entry is None:
            for entry in reversed(self._viewport.entries()):
                if can_be_marked(entry):
                    self.entry = entry
                    break
        return self.entry

    def keep_visible(self) -> bool:
        """Move the mark after scrolling; return whether it moved."""
        visible = [entry for entry in self._viewport.entries() if can_be_marked(entry)]
        if self.entry is None or self.entry in visible or not visible:
            return False
        # Scrolling down moves the mark to the first visible entry, scrolling up to the last one.
        is_above = self._position(self.entry) < self._position(visible[0])
        is_at_start = self._viewport.top == RowPosition(0, 0)
        takes_first = not self._viewport.following and (is_above or is_at_start)
        self.entry = visible[0] if takes_first else visible[-1]
        return True

    def next(self, entry: Entry, step: int) -> Entry | None:
        """Return the next entry that can be marked, below (1) or above (-1); None at the end."""
        entries = self._viewport.transcript.entries
        index = self._position(entry) + step
        while 0 <= index < len(entries) and not can_be_marked(entries[index]):
            index += step
        if 0 <= index < len(entries):
            return entries[index]
        return None

    def scrolls_within(self, entry: Entry, step: int) -> bool:
        """Return whether an entry is higher than the view, and goes on in the direction of `step`."""
        top, end = self._viewport.span(entry)
        view_top = self._viewport.first_row
        view_height = self._viewport.page_height
        if end - top <= view_height:
            return False
        if step > 0:
            return end > view_top + view_height
        return top < view_top

    def mark(self, entry: Entry) -> int | None:
        """Mark an entry; return the row to scroll to, None if all of the entry is visible."""
        moves_down = self.entry is None or self._position(entry) > self._position(self.entry)
        self.entry = entry
        top, end = self._viewport.span(entry)
        view_top = self._viewport.first_row
        view_height = self._viewport.page_height
        if view_top <= top and end <= view_top + view_height:
            return None
        # An entry that fits is shown at the side from which it comes; a higher one from the side at
        # which reading it begins.
        fits = end - top <= view_height
        if fits == moves_down:
            return end - view_height
        return top

    def _position(self, entry: Entry) -> int:
        return self._viewport.transcript.positions[entry]
