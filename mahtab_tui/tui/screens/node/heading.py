"""The heading of a call's screen: the call, its state and figures, and the place of its text."""

from __future__ import annotations

from dataclasses import dataclass

from textual.content import Content
from textual.events import Click
from textual.message import Message
from textual.widgets import Static

from mahtab_tui.search.node import SearchNode
from mahtab_tui.search.tree import Tree
from mahtab_tui.tui.calls.glyphs import COVER, glyph, legend
from mahtab_tui.tui.calls.labels import (
    count_of,
    one_line,
    place,
    short_cost,
    short_number,
    short_time,
)


def crumbs(node: SearchNode, now: float) -> Content:
    """Show the path from the root to the call, and the call's state."""
    way: list[str] = []
    above: SearchNode | None = node
    while above is not None:
        way.append(above.id.rpartition(".")[2])
        above = above.parent
    mark, role = glyph(node, now)
    return Content.assemble(
        ("◐ ", "$moon"),
        ("call " + " › ".join(reversed(way)), "$muted"),
        "   ",
        (f"{mark} ", f"${role}"),
        (_state(node), f"${role}"),
    )


def _state(node: SearchNode) -> str:
    words = {"error": "failed"}.get(node.state, node.state)
    return f"{words}, cut off" if node.cut else words


def figures(node: SearchNode, now: float, width: int) -> str:
    """Show what the call and those below it have used; if it is too wide, the first figures are
    left out."""
    turn = (
        node.turn_label(node.turns[-1].number, "turn {} of {}")
        if node.turns and node.kind != "llm"
        else ""
    )
    used = node.used
    words = [
        one_line(node.model),
        turn,
        count_of(used.calls, "call"),
        f"{short_number(used.tokens)} tok",
        short_cost(used),
    ]
    words = [*filter(None, words), short_time(node.elapsed(now))]
    while len(words) > 1 and len(" · ".join(words)) > width:
        del words[0]
    return " · ".join(words)


class PlaceBar(Static):
    """Shows the whole text as a bar, and below it the call's own part. A click goes to that
    place."""

    @dataclass
    class Clicked(Message):
        """The user clicked a place of the text."""

        at: int

    def __init__(self, tree: Tree, node: SearchNode) -> None:
        super().__init__(markup=False)
        self._tree = tree
        self._node = node

    def render(self) -> Content:
        width, chars = max(1, self.size.width), self._tree.coverage.chars
        bar = Content.assemble(
            *((COVER[how][0], f"${COVER[how][1]}") for how in self._tree.coverage.cells(width))
        )
        spans = self._node.spans
        if not chars or not spans or self._node is self._tree.root:
            return Content.assemble(bar, "\n", *((text, f"${role}") for text, role in legend()))
        first = min(start for start, _ in spans) * width // chars
        after = max(first + 1, -(-max(end for _, end in spans) * width // chars))
        mark = "▔" * (min(after, width) - first)
        words = f"{place(spans)} of {short_number(chars)} characters"
        right = first + len(mark) + 1 + len(words) <= width
        below = " " * first + f"{mark} {words}" if right else f"{words.rjust(first - 1)} {mark}"
        return Content.assemble(bar, "\n", (below, "$muted"))

    def on_click(self, event: Click) -> None:
        self.post_message(
            self.Clicked(event.x * self._tree.coverage.chars // max(1, self.size.width))
        )
