"""The transcript searched: what `FindRow` asks of it."""

from __future__ import annotations

from mahtab_tui.tui.panes.transcript.finding import Found, Texts, place_of, row_of
from mahtab_tui.tui.panes.transcript.marking import MarkedView, can_be_marked
from mahtab_tui.tui.panes.transcript.window import Place
from mahtab_tui.tui.patterns import Pattern, TooSlow


class SearchedView(MarkedView, can_focus=True):
    """Marks the entry in which the words stand."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._found: Found | None = None
        self._texts = Texts()

    def clear(self) -> None:
        self._found, self._texts = None, Texts()
        super().clear()

    def begin_find(self) -> str:
        self._found, self._finding = None, True
        return ""

    def find(self, words: str, step: int, *, regex: bool) -> str:
        self.sought = None
        self.refresh()
        pattern = Pattern(words, regex=regex, any_case=True) if words else None
        counts = [] if pattern is None else self._counts(words, pattern, regex=regex)
        self.sought, total = pattern, sum(counts)
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
        try:
            place = row_of(found, self._window, self.sought)
        except TooSlow:  # a row ends otherwise than the text that was searched
            place, self.sought = Place(found.entry, 0), None
        row = self._window.row_of(place)
        if not self.scroll_offset.y <= row < self.scroll_offset.y + self._page:
            self.scroll_to(y=max(0, row - self._page // 2), animate=False, immediate=True)
        self.refresh()
        return f"{at + 1:,} of {total:,}"

    def _counts(self, words: str, pattern: Pattern, *, regex: bool) -> list[int]:
        """How many places there are in each entry. Raises `TooSlow`."""
        entries = self._transcript.entries
        return self._texts.matches(entries, pattern) if regex else self._texts.counts(entries, words)

    def end_find(self) -> None:
        self._finding = False
        self.focus()
