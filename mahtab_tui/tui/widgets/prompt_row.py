"""The base class of rows that ask the user something, one question at a time.

A row takes the focus only while the user does not type. Even then, the first letters of a text may
arrive there, so a letter answers only if no other key follows at once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import ClassVar, Generic, NamedTuple, TypeVar

from textual import on
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.events import DescendantBlur, DescendantFocus, Key
from textual.timer import Timer
from textual.widget import Widget
from textual.widgets import Static

from mahtab_tui.bus.records import Approval, Record, Review, SearchFanOut
from mahtab_tui.tui.editor.prompt_area import PromptArea
from mahtab_tui.tui.widgets.chips import Chip, Chips
from mahtab_tui.tui.widgets.focus_loan import FocusLoan

CHIPS_PART = "chips"
"""The part of a row that has the answers."""
PART_CLASS = "prompt-part"
"""The class of a row's widgets for details, such as a reason. Each is a part, named by its id."""
TYPING_GAP_S = 0.25
"""A letter answers after this time without another key, if the row took the focus itself."""
Request = TypeVar("Request", Approval, Review, SearchFanOut)


class _PendingAnswer(NamedTuple):
    """An answer that counts unless another key follows at once."""

    answer: str
    letter: Key
    """The key that gave it, which may be the first letter of a text."""
    timer: Timer
    """Ends the waiting."""


class PromptRow(Widget, Generic[Request]):
    """Asks one question at a time. It takes the focus only if the editor is empty."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(direction.replace("_", ""), f"scroll_content('{direction}')", show=False)
        for direction in ("up", "down", "page_up", "page_down", "home", "end")
    ]

    record_type: type[Request]
    """The records that ask such a question."""
    answer_chips: Sequence[Chip]
    """The usual answers to it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """
        Args:
            clock: Returns the time in seconds.
        """
        super().__init__()
        self._chips = Chips(self.answer_chips, clock)
        self._loan = FocusLoan(self)
        self._part = CHIPS_PART
        """The part that is open: the chips, or the id of a widget for details."""
        self._focused_by_user = False
        """Whether the user went to the row, rather than the row taking the focus itself."""
        self._pending: _PendingAnswer | None = None
        self._requests: dict[str, Request] = {}
        """The open questions by their id, the current one first."""

    def on_mount(self) -> None:
        self.display = False

    # What a subclass says

    def show(self, record: Request) -> None:
        """Prepare the row for a question."""

    def refresh_question(self) -> None:
        """Draw the current question."""
        raise NotImplementedError

    def handle_answer(self, request: str, answer: str) -> None:
        """Do what the user has answered.

        Args:
            request: The id of the question.
            answer: The `answer` of a chip.
        """
        raise NotImplementedError

    # Questions

    @property
    def target(self) -> Widget:
        """The widget that gets the focus."""
        if self._part == CHIPS_PART:
            return self._chips
        return self.query_one(f"#{self._part}")

    @property
    def scrolled(self) -> Widget | None:
        """The widget that the arrow keys scroll; if None, the transcript."""
        return None

    def show_part(self, part: str) -> None:
        """Show the chips, or a widget for details instead, by its id."""
        self._part = part
        self._chips.display = part == CHIPS_PART
        for widget in self.query(f".{PART_CLASS}"):
            widget.display = widget.id == part
        self.refresh_question()

    def go_to(self, part: str) -> None:
        """Show a part, and give it the focus, because the user asked for it."""
        self._focused_by_user = True
        self.show_part(part)
        self._loan.borrow(self.target)

    def fold(self, records: Sequence[Record]) -> None:
        """Ask what new records ask, and close the questions that they answer."""
        for record in records:
            if not isinstance(record, self.record_type):
                continue
            if record.state != "waiting":
                self.forget(record.request)
            elif record.request not in self._requests:
                self._requests[record.request] = record
                if len(self._requests) == 1:
                    self._open(record)
                else:
                    self.refresh_question()

    def forget(self, request: str) -> None:
        """Close a question that is answered or no longer open."""
        is_current = request == self._current
        self._requests.pop(request, None)
        if is_current:
            self._pop_pending()
            self._loan.give_back()
            self.display = False
            if self._requests:
                self._open(self._requests[self._current])

    def focus(self, scroll_visible: bool = True) -> PromptRow[Request]:
        if self.display:
            self._focused_by_user = True
            self._loan.borrow(self.target)
        return self

    @property
    def _current(self) -> str:
        """The id of the current question; empty if there is none."""
        return next(iter(self._requests), "")

    @property
    def _editor_has_text(self) -> bool:
        return any(area.text for area in self.screen.query(PromptArea))

    def _open(self, record: Request) -> None:
        """Ask a question, with the focus if the user is not typing."""
        self._chips.appear(record.request)
        self.display = True
        self.show(record)
        if self._loan.is_available and not self._editor_has_text:
            self._focused_by_user = False
            self._loan.borrow(self.target)
        self.refresh_question()

    def _show(self, *parts: tuple[str, str]) -> None:
        """Show texts in a line above the answers, and which key gives the row the focus.

        Args:
            parts: Each text with its style; empty texts are left out.
        """
        visible_parts = []
        for text, style in (*parts, (self._focus_hint(), "$highlight")):
            if text:
                visible_parts.append(Content.styled(text, style))
        separator = Content.styled(" · ", "$muted")
        self.query(Static).first().update(separator.join(visible_parts))

    def _focus_hint(self) -> str:
        """Say how to get to the row; empty if it has the focus."""
        if self._loan.has_focus:
            return ""
        for active in self.screen.active_bindings.values():
            if active.binding.id == "focus-approval":
                return f"{self.app.get_key_display(active.binding)} or a click answers"
        return "a click answers"

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "scroll_content":
            return self.scrolled is not None
        return super().check_action(action, parameters)

    def action_scroll_content(self, direction: str) -> None:
        scrolled = self.scrolled
        if scrolled is not None:
            scroll = getattr(scrolled, f"scroll_{direction}")
            scroll(animate=False)

    # Answers

    @on(Chips.Chosen)
    def _take_answer(self, message: Chips.Chosen) -> None:
        """Answer, or wait for a moment whether a text follows the letter."""
        message.stop()
        # No question is answered unseen.
        if message.question != self._current:
            return
        letter = message.letter
        # If the row took the focus itself, the letter may be the first one of a text.
        if letter and not self._focused_by_user and self._loan.previous_focus is not None:
            timer = self.set_timer(TYPING_GAP_S, self._answer_pending)
            self._pending = _PendingAnswer(message.answer, letter, timer)
        else:
            self._answer(message.answer)

    @on(Chips.Typed)
    def _take_typed_input(self, message: Chips.Typed) -> None:
        """Send typed text to the editor, with the focus.

        Early keys go there only if the row took the focus itself.
        """
        message.stop()
        previous_focus = self._loan.previous_focus
        if previous_focus is None or (message.is_early and self._focused_by_user):
            return
        pending = self._pop_pending()
        key = message.input.key if isinstance(message.input, Key) else ""
        if pending is not None and key == "enter":
            self._answer(pending.answer)
            return
        # Escape only cancels the answer.
        if pending is not None and key == "escape":
            return
        self._loan.give_back()
        if pending is not None:
            # The letter was the first one of a text.
            previous_focus.post_message(pending.letter)
        previous_focus.post_message(message.input)

    def _answer_pending(self) -> None:
        # A timer that has just been stopped may still arrive.
        if self._pending is not None:
            self._answer(self._pending.answer)

    def _answer(self, answer: str) -> None:
        self._pop_pending()
        # Of two fast keys, the first has already answered.
        if self._current:
            self.handle_answer(self._current, answer)

    def _pop_pending(self) -> _PendingAnswer | None:
        """Return the answer that waits, and forget it."""
        pending = self._pending
        self._pending = None
        if pending is not None:
            pending.timer.stop()
        return pending

    # Keys and the focus

    @on(DescendantFocus)
    @on(DescendantBlur)
    def _focus_moved(self) -> None:
        """Show anew which keys answer."""
        if self._requests:
            self.refresh_question()

    def on_key(self, event: Key) -> None:
        if event.key == "escape" and self._part != CHIPS_PART:
            event.stop()
            event.prevent_default()
            self.go_to(CHIPS_PART)
