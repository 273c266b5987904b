"""The row that asks whether to keep what a model's cells changed."""

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
from mahtab_tui.bus.request_words import review_question
from mahtab_tui.tui.find import LineInput
from mahtab_tui.tui.rows.changes import change_lines
from mahtab_tui.tui.widgets.chips import Chip
from mahtab_tui.tui.widgets.prompt_row import CHIPS_PART, PART_CLASS, PromptRow
from mahtab_tui.tui.widgets.waiting_code import RESERVED_LINES

_REASON_HINT = "say why, or nothing · Enter undoes · Esc back"
Action = Literal["keep", "undo", "all", "stop"]


class _Changes(VerticalScroll, can_focus=False):
    """Scrolls if the changes would hide the answers."""

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        max_height = max(1, min(viewport.height // 3, viewport.height - RESERVED_LINES))
        return min(super().get_content_height(container, viewport, width), max_height)


class ReviewRow(PromptRow[Review]):
    """Asks whether to keep what cells of a model changed."""

    @dataclass
    class Decided(Message):
        request: str
        action: Action
        reason: str = ""

    record_type = Review
    answer_chips = (
        Chip("keep", "y", "bold $background on $good", " y keep "),
        Chip("undo", "n", "$background on $highlight", " n undo, say why ", " n undo "),
        Chip("all", "a", "$foreground on $panel", " a keep all from now on ", " a all "),
        Chip("stop", "escape", "$foreground on $panel", " esc stop, keep ", " esc stop "),
    )

    def compose(self) -> ComposeResult:
        yield Static(id="review-about", markup=False)
        with _Changes(id="review-scroll"):
            yield Static(id="review-changes", markup=False)
        yield self._chips
        yield LineInput(
            id="review-reason", classes=PART_CLASS, compact=True, placeholder="why undo it?"
        )

    @property
    def scrolled(self) -> Widget | None:
        scroll = self.query_one("#review-scroll")
        if self._part == CHIPS_PART and scroll.max_scroll_y > 0:
            return scroll
        return None

    def show(self, record: Review) -> None:
        self.query_one("#review-reason", LineInput).value = ""
        self.query_one("#review-changes", Static).update(
            Content("\n").join(change_lines(record.changes, record.not_restored, record.files))
        )
        self.query_one("#review-scroll").scroll_home(animate=False)
        self.show_part(CHIPS_PART)

    def refresh_question(self) -> None:
        question = review_question(self._requests[self._current])
        hint = "" if self._part == CHIPS_PART else _REASON_HINT
        self._show((question, "$foreground"), (hint, "$muted"))

    def handle_answer(self, request: str, answer: str) -> None:
        match answer:
            case "undo":
                self.go_to("review-reason")
            case "keep" | "all" | "stop" as action:
                self._decide(action)

    def _decide(self, action: Action, reason: str = "") -> None:
        if request := self._current:
            self.post_message(self.Decided(request, action, reason))
            self.forget(request)

    @on(Input.Submitted)
    def _reason_given(self, event: Input.Submitted) -> None:
        event.stop()
        if self._part != CHIPS_PART:
            self._decide("undo", reason=event.value.strip())
