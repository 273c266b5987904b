"""Finds text in the input, and selects it."""

from __future__ import annotations

from textual.document._document import Location, Selection

from mahtab_tui.tui.panes.editor.code_area import CodeArea
from mahtab_tui.tui.patterns import Pattern


class AreaFinder:
    """Implements `widgets.find_row.Findable`."""

    def __init__(self, area: CodeArea) -> None:
        self._area = area
        self._begin = 0
        """Where the search continues, in characters from the start."""

    def begin_find(self) -> str:
        selected = self._area.selected_text
        self._begin = len(self._area.get_text_range((0, 0), min(self._area.selection)))
        return "" if "\n" in selected else selected

    def find(self, words: str, step: int, *, regex: bool) -> str:
        places: list[tuple[int, int]] = []
        if words:
            places = list(Pattern(words, regex=regex, any_case=True).spans(self._area.text))
        if not places:
            return "nothing found" if words else ""
        at = next((number for number, (start, _) in enumerate(places) if start >= self._begin), 0)
        at = (at + step) % len(places)
        start, end = places[at]
        self._begin = start
        self._area.selection = Selection(_location(self._area.text, start), _location(self._area.text, end))
        self._area.scroll_cursor_visible()
        return f"{at + 1} of {len(places)}"

    def end_find(self) -> None:
        self._area.focus()


def _location(text: str, place: int) -> Location:
    return text.count("\n", 0, place), place - text.rfind("\n", 0, place) - 1
