"""Search over everything that was entered, in all sessions."""

from __future__ import annotations

from typing import ClassVar, Protocol

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from mahtab_tui.bus.sanitize import plain
from mahtab_tui.store.history import HistoryEntry


class SearchableHistory(Protocol):
    """What the search needs of `store.history.History`."""

    def search(self, query: str, limit: int = 100) -> list[HistoryEntry]: ...


class HistorySearch(ModalScreen[HistoryEntry | None]):
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

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog large"):
            yield Static("History · typing searches · Enter takes it · Esc leaves all as it is", classes="quiet", markup=False)
            yield Input(placeholder="search", compact=True)
            options = OptionList(id="found", compact=True, markup=False)
            options.can_focus = False
            yield options
            with VerticalScroll(id="whole", can_focus=False):
                yield Static("", id="whole-text", markup=False)

    def on_mount(self) -> None:
        self._search("")

    @on(Input.Changed)
    def _changed(self, event: Input.Changed) -> None:
        self._search(event.value)

    @on(Input.Submitted)
    def _submitted(self) -> None:
        place = self.query_one(OptionList).highlighted
        self.dismiss(self._found[place] if place is not None else None)

    @on(OptionList.OptionSelected)
    def _clicked(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(self._found[event.option_index])

    @on(OptionList.OptionHighlighted)
    def _highlighted(self, event: OptionList.OptionHighlighted) -> None:
        self.query_one("#whole-text", Static).update(Content(plain(self._found[event.option_index].text)))

    def action_move(self, step: int) -> None:
        options = self.query_one(OptionList)
        if self._found:
            options.highlighted = ((options.highlighted or 0) + step) % len(self._found)

    def action_leave(self) -> None:
        self.dismiss(None)

    def _search(self, query: str) -> None:
        self._found = self._history.search(query)
        options = self.query_one(OptionList)
        options.clear_options()
        options.add_options(Option(_line(entry)) for entry in self._found)
        self.query_one("#whole-text", Static).update(Content("" if self._found else "Nothing found."))
        options.highlighted = 0 if self._found else None


def _line(entry: HistoryEntry) -> Content:
    first, _, more = plain(entry.text).partition("\n")
    glyph, colour = ("◈", "$model") if entry.mode == "ask" else ("❯", "$person")
    return Content.assemble((glyph, colour), " ", first + (" …" if more else ""))
