"""A search over the inputs of all sessions."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import ClassVar

from textual import work
from textual.binding import BindingType
from textual.content import Content

from mahtab_tui.bus.sanitize import plain
from mahtab_tui.store.history import History, HistoryEntry
from mahtab_tui.tui.panes.editor.code_area import CodeArea
from mahtab_tui.tui.panes.editor.pasting import clean
from mahtab_tui.tui.screens.listing import Listing, ListScreen

PAUSE = 0.05
"""Seconds without a key after which a search begins, so that fast typing causes one search only."""


class HistorySearch(ListScreen[HistoryEntry | None, HistoryEntry]):
    """Returns the chosen entry, or None after Escape."""

    BINDINGS: ClassVar[list[BindingType]] = [("ctrl+r", "previous", "Up")]

    def __init__(self, history: History) -> None:
        super().__init__()
        self._whole = CodeArea(id="whole")
        self._whole.can_focus = False
        self._whole.read_only = True
        hint = "Enter edits it · ↑ ↓ choose · Esc cancels"
        self.listing = Listing(self, "History", hint, "type to search", below=self._whole)
        self._history = history
        self._found: list[HistoryEntry] = []
        self._found_for: str | None = None
        """The query that the shown entries match."""

    def on_mount(self) -> None:
        self.find()

    @work(exclusive=True)
    async def find(self) -> None:
        await asyncio.sleep(PAUSE)
        await self._find(self.listing.typed)

    async def _find(self, query: str) -> None:
        found = await asyncio.to_thread(self._history.search, query)
        if not self.is_current:  # the user left while it searched
            return
        self._found, self._found_for = found, query
        self.listing.fill(0)
        self.listing.count(f"{len(found)} found" if found else "nothing found")

    def rows(self, typed: str) -> Sequence[HistoryEntry]:
        return self._found

    def line(self, row: HistoryEntry, width: int) -> Content:
        """Show an entry's mode, its first line with the query highlighted, and how many more lines
        it has."""
        query = self._found_for or ""
        first, *more = plain(row.text).expandtabs(4).split("\n")
        text = Content(first)
        place = first.lower().find(query.lower())
        if query and place >= 0:
            text = text.stylize("$moon bold", place, place + len(query))
        glyph = ("◈", "$model") if row.mode == "ask" else ("❯", "$person")
        return Content.assemble(
            glyph,
            " ",
            text,
            ("" if not more else f"  +{len(more)} line{'s' * (len(more) > 1)}", "$muted"),
        )

    def describe(self, row: HistoryEntry | None) -> Content:
        self._whole.python = row is None or row.mode == "python"
        self._whole.load_text(clean(row.text) if row else "")
        return Content("")

    def action_previous(self) -> None:
        self.listing.action_move(-1)

    @work
    async def take(self) -> None:
        if self._found_for != self.listing.typed:
            await self._find(self.listing.typed)
        if self.is_current and (row := self.listing.chosen) is not None:
            self.dismiss(row)
