"""A window over lines of which one is chosen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual.binding import Binding, BindingType
from textual.scroll_view import ScrollView
from textual.strip import Strip

CURSOR_KEYS: tuple[Binding, ...] = (
    Binding("up", "move(-1)", "Up", show=False),
    Binding("down", "move(1)", "Down", show=False),
    Binding("pageup", "move_page(-1)", "Page up", show=False),
    Binding("pagedown", "move_page(1)", "Page down", show=False),
    Binding("home", "move_to(0)", "First", show=False),
    Binding("end", "move_to(-1)", "Last", show=False),
)
"""Keys for whoever has `action_move`, `action_move_page` and `action_move_to`."""

MARGIN = 1
"""Cells before each line."""


class LinesView(ScrollView):
    """Draws its lines itself; the chosen one is seen while it has the focus."""

    BINDINGS: ClassVar[list[BindingType]] = [*CURSOR_KEYS]

    def on_focus(self) -> None:
        self.refresh()

    def on_blur(self) -> None:
        self.refresh()

    def strip(self, parts: Sequence[tuple[str, Style]], width: int, base: Style) -> Strip:
        """A line of coloured texts, in exactly so many cells."""
        segments = [Segment(text, base + style) for text, style in [(" " * MARGIN, Style()), *parts]]
        return Strip(segments).adjust_cell_length(width, base)
