"""The row that asks whether to keep or undo what the model's code has changed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from textual import on
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content
from textual.geometry import Size
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Input, Static

from mahtab_tui.bus.records import Review
from mahtab_tui.bus.sanitize import one_line
from mahtab_tui.tui.rows.changes import change_lines
from mahtab_tui.tui.widgets.chips import Chip
from mahtab_tui.tui.widgets.line_input import LineInput
from mahtab_tui.tui.widgets.prompt_row import PromptRow
from mahtab_tui.tui.widgets.waiting_code import OTHERS

Action = Literal["keep", "undo", "all", "stop"]

_HINT = "say why, or nothing · Enter undoes · Esc back"


class _Changes(VerticalScroll, can_focus=False):
    """Shows the changes; scrolls if they need more than a third of the screen, or hide their
    answers."""

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        most = max(1, min(viewport.height // 3, viewport.height - OTHERS))
        return min(super().get_content_height(container, viewport, width), most)


class ReviewRow(PromptRow[Review]):
    """Shown while changes wait to be kept or undone."""

    @dataclass
    class Decided(Message):
        request: str
        action: Action
        reason: str = ""

    asks = Review
    offers = (
        Chip("keep", "y", " y keep ", " y keep ", "bold $background on $good"),
        Chip("undo", "n", " n undo, say why ", " n undo ", "$background on $moon"),
        Chip("all", "a", " a keep all from now on ", " a all ", "$foreground on $panel"),
        Chip("stop", "escape", " esc stop, keep ", " esc stop ", "$foreground on $panel"),
    )

    def compose(self) -> ComposeResult:
        yield Static(id="review-about", markup=False)
        with _Changes(id="review-scroll"):
            yield Static(id="review-changes", markup=False)
        yield self._chips
        yield LineInput(id="review-reason", compact=True, placeholder="why undo it?")

    @property
    def scrolled(self) -> Widget | None:
        scroll = self.query_one("#review-scroll")
        return scroll if self._part == "chips" and scroll.max_scroll_y > 0 else None

    def show(self, record: Review) -> None:
        self.query_one("#review-reason", LineInput).value = ""
        self.query_one("#review-changes", Static).update(
            Content("\n").join(change_lines(record.changes, record.not_restored))
        )
        self.query_one("#review-scroll").scroll_home(animate=False)
        self.show_part("chips")

    def show_part(self, part: str) -> None:
        self._part = part
        self._chips.display = part == "chips"
        self.query_one("#review-reason").display = part == "review-reason"
        self.tell()

    def tell(self) -> None:
        """Say which cells have run, and how to reach the row."""
        record = self._requests[self._shown]
        parts = [(_question(record), "$foreground")]
        if self._part != "chips":
            parts.append((_HINT, "$muted"))
        self._say(parts)

    def answered(self, request: str, answer: str) -> None:
        match answer:
            case "undo":
                self.go_to("review-reason")
            case "keep" | "all" | "stop" as action:
                self._decide(action)

    def _decide(self, action: Action, reason: str = "") -> None:
        """Answer, unless Enter came twice and nothing waits any more."""
        if request := self._shown:
            self.post_message(self.Decided(request, action, reason))
            self.forget(request)

    @on(Input.Submitted)
    def _reason_given(self, event: Input.Submitted) -> None:
        event.stop()
        if self._part != "chips":
            self._decide("undo", reason=event.value.strip())


def _question(record: Review) -> str:
    cell = f"cell {record.cells[0]} of {one_line(record.party or 'the model')}"
    others = len(record.cells) - 1
    if not others:
        return f"Keep or undo what {cell} changed?"
    return f"Keep or undo what {cell} and {'the cell' if others == 1 else f'{others} cells'} after it changed?"
