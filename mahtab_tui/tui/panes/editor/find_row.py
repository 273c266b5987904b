"""Finding a text in the input."""

from __future__ import annotations

import re
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.content import Content
from textual.document._document import Location, Selection
from textual.widgets import Input, Static

from mahtab_tui.tui.panes.editor.code_area import CodeArea
from mahtab_tui.tui.widgets.line import Line


class FindRow(Horizontal):
    """A line to search with; what is found is selected in the area. Escape leaves it selected."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "close", "Close", show=False),
        Binding("down,ctrl+f", "step(1)", "Next", show=False),
        Binding("up", "step(-1)", "Previous", show=False),
    ]

    def __init__(self, area: CodeArea) -> None:
        super().__init__()
        self.display = False
        self._area = area
        self._begin = 0
        """Where the search begins: at the cursor as it was when the row was opened, in characters."""

    def compose(self) -> ComposeResult:
        yield Static("Find", id="find-title", markup=False)
        yield Line(compact=True, id="find-line")
        yield Static(id="find-count", markup=False)

    def open(self) -> None:
        """Search from the cursor on; what is selected is searched for."""
        line = self.query_one(Line)
        selected = self._area.selected_text
        self._begin = len(self._area.get_text_range((0, 0), min(self._area.selection)))
        if selected and "\n" not in selected:
            line.value = selected
        self.display = True
        line.focus()
        line.select_all()
        self._select(0)

    def action_close(self) -> None:
        self.display = False
        self._area.focus()

    def action_step(self, step: int) -> None:
        """Go to the next (1) or the previous (-1) place."""
        self._select(step)

    @on(Input.Changed)
    def _changed(self, event: Input.Changed) -> None:
        event.stop()
        self._select(0)

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self._select(1)

    def _select(self, step: int) -> None:
        wanted, text = self.query_one(Line).value, self._area.text
        places = [found.span() for found in re.finditer(re.escape(wanted), text, re.IGNORECASE)] if wanted else []
        count = self.query_one("#find-count", Static)
        if not places:
            count.update(Content("nothing found" if wanted else ""))
            return
        at = next((number for number, (start, _) in enumerate(places) if start >= self._begin), 0)
        at = (at + step) % len(places)
        start, end = places[at]
        self._begin = start
        self._area.selection = Selection(_location(text, start), _location(text, end))
        self._area.scroll_cursor_visible()
        count.update(Content(f"{at + 1} of {len(places)}"))


def _location(text: str, place: int) -> Location:
    return text.count("\n", 0, place), place - text.rfind("\n", 0, place) - 1
