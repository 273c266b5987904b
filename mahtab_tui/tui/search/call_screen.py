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
from mahtab_tui.search.tree_nodes import SearchNode, Turn
from mahtab_tui.search.trees import SearchControl
from mahtab_tui.tui.dialog import Dialog
from mahtab_tui.tui.find import LineInput
from mahtab_tui.tui.rows.code import CodeRows
from mahtab_tui.tui.rows.markdown import MarkdownRenderer
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
    TextRow,
    TextSource,
)
from mahtab_tui.tui.search.call_lines import (
    MARKS,
    format_count,
    node_mark,
    one_line,
    short_cost,
    short_time,
)
from mahtab_tui.tui.search.pane import NODE_MENU, CallSelection, NodeActions
from mahtab_tui.tui.theme import BOLD, Palette, get_palette
from mahtab_tui.tui.transcript.output import OutputRows
from mahtab_tui.tui.widgets.bars import KeyLine, short_number

MAX_EVIDENCE_SPANS = 60

TRACEBACK_HEADING = "Traceback (most recent call last):"
_LINE_END = re.compile(r"(?<=\S)\n(?=\S)")
"""A line end within a paragraph; preserved, because code assembles most answers."""
_FAILURES = {
    "timed out": "was stopped: it ran too long",
    "killed": "was killed; its variables are lost",
    "died": "ended its Python; its variables are lost",
}
SIDE_BY_SIDE_MIN_WIDTH = 130
"""From this width of the screen, the text is shown next to the call."""


class CallRow(NamedTuple):
    """A row, and where it leads."""

    row: Row
    span: TextSpan | None = None
    child: SearchNode | None = None
    """Its row is drawn when it becomes visible."""
    is_answer_heading: bool = False

    @property
    def is_link(self) -> bool:
        return self.span is not None or self.child is not None


class CallRows:
    """The rows of a call: its turns, answer, evidence and sub-calls."""

    def __init__(self, node: SearchNode) -> None:
        self.rows: list[CallRow] = []
        self._node = node
        self._turns: dict[int, tuple[int, list[CallRow]]] = {}
        """The version of each turn that was drawn, and its rows."""

    def lay_out(self, width: int, palette: Palette) -> None:
        self._width = max(8, width - EDGE - RIGHT)
        self._palette = palette
        self._markdown = MarkdownRenderer(palette)
        self._turns.clear()
        self.update()

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> Row:
        child = self.rows[index].child
        if child is None:
            return self.rows[index].row
        mark = MARKS[child.state]
        text = f" {one_line(child.query)}  {one_line(child.answer)}"
        fitted = fit_text(text, self._width - 1)
        mark_style = getattr(self._palette, mark.role)
        return Row([(mark.sign, mark_style), (fitted, self._palette.text)])

    def update(self) -> None:
        node = self._node
        rows: list[CallRow] = []
        for turn in node.turns:
            version, turn_rows = self._turns.get(turn.number, (-1, []))
            if version != turn.version:
                turn_rows = [CallRow(row) for row in self._turn(turn)]
                self._turns[turn.number] = (turn.version, turn_rows)
            rows += turn_rows
        if not node.turns and not node.finished:
            rows.append(CallRow(Row([("Waiting for its turn.", self._palette.muted)])))
        if node.finished:
            rows += self._answer(node)
        if node.children:
            count = format_count(len(node.children), "call")
            rows.append(CallRow(Row([(count, self._palette.text + BOLD)])))
            rows += [CallRow(Row(), child=child) for child in node.children]
        self.rows = rows

    def _turn(self, turn: Turn) -> Iterator[Row]:
        palette = self._palette
        node = self._node
        width = self._width
        is_plain_call = node.kind == "llm"
        if not is_plain_call:
            yield self._turn_heading(turn)
        # The text of a finished plain call is its answer, which stands below.
        if not is_plain_call or not node.finished:
            yield from self._markdown.document(plain(_prose(turn)), width, palette.model)
        if turn.code is not None:
            code = CodeRows(width, palette, palette.model)
            code.update(turn.code.strip("\n"))
            yield from code
        if turn.cut:
            note = "Text after its code was dropped: it had not seen the output."
            yield from paragraph([(note, palette.muted)], width, palette.model)
        yield from self._output_rows(turn)
        yield Row()

    def _turn_heading(self, turn: Turn) -> Row:
        palette = self._palette
        label = self._node.turn_label(turn.number, "turn {} of {}") or f"turn {turn.number}"
        usage = []
        if turn.used.tokens:
            usage.append(f"{short_number(turn.used.tokens)} tok")
        cost = short_cost(turn.used) if turn.used.calls else ""
        if cost:
            usage.append(cost)
        if turn.duration is not None:
            usage.append(short_time(turn.duration))
        usage_span = ("  ".join(usage), palette.muted)
        label_span = (label.capitalize(), palette.model + BOLD)
        return Row([label_span], palette.model, right=[usage_span])

    def _output_rows(self, turn: Turn) -> Iterator[Row]:
        if turn.output is None:
            return
        palette = self._palette
        text = turn.output
        if text.strip():
            printed = text
            traceback = ""
            if turn.status == "error":
                printed, heading, frames = text.partition(TRACEBACK_HEADING)
                traceback = heading + frames
            output = OutputBuffer()
            output.feed("stdout", printed)
            output.feed("traceback", traceback)
            rows = OutputRows(output, self._width, palette)
            rows.update()
            for index in range(len(rows)):
                yield rows[index]
        if turn.chars > len(text):
            count = f"{turn.chars:,} characters were printed"
            yield Row([(count, palette.muted)], palette.hairline)
        failure = _FAILURES.get(turn.status)
        if failure:
            yield Row([(f"■ The code {failure}.", palette.bad)], palette.hairline)

    def _answer(self, node: SearchNode) -> Iterator[CallRow]:
        palette = self._palette
        headings = {
            "partial": ("Answer, as far as it got", palette.highlight),
            "error": ("It failed", palette.bad),
            "stopped": ("It was stopped", palette.muted),
        }
        heading, style = headings.get(node.state, ("Answer", palette.good))
        yield CallRow(Row([(heading, style + BOLD)], style), is_answer_heading=True)
        answer = _LINE_END.sub("  \n", plain(node.answer))
        for row in self._markdown.document(answer, self._width, style):
            yield CallRow(row)

        if node.rests_on:
            places = format_count(len(node.rests_on), "place")
            yield CallRow(Row([(f"rests on {places} of the text", palette.muted)], style))
        for start, end in node.rests_on[:MAX_EVIDENCE_SPANS]:
            position = (f"{start:,}–{end:,}", palette.text)
            size = (f"   {end - start:,} characters", palette.muted)
            yield CallRow(
                Row([("  → ", palette.highlight), position, size], style), span=(start, end)
            )
        yield CallRow(Row())


def _prose(turn: Turn) -> str:
    """Return what the model wrote before its code."""
    if turn.code is None:
        return turn.words
    text, fence, _ = turn.words.partition("```")
    if fence:
        return text
    code = turn.code.strip()
    if code:
        return turn.words.partition(code)[0]
    return text


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
        self._has_scrolled_to_answer = False

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
        if not self._has_scrolled_to_answer and self._laid_out is not None:
            self._has_scrolled_to_answer = True
            # The user most likely looks for the answer.
            for index, row in enumerate(rows):
                if row.is_answer_heading:
                    target = index - self.size.height // 4
                    self.call_after_refresh(self._scroll_to_row, target)
                    break

    def _scroll_to_row(self, row: int) -> None:
        self.scroll_to(y=row, animate=False, force=True)

    def action_next_link(self, step: int) -> None:
        """Go to the next (1) or previous (-1) link, or focus the next widget."""
        rows = self._rows.rows
        start = self.cursor
        if start < 0:
            # Begin at the visible rows.
            top = self.scroll_offset.y
            start = top - 1 if step > 0 else top + self.size.height
        end = len(rows) if step > 0 else -1
        rows_ahead = range(min(start, len(rows)) + step, end, step)
        self.cursor = next((index for index in rows_ahead if rows[index].is_link), -1)
        if self.cursor >= 0:
            self.show_row(self.cursor)
        elif step > 0:
            self.screen.focus_next()
        else:
            self.screen.focus_previous()
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


def heading(node: SearchNode, now: float) -> Content:
    mark = node_mark(node, now)
    state: str = "failed" if node.state == "error" else node.state
    if node.cut:
        state += ", cut off"
    call = "call " + node.id.replace(".", " › ")
    return Content.assemble(
        ("◐ ", "$highlight"), (call, "$muted"), "   ", (f"{mark.sign} {state}", f"${mark.role}")
    )


def usage_text(node: SearchNode, now: float, max_width: int) -> str:
    """Show what a call and its descendants used; the first facts go if the width is too small."""
    usage = node.used
    turn = ""
    if node.turns and node.kind != "llm":
        turn = node.turn_label(node.turns[-1].number, "turn {} of {}")
    calls = format_count(usage.calls, "call")
    tokens = f"{short_number(usage.tokens)} tok"
    facts = [one_line(node.model), turn, calls, tokens, short_cost(usage)]
    facts = [fact for fact in facts if fact]
    facts.append(short_time(node.elapsed(now)))
    while len(facts) > 1 and len(" · ".join(facts)) > max_width:
        del facts[0]
    return " · ".join(facts)


class TextRows(LongTextView, can_focus=True):
    """The searched text, with the spans of a call and those that its answer rests on."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *CURSOR_KEYS,
        ("n", "next(False)"),
        ("N,shift+n", "next(True)"),
    ]

    def __init__(self, source: TextSource, spans: Sequence[TextSpan]) -> None:
        super().__init__(source)
        self.span: TextSpan | None = None
        """The span that the user opened."""
        if spans:
            self.top = spans[0][0]
        self._spans = spans
        self._evidence: Sequence[TextSpan] = ()

    def mark(self, evidence: Sequence[TextSpan]) -> None:
        self._evidence = evidence
        self.refresh_view()

    @property
    def rows_above(self) -> int:
        return min(3, self.size.height // 4)

    @property
    def _gutter(self) -> int:
        # The number of lines is not known, but lines have about 40 characters.
        line_count = max(1, self.source.size // 40)
        return len(f"{line_count:,}") + 4

    @property
    def text_width(self) -> int:
        return max(10, self.size.width - self._gutter - 2)

    def row_prefix(self, row: TextRow) -> list[Span]:
        palette = get_palette(self.app)
        number = f"{row.number:,}" if row.number is not None else ""
        is_evidence = any(start < row.end and row.start < end for start, end in self._evidence)
        if is_evidence:
            bar = ("█", palette.highlight)
        elif self._contains(row):
            bar = ("▌", palette.person)
        else:
            bar = (" ", palette.person)
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
        # Later styles are drawn over earlier ones.
        styles = [(row.start, row.end, palette.text if self._contains(row) else palette.muted)]
        for start, end in self._evidence:
            styles.append((start, end, palette.highlight))
        if self.span is not None:
            styles.append((*self.span, palette.panel))
        return [*styles, *super().part_styles(row)]


class TextPane(Vertical):
    """The searched text with a search line, or why there is none."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("slash", "search", "Search", key_display="/")]

    def __init__(self, source: TextSource | None, spans: Sequence[TextSpan]) -> None:
        """source: None if the text is no longer in memory."""
        super().__init__(id="node-side")
        self.has_text = source is not None and bool(spans)
        self.rows = TextRows(source or LocalText(""), spans)
        self._line = LineInput(placeholder="search the text", compact=True, id="find")
        self._line.display = False
        self._spans = spans

    def compose(self) -> ComposeResult:
        if self.has_text:
            yield self.rows
            yield self._line
        else:
            if self._spans:
                reason = "The text is no longer kept."
            else:
                reason = "Code made this call's text: it is not part of the searched text."
            yield Static(reason, classes="quiet-words", markup=False)

    def show(self, span: TextSpan) -> None:
        if self.has_text:
            self.rows.span = span
            self.rows.hit = None
            self.rows.go_to(span[0])

    def action_search(self) -> None:
        if self.has_text:
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


class NodeScreen(Dialog[None], NodeActions):
    """The screen of one call, which follows it while it runs."""

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
        tree, node = chosen
        self._tree = tree
        self._node = node
        source = None

        def read(start: int, end: int) -> str:
            return control.text(tree.id, start, end) or ""

        if tree.root is not None and control.text(tree.id, 0, 1) is not None:
            source = PagedText(read, tree.root.chars)
        self._call_pane = CallPane(node)
        self._text = TextPane(source, node.spans)
        self._clock = clock
        self._drawn_versions = (-1, -1)
        """The versions of the node and of the tree's structure."""

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
        self._drawn_versions = (-1, -1)
        self._refresh_changed()

    def _arrange(self, width: int) -> None:
        side_by_side = width >= SIDE_BY_SIDE_MIN_WIDTH
        self.set_class(side_by_side, "-beside")
        self._call_pane.display = self._call_pane.display or side_by_side
        self._text.display = side_by_side or not self._call_pane.display

    def _refresh_changed(self) -> None:
        node = self._node
        now = self._clock()
        versions = (node.version, self._tree.structure)
        has_changed = versions != self._drawn_versions
        # Times go on while the call or one of its sub-calls runs.
        if has_changed or not node.finished or node.alive:
            title = heading(node, now)
            self.query_one("#node-crumbs", Static).update(title)
            available_width = self.app.size.width - title.cell_length - 5
            usage = Content.styled(usage_text(node, now, available_width), "$muted")
            self.query_one("#node-figures", Static).update(usage)
        if has_changed:
            self._drawn_versions = versions
            self._call_pane.refresh_view()
            self._text.rows.mark(node.rests_on)

    def action_leave(self) -> None:
        if not self._text.leave_search():
            self.dismiss(None)

    def action_text(self) -> None:
        to_text = not self._text.has_focus_within
        if not self.has_class("-beside"):
            self._text.display = to_text
            self._call_pane.display = not to_text
        if to_text and self._text.has_text:
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
        if self._text.has_text:
            if not self._text.has_focus_within:
                self.action_text()
            self.call_after_refresh(self._text.show, message.span)
