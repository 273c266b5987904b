"""Shows a call as rows: its turns, its answer, and its sub-calls."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from textual.binding import Binding, BindingType
from textual.events import Click
from textual.message import Message

from mahtab_tui.bus.output import OutputBuffer
from mahtab_tui.bus.sanitize import plain
from mahtab_tui.sandbox.base import TextSpan
from mahtab_tui.search.node import SearchNode, Turn
from mahtab_tui.search.tree import Tree
from mahtab_tui.tui.rows.code import CodeRows
from mahtab_tui.tui.rows.markdown import Markdown
from mahtab_tui.tui.rows.row import EDGE, RIGHT, Row, RowsView, paragraph
from mahtab_tui.tui.search.drawing import (
    CallLine,
    Drawing,
    budget,
    format_count,
    short_cost,
    short_number,
    short_time,
)
from mahtab_tui.tui.theme import BOLD, Palette
from mahtab_tui.tui.transcript.output import OutputRows

LONGEST_POSITION = 60
"""Maximum number of listed spans of an answer."""

_TRACEBACK = "Traceback (most recent call last):"
_LINE_END = re.compile(r"(?<=\S)\n(?=\S)")
"""A line end within a paragraph. It is preserved, because most answers are assembled by code."""
_ENDINGS = {
    "interrupted": "was interrupted",
    "timed out": "was stopped: it ran too long",
    "killed": "was killed; its variables are lost",
    "died": "ended its Python; its variables are lost",
}


class CallRow(NamedTuple):
    """A row, and what it links to."""

    row: Row
    span: TextSpan | None = None
    """A span of the root's text."""
    child: SearchNode | None = None
    """A call; its row is drawn when it becomes visible."""
    head: bool = False
    """Whether the answer starts here."""

    @property
    def is_link(self) -> bool:
        return self.span is not None or self.child is not None


class CallRows:
    """A `RowSource` of one call. Unchanged turns are not drawn again."""

    def __init__(self, tree: Tree, node: SearchNode, clock: Callable[[], float]) -> None:
        self.rows: list[CallRow] = []
        self._tree = tree
        self._node = node
        self._clock = clock
        self._turns: dict[int, tuple[int, list[CallRow]]] = {}

    def lay_out(self, width: int, palette: Palette) -> None:
        self._width, self._palette = max(8, width - EDGE - RIGHT), palette
        self._markdown = Markdown(palette)
        self._drawing = Drawing(max(10, width - EDGE - RIGHT), palette)
        self._turns.clear()
        self.update()

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> Row:
        found = self.rows[index]
        return (
            found.row
            if found.child is None
            else Row(
                self._drawing.spans(CallLine("node", self._tree, found.child), self._clock(), None)
            )
        )

    def update(self) -> None:
        self.rows = self._build_rows()

    def _build_rows(self) -> list[CallRow]:
        rows: list[CallRow] = []
        for turn in self._node.turns:
            version, drawn = self._turns.get(turn.number, (-1, []))
            if version != turn.version:
                drawn = [CallRow(row) for row in self._turn(turn)]
                self._turns[turn.number] = turn.version, drawn
            rows += drawn
        if not self._node.turns and not self._node.finished:
            rows.append(CallRow(Row([("Waiting for its turn.", self._palette.muted)])))
        if self._node.again:
            rows += [
                *self._calls(list(_with_retries(self._node.again)), "run again"),
                CallRow(Row()),
            ]
        rows += self._answer()
        children = list(_with_retries(self._node.children))
        rows += self._calls(children, format_count(len(children), "call"))
        return rows

    # Turns

    def _turn(self, turn: Turn) -> Iterator[Row]:
        palette, node = self._palette, self._node
        if node.kind != "llm":
            head = (
                node.turn_label(turn.number, "turn {} of {}") or f"turn {turn.number}"
            ).capitalize()
            left = budget(turn.left)
            yield Row(
                [(head, palette.model + BOLD), (f"  left: {left}" if left else "", palette.muted)],
                palette.model,
                right=[(self._usage(turn), palette.muted)],
            )
        if node.kind != "llm" or not node.finished:  # The words of a plain call are its answer.
            yield from self._markdown.document(plain(_prose(turn)), self._width, palette.model)
        if turn.code is not None:
            code = CodeRows(self._width, palette, palette.model)
            code.update(turn.code.strip("\n"))
            yield from (code[number] for number in range(len(code)))
        if turn.cut:
            yield from paragraph(
                [("Text after its code was dropped: it had not seen the output.", palette.muted)],
                self._width,
                palette.model,
            )
        yield from self._output_rows(turn)
        yield Row()

    def _output_rows(self, turn: Turn) -> Iterator[Row]:
        if turn.output is None:
            return
        if turn.output.strip():
            output = OutputBuffer()
            printed, mark, traceback = (
                turn.output.partition(_TRACEBACK)
                if turn.status == "error"
                else (turn.output, "", "")
            )
            output.feed("stdout", printed)
            output.feed("traceback", mark + traceback)
            drawn = OutputRows(output, self._width, self._palette)
            drawn.update()
            yield from (drawn[number] for number in range(len(drawn)))
        if turn.chars > len(turn.output):
            yield Row(
                [(f"{turn.chars:,} characters were printed", self._palette.muted)],
                self._palette.hairline,
            )
        if ending := _ENDINGS.get(turn.status):
            yield Row([(f"■ The code {ending}.", self._palette.bad)], self._palette.hairline)

    def _usage(self, turn: Turn) -> str:
        words = [
            f"{short_number(turn.used.tokens)} tok" if turn.used.tokens else "",
            short_cost(turn.used) if turn.used.calls else "",
        ]
        words.append("" if turn.duration is None else short_time(turn.duration))
        return "  ".join(filter(None, words))

    # Answer and calls

    def _answer(self) -> Iterator[CallRow]:
        node, palette = self._node, self._palette
        if not node.finished:
            return
        name, style = {
            "partial": ("Answer, as far as it got", palette.moon),
            "error": ("It failed", palette.bad),
            "stopped": ("It was stopped", palette.muted),
        }.get(node.state, ("Answer", palette.good))
        about = (
            "came too late for its parent; kept beside the answer that the parent got"
            if node.late
            else ""
        )
        about = (
            f"the same question over the same text as {node.memo}: asked once"
            if node.memo
            else about
        )
        yield CallRow(
            Row([(name, style + BOLD), (f"  {about}" if about else "", palette.muted)], style),
            head=True,
        )
        yield from map(
            CallRow,
            self._markdown.document(_LINE_END.sub("  \n", plain(node.answer)), self._width, style),
        )
        if node.rests_on:
            yield CallRow(
                Row(
                    [
                        (
                            f"rests on {format_count(len(node.rests_on), 'place')} of the text",
                            palette.muted,
                        )
                    ],
                    style,
                )
            )
            for start, end in node.rests_on[:LONGEST_POSITION]:
                words = [
                    ("  → ", palette.moon),
                    (f"{start:,}–{end:,}", palette.text),
                    (f"   {end - start:,} characters", palette.muted),
                ]
                yield CallRow(Row(words, style), span=(start, end))
        yield CallRow(Row())

    def _calls(self, nodes: Sequence[SearchNode], head: str) -> Iterator[CallRow]:
        if nodes:
            yield CallRow(Row([(head, self._palette.text + BOLD)]))
            yield from (CallRow(Row(), child=node) for node in nodes)


def _prose(turn: Turn) -> str:
    """Return the model's words, without the code that is shown below them."""
    if turn.code is None:
        return turn.words
    before, fence, _ = turn.words.partition("```")
    if fence:
        return before
    return (
        ""
        if turn.words.strip() == turn.code.strip()
        else turn.words.partition(turn.code.strip())[0]
    )


def _with_retries(nodes: Sequence[SearchNode]) -> Iterator[SearchNode]:
    """Yield calls, each followed by its retries."""
    for node in nodes:
        yield node
        yield from _with_retries(node.again)


class CallPane(RowsView, can_focus=True):
    """Shows a call. Tab goes to the next row that links to a span or a call; Enter or a click opens
    it."""

    bars = True

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("tab", "next_link(1)", "Next place or call", show=False),
        Binding("shift+tab", "next_link(-1)", "Previous place or call", show=False),
    ]

    @dataclass
    class SpanOpened(Message):
        """The user opened a span of the text."""

        span: TextSpan

    @dataclass
    class CallOpened(Message):
        """The user opened another call."""

        node: SearchNode

    def __init__(
        self, tree: Tree, node: SearchNode, clock: Callable[[], float], *, id: str | None = None
    ) -> None:
        self._rows = CallRows(tree, node, clock)
        super().__init__(self._rows, id=id)
        self.following = not node.finished
        self._placed = False

    @property
    def marked_row(self) -> int:
        return self.cursor

    def refresh_view(self) -> None:
        if self._laid_out is not None:
            self._rows.update()
        super().refresh_view()
        if self.cursor >= 0 and (
            self.cursor >= len(self._rows) or not self._rows.rows[self.cursor].is_link
        ):
            self.cursor = -1
        if self.following:
            self.scroll_to(y=max(0, len(self._rows) - self.size.height), animate=False, force=True)
        if not self._placed and self._laid_out is not None:
            self._placed = True
            self._go_to_answer()

    def _go_to_answer(self) -> None:
        """Scroll so that the answer, which the user most likely looks for, is near the top."""
        head = next((row for row, found in enumerate(self._rows.rows) if found.head), None)
        if head is not None:
            self.call_after_refresh(
                self.scroll_to, y=head - self.size.height // 4, animate=False, force=True
            )

    # Actions

    def action_next_link(self, step: int) -> None:
        """Go to the next (1) or previous (-1) link; after the last link, focus the next widget."""
        rows = self._rows.rows
        start = (
            self.cursor
            if self.cursor >= 0
            else self.scroll_offset.y - 1
            if step > 0
            else self.scroll_offset.y + self.size.height
        )
        start = min(start, len(rows))
        rows_ahead = range(start + step, len(rows) if step > 0 else -1, step)
        self.cursor = next((row for row in rows_ahead if rows[row].is_link), -1)
        if self.cursor < 0:
            self.screen.focus_next() if step > 0 else self.screen.focus_previous()
        else:
            self.following = False
            self.show_row(self.cursor)
        self.refresh()

    def open_link(self) -> bool:
        """Open the selected row; returns False if none is selected."""
        if self.cursor >= 0:
            self._open(self._rows.rows[self.cursor])
        return self.cursor >= 0

    def _open(self, row: CallRow) -> None:
        if row.span is not None:
            self.post_message(self.SpanOpened(row.span))
        elif row.child is not None:
            self.post_message(self.CallOpened(row.child))

    def on_click(self, event: Click) -> None:
        index = self.row_at(event.y)
        if index is not None and self._rows.rows[index].is_link:
            self.cursor = index
            self._open(self._rows.rows[index])

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        if new_value < old_value and new_value < self.max_scroll_y:
            self.following = False
