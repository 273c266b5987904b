"""A question with two answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from textual import on
from textual.app import App, ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.widgets import Button, Static

from mahtab_tui.bus.sanitize import plain
from mahtab_tui.tui.screens.dialog import Dialog


class Confirm(Dialog[bool]):
    """Returns True for yes; Escape means no."""

    AUTO_FOCUS = "#no"
    BINDINGS: ClassVar[list[BindingType]] = [
        ("escape,n", "answer(False)", "No"),
        ("y", "answer(True)", "Yes"),
        ("left,right", "app.focus_next", "Other"),
    ]

    def __init__(self, question: str, *, yes: str, no: str) -> None:
        super().__init__()
        self._question = plain(question)
        self._yes, self._no = yes, no

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Static(self._question, id="question", markup=False)
            with Horizontal(classes="answers"):
                yield Button(f"{self._no} (n)", id="no", compact=True)
                yield Button(f"{self._yes} (y)", id="yes", variant="warning", compact=True)

    @on(Button.Pressed)
    def _pressed(self, event: Button.Pressed) -> None:
        self.dismiss(event.button.id == "yes")

    def action_answer(self, yes: bool) -> None:
        self.dismiss(yes)


def confirm(app: App[Any], question: str, then: Callable[[], object], *, yes: str, no: str) -> None:
    """Ask a question, and call `then` if the answer is yes."""

    def chosen(sure: bool | None) -> None:
        if sure:
            then()

    app.push_screen(Confirm(question, yes=yes, no=no), chosen)
