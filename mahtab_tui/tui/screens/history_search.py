"""The search in the inputs of all sessions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import ClassVar

from textual.binding import BindingType
from textual.content import Content

from mahtab_tui.bus.sanitize import plain
from mahtab_tui.bus.typed_text import clean
from mahtab_tui.store.input_history import History, HistoryEntry
from mahtab_tui.tui.editor.code_area import CodeArea
from mahtab_tui.tui.screens.listing import SearchScreen


class HistorySearch(SearchScreen[HistoryEntry | None, HistoryEntry, Sequence[HistoryEntry]]):
    """Searches the inputs of all sessions.

    The types are those of the screen's result (None if the user leaves), of a row, and of what a
    search returns.
    """

    BINDINGS: ClassVar[list[BindingType]] = [("ctrl+r", "move(-1)", "Up")]

    heading_text = "History"
    hint = "Enter edits it · ↑ ↓ choose · Esc cancels"
    placeholder = "type to search"

    def __init__(self, history: History) -> None:
        super().__init__()
        self._full_text = CodeArea(id="whole")
        self.below = self._full_text
        self._full_text.can_focus = False
        self._full_text.read_only = True
        self._history = history

    def on_mount(self) -> None:
        self.find()

    def search(self, query: str) -> list[HistoryEntry]:
        return self._history.search(query)

    def show_results(self, results: Sequence[HistoryEntry], cursor: int | None) -> None:
        self.hits = results
        self.fill(cursor)
        self.show_count(f"{len(results):,} found" if results else "nothing found")

    def line(self, row: HistoryEntry, width: int) -> Content:
        """Show the first line of an input, with the query highlighted."""
        query = self.typed
        first_line, *other_lines = plain(row.text).expandtabs(4).split("\n")
        text = Content(first_line)
        match = re.search(re.escape(query), first_line, re.IGNORECASE)
        if query and match is not None:
            text = text.stylize("$highlight bold", *match.span())

        styled_glyph = ("◈", "$model") if row.mode == "ask" else ("❯", "$person")
        count = ""
        if other_lines:
            plural = "s" if len(other_lines) > 1 else ""
            count = f"  +{len(other_lines):,} line{plural}"
        return Content.assemble(styled_glyph, " ", text, (count, "$muted"))

    def describe(self, row: HistoryEntry | None) -> Content:
        """Show the whole input in the widget below the list, which is not one for the returned text."""
        self._full_text.python = row is None or row.mode == "python"
        self._full_text.load_text(clean(row.text) if row else "")
        return Content("")
