"""Search over everything that was entered, in all sessions."""

from __future__ import annotations

import asyncio
from typing import ClassVar, Protocol

from textual import on, work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from mahtab_tui.bus.sanitize import plain
from mahtab_tui.store.history import HistoryEntry
from mahtab_tui.tui.panes.editor.code_area import CodeArea
from mahtab_tui.tui.panes.editor.pasting import clean
from mahtab_tui.tui.screens.dialog import Dialog
from mahtab_tui.tui.textual_fixes.options import Options
from mahtab_tui.tui.widgets.line import Line

PAUSE = 0.05
"""Seconds without a key after which a search begins: while somebody types fast, only the last one is made."""


class SearchableHistory(Protocol):
    """What the search needs of `store.history.History`."""

    def search(self, query: str, limit: int = 100) -> list[HistoryEntry]: ...


class HistorySearch(Dialog[HistoryEntry | None]):
    """The entry that was chosen, or None after Escape."""

    BINDINGS: ClassVar[list[BindingType]] = [
        ("escape", "leave", "Leave"),
        ("down,ctrl+n", "move(1)", "Down"),
        ("up,ctrl+p,ctrl+r", "move(-1)", "Up"),
    ]

    def __init__(self, history: SearchableHistory) -> None:
        super().__init__()
        self._history = history
        self._found: list[HistoryEntry] = []
        self._found_for: str | None = None
        """The query whose entries are shown."""

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog large"):
            with Horizontal(id="search-title"):
                yield Static("History", markup=False)
                yield Static(id="count", markup=False)
            yield Line(placeholder="type to search", compact=True, id="query")
            found = Options(id="found", compact=True, markup=False)
            found.can_focus = False
            yield found
            whole = CodeArea(id="whole")
            whole.can_focus = False
            whole.read_only = True
            yield whole
            yield Static("Enter takes it into the editor · ↑ ↓ choose · Esc leaves all as it is", id="search-hint", markup=False)

    def on_mount(self) -> None:
        self._search("")

    @on(Input.Changed)
    def _changed(self, event: Input.Changed) -> None:
        event.stop()
        self._search(event.value)

    @on(Input.Submitted)
    async def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        if self._found_for != event.value:
            await self._find(event.value)
        self._take(self.query_one(OptionList).highlighted)

    @on(OptionList.OptionSelected)
    def _clicked(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        self._take(self.query_one(OptionList).highlighted)

    @on(OptionList.OptionHighlighted)
    def _highlighted(self, event: OptionList.OptionHighlighted) -> None:
        event.stop()
        # Not the event's own row: what it was of may have gone meanwhile.
        place = self.query_one(OptionList).highlighted
        self._preview(None if place is None else self._found[place])

    def action_move(self, step: int) -> None:
        found = self.query_one(OptionList)
        if self._found:
            found.highlighted = ((found.highlighted or 0) + step) % len(self._found)

    def action_leave(self) -> None:
        self.dismiss(None)

    def _take(self, place: int | None) -> None:
        if place is not None:
            self.dismiss(self._found[place])

    @work(exclusive=True)
    async def _search(self, query: str) -> None:
        await asyncio.sleep(PAUSE)
        await self._find(query)

    async def _find(self, query: str) -> None:
        """Search on a thread, and show what was found."""
        found = await asyncio.to_thread(self._history.search, query)
        if not self.is_current:  # it was left meanwhile, and what it would show this in is going
            return
        self._found, self._found_for = found, query
        options = self.query_one(OptionList)
        options.set_options(Option(_line(entry, query)) for entry in self._found)
        options.highlighted = 0 if self._found else None
        self.query_one("#count", Static).update(Content(f"{len(self._found)} found" if self._found else "nothing found"))
        self._preview(self._found[0] if self._found else None)

    def _preview(self, entry: HistoryEntry | None) -> None:
        whole = self.query_one("#whole", CodeArea)
        whole.python = entry is None or entry.mode == "python"
        whole.load_text(clean(entry.text) if entry else "")


def _line(entry: HistoryEntry, query: str) -> Content:
    """An entry on one line: its mode, its first line with what was searched for, how many lines more there are."""
    first, *more = plain(entry.text).expandtabs(4).split("\n")
    text = Content(first)
    place = first.lower().find(query.lower())
    if query and place >= 0:
        text = text.stylize("$moon bold", place, place + len(query))
    glyph = ("◈", "$model") if entry.mode == "ask" else ("❯", "$person")
    return Content.assemble(glyph, " ", text, ("" if not more else f"  +{len(more)} line{'s' * (len(more) > 1)}", "$muted"))
