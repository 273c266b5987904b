"""A row that asks the person something, and lends itself the focus while nobody types."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Generic, TypeVar

from textual import on
from textual.events import Key
from textual.message import Message
from textual.timer import Timer
from textual.widget import Widget

from mahtab_tui.bus.records import Approval, SearchFanOut
from mahtab_tui.tui.widgets.chips import Chips
from mahtab_tui.tui.widgets.focus_loan import FocusLoan

ALONE = 0.25
"""Seconds for which a letter must stay alone to answer, where the row took the focus by itself: letters that follow one another are typed for the editor."""


R = TypeVar("R", Approval, SearchFanOut)
"""The record that a row asks about."""


class AskingRow(Widget, Generic[R]):
    """Shown while something waits for an answer, one question at a time. It takes the focus only where the editor is empty."""

    def __init__(
        self, make_chips: Callable[[Callable[[], float]], Chips], editor_is_empty: Callable[[], bool], clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__()
        self._chips = make_chips(clock)
        self._editor_is_empty = editor_is_empty
        self._loan = FocusLoan(self)
        self._given = False
        """Whether the person gave the row the focus."""
        self._held: Chips.Chosen | None = None
        """An answer by a letter, which counts unless another key follows at once."""
        self._holding: Timer | None = None
        self._requests: dict[str, R] = {}
        """What waits by its request, the one that is shown first."""

    def on_mount(self) -> None:
        self.display = False

    # What a row says of itself

    def show(self, record: R) -> None:
        """Prepare the row for a question that waits from now on."""
        raise NotImplementedError

    def tell(self) -> None:
        """Say what is asked, and how to answer."""
        raise NotImplementedError

    def answered(self, request: str, answer: str) -> None:
        """One of the chips was chosen."""
        raise NotImplementedError

    @property
    def target(self) -> Widget:
        """What of the row takes the focus."""
        return self._chips

    # What others call

    def ask(self, request: str, record: R) -> None:
        """Something waits."""
        if request not in self._requests:
            self._requests[request] = record
            if len(self._requests) == 1:
                self._open(record)

    def forget(self, request: str) -> None:
        """Close what is answered; show what waits behind it."""
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

    def focus(self, scroll_visible: bool = True) -> AskingRow[R]:
        """Give the focus to what is shown of the row, if it is shown."""
        if self.display:
            self._given = True
            self._loan.take(self.target)
        return self

    @property
    def _shown(self) -> str:
        """The request that is shown; empty where none is."""
        return next(iter(self._requests), "")

    def _open(self, record: R) -> None:
        self._chips.appear()
        self.display = True
        self.show(record)
        if self._editor_is_empty() and self._loan.free:
            self._given = False
            self._loan.take(self.target)
        self.tell()

    def _way_here(self) -> str:
        """How to reach the row, while the focus is elsewhere."""
        if self._loan.taken:
            return ""
        bindings = (active.binding for active in self.screen.active_bindings.values())
        key = next((self.app.get_key_display(binding) for binding in bindings if binding.id == "focus-approval"), "")
        return f"{key} or a click answers" if key else "a click answers"

    @on(Chips.Chosen)
    def _chosen(self, message: Chips.Chosen) -> None:
        message.stop()
        if message.letter is not None and not self._given and self._loan.lender is not None:
            self._held = message
            self._holding = self.set_timer(ALONE, self._answer_held)
        else:
            self._answer(message.answer)

    def _answer(self, answer: str) -> None:
        if request := self._shown:  # Of two keys in one bunch the first has answered.
            self.answered(request, answer)

    def _answer_held(self) -> None:
        if (held := self._release()) is not None:
            self._answer(held.answer)

    def _release(self) -> Chips.Chosen | None:
        """The answer that is held, which is held no more."""
        if self._holding is not None:
            self._holding.stop()
        held, self._held, self._holding = self._held, None, None
        return held

    @on(Chips.Elsewhere)
    def _elsewhere(self, message: Chips.Elsewhere) -> None:
        """What was typed for the editor goes there, and the focus with it; keys too early after the person came here are ignored."""
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
