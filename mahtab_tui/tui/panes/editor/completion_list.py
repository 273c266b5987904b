"""The list of completions, drawn over the panes at the cursor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from rich.cells import cell_len
from textual.content import Content
from textual.events import Click, MouseScrollDown, MouseScrollUp
from textual.geometry import Offset
from textual.message import Message
from textual.widget import Widget

from mahtab_tui.bus.sanitize import one_line

if TYPE_CHECKING:
    from mahtab_tui.kernel.code_help import Completion

ROWS = 8
"""Maximum number of visible completions."""
_LABEL, _KIND = 36, 8
"""Maximum columns."""
_WIDEST = 90


class CompletionList(Widget):
    """A list with a chosen row. It never has the focus: the editor handles its keys."""

    can_focus = False
    ALLOW_SELECT: ClassVar[bool] = False

    @dataclass
    class Picked(Message):
        """Posted when a row is clicked."""

        item: Completion

    def __init__(self) -> None:
        super().__init__()
        self.display = False
        self.items: tuple[Completion, ...] = ()
        self.asked_for = False
        """Whether the user has opened the list or moved in it: then Enter takes the chosen row."""
        self._label_width = self._chosen = self._top = self._more = 0
        self._stale = False

    @property
    def is_open(self) -> bool:
        return bool(self.display)

    @property
    def chosen(self) -> Completion:
        return self.items[self._chosen]

    def open(
        self, items: tuple[Completion, ...], more: int, at: Offset, *, asked_for: bool, stale: bool
    ) -> None:
        """Show a list below the screen's cell `at`, or above it if there is no room. A row that the
        user has moved to stays chosen."""
        before = self.chosen.label if self.is_open and self._chosen else None
        self.items, self._more, self._stale, self.asked_for = items, more, stale, asked_for
        self._chosen = next((place for place, item in enumerate(items) if item.label == before), 0)
        self._top = 0
        self._follow()
        self._label_width = min(_LABEL, max(cell_len(one_line(item.label)) for item in items))
        row = self._label_width + _KIND + 6 + max(cell_len(one_line(item.doc)) for item in items)
        width = min(self.screen.size.width, max(row, self._foot().cell_length + 1), _WIDEST)
        height = min(len(items), ROWS) + 1
        below = at.y + 1 + height <= self.screen.size.height
        self.styles.width, self.styles.height = width, height
        self.absolute_offset = Offset(
            max(0, min(at.x - 1, self.screen.size.width - width)),
            at.y + 1 if below else max(0, at.y - height),
        )
        self.display = True
        self.refresh(layout=True)

    def narrow(self, items: tuple[Completion, ...]) -> None:
        """Leave only some of the items, in the place and size that the list has."""
        chosen = self.chosen
        self.items, self._more = items, 0
        self._chosen = items.index(chosen) if chosen in items else 0
        self._follow()
        self.refresh()

    def close(self) -> None:
        self.display = False

    def move(self, step: int) -> None:
        """Choose another row, wrapping around at the ends."""
        self._chosen = (
            (self._chosen + step) % len(self.items)
            if abs(step) == 1
            else max(0, min(len(self.items) - 1, self._chosen + step))
        )
        self.asked_for = True
        self._follow()
        self.refresh()

    def _follow(self) -> None:
        self._top = max(
            0, min(max(self._top, self._chosen - ROWS + 1), self._chosen, len(self.items) - 1)
        )

    def render(self) -> Content:
        rows = [
            self._row(place) for place in range(self._top, min(len(self.items), self._top + ROWS))
        ]
        return Content("\n").join([*rows, self._foot()])

    def _row(self, place: int) -> Content:
        item = self.items[place]
        label = Content(one_line(item.label)).truncate(self._label_width, ellipsis=True, pad=True)
        line = Content.assemble(
            " ",
            label,
            "  ",
            (f"{item.kind:<{_KIND}}", "$person"),
            "  ",
            (one_line(item.doc), "$muted"),
            " ",
        )
        if self.size.width:
            line = line.truncate(max(1, self.size.width), ellipsis=True, pad=True)
        return line.stylize("bold on $person 30%") if place == self._chosen else line

    def _foot(self) -> Content:
        keys = "Tab or Enter accepts" if self.asked_for else "Tab accepts"
        more = (
            f" · {len(self.items) + self._more:,} in all"
            if self._more or len(self.items) > ROWS
            else ""
        )
        return Content.assemble(
            (f" {keys}{more}", "$muted"),
            (" · may be outdated: the kernel is busy" if self._stale else "", "$warning"),
        )

    def on_click(self, event: Click) -> None:
        event.stop()
        place = self._top + event.y
        if event.y < ROWS and place < len(self.items):
            self.post_message(self.Picked(self.items[place]))

    def on_mouse_scroll_down(self, event: MouseScrollDown) -> None:
        event.stop()
        self.move(1)

    def on_mouse_scroll_up(self, event: MouseScrollUp) -> None:
        event.stop()
        self.move(-1)
