"""Search over everything that was entered, in all sessions."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import ClassVar, Protocol

from textual import work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.content import Content

from mahtab_tui.bus.sanitize import plain
from mahtab_tui.store.history import HistoryEntry
from mahtab_tui.tui.panes.editor.code_area import CodeArea
from mahtab_tui.tui.panes.editor.pasting import clean
from mahtab_tui.tui.screens.listing import Listing
from mahtab_tui.tui.textual_fixes.options import Options
from mahtab_tui.tui.widgets.line import Line

PAUSE = 0.05
"""Seconds without a key after which a search begins: while somebody types fast, only the last one is made."""


class SearchableHistory(Protocol):
    """What the search needs of `store.history.History`."""

    def search(self, query: str, limit: int = 100) -> list[HistoryEntry]: ...


class HistorySearch(Listing[HistoryEntry, HistoryEntry | None]):
    """The entry that was chosen, or None after Escape."""

    TITLE = "History"
    HINT = "Enter takes it into the editor · ↑ ↓ choose · Esc leaves all as it is"
    PLACEHOLDER = "type to search"
    BINDINGS: ClassVar[list[BindingType]] = [("ctrl+r", "move(-1)", "Up")]

    def __init__(self, history: SearchableHistory) -> None:
        super().__init__()
        self._history = history
        self._found: list[HistoryEntry] = []
        self._found_for: str | None = None
        """The query whose entries are shown."""

    def body(self, found: Options) -> ComposeResult:
        yield found
        whole = CodeArea(id="whole")
        whole.can_focus = False
        whole.read_only = True
        yield whole

    def on_mount(self) -> None:
        self.find()

    @property
    def wanted(self) -> str:
        return self.query_one(Line).value

    def find(self) -> None:
        self._search()

    @work(exclusive=True)
    async def _search(self) -> None:
        await asyncio.sleep(PAUSE)
        await self._find(self.wanted)

    async def _find(self, query: str) -> None:
        """Search on a thread, and show what was found."""
        found = await asyncio.to_thread(self._history.search, query)
        if not self.is_current:  # it was left meanwhile, and what it would show this in is going
            return
        self._found, self._found_for = found, query
        self.fill(0)
        self.count(f"{len(found)} found" if found else "nothing found")

    def rows(self, wanted: str) -> Sequence[HistoryEntry]:
        return self._found

    def line(self, row: HistoryEntry, width: int) -> Content:
        """An entry on one line: its mode, its first line with what was searched for, how many lines more there are."""
        query = self._found_for or ""
        first, *more = plain(row.text).expandtabs(4).split("\n")
        text = Content(first)
        place = first.lower().find(query.lower())
        if query and place >= 0:
            text = text.stylize("$moon bold", place, place + len(query))
        glyph = ("◈", "$model") if row.mode == "ask" else ("❯", "$person")
        return Content.assemble(glyph, " ", text, ("" if not more else f"  +{len(more)} line{'s' * (len(more) > 1)}", "$muted"))

    def tell(self, row: HistoryEntry | None) -> None:
        whole = self.query_one("#whole", CodeArea)
        whole.python = row is None or row.mode == "python"
        whole.load_text(clean(row.text) if row else "")

    def _take(self) -> None:
        self._take_found()

    @work
    async def _take_found(self) -> None:
        if self._found_for != self.wanted:
            await self._find(self.wanted)
        if self.is_current and (row := self.chosen) is not None:
            self.dismiss(row)
