"""The screen of one call: its query, turns, answer and sub-calls, next to its text."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from rich.style import Style
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.events import Click, Resize
from textual.message import Message
from textual.widgets import Input, Static

from mahtab_tui.bus.output import OutputBuffer
from mahtab_tui.bus.sanitize import plain
from mahtab_tui.sandbox.base import TextSpan
from mahtab_tui.search.tree import SearchControl, SearchNode, Turn
from mahtab_tui.tui.find import LineInput
from mahtab_tui.tui.rows.code import CodeRows
from mahtab_tui.tui.rows.markdown import Markdown
from mahtab_tui.tui.rows.row import (
    CURSOR_KEYS,
    EDGE,
    FRAME_RATE,
    RIGHT,
    Row,
    RowsView,
    Span,
    fit_text,
    paragraph,
)
from mahtab_tui.tui.rows.text_window import (
    LocalText,
    LongTextView,
    PagedText,
    StyledPart,
    Text,
    TextRow,
)
from mahtab_tui.tui.screens.dialog import Dialog
from mahtab_tui.tui.search.pane import (
    MARKS,
    NODE_MENU,
    CallSelection,
    NodeActions,
    format_count,
    glyph,
    one_line,
    short_cost,
    short_time,
)
from mahtab_tui.tui.theme import BOLD, Palette, get_palette
from mahtab_tui.tui.transcript.output import OutputRows
from mahtab_tui.tui.widgets.bars import KeyLine, short_number

LONGEST_POSITION = 60

_TRACEBACK = "Traceback (most recent call last):"
_LINE_END = re.compile(r"(?<=\S)\n(?=\S)")
"""A line end within a paragraph; preserved, because code assembles most answers."""
_ENDINGS = {
    "timed out": "was stopped: it ran too long",
    "killed": "was killed; its variables are lost",
    "died": "ended its Python; its variables are lost",
}


class CallRow(NamedTuple):
    row: Row
    span: TextSpan | None = None
    child: SearchNode | None = None
    """Its row is drawn when it becomes visible."""
    head: bool = False

    @property
    def is_link(self) -> bool:
        return self.span is not None or self.child is not None


class CallRows:
    def __init__(self, node: SearchNode) -> None:
        self.rows: list[CallRow] = []
        self._node = node
        self._turns: dict[int, tuple[int, list[CallRow]]] = {}

    def lay_out(self, width: int, palette: Palette) -> None:
        self._width, self._palette = max(8, width - EDGE - RIGHT), palette
        self._markdown = Markdown(palette)
        self._turns.clear()
        self.update()

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> Row:
        row, _, child, _ = self.rows[index]
        if child is None:
            return row
        mark, role = MARKS[child.state]
        words = f" {one_line(child.query)}  {one_line(child.answer)}"
        text = fit_text(words, self._width - 1), self._palette.text
        return Row([(mark, getattr(self._palette, role)), text])

    def update(self) -> None:
        node, rows = self._node, list[CallRow]()
        for turn in node.turns:
            version, drawn = self._turns.get(turn.number, (-1, []))
            if version != turn.version:
                drawn = [CallRow(row) for row in self._turn(turn)]
                self._turns[turn.number] = turn.version, drawn
            rows += drawn
        if not node.turns and not node.finished:
            rows.append(CallRow(Row([("Waiting for its turn.", self._palette.muted)])))
        if node.finished:
            rows += self._answer(node)
        if calls := len(node.children):
            rows.append(CallRow(Row([(format_count(calls, "call"), self._palette.text + BOLD)])))
            rows += [CallRow(Row(), child=child) for child in node.children]
        self.rows = rows

    def _turn(self, turn: Turn) -> Iterator[Row]:
        palette, node, width = self._palette, self._node, self._width
        plain_call = node.kind == "llm"
        if not plain_call:
            head = node.turn_label(turn.number, "turn {} of {}") or f"turn {turn.number}"
            used = [
                f"{short_number(turn.used.tokens)} tok" if turn.used.tokens else "",
                short_cost(turn.used) if turn.used.calls else "",
                "" if turn.duration is None else short_time(turn.duration),
            ]
            usage = ("  ".join(filter(None, used)), palette.muted)
            yield Row([(head.capitalize(), palette.model + BOLD)], palette.model, right=[usage])
        if not plain_call or not node.finished:  # The words of a plain call are its answer.
            yield from self._markdown.document(plain(_prose(turn)), width, palette.model)
        if turn.code is not None:
            code = CodeRows(width, palette, palette.model)
            code.update(turn.code.strip("\n"))
            yield from code
        if turn.cut:
            dropped = "Text after its code was dropped: it had not seen the output."
            yield from paragraph([(dropped, palette.muted)], width, palette.model)
        yield from self._output_rows(turn)
        yield Row()

    def _output_rows(self, turn: Turn) -> Iterator[Row]:
        if turn.output is None:
            return
        palette, text = self._palette, turn.output
        if text.strip():
            printed, mark, traceback = text, "", ""
            if turn.status == "error":
                printed, mark, traceback = text.partition(_TRACEBACK)
            output = OutputBuffer()
            output.feed("stdout", printed)
            output.feed("traceback", mark + traceback)
            drawn = OutputRows(output, self._width, palette)
            drawn.update()
            yield from (drawn[number] for number in range(len(drawn)))
        if turn.chars > len(text):
            printed = f"{turn.chars:,} characters were printed"
            yield Row([(printed, palette.muted)], palette.hairline)
        if ending := _ENDINGS.get(turn.status):
            yield Row([(f"■ The code {ending}.", palette.bad)], palette.hairline)

    def _answer(self, node: SearchNode) -> Iterator[CallRow]:
        palette = self._palette
        name, style = {
            "partial": ("Answer, as far as it got", palette.moon),
            "error": ("It failed", palette.bad),
            "stopped": ("It was stopped", palette.muted),
        }.get(node.state, ("Answer", palette.good))
        yield CallRow(Row([(name, style + BOLD)], style), head=True)
        answer = _LINE_END.sub("  \n", plain(node.answer))
        yield from map(CallRow, self._markdown.document(answer, self._width, style))
        if node.rests_on:
            grounds = f"rests on {format_count(len(node.rests_on), 'place')} of the text"
            yield CallRow(Row([(grounds, palette.muted)], style))
        for start, end in node.rests_on[:LONGEST_POSITION]:
            span, size = f"{start:,}–{end:,}", f"   {end - start:,} characters"
            words = [("  → ", palette.moon), (span, palette.text), (size, palette.muted)]
            yield CallRow(Row(words, style), span=(start, end))
        yield CallRow(Row())


def _prose(turn: Turn) -> str:
    if turn.code is None:
        return turn.words
    before, fence, _ = turn.words.partition("```")
    code = turn.code.strip()
    return before if fence or not code else turn.words.partition(code)[0]


class CallPane(RowsView, can_focus=True):
    """Shows a call. Tab goes to the next link."""

    bars = True

    BINDINGS: ClassVar[list[BindingType]] = [
        ("tab", "next_link(1)"),
        ("shift+tab", "next_link(-1)"),
    ]

    @dataclass
    class SpanOpened(Message):
        span: TextSpan

    @dataclass
    class CallOpened(Message):
        node: SearchNode

    def __init__(self, node: SearchNode) -> None:
        self._rows = CallRows(node)
        super().__init__(self._rows, id="node-story")
        self._placed = False

    @property
    def marked_row(self) -> int:
        return self.cursor

    def refresh_view(self) -> None:
        at_end = self.scroll_offset.y >= self.max_scroll_y
        if self._laid_out is not None:
            self._rows.update()
        super().refresh_view()
        rows = self._rows.rows
        if self.cursor >= len(rows) or (self.cursor >= 0 and not rows[self.cursor].is_link):
            self.cursor = -1
        if at_end:
            self._scroll_to_row(max(0, len(rows) - self.size.height))
        if not self._placed and self._laid_out is not None:
            self._placed = True
            # The user most likely looks for the answer.
            if (head := next((y for y, row in enumerate(rows) if row.head), None)) is not None:
                self.call_after_refresh(self._scroll_to_row, head - self.size.height // 4)

    def _scroll_to_row(self, row: int) -> None:
        self.scroll_to(y=row, animate=False, force=True)

    def action_next_link(self, step: int) -> None:
        """Go to the next (1) or previous (-1) link, or focus the next widget."""
        rows, start = self._rows.rows, self.cursor
        if start < 0:
            start = self.scroll_offset.y + (-1 if step > 0 else self.size.height)
        rows_ahead = range(min(start, len(rows)) + step, len(rows) if step > 0 else -1, step)
        self.cursor = next((row for row in rows_ahead if rows[row].is_link), -1)
        if self.cursor < 0:
            self.screen.focus_next() if step > 0 else self.screen.focus_previous()
        else:
            self.show_row(self.cursor)
        self.refresh()

    def open_link(self) -> bool:
        if self.cursor < 0:
            return False
        row = self._rows.rows[self.cursor]
        if row.span is not None:
            self.post_message(self.SpanOpened(row.span))
        elif row.child is not None:
            self.post_message(self.CallOpened(row.child))
        return True

    def on_click(self, event: Click) -> None:
        index = self.row_at(event.y)
        if index is not None and self._rows.rows[index].is_link:
            self.cursor = index
            self.open_link()


def crumbs(node: SearchNode, now: float) -> Content:
    mark, role = glyph(node, now)
    state = "failed" if node.state == "error" else node.state
    call = ("call " + node.id.replace(".", " › "), "$muted")
    shown = (f"{mark} {state}{', cut off' * node.cut}", f"${role}")
    return Content.assemble(("◐ ", "$moon"), call, "   ", shown)


def figures(node: SearchNode, now: float, width: int) -> str:
    """Show what a call and its descendants used; the first figures go if there is no room."""
    used, turn = node.used, ""
    if node.turns and node.kind != "llm":
        turn = node.turn_label(node.turns[-1].number, "turn {} of {}")
    tokens = f"{short_number(used.tokens)} tok"
    words = [one_line(node.model), turn, format_count(used.calls, "call"), tokens, short_cost(used)]
    words = [*filter(None, words), short_time(node.elapsed(now))]
    while len(words) > 1 and len(" · ".join(words)) > width:
        del words[0]
    return " · ".join(words)


class TextRows(LongTextView, can_focus=True):
    BINDINGS: ClassVar[list[BindingType]] = [
        *CURSOR_KEYS,
        ("n", "next(False)"),
        ("N,shift+n", "next(True)"),
    ]

    def __init__(self, source: Text, spans: Sequence[TextSpan]) -> None:
        super().__init__(source)
        self.span: TextSpan | None = None
        self.top = spans[0][0] if spans else 0
        self._spans = spans
        self._marks: Sequence[TextSpan] = ()

    def mark(self, spans: Sequence[TextSpan]) -> None:
        self._marks = spans
        self.refresh_view()

    @property
    def rows_above(self) -> int:
        return min(3, self.size.height // 4)

    @property
    def _gutter(self) -> int:
        return len(f"{max(1, self.source.size // 40):,}") + 4

    @property
    def text_width(self) -> int:
        return max(10, self.size.width - self._gutter - 2)

    def row_prefix(self, row: TextRow) -> list[Span]:
        palette, number = get_palette(self.app), f"{row.number:,}" if row.number is not None else ""
        bar = ("▌" if self._contains(row) else " ", palette.person)
        if any(start < row.end and row.start < end for start, end in self._marks):
            bar = ("█", palette.moon)
        return [(number.rjust(self._gutter - 3) + " ", palette.muted), bar, (" ", Style.null())]

    def _contains(self, row: TextRow) -> bool:
        return any(start <= row.start < end for start, end in self._spans)

    def edge(self, y: int) -> Span:
        palette = get_palette(self.app)
        if y == self.top * max(1, self.size.height) // max(1, self.source.size):
            return "◀", palette.text
        return "▕", palette.hairline

    def part_styles(self, row: TextRow) -> list[StyledPart]:
        palette = get_palette(self.app)
        span = [] if self.span is None else [(*self.span, palette.panel)]
        inside = palette.text if self._contains(row) else palette.muted
        return [
            (row.start, row.end, inside),
            *((start, end, palette.moon) for start, end in self._marks),
            *span,
            *super().part_styles(row),
        ]


class TextPane(Vertical):
    BINDINGS: ClassVar[list[BindingType]] = [Binding("slash", "search", "Search", key_display="/")]

    def __init__(self, source: Text | None, spans: Sequence[TextSpan]) -> None:
        """source: None if the text is no longer in memory."""
        super().__init__(id="node-side")
        self.shown = source is not None and bool(spans)
        self.rows = TextRows(source or LocalText(""), spans)
        self._line = LineInput(placeholder="search the text", compact=True, id="find")
        self._line.display = False
        self._spans = spans

    def compose(self) -> ComposeResult:
        if self.shown:
            yield self.rows
            yield self._line
        else:
            lost = "The text is no longer kept."
            made = "Code made this call's text: it is not part of the searched text."
            yield Static(lost if self._spans else made, classes="quiet-words", markup=False)

    def show(self, span: TextSpan) -> None:
        if self.shown:
            self.rows.span, self.rows.found = span, None
            self.rows.go_to(span[0])

    def action_search(self) -> None:
        if self.shown:
            self._line.display = True
            self._line.focus()

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.rows.focus()
        self.rows.search(event.value)

    def leave_search(self) -> bool:
        if not self._line.has_focus:
            return False
        self._line.display = False
        self.rows.focus()
        return True


SIDE_BY_SIDE = 130
"""Width from which the text is shown next to the call."""


class NodeScreen(Dialog[None], NodeActions):
    asks: ClassVar[bool] = False

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("t", "text", "Text"),
        Binding("escape", "leave", "Back"),
    ]

    def __init__(
        self, chosen: CallSelection, control: SearchControl, clock: Callable[[], float] = time.time
    ) -> None:
        super().__init__()
        self.control = control
        self._tree, self._node = tree, node = chosen
        source = None

        def read(start: int, end: int) -> str:
            return control.text(tree.id, start, end) or ""

        if tree.root is not None and control.text(tree.id, 0, 1) is not None:
            source = PagedText(read, tree.root.chars)
        self._call_pane = CallPane(node)
        self._text = TextPane(source, node.spans)
        self._clock = clock
        self._shown_versions = (-1, -1)

    @property
    def chosen(self) -> CallSelection:
        return CallSelection(self._tree, self._node)

    def compose(self) -> ComposeResult:
        with Horizontal(id="node-top"):
            yield Static(id="node-crumbs", markup=False)
            yield Static(id="node-figures", markup=False)
        with VerticalScroll(id="node-query", can_focus=False):
            yield Static(Content(plain(self._node.query).strip()), markup=False)
        with Horizontal(id="node-body"):
            yield self._call_pane
            yield self._text
        yield KeyLine()

    def on_mount(self) -> None:
        self._arrange(self.app.size.width)
        self._call_pane.focus()
        self._refresh_changed()
        self.set_interval(1 / FRAME_RATE, self._refresh_changed)

    def on_resize(self, event: Resize) -> None:
        self._arrange(event.size.width)
        self._shown_versions = (-1, -1)
        self._refresh_changed()

    def _arrange(self, width: int) -> None:
        side_by_side = width >= SIDE_BY_SIDE
        self.set_class(side_by_side, "-beside")
        self._call_pane.display = self._call_pane.display or side_by_side
        self._text.display = side_by_side or not self._call_pane.display

    def _refresh_changed(self) -> None:
        node, now = self._node, self._clock()
        seen = (node.version, self._tree.structure)
        if seen != self._shown_versions or not node.finished or node.alive:
            where = crumbs(node, now)
            self.query_one("#node-crumbs", Static).update(where)
            room = self.app.size.width - where.cell_length - 5
            used = Content.styled(figures(node, now, room), "$muted")
            self.query_one("#node-figures", Static).update(used)
        if seen != self._shown_versions:
            self._shown_versions = seen
            self._call_pane.refresh_view()
            self._text.rows.mark(node.rests_on)

    def action_leave(self) -> None:
        if not self._text.leave_search():
            self.dismiss(None)

    def action_text(self) -> None:
        to_text = not self._text.has_focus_within
        if not self.has_class("-beside"):
            self._text.display, self._call_pane.display = to_text, not to_text
        if to_text and self._text.shown:
            self._text.rows.focus()
        else:
            self._call_pane.focus()

    def action_menu(self) -> None:
        if not self._call_pane.open_link():
            self.open_menu([command for command in NODE_MENU if command.id != "node-open"])

    @on(CallPane.CallOpened)
    def _call_opened(self, message: CallPane.CallOpened) -> None:
        chosen = CallSelection(self._tree, message.node)
        self.app.switch_screen(NodeScreen(chosen, self.control, self._clock))

    @on(CallPane.SpanOpened)
    def _span_opened(self, message: CallPane.SpanOpened) -> None:
        if self._text.shown:
            if not self._text.has_focus_within:
                self.action_text()
            self.call_after_refresh(self._text.show, message.span)
