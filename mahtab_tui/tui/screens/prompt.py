"""A question that is answered by one line."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.widgets import Input, Static

from mahtab_tui.bus.sanitize import one_line
from mahtab_tui.tui.screens.dialog import Dialog
from mahtab_tui.tui.widgets.line_input import LineInput


class Prompt(Dialog[str | None]):
    """Returns the line, or None after Escape or if it is empty."""

    BINDINGS: ClassVar[list[BindingType]] = [("escape", "leave", "Leave")]

    def __init__(self, title: str, value: str = "") -> None:
        super().__init__()
        self._question, self._value = one_line(title), one_line(value)

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Static(self._question, markup=False)
            yield LineInput(self._value, compact=True)
            yield Static("Enter accepts · Esc cancels", classes="quiet", markup=False)

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        self.dismiss(event.value.strip() or None)
