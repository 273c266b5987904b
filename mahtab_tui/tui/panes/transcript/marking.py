"""The transcript with one entry marked, which is walked from one to the next."""

from __future__ import annotations

from mahtab_tui.tui.panes.transcript.entries import Cell, Entry, Question, ToolUse, Words
from mahtab_tui.tui.panes.transcript.placing import TITLE_HEIGHT
from mahtab_tui.tui.panes.transcript.view import TranscriptView
from mahtab_tui.tui.panes.transcript.window import Place


class MarkedView(TranscriptView, can_focus=True):
    """Marked is the last entry that is seen, until the person walks to another; what is scrolled away gives the mark to what is seen."""

    @property
    def marked(self) -> Entry | None:
        """The entry that keys act on; None in an empty transcript."""
        if self._mark is None:
            self._mark = next((entry for entry in reversed(self._seen()) if can_be_marked(entry)), None)
        return self._mark

    def on_focus(self) -> None:
        self.marked  # noqa: B018 (it is to be seen)

    def action_walk(self, step: int) -> None:
        """To the next entry (1) or the one before (-1); through one that is longer than the page, line by line."""
        marked = self.marked
        if marked is None:
            return
        if self._scrolls_within(marked, step):
            self.scroll_to(y=self.scroll_y + step, animate=False, immediate=True)
            return
        entries = self._transcript.entries
        place = self._transcript.position(marked) + step
        while 0 <= place < len(entries) and not can_be_marked(entries[place]):
            place += step
        if 0 <= place < len(entries):
            self._mark_and_show(entries[place])
        elif step > 0:
            self.action_scroll_end()

    def mark_next_pinned(self) -> bool:
        """Mark the next of the pinned entries, where it stands; False where none is pinned."""
        pinned = [entry for entry in self._transcript.pinned if can_be_marked(entry)]
        if pinned:
            at = pinned.index(self._mark) + 1 if self._mark in pinned else 0
            self._mark_and_show(pinned[at % len(pinned)])
        return bool(pinned)

    def _place(self) -> None:
        super()._place()
        seen = [entry for entry in self._seen() if can_be_marked(entry)]
        if self._mark is not None and self._mark not in seen and seen:
            above = self._transcript.position(self._mark) < self._transcript.position(seen[0])
            first = not self._following and (above or self._top == Place(0, 0))
            self._mark = seen[0] if first else seen[-1]
            self.refresh()

    def _seen(self) -> list[Entry]:
        """The entries of which a row is on the screen, in order."""
        if self._window is None:
            return []
        entries = self._transcript.entries
        first = self._window.place_of(self.scroll_offset.y).entry
        last = self._window.place_of(self.scroll_offset.y + self._page - 1).entry
        return entries[first : last + 1]

    def _entry_at(self, y: int) -> Entry | None:
        if self._window is None or y < TITLE_HEIGHT:
            return None
        if y < self._head:
            return self._pinned[y - TITLE_HEIGHT].entry
        place = self._window.place_of(self.scroll_offset.y + y - self._head)
        return self._transcript.entries[place.entry] if place.entry < len(self._transcript.entries) else None

    def _span(self, entry: Entry) -> tuple[int, int]:
        """Its first row and the one after its last, without the gap."""
        assert self._window is not None
        position = self._transcript.position(entry)
        height = len(self._window.rows(position))
        top = self._window.row_of(Place(position, 0))
        return top + entry.gap, top + height

    def _scrolls_within(self, entry: Entry, step: int) -> bool:
        """Whether more of a long entry is to be seen in this direction."""
        top, end = self._span(entry)
        if end - top <= self._page:
            return False
        return end > self.scroll_offset.y + self._page if step > 0 else top < self.scroll_offset.y

    def _mark_and_show(self, entry: Entry) -> None:
        down = self._mark is None or self._transcript.position(entry) > self._transcript.position(self._mark)
        self._mark = entry
        top, end = self._span(entry)
        first, page = self.scroll_offset.y, self._page
        if top < first or end > first + page:
            fits = end - top <= page
            self.scroll_to(y=end - page if fits == down else top, animate=False, immediate=True)
        self.refresh()


def can_be_marked(entry: Entry) -> bool:
    return not entry.hidden and isinstance(entry, Cell | Words | Question | ToolUse)
