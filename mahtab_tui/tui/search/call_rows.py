"""Draws one call of a search as rows: its turns, its answer, what that rests on, and its sub-calls."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from mahtab_tui.bus.output import OutputBuffer
from mahtab_tui.bus.sanitize import plain
from mahtab_tui.sandbox.searched_text import TextSpan
from mahtab_tui.search.tree_nodes import SearchNode, Turn
from mahtab_tui.tui.rows.code import CodeRows
from mahtab_tui.tui.rows.markdown import MarkdownRenderer
from mahtab_tui.tui.rows.row import EDGE, RIGHT, Row, fit_text, paragraph
from mahtab_tui.tui.search.call_words import MARKS, format_count, one_line, short_cost, short_time
from mahtab_tui.tui.theme import BOLD, Palette
from mahtab_tui.tui.transcript.output import OutputRows
from mahtab_tui.tui.widgets.bars import short_number

MAX_EVIDENCE_SPANS = 60
"""At most this many places that the answer rests on are listed; the others are counted."""
MIN_WIDTH = 8
"""Rows are drawn at least this wide, in cells, even if the pane is narrower."""
TRACEBACK_HEADING = "Traceback (most recent call last):"
_LINE_END = re.compile(r"(?<=\S)\n(?=\S)")
"""A line end within a paragraph. Markdown would make it a blank, but most answers are assembled by code,
whose lines are meant as lines."""
_FAILURES = {
    "timed out": "was stopped: it ran too long",
    "killed": "was killed; its variables are lost",
    "died": "ended its Python; its variables are lost",
}
"""What is said about code that did not end by itself, by the status of its turn."""


class CallRow(NamedTuple):
    """A row of the screen, and where it leads."""

    row: Row
    """The row as it is drawn; empty for a sub-call, which is drawn when it becomes visible."""
    span: TextSpan | None = None
    """The place of the text that it leads to, in characters; None if it leads to none."""
    child: SearchNode | None = None
    """The sub-call that it leads to; None if it leads to none."""
    is_answer_heading: bool = False

    @property
    def is_link(self) -> bool:
        """Whether it leads anywhere."""
        return self.span is not None or self.child is not None


class _DrawnTurn(NamedTuple):
    """The rows of a turn, and what they were drawn from."""

    version: int
    """The version of the turn."""
    is_finished: bool
    """Whether the call had ended, after which the text of a plain call is not drawn with its turn."""
    rows: list[CallRow]

    def is_outdated(self, turn: Turn, node: SearchNode) -> bool:
        """Return whether the turn or its call would be drawn otherwise now."""
        return self.version != turn.version or self.is_finished != node.finished


class CallRows:
    """The rows of a call, as a source of rows for a view.

    There are no rows before the first `lay_out`. Main thread only.
    """

    _width: int
    """The width of a row without its edges, in cells. This and the next two come with `lay_out`."""
    _palette: Palette
    _markdown: MarkdownRenderer

    def __init__(self, node: SearchNode) -> None:
        self.rows: list[CallRow] = []
        """The rows, with where they lead. Indexing this object gives them as they are drawn."""
        self._node = node
        self._turns: dict[int, _DrawnTurn] = {}
        """The turns that are drawn, by their numbers."""

    def lay_out(self, width: int, palette: Palette) -> None:
        """Make all rows again, of a width in cells that includes their edges."""
        self._width = max(MIN_WIDTH, width - EDGE - RIGHT)
        self._palette = palette
        self._markdown = MarkdownRenderer(palette)
        self._turns.clear()
        self.update()

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> Row:
        """Return a row as it is drawn.

        A sub-call is drawn anew each time, because there may be hundreds, whose states change.
        """
        row, _, child, _ = self.rows[index]
        if child is None:
            return row
        mark = MARKS[child.state]
        text = f" {one_line(child.query)}  {one_line(child.answer)}"
        fitted = fit_text(text, self._width - 1)
        mark_style = getattr(self._palette, mark.role)
        return Row([(mark.sign, mark_style), (fitted, self._palette.text)])

    def update(self) -> None:
        """Make the rows again after the call has changed. `lay_out` must have been called.

        The rows of a turn are made again only if it would be drawn otherwise now.
        """
        node = self._node
        rows: list[CallRow] = []
        for turn in node.turns:
            drawn = self._turns.get(turn.number)
            if drawn is None or drawn.is_outdated(turn, node):
                turn_rows = [CallRow(row) for row in self._turn_rows(turn)]
                drawn = _DrawnTurn(turn.version, node.finished, turn_rows)
                self._turns[turn.number] = drawn
            rows += drawn.rows
        if not node.turns and not node.finished:
            rows.append(CallRow(Row([("Waiting for its turn.", self._palette.muted)])))
        if node.finished:
            rows += self._answer_rows(node)
        if node.children:
            count = format_count(len(node.children), "call")
            rows.append(CallRow(Row([(count, self._palette.text + BOLD)])))
            rows += [CallRow(Row(), child=child) for child in node.children]
        self.rows = rows

    def _turn_rows(self, turn: Turn) -> Iterator[Row]:
        """Draw a turn: what the model wrote, its code, and what that printed."""
        palette = self._palette
        node = self._node
        width = self._width
        is_plain_call = node.kind == "llm"
        if not is_plain_call:
            yield self._turn_heading(turn)
        # The text of a finished plain call is its answer, which `_answer_rows` draws.
        if not is_plain_call or not node.finished:
            yield from self._markdown.document(plain(_prose(turn)), width, palette.model)
        if turn.code is not None:
            code = CodeRows(width, palette, palette.model)
            code.update(turn.code.strip("\n"))
            yield from code
        if turn.has_dropped_text:
            note = "Text after its code was dropped: it had not seen the output."
            yield from paragraph([(note, palette.muted)], width, palette.model)
        yield from self._output_rows(turn)
        yield Row()

    def _turn_heading(self, turn: Turn) -> Row:
        """Draw the number of a turn, and at the right edge what it used."""
        palette = self._palette
        label = self._node.turn_label(turn.number, "turn {} of {}") or f"turn {turn.number}"
        usage = []
        if turn.usage.tokens:
            usage.append(f"{short_number(turn.usage.tokens)} tok")
        cost = short_cost(turn.usage) if turn.usage.calls else ""
        if cost:
            usage.append(cost)
        if turn.duration_s is not None:
            usage.append(short_time(turn.duration_s))
        usage_span = ("  ".join(usage), palette.muted)
        label_span = (label.capitalize(), palette.model + BOLD)
        return Row([label_span], palette.model, right=[usage_span])

    def _output_rows(self, turn: Turn) -> Iterator[Row]:
        """Draw what the code of a turn printed, and how it ended."""
        if turn.output is None:
            return
        palette = self._palette
        if turn.output.strip():
            printed = turn.output
            traceback = ""
            if turn.status == "error":
                printed, heading, frames = turn.output.partition(TRACEBACK_HEADING)
                traceback = heading + frames
            output = OutputBuffer()
            output.feed("stdout", printed)
            output.feed("traceback", traceback)
            rows = OutputRows(output, self._width, palette)
            rows.update()
            for index in range(len(rows)):
                yield rows[index]
        if turn.output_chars > len(turn.output):
            count = f"{turn.output_chars:,} characters were printed"
            yield Row([(count, palette.muted)], palette.hairline)
        failure = _FAILURES.get(turn.status)
        if failure:
            yield Row([(f"■ The code {failure}.", palette.bad)], palette.hairline)

    def _answer_rows(self, node: SearchNode) -> Iterator[CallRow]:
        """Draw the answer, and the places of the text that it rests on."""
        palette = self._palette
        headings = {
            "partial": ("Answer, as far as it got", palette.highlight),
            "error": ("It failed", palette.bad),
            "stopped": ("It was stopped", palette.muted),
        }
        heading, style = headings.get(node.state, ("Answer", palette.good))
        yield CallRow(Row([(heading, style + BOLD)], style), is_answer_heading=True)
        # In Markdown, two blanks keep a line end.
        answer = _LINE_END.sub("  \n", plain(node.answer))
        for row in self._markdown.document(answer, self._width, style):
            yield CallRow(row)

        if node.evidence:
            places = format_count(len(node.evidence), "place")
            yield CallRow(Row([(f"rests on {places} of the text", palette.muted)], style))
        for start, end in node.evidence[:MAX_EVIDENCE_SPANS]:
            position = (f"{start:,}–{end:,}", palette.text)
            size = (f"   {end - start:,} characters", palette.muted)
            yield CallRow(
                Row([("  → ", palette.highlight), position, size], style), span=(start, end)
            )
        hidden_count = len(node.evidence) - MAX_EVIDENCE_SPANS
        if hidden_count > 0:
            yield CallRow(Row([(f"  … and {hidden_count:,} more", palette.muted)], style))
        yield CallRow(Row())


def _prose(turn: Turn) -> str:
    """Return what the model wrote before its code: all of it if it has run no code."""
    if turn.code is None:
        return turn.answer
    words, fence, _ = turn.answer.partition("```")
    if fence:
        return words
    # The code stands in the answer without a fence.
    code = turn.code.strip()
    if code:
        return turn.answer.partition(code)[0]
    return turn.answer
