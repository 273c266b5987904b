"""A question with two answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.widgets import Button, Static

from mahtab_tui.bus.sanitize import plain
from mahtab_tui.tui.screens.dialog import Dialog

LOOK = 0.1
"""Seconds between two looks at what a question is about."""


class Confirm(Dialog[bool]):
    """True for yes; Escape is no."""

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


class ConfirmLeave(Confirm):
    """Whether to leave while something is at work. It stays when that ends meanwhile, and says so: what came of it can still be looked at."""

    def __init__(self, at_work: Callable[[], str]) -> None:
        """at_work: who works now; empty once nobody does."""
        super().__init__(_leave(at_work()), yes="Leave", no="Stay")
        self._at_work = at_work

    def on_mount(self) -> None:
        self.set_interval(LOOK, self._look)

    def _look(self) -> None:
        question = plain(_leave(self._at_work()))
        if question != self._question:
            self._question = question
            self.query_one("#question", Static).update(question)


def _leave(at_work: str) -> str:
    return f"{at_work} is still at work. Leave all the same?" if at_work else "What was at work has ended. Leave?"
