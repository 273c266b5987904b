"""The inputs that wait for their turn, each of which can be taken back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from textual.binding import BindingType
from textual.content import Content
from textual.events import Click
from textual.message import Message
from textual.reactive import reactive
from textual.widget import Widget

from mahtab_tui.bus import tags
from mahtab_tui.bus.records import Record
from mahtab_tui.bus.sanitize import plain

SHOWN = 4


class QueueRow(Widget, can_focus=True):
    """A line for each; hidden while nothing waits."""

    BINDINGS: ClassVar[list[BindingType]] = [
        ("up", "move(-1)", "Up"),
        ("down", "move(1)", "Down"),
        ("delete,backspace,x", "cancel", "Take back"),
    ]

    items: reactive[list[dict[str, Any]]] = reactive(list, layout=True)
    chosen: reactive[int] = reactive(0)

    class Cancelled(Message):
        """The person takes an input back."""

        def __init__(self, item_id: int) -> None:
            super().__init__()
            self.item_id = item_id

    def fold(self, records: Sequence[Record]) -> None:
        """Take in what the bus brought."""
        for record in records:
            if record.tag == tags.QUEUE:
                self.items = record.attrs["items"]

    def watch_items(self, items: list[dict[str, Any]]) -> None:
        self.display = bool(items)
        self.chosen = min(self.chosen, max(0, len(items) - 1))

    def on_mount(self) -> None:
        self.display = bool(self.items)

    def get_content_height(self, container: object, viewport: object, width: int) -> int:
        return min(len(self.items), SHOWN) + (len(self.items) > SHOWN)

    def render(self) -> Content:
        lines = []
        for place, item in enumerate(self.items[:SHOWN]):
            colour = "$model" if item.get("mode") == "ask" else "$person"
            first, _, more = plain(str(item["code"])).partition("\n")
            text = f"{first} …" if more else first
            room = max(10, self.size.width - 18)
            style = "reverse" if self.has_focus and place == self.chosen else ""
            lines.append(
                Content.assemble(("queued ", "$muted"), (Content(text).truncate(room, ellipsis=True).plain, f"{colour} {style}".strip()), (" ✕", "$bad"))
            )
        if len(self.items) > SHOWN:
            lines.append(Content.styled(f"… and {len(self.items) - SHOWN} more", "$muted"))
        return Content("\n").join(lines)

    def on_click(self, event: Click) -> None:
        if event.y < min(len(self.items), SHOWN):
            self.post_message(self.Cancelled(int(self.items[event.y]["id"])))

    def action_move(self, step: int) -> None:
        self.chosen = max(0, min(len(self.items) - 1, self.chosen + step))

    def action_cancel(self) -> None:
        if self.items:
            self.post_message(self.Cancelled(int(self.items[self.chosen]["id"])))
