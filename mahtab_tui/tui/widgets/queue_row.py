"""The row of inputs that wait for the running one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual.binding import BindingType
from textual.content import Content
from textual.events import Click
from textual.message import Message
from textual.reactive import reactive
from textual.style import Style
from textual.widget import Widget

from mahtab_tui.bus.hidden_characters import visible
from mahtab_tui.bus.records import Queue, QueueItem, Record
from mahtab_tui.bus.sanitize import plain
from mahtab_tui.tui.widgets.focus_loan import FocusLoan

VISIBLE_ITEMS = 4
"""Rows of the queue."""
_CROSS = " ✕ "
_ACTION_KEY = "queue-action"
"""The key, in the style of a part of an input's line, of the action of a click on it."""


class QueueRow(Widget, can_focus=True):
    """Lists the inputs that wait for the running one."""

    BINDINGS: ClassVar[list[BindingType]] = [
        ("up", "move(-1)", "Up"),
        ("down", "move(1)", "Down"),
        ("delete,backspace", "cancel", "Take back"),
        ("enter", "choose_when", "Now or after"),
    ]

    items: reactive[Sequence[QueueItem]] = reactive((), layout=True)
    chosen: reactive[int] = reactive(0)

    @dataclass
    class Cancelled(Message):
        item_id: int

    @dataclass
    class WhenChosen(Message):
        """The user has chosen when a queued question is asked."""

        item_id: int
        joins: bool
        """Whether it joins the running question at the next step, rather than wait for its end."""

    def fold(self, records: Sequence[Record]) -> None:
        if queues := [record for record in records if isinstance(record, Queue)]:
            self.items = queues[-1].items

    def watch_items(self, items: Sequence[QueueItem]) -> None:
        if not items and self.display and self.is_attached:
            FocusLoan(self).give_back()
        self.display = bool(items)
        self.chosen = min(self.chosen, max(0, len(items) - 1))

    def get_content_height(self, container: object, viewport: object, width: int) -> int:
        return min(len(self.items), VISIBLE_ITEMS) + len(self._note())

    def render(self) -> Content:
        lines = self._note()
        first = self._first_visible()
        for index in range(first, min(first + VISIBLE_ITEMS, len(self.items))):
            lines.append(self._line(index, is_first=index == first))
        return Content("\n").join(lines)

    def _line(self, index: int, *, is_first: bool) -> Content:
        """Draw an input; a click on one of its two ends acts on it."""
        label = self._label()
        is_question = self.items[index].mode == "ask"
        is_chosen = self.has_focus and index == self.chosen
        when = Content.styled(self._when(index), "$muted")
        cross = Content.styled(_CROSS, "$bad" if is_chosen else "$muted")
        return Content.assemble(
            (label if is_first else " " * len(label), "$muted"),
            ("◈ ", "$model") if is_question else ("❯ ", "$person"),
            (self._text(index), "reverse" if is_chosen else "$foreground"),
            when.stylize(Style.from_meta({_ACTION_KEY: "choose_when"})),
            cross.stylize(Style.from_meta({_ACTION_KEY: "cancel"})),
        )

    async def on_click(self, event: Click) -> None:
        position = event.get_content_offset(self)
        if position is None:
            return
        line = position.y - len(self._note())
        index = self._first_visible() + line
        if line < 0 or index >= len(self.items):
            return

        self.chosen = index
        action = event.style.meta.get(_ACTION_KEY)
        if action is not None:
            await self.run_action(action)

    def action_move(self, step: int) -> None:
        self.chosen = max(0, min(len(self.items) - 1, self.chosen + step))

    def action_cancel(self) -> None:
        if self.items:
            self.post_message(self.Cancelled(self.items[self.chosen].id))

    def action_choose_when(self) -> None:
        if self.items and self.items[self.chosen].mode == "ask":
            item = self.items[self.chosen]
            self.post_message(self.WhenChosen(item.id, joins=not item.joins))

    def _note(self) -> list[Content]:
        """Return the line above the inputs that says how many wait for the user; no line if none do."""
        held_count = sum(item.held for item in self.items)
        if not held_count:
            return []
        subject = f"{held_count:,} queued cells were"
        pronoun = "them"
        if held_count == 1:
            subject = "1 queued cell was"
            pronoun = "it"
        hint = f" · Enter in the empty editor runs {pronoun}"
        return [Content.assemble((f"{subject} not run", "$highlight"), (hint, "$muted"))]

    def _label(self) -> str:
        return f"queued {len(self.items):,}  "

    def _when(self, index: int) -> str:
        """Return when a question will be asked; empty for code."""
        if self.items[index].mode != "ask":
            return ""
        if self.items[index].joins:
            return " · at the next step"
        return " · after this answer"

    def _first_visible(self) -> int:
        return max(0, min(self.chosen - VISIBLE_ITEMS + 1, len(self.items) - VISIBLE_ITEMS))

    def _text(self, index: int) -> str:
        """Return an input's first line, shortened to the width of the row."""
        author = plain(self.items[index].party)
        code = visible(self.items[index].code).expandtabs(4).strip("\n")
        first_line, _, other_lines = code.partition("\n")
        text = f"{author}: {first_line}" if author else first_line
        around_width = len(self._label()) + 2 + len(self._when(index)) + len(_CROSS) + len(" …")
        available_width = max(10, self.size.width - around_width)
        shortened = Content(text).truncate(available_width, ellipsis=True).plain
        return f"{shortened} …" if other_lines else shortened
