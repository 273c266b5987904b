"""The row that asks whether to keep or undo what the model's code has changed."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from textual import on
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content
from textual.events import Key
from textual.geometry import Size
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Input, Static

from mahtab_tui.bus.records import Review
from mahtab_tui.bus.sanitize import one_line
from mahtab_tui.tui.rows.changes import change_lines
from mahtab_tui.tui.widgets.asking_row import AskingRow
from mahtab_tui.tui.widgets.chips import Chip
from mahtab_tui.tui.widgets.line_input import LineInput

Action = Literal["keep", "undo", "all", "stop"]

_CHIPS = (
    Chip("keep", "y", " y keep ", " y keep ", "bold $background on $good"),
    Chip("undo", "n", " n undo, say why ", " n undo ", "$background on $moon"),
    Chip("all", "a", " a keep all from now on ", " a all ", "$foreground on $panel"),
    Chip("stop", "escape", " esc stop, keep ", " esc stop ", "$foreground on $panel"),
)
_HINT = "say why, or nothing · Enter undoes · Esc back"


class _Changes(VerticalScroll, can_focus=False):
    """Shows the changes; scrolls if they need more than a third of the screen."""

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return min(super().get_content_height(container, viewport, width), viewport.height // 3)


class ReviewRow(AskingRow[Review]):
    """Shown while changes wait to be kept or undone."""

    @dataclass
    class Decided(Message):
        """The user has answered."""

        request: str
        action: Action
        reason: str = ""

    def __init__(self, editor_is_empty: Callable[[], bool], clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(Review, _CHIPS, editor_is_empty, clock)
        self._asks_why = False
        """Whether the user has chosen to undo, and may say why."""

    def compose(self) -> ComposeResult:
        yield Static(id="review-about", markup=False)
        with _Changes(id="review-scroll"):
            yield Static(id="review-changes", markup=False)
        yield self._chips
        yield LineInput(id="review-reason", compact=True, placeholder="why undo it?")

    @property
    def target(self) -> Widget:
        return self.query_one("#review-reason") if self._asks_why else self._chips

    @property
    def scrolled(self) -> Widget | None:
        scroll = self.query_one("#review-scroll")
        return scroll if not self._asks_why and scroll.max_scroll_y > 0 else None

    def show(self, record: Review) -> None:
        self.query_one("#review-reason", LineInput).value = ""
        self.query_one("#review-changes", Static).update(Content("\n").join(change_lines(record.changes, record.not_restored)))
        self.query_one("#review-scroll").scroll_home(animate=False)
        self._show_reason(False)

    def _show_reason(self, shown: bool) -> None:
        self._asks_why = shown
        self._chips.display = not shown
        self.query_one("#review-reason").display = shown
        self.tell()

    def tell(self) -> None:
        """Say which cells have run, and how to reach the row."""
        record = self._requests[self._shown]
        parts = [(_question(record), "$foreground")]
        if self._asks_why:
            parts.append((_HINT, "$muted"))
        if way := self._way_here():
            parts.append((way, "$moon"))
        self.query_one("#review-about", Static).update(Content.styled(" · ", "$muted").join(Content.styled(*part) for part in parts))

    def answered(self, request: str, answer: str) -> None:
        match answer:
            case "undo":
                self._go_to_reason(True)
            case "keep" | "all" | "stop" as action:
                self._decide(action)

    def _decide(self, action: Action, reason: str = "") -> None:
        """Answer, unless Enter came twice and nothing waits any more."""
        if request := self._shown:
            self.post_message(self.Decided(request, action, reason))
            self.forget(request)

    def _go_to_reason(self, shown: bool) -> None:
        self._given = True
        self._show_reason(shown)
        self._loan.take(self.target)

    def on_key(self, event: Key) -> None:
        if event.key == "escape" and self._asks_why:
            event.stop()
            event.prevent_default()
            self._go_to_reason(False)

    @on(Input.Submitted)
    def _reason_given(self, event: Input.Submitted) -> None:
        event.stop()
        if self._asks_why:
            self._decide("undo", reason=event.value.strip())


def _question(record: Review) -> str:
    cell = f"cell {record.cells[0]} of {one_line(record.party or 'the model')}"
    others = len(record.cells) - 1
    if not others:
        return f"Keep or undo what {cell} has changed?"
    return f"Keep or undo what {cell} and {'the cell' if others == 1 else f'{others} cells'} after it have changed?"
