"""An editor for the query of a call, to run the call again."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.document._document import Selection
from textual.widgets import Static

from mahtab_tui.tui.panes.editor.code_area import CodeArea
from mahtab_tui.tui.screens.dialog import Dialog


class EditQuery(Dialog[str | None]):
    """Returns the new query, or None after Escape."""

    AUTO_FOCUS = "#query-again"
    BINDINGS: ClassVar[list[BindingType]] = [("escape", "leave", "Leave")]

    def __init__(self, query: str) -> None:
        super().__init__()
        self._text = query

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog large"):
            yield Static("Run this call again with the query", markup=False)
            area = CodeArea(self._text, id="query-again")
            area.python = False
            area.selection = Selection.cursor(area.document.end)
            yield area
            yield Static(
                "Enter runs it · Ctrl+J new line · Esc cancels", classes="quiet", markup=False
            )

    @on(CodeArea.Submitted)
    def _submitted(self, event: CodeArea.Submitted) -> None:
        event.stop()
        self.dismiss(event.text.strip())
