"""Rows of a long text that is moved through by the wheel, and by a click at the right edge."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from rich.segment import Segment
from rich.style import Style
from textual.events import Click, MouseScrollDown, MouseScrollUp
from textual.widget import Widget

_WHEEL = 3
"""Rows that the wheel moves."""


class ScrolledRows(Widget):
    """How many rows there are is not known: it moves by rows, and goes to places of the text."""

    @property
    def chars(self) -> int:
        """Characters of the text."""
        raise NotImplementedError

    def action_move(self, step: int) -> None:
        """Move so many rows down, or up."""
        raise NotImplementedError

    def go_to(self, place: int) -> None:
        """Show a place of the text."""
        raise NotImplementedError

    def on_mouse_scroll_down(self, event: MouseScrollDown) -> None:
        event.stop()
        self.action_move(_WHEEL)

    def on_mouse_scroll_up(self, event: MouseScrollUp) -> None:
        event.stop()
        self.action_move(-_WHEEL)

    def on_click(self, event: Click) -> None:
        """At the right edge: go to that part of the text."""
        if event.x == self.size.width - 1:
            self.go_to(event.y * self.chars // max(1, self.size.height))


def edge_of(seen: range, chars: int, y: int, height: int) -> str:
    """The right edge at a row: whether it is where one is in the text. seen: the places that are seen; a space where they are all."""
    if seen.start == 0 and seen.stop >= chars:
        return " "
    return "▐" if seen.start * height // chars <= y <= seen.stop * height // chars else "▕"


def styled(text: str, start: int, styles: Sequence[tuple[int, int, Style]], base: Style) -> list[Segment]:
    """A row of a text. start: its place in the text. styles: by places in the text, later ones over earlier ones."""
    end = start + len(text)
    limits = sorted({start, end, *(place for first, last, _ in styles for place in (first, last) if start < place < end)})
    segments = []
    for left, right in pairwise(limits):
        style = base
        for first, last, drawn in styles:
            if first <= left < last:
                style += drawn
        segments.append(Segment(text[left - start : right - start], style))
    return segments
