"""Draws a cell's output as rows."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator
from itertools import groupby

from mahtab_tui.bus.output import OutputBuffer
from mahtab_tui.bus.output_lines import DisplayLine, is_code
from mahtab_tui.tui.rows.row import Row
from mahtab_tui.tui.theme import Palette
from mahtab_tui.tui.transcript.output_lines import (
    CODE_LEAD,
    DisplayRows,
    LineRows,
    display_rows,
    display_text_rows,
    drawing_cost,
    remark,
)
from mahtab_tui.tui.transcript.picture_rows import DEFAULT_SPACE, PictureSpace
from mahtab_tui.tui.transcript.tracebacks import ERROR_LEAD, LineWithLead, error_first

FOLD_ABOVE_LINES = 50
"""Only the first and last lines of a longer printed text or value are drawn."""
FOLDED_HEAD_LINES = 20
"""So many of its first lines are drawn."""
FOLDED_TAIL_LINES = 10
"""So many of the last printed lines are drawn. They show how far a running cell is."""
_UNDRAWN = ("undrawn",)
"""The state of a display that is drawn in a later step."""

_DrawnLine = LineRows | DisplayRows


class OutputRows:
    """The rows of an output that may still grow. A line is drawn again only if it has changed.

    Many tables or Markdown texts that come at once are drawn step by step, and long ones on a
    thread. Until then, their plain texts are drawn, so that keys are not held up.
    """

    def __init__(
        self,
        output: OutputBuffer,
        width: int,
        palette: Palette,
        space: PictureSpace = DEFAULT_SPACE,
    ) -> None:
        """
        Args:
            output: The output. `update` draws what it has then.
            width: The width of a row, in cells.
            palette: The colours.
            space: How large pictures may be.
        """
        self._space = space
        self._output = output
        self._width = width
        self._palette = palette
        self._drawn_lines: dict[LineWithLead, _DrawnLine] = {}
        """What is drawn of each line, in their order."""
        self._parts: list[_DrawnLine | Row] = []
        """The drawn lines, and remarks between them."""
        self._part_ends: list[int] = []
        """The number of rows up to the end of each part."""
        self._remaining_step_chars: float = math.inf
        """Characters of tables that may still be drawn in this step."""
        self._max_display_chars: float = math.inf
        self.slow_displays: list[DisplayLine] = []
        """Displays that take too long for a step. Another thread should draw them with
        `draw_display`."""
        self.is_complete = True
        """Whether there is nothing left for a further `update`."""

    def update(self, max_step_chars: float = math.inf, max_display_chars: float = math.inf) -> None:
        """Draw the lines that are new or have changed.

        Args:
            max_step_chars: When tables of this many characters are drawn, or Markdown that takes as
                long, the others are left to a further call.
            max_display_chars: Longer tables, or Markdown that takes longer, become `slow_displays`.
        """
        self._remaining_step_chars = max_step_chars
        self._max_display_chars = max_display_chars
        self.slow_displays = []
        self.is_complete = True
        drawn_lines: dict[LineWithLead, _DrawnLine] = {}
        self._parts = []
        self._part_ends = []
        row_count = 0
        for line in self._visible_lines():
            part: _DrawnLine | Row
            if isinstance(line, Row):
                part = line
                row_count += 1
            else:
                part = self._draw(line)
                drawn_lines[line] = part
                row_count += len(part)
            self._parts.append(part)
            self._part_ends.append(row_count)
        self._drawn_lines = drawn_lines

    def _visible_lines(self) -> Iterator[LineWithLead | Row]:
        """Yield the lines to draw, and a remark in place of lines that are left out."""
        lines = error_first(list(self._output))
        omitted_count = self._output.omitted_lines
        gap = -1
        if omitted_count:
            # The buffer left out lines after its head, which may end within a traceback.
            kinds = [line.kind for line, _ in lines]
            first_error = kinds.index("traceback") if "traceback" in kinds else len(kinds)
            gap = min(len(self._output.head), first_error)

        group_start = 0
        for (kind, _), group in groupby(lines, _kind_and_lead):
            group_lines = list(group)
            group_end = group_start + len(group_lines)
            has_gap = group_start <= gap < group_end
            omitted_in_group = omitted_count if has_gap else 0
            yield from self._fold(kind, group_lines, omitted_in_group, gap - group_start)
            group_start = group_end
        is_gap_at_end = gap == group_start
        if is_gap_at_end:
            yield self._remark_folded(f"{omitted_count:,} lines")

    def _fold(
        self, kind: str, lines: list[LineWithLead], omitted_count: int, gap: int
    ) -> Iterator[LineWithLead | Row]:
        """Yield lines of one kind, or if they are many, the first and the last ones.

        Args:
            kind: The kind of all these lines.
            lines: The lines that the buffer has kept.
            omitted_count: How many lines the buffer has left out among them.
            gap: The index of the line before which the buffer has left them out, if it has.
        """
        if kind == "value" and is_code([line for line, _ in lines]):
            lines = [(line, CODE_LEAD) for line, _ in lines]

        head_count = gap if omitted_count else len(lines)
        tail_count = len(lines) - head_count
        can_fold = kind in ("stdout", "value")
        if can_fold and len(lines) + omitted_count > FOLD_ABOVE_LINES:
            head_count = min(head_count, FOLDED_HEAD_LINES)
            max_tail_count = 0 if kind == "value" else FOLDED_TAIL_LINES
            tail_count = min(max_tail_count, len(lines) - head_count)

        hidden_count = omitted_count + len(lines) - head_count - tail_count
        yield from lines[:head_count]
        if hidden_count:
            noun = "more" if kind == "value" else "lines"
            yield self._remark_folded(f"{hidden_count:,} {noun}")
        yield from lines[len(lines) - tail_count :]

    def _remark_folded(self, amount: str) -> Row:
        return remark(f"… {amount} (Enter shows all)", self._palette)

    def _draw(self, line_with_lead: LineWithLead) -> _DrawnLine:
        """Draw a line, unless it is drawn already or has to wait for a later step."""
        line, lead = line_with_lead
        drawn_line = self._drawn_lines.get(line_with_lead)
        if drawn_line is not None and drawn_line.state == line.state:
            return drawn_line
        if not isinstance(line, DisplayLine):
            return LineRows(line, self._width, self._palette, lead)
        if not line.mime.startswith("text/"):
            return self.draw_display(line)

        cost = drawing_cost(line)
        is_slow = cost > self._max_display_chars
        if is_slow:
            self.slow_displays.append(line)
        if is_slow or self._remaining_step_chars <= 0:
            self.is_complete = False
            return drawn_line or DisplayRows(_UNDRAWN, self._text_rows(line))
        self._remaining_step_chars -= cost
        return self.draw_display(line)

    def draw_display(self, display: DisplayLine) -> DisplayRows:
        """Draw a display. Any thread may call it."""
        # The display may change while it is drawn.
        state = display.state
        rows = display_rows(display, self._width, self._palette, self._space)
        return DisplayRows(state, rows)

    def show_display(self, display: DisplayLine, rows: DisplayRows | None) -> None:
        """Let the next `update` use the rows that `draw_display` has returned.

        Args:
            display: The display.
            rows: Its rows; None if drawing it has failed, so that only its text is drawn.
        """
        if rows is None:
            rows = DisplayRows(display.state, self._text_rows(display))
        self._drawn_lines[display, ""] = rows

    def _text_rows(self, display: DisplayLine) -> list[Row]:
        return display_text_rows(display, self._width, self._palette)

    def __len__(self) -> int:
        return self._part_ends[-1] if self._part_ends else 0

    def __getitem__(self, index: int) -> Row:
        part_index = bisect_right(self._part_ends, index)
        part = self._parts[part_index]
        if isinstance(part, Row):
            return part
        part_start = self._part_ends[part_index - 1] if part_index else 0
        return part[index - part_start]

    @property
    def reading_start(self) -> int | None:
        """The first row of the help or the error with which the output ends.

        None if it ends with something else.
        """
        row = len(self)
        for (line, lead), drawn_line in reversed(self._drawn_lines.items()):
            row -= len(drawn_line)
            if line.kind == "traceback":
                if lead == ERROR_LEAD:
                    return row
                continue
            if isinstance(line, DisplayLine):
                is_help = line.mime in ("text/plain", "text/markdown")
                return row if is_help else None
            # Python's help prints an empty line at its end.
            if line.text.strip():
                return None
        return None


def _kind_and_lead(line_with_lead: LineWithLead) -> tuple[str, str]:
    line, lead = line_with_lead
    return line.kind, lead
