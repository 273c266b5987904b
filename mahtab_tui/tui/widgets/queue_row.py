"""The queued inputs, each of which can be taken back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual.binding import BindingType
from textual.content import Content
from textual.events import Click
from textual.message import Message
from textual.reactive import reactive
from textual.widget import Widget

from mahtab_tui.bus.hidden import visible
from mahtab_tui.bus.records import Queue, QueueItem, Record
from mahtab_tui.bus.sanitize import plain
from mahtab_tui.tui.widgets.focus_loan import FocusLoan

SHOWN = 4
"""Inputs that are visible at a time."""

_CROSS = " ✕ "


class QueueRow(Widget, can_focus=True):
    """Shows a line for each input; hidden while none waits."""

    BINDINGS: ClassVar[list[BindingType]] = [
        ("up", "move(-1)", "Up"),
        ("down", "move(1)", "Down"),
        ("delete,backspace", "cancel", "Take back"),
    ]

    items: reactive[Sequence[QueueItem]] = reactive(())
    chosen: reactive[int] = reactive(0)

    @dataclass
    class Cancelled(Message):
        item_id: int

    def fold(self, records: Sequence[Record]) -> None:
        if (
            last := next(
                (record for record in reversed(records) if isinstance(record, Queue)), None
            )
        ) is not None:
            self.items = last.items

    def watch_items(self, before: Sequence[QueueItem], items: Sequence[QueueItem]) -> None:
        if min(len(before), SHOWN) != min(len(items), SHOWN):  # else the layout stays the same
            self.refresh(layout=True)
        if not items and self.display and self.is_attached:
            FocusLoan(self).give_back()
        self.display = bool(items)
        self.chosen = min(self.chosen, max(0, len(items) - 1))

    def get_content_height(self, container: object, viewport: object, width: int) -> int:
        return min(len(self.items), SHOWN)

    def render(self) -> Content:
        head = self._head()
        first = self._first()
        lines = [
            Content.assemble(
                (head if place == first else " " * len(head), "$muted"), *self._line(place)
            )
            for place in range(first, min(first + SHOWN, len(self.items)))
        ]
        return Content("\n").join(lines)

    def on_click(self, event: Click) -> None:
        """Take the input back by a click on its cross; choose it by a click elsewhere."""
        at = event.get_content_offset(self)
        if at is not None and (place := self._first() + at.y) < len(self.items):
            self.chosen = place
            cross = len(self._head()) + 2 + Content(self._text(place)).cell_length
            if cross <= at.x < cross + len(_CROSS):
                self.action_cancel()

    def action_move(self, step: int) -> None:
        self.chosen = max(0, min(len(self.items) - 1, self.chosen + step))

    def action_cancel(self) -> None:
        if self.items:
            self.post_message(self.Cancelled(self.items[self.chosen].id))

    def _head(self) -> str:
        return f"queued {len(self.items)}  "

    def _first(self) -> int:
        """The number of the first visible input."""
        return max(0, min(self.chosen - SHOWN + 1, len(self.items) - SHOWN))

    def _text(self, place: int) -> str:
        """Shorten an input to one line."""
        party = plain(self.items[place].party)
        first, _, more = visible(self.items[place].code).expandtabs(4).strip("\n").partition("\n")
        first = f"{party}: {first}" if party else first
        room = max(10, self.size.width - len(self._head()) - 2 - len(_CROSS) - len(" …"))
        return Content(first).truncate(room, ellipsis=True).plain + (" …" if more else "")

    def _line(self, place: int) -> tuple[tuple[str, str], ...]:
        ask = self.items[place].mode == "ask"
        chosen = self.has_focus and place == self.chosen
        return (
            ("◈ ", "$model") if ask else ("❯ ", "$person"),
            (self._text(place), "reverse" if chosen else "$foreground"),
            (_CROSS, "$bad" if chosen else "$muted"),
        )
