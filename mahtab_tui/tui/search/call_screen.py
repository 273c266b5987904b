"""The screen of one call: its query, turns and answer, next to its text."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from rich.style import Style
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.events import Click, Resize
from textual.message import Message
from textual.widgets import Input, Static

from mahtab_tui.bus.sanitize import plain
from mahtab_tui.sandbox.base import TextSpan
from mahtab_tui.search.node import Coverage, CoverageCell, SearchNode
from mahtab_tui.search.tree import SearchControl, Tree
from mahtab_tui.tui.find import LineInput
from mahtab_tui.tui.rows.row import CURSOR_KEYS, FRAME_RATE, Span
from mahtab_tui.tui.rows.text_window import LongTextView, StyledPart, TextRow, TextWindow
from mahtab_tui.tui.screens.dialog import Dialog
from mahtab_tui.tui.search.call_story import CallPane
from mahtab_tui.tui.search.drawing import (
    coverage_mark,
    describe_position,
    format_count,
    glyph,
    legend,
    one_line,
    short_cost,
    short_number,
    short_time,
)
from mahtab_tui.tui.search.pane import NODE_MENU, CallSelection, NodeActions
from mahtab_tui.tui.theme import get_palette
from mahtab_tui.tui.widgets.key_line import KeyLine

__all__ = ["NodeScreen"]


def crumbs(node: SearchNode, now: float) -> Content:
    """Show the path from the root to a call, and the call's state."""
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
    """Show what a call and its descendants have used; if that is too wide, leave out the first
    figures."""
    turn = (
        node.turn_label(node.turns[-1].number, "turn {} of {}")
        if node.turns and node.kind != "llm"
        else ""
    )
    used = node.used
    words = [
        one_line(node.model),
        turn,
        format_count(used.calls, "call"),
        f"{short_number(used.tokens)} tok",
        short_cost(used),
    ]
    words = [*filter(None, words), short_time(node.elapsed(now))]
    while len(words) > 1 and len(" · ".join(words)) > width:
        del words[0]
    return " · ".join(words)


class PositionBar(Static):
    """Shows the whole text as a bar, and below it the call's own part. A click jumps to that
    place."""

    @dataclass
    class Clicked(Message):
        """The user clicked a position in the text."""

        at: int

    def __init__(self, tree: Tree, node: SearchNode) -> None:
        super().__init__(markup=False)
        self._tree = tree
        self._node = node

    def render(self) -> Content:
        width, chars = max(1, self.size.width), self._tree.coverage.chars
        bar = Content.assemble(
            *(
                (mark, f"${role}")
                for mark, role in map(coverage_mark, self._tree.coverage.cells(width))
            )
        )
        spans = self._node.spans
        if not chars or not spans or self._node is self._tree.root:
            return Content.assemble(bar, "\n", *((text, f"${role}") for text, role in legend()))
        first = min(start for start, _ in spans) * width // chars
        after = max(first + 1, -(-max(end for _, end in spans) * width // chars))
        mark = "▔" * (min(after, width) - first)
        words = f"{describe_position(spans)} of {short_number(chars)} characters"
        right = first + len(mark) + 1 + len(words) <= width
        below = " " * first + f"{mark} {words}" if right else f"{words.rjust(first - 1)} {mark}"
        return Content.assemble(bar, "\n", (below, "$muted"))

    def on_click(self, event: Click) -> None:
        self.post_message(
            self.Clicked(event.x * self._tree.coverage.chars // max(1, self.size.width))
        )


class TextRows(LongTextView, can_focus=True):
    """Shows the text; the right edge shows which parts the search has covered."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *CURSOR_KEYS,
        Binding("n", "next(False)", "Next", show=False),
        Binding("N,shift+n", "next(True)", "Previous", show=False),
    ]

    def __init__(self, window: TextWindow, spans: Sequence[TextSpan], coverage: Coverage) -> None:
        """spans: the parts of the text that were passed to the call."""
        super().__init__(window)
        self.span: TextSpan | None = None
        """The span opened by the user."""
        self.top = spans[0][0] if spans else 0
        self._spans = spans
        self._marks: Sequence[TextSpan] = ()
        self._coverage = coverage
        self._cells: Sequence[CoverageCell] = ()
        """Uses of the text, for each row of the right edge."""

    def mark(self, spans: Sequence[TextSpan]) -> None:
        """Mark the spans that support the answer."""
        self._marks = spans
        self.refresh_view()

    def refresh_view(self) -> None:
        self._cells = self._coverage.cells(max(1, self.size.height))
        super().refresh_view()

    @property
    def rows_above(self) -> int:
        return min(3, self.size.height // 4)

    @property
    def _gutter(self) -> int:
        return len(f"{max(1, self.window.chars // 40):,}") + 4

    @property
    def text_width(self) -> int:
        return max(10, self.size.width - self._gutter - 2)

    def row_prefix(self, row: TextRow) -> list[Span]:
        """Draw the line's number, and a bar for the call's own text and for what supports its
        answer."""
        palette, number = get_palette(self.app), f"{row.number:,}" if row.number is not None else ""
        rests = any(start < row.end and row.start < end for start, end in self._marks)
        bar = (
            ("█", palette.moon) if rests else ("▌" if self._contains(row) else " ", palette.person)
        )
        return [(number.rjust(self._gutter - 3) + " ", palette.muted), bar, (" ", Style.null())]

    def _contains(self, row: TextRow) -> bool:
        return any(start <= row.start < end for start, end in self._spans)

    def row_style(self, row: TextRow) -> Style:
        palette = get_palette(self.app)
        return palette.text if self._contains(row) else palette.muted

    def edge(self, y: int) -> Span:
        """Draw what was covered at this height, and the position in the text."""
        palette = get_palette(self.app)
        cell = self._cells[y] if y < len(self._cells) else CoverageCell()
        if y == self.top * max(1, self.size.height) // max(1, self.window.chars):
            return "◀", palette.text
        mark = "▕" if cell.sparse or cell.how is None else "▐"
        return mark, getattr(palette, coverage_mark(cell)[1])

    def part_styles(self, row: TextRow) -> list[StyledPart]:
        palette = get_palette(self.app)
        span = [] if self.span is None else [(*self.span, palette.panel)]
        return [
            *((start, end, palette.moon) for start, end in self._marks),
            *span,
            *super().part_styles(row),
        ]


class TextPane(Vertical):
    """Shows the text, with a line to search it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "search", "Search", key_display="/"),
        Binding("right_square_bracket", "position(1)", "Next match", show=False),
        Binding("left_square_bracket", "position(-1)", "Previous match", show=False),
    ]

    def __init__(
        self,
        window: TextWindow,
        spans: Sequence[TextSpan],
        coverage: Coverage,
        *,
        id: str | None = None,
    ) -> None:
        super().__init__(id=id)
        self._window = window
        self.rows = TextRows(window, spans, coverage)
        self._coverage = coverage
        self._spans = spans

    def compose(self) -> ComposeResult:
        if not self._spans:
            yield Static(
                "Code made this call's text: it is not part of the searched text.",
                classes="quiet-words",
                markup=False,
            )
        elif not self._window.is_loaded:
            yield Static("The text is no longer kept.", classes="quiet-words", markup=False)
        else:
            yield self.rows
            yield LineInput(placeholder="search the text", compact=True, id="find")

    def on_mount(self) -> None:
        for line in self.query("#find"):
            line.display = False

    @property
    def shown(self) -> bool:
        return self.rows.is_attached

    def show(self, span: TextSpan) -> None:
        if self.shown:
            self.rows.span, self.rows.found = span, None
            self.rows.go_to(span[0])

    def action_position(self, step: int) -> None:
        """Go to the next (1) or previous (-1) span that a pattern matched or that supports an
        answer."""
        if not self.shown:
            return
        found = sorted([*self._coverage.spans("grep"), *self._coverage.spans("answer")])
        at = self.rows.top if self.rows.span is None else self.rows.span[0] + (step > 0)
        beyond = [span for span in found if (span[0] >= at if step > 0 else span[0] < at)]
        if beyond:
            self.show(beyond[0 if step > 0 else -1])

    def action_search(self) -> None:
        if self.shown:
            line = self.query_one("#find", LineInput)
            line.display = True
            line.focus()

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.rows.focus()
        self.rows.words = event.value
        self.rows.action_next(False)

    def leave_search(self) -> bool:
        """Close the search line; returns False if it is not open."""
        for line in self.query("#find"):
            if line.display and line.has_focus:
                line.display = False
                self.rows.focus()
                return True
        return False


SIDE_BY_SIDE = 130
"""Width from which the text is shown next to the call; on narrower screens, only one of them is
visible."""


class NodeScreen(Dialog[None], NodeActions):
    """Shows a call, and updates while it runs."""

    asks: ClassVar[bool] = False

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("t", "text", "Text"),
        Binding("escape", "leave", "Back"),
    ]

    def __init__(
        self,
        chosen: CallSelection,
        control: SearchControl,
        clock: Callable[[], float] = time.time,
        *,
        at: int | None = None,
    ) -> None:
        """at: the part of the root's text to show first."""
        super().__init__()
        self.control = control
        self._tree, self._node = tree, node = chosen
        window = TextWindow(
            lambda start, end: control.text(tree.id, start, end), tree.coverage.chars
        )
        self._call_pane = CallPane(tree, node, clock, id="node-story")
        self._text = TextPane(window, node.spans, tree.coverage, id="node-text")
        self._bar = PositionBar(tree, node)
        self._clock = clock
        self._at = at
        self._shown_versions = (-1, -1)
        """The shown versions of the call and the tree."""

    @property
    def chosen(self) -> CallSelection:
        return CallSelection(self._tree, self._node)

    def compose(self) -> ComposeResult:
        with Horizontal(id="node-top"):
            yield Static(id="node-crumbs", markup=False)
            yield Static(id="node-figures", markup=False)
        with VerticalScroll(id="node-query", can_focus=False):
            yield Static(Content(plain(self._node.query).strip()), markup=False)
        yield self._bar
        with Horizontal(id="node-body"):
            yield self._call_pane
            with Vertical(id="node-side"):
                yield self._text
        yield KeyLine()

    def on_mount(self) -> None:
        self._arrange(self.app.size.width)
        self._call_pane.focus()
        self._refresh_changed()
        self.set_interval(1 / FRAME_RATE, self._refresh_changed)
        if self._at is not None:
            at = self._at
            self.call_after_refresh(lambda: self._show_text((at, at)))

    def on_resize(self, event: Resize) -> None:
        self._arrange(event.size.width)
        self._shown_versions = (-1, -1)
        self._refresh_changed()

    def _arrange(self, width: int) -> None:
        side_by_side = width >= SIDE_BY_SIDE
        self.set_class(side_by_side, "-beside")
        if side_by_side:
            self._call_pane.display = self.query_one("#node-side").display = True
        elif self._call_pane.display:
            self.query_one("#node-side").display = False

    def _refresh_changed(self) -> None:
        """Draw what is new, and what changes with time."""
        node, now = self._node, self._clock()
        seen = (node.version, self._tree.structure)
        if seen != self._shown_versions or not node.finished or node.alive:
            where = crumbs(node, now)
            self.query_one("#node-crumbs", Static).update(where)
            room = self.app.size.width - where.cell_length - 5
            self.query_one("#node-figures", Static).update(
                Content.styled(figures(node, now, room), "$muted")
            )
            self._bar.refresh()
        if seen != self._shown_versions:
            self._shown_versions = seen
            self._call_pane.refresh_view()
            self._text.rows.mark(node.rests_on)
        elif node.alive:
            self._call_pane.refresh()

    # Actions

    def action_leave(self) -> None:
        if not self._text.leave_search():
            self.dismiss(None)

    def action_text(self) -> None:
        side = self.query_one("#node-side")
        to_text = not side.has_focus_within
        if not self.has_class("-beside"):
            side.display, self._call_pane.display = to_text, not to_text
        if to_text and self._text.shown:
            self._text.rows.focus()
        else:
            self._call_pane.focus()

    def action_menu(self) -> None:
        """Open the selected row; if none is selected, show the actions on the call."""
        if not self._call_pane.open_link():
            self.open_menu([command for command in NODE_MENU if command.id != "node-open"])

    def action_follow(self) -> None:
        self._call_pane.following = not self._call_pane.following
        self._call_pane.refresh_view()

    def choose(self, node: SearchNode) -> None:
        self.app.switch_screen(
            NodeScreen(CallSelection(self._tree, node), self.control, self._clock)
        )

    @on(CallPane.CallOpened)
    def _call_opened(self, message: CallPane.CallOpened) -> None:
        self.choose(message.node)

    @on(CallPane.SpanOpened)
    def _on_span_opened(self, message: CallPane.SpanOpened) -> None:
        self._show_text(message.span)

    @on(PositionBar.Clicked)
    def _bar_clicked(self, message: PositionBar.Clicked) -> None:
        self._show_text((message.at, message.at))

    def _show_text(self, span: tuple[int, int]) -> None:
        if not self._text.shown:
            return
        if not self.query_one("#node-side").has_focus_within:
            self.action_text()
        self.call_after_refresh(self._text.show, span)
