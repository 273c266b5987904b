"""The transcript searched: what `FindRow` asks of it."""

from __future__ import annotations

from mahtab_tui.tui.panes.transcript.finding import Found, Texts, pattern_of, place_of, row_of
from mahtab_tui.tui.panes.transcript.marking import MarkedView, can_be_marked


class SearchedView(MarkedView, can_focus=True):
    """Marks the entry in which the words stand."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._found: Found | None = None
        self._words = ""
        self._texts = Texts()

    def clear(self) -> None:
        self._found, self._texts = None, Texts()
        super().clear()

    def find_again(self, step: int) -> bool:
        """Go to the next place (1) or the one before (-1) of what was searched for; False where nothing was."""
        if self._words:
            self.find(self._words, step)
        return bool(self._words)

    def begin_find(self) -> str:
        self._found, self._finding = None, True
        return ""

    def find(self, words: str, step: int) -> str:
        self._words, self.sought = words, pattern_of(words) if words else None
        counts = self._texts.counts(self._transcript.entries, words) if words else []
        total = sum(counts)
        if not total or self._window is None or self.sought is None:
            self.refresh()
            return "nothing found" if words else ""
        # The newest first: it is what stands at the end that one looks for.
        at, found = total - 1, self._found
        if found is not None:
            if found.number < counts[found.entry]:
                at = sum(counts[: found.entry]) + found.number
            at = (at + step) % total
        self._found = found = place_of(at, counts)
        entry = self._transcript.entries[found.entry]
        self._mark = entry if can_be_marked(entry) else self._mark
        row = self._window.row_of(row_of(found, self._window, self.sought))
        if not self.scroll_offset.y <= row < self.scroll_offset.y + self._page:
            self.scroll_to(y=max(0, row - self._page // 2), animate=False, immediate=True)
        self.refresh()
        return f"{at + 1:,} of {total:,}"

    def end_find(self) -> None:
        self._finding = False
        self.focus()
