"""A row that asks the user something, and borrows the focus while they do not type."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import ClassVar, Generic, TypeVar

from textual import on
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.events import Key
from textual.message import Message
from textual.timer import Timer
from textual.widget import Widget
from textual.widgets import Static

from mahtab_tui.bus.records import Approval, Record, Review, SearchFanOut
from mahtab_tui.tui.widgets.chips import Chip, Chips
from mahtab_tui.tui.widgets.focus_loan import FocusLoan

ALONE = 0.25
"""Seconds without another key after which a letter counts as an answer, if the row took the focus
by itself. Faster letters are text for the editor."""


R = TypeVar("R", Approval, Review, SearchFanOut)
"""The record that a row asks about."""


class PromptRow(Widget, Generic[R]):
    """Shown while something waits for an answer, one question at a time. It takes the focus only if
    the editor is empty."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(key, f"scroll_content('{how}')", show=False)
        for key, how in (
            ("up", "up"),
            ("down", "down"),
            ("pageup", "page_up"),
            ("pagedown", "page_down"),
            ("home", "home"),
            ("end", "end"),
        )
    ]

    asks: type[R]
    """The class of the records that ask."""
    offers: Sequence[Chip]
    """The answers."""

    def __init__(
        self, editor_is_empty: Callable[[], bool], clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__()
        self._chips = Chips(self.offers, clock)
        self._editor_is_empty = editor_is_empty
        self._loan = FocusLoan(self)
        self._part = "chips"
        """The part of the row that is shown: the chips, or the id of a widget in which the user
        says more."""
        self._given = False
        """Whether the user gave the row the focus."""
        self._held: Chips.Chosen | None = None
        """An answer by a letter, which counts unless another key follows at once."""
        self._holding: Timer | None = None
        self._requests: dict[str, R] = {}
        """Waiting requests by id; the first one is shown."""

    def on_mount(self) -> None:
        self.display = False

    # For subclasses

    def show(self, record: R) -> None:
        """Prepare the row for a question."""

    def tell(self) -> None:
        """Show what is asked, and how to answer."""
        raise NotImplementedError

    def answered(self, request: str, answer: str) -> None:
        """Handle the answer of a chip."""
        raise NotImplementedError

    @property
    def target(self) -> Widget:
        """The widget in the row that takes the focus."""
        return self._chips if self._part == "chips" else self.query_one(f"#{self._part}")

    @property
    def scrolled(self) -> Widget | None:
        """The widget in the row that the arrow keys scroll; if None, they scroll the transcript."""
        return None

    def show_part(self, part: str) -> None:
        """Show another part of the row."""

    def go_to(self, part: str) -> None:
        """Show another part of the row, and focus it."""
        self._given = True
        self.show_part(part)
        self._loan.take(self.target)

    # For others

    def fold(self, records: Sequence[Record]) -> None:
        for record in records:
            if isinstance(record, self.asks):
                if record.state != "waiting":
                    self.forget(record.request)
                elif record.request not in self._requests:
                    self._requests[record.request] = record
                    if len(self._requests) == 1:
                        self._open(record)
                    else:
                        self.tell()

    def forget(self, request: str) -> None:
        """Close a question, and show the next one that waits."""
        shown = request == self._shown
        if shown:
            self._release()
        self._requests.pop(request, None)
        if not shown:
            return
        self._loan.give_back()
        self.display = False
        if self._requests:
            self._open(self._requests[self._shown])

    def focus(self, scroll_visible: bool = True) -> PromptRow[R]:
        """Focus the row, if it is shown."""
        if self.display:
            self._given = True
            self._loan.take(self.target)
        return self

    @property
    def _shown(self) -> str:
        """The request that is shown; empty for none."""
        return next(iter(self._requests), "")

    def _open(self, record: R) -> None:
        self._chips.appear()
        self.display = True
        self.show(record)
        if self._editor_is_empty() and self._loan.free:
            self._given = False
            self._loan.take(self.target)
        self.tell()

    def _say(self, parts: list[tuple[str, str]]) -> None:
        """Show texts with their styles, and how to reach the row."""
        if way := self._way_here():
            parts.append((way, "$moon"))
        self.query(Static).first().update(
            Content.styled(" · ", "$muted").join(Content.styled(*part) for part in parts)
        )

    def _way_here(self) -> str:
        """Say how to reach the row; empty if it has the focus."""
        if self._loan.taken:
            return ""
        bindings = (active.binding for active in self.screen.active_bindings.values())
        key = next(
            (
                self.app.get_key_display(binding)
                for binding in bindings
                if binding.id == "focus-approval"
            ),
            "",
        )
        return f"{key} or a click answers" if key else "a click answers"

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return (
            self.scrolled is not None
            if action == "scroll_content"
            else super().check_action(action, parameters)
        )

    def action_scroll_content(self, how: str) -> None:
        if (scrolled := self.scrolled) is not None:
            getattr(scrolled, f"scroll_{how}")(animate=False)

    @on(Chips.Chosen)
    def _chosen(self, message: Chips.Chosen) -> None:
        message.stop()
        if message.letter is not None and not self._given and self._loan.lender is not None:
            self._held = message
            self._holding = self.set_timer(ALONE, self._answer_held)
        else:
            self._answer(message.answer)

    def on_key(self, event: Key) -> None:
        """Go back to the chips by Escape."""
        if event.key == "escape" and self._part != "chips":
            event.stop()
            event.prevent_default()
            self.go_to("chips")

    def _answer(self, answer: str) -> None:
        if request := self._shown:  # else the first of two fast keys has answered
            self.answered(request, answer)

    def _answer_held(self) -> None:
        if (held := self._release()) is not None:
            self._answer(held.answer)

    def _release(self) -> Chips.Chosen | None:
        """Stop holding an answer, and return it."""
        if self._holding is not None:
            self._holding.stop()
        held, self._held, self._holding = self._held, None, None
        return held

    @on(Chips.OtherTyped)
    def _other_typed(self, message: Chips.OtherTyped) -> None:
        """Send what was typed for the editor there, with the focus. Ignore keys that come too early
        after the user focused the row."""
        message.stop()
        if (message.early and self._given) or (lender := self._loan.lender) is None:
            return
        held, key = self._release(), message.event.key if isinstance(message.event, Key) else ""
        if held is not None and key == "enter":
            self._answer(held.answer)
        elif held is None or key != "escape":  # Escape takes the answer back
            self._loan.give_back()
            if held is not None and held.letter is not None:
                lender.post_message(held.letter)
            lender.post_message(message.event)

    @on(Chips.FocusMoved)
    def _focus_moved(self, message: Message) -> None:
        message.stop()
        if self._requests:
            self.tell()
