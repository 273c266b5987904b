"""Draws a cell: a header, its code, output, and the changes that it made.

A cell grows while it is written and while it runs, so each part of it draws only what is new.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

from rich.cells import cell_len

from mahtab_tui.bus.change_lines import describe_change
from mahtab_tui.bus.entries import Cell, describe_staleness
from mahtab_tui.bus.sanitize import plain
from mahtab_tui.bus.typed_text import is_prose
from mahtab_tui.bus.values import describe_files
from mahtab_tui.tui.rows.code import CodeRows
from mahtab_tui.tui.rows.row import Row, Rows, Span, paragraph
from mahtab_tui.tui.theme import Palette
from mahtab_tui.tui.transcript.output import FOLD_ABOVE_LINES, FOLDED_HEAD_LINES, OutputRows
from mahtab_tui.tui.transcript.output_lines import remark
from mahtab_tui.tui.transcript.picture_rows import DEFAULT_SPACE, PictureSpace

if TYPE_CHECKING:
    from mahtab_tui.bus.values import Change

MAX_FRAME_CHARS = 10_000
"""Tables of about this many characters are drawn in one frame, or less Markdown."""
MAX_DISPLAY_CHARS = 30_000
"""A table with more characters is drawn on a thread, and not in a frame."""
MAX_CHANGES = 12
"""At most this many changes of variables, and of files, are drawn; the others are counted."""
CHANGES_INDENT = "  "
EXPLAIN_HINT = "Alt+X asks the model about this error"
ASK_HINT = "F2 asks the model"
MIN_RUNNING_TIME_S = 0.3
"""The time of a running cell is shown only after this time, so that short cells do not flicker."""
_BLANK: Rows = (Row(),)
"""Stands above the output and the changes."""


def folded_code(code: str) -> str:
    """Return code, or its first lines if it is too long for a cell that has run."""
    lines = code.split("\n")
    if len(lines) <= FOLD_ABOVE_LINES:
        return code
    return "\n".join(lines[:FOLDED_HEAD_LINES])


class CellRows:
    """The rows of a cell: a header, its code, output, and the changes that it made."""

    def __init__(
        self, cell: Cell, width: int, palette: Palette, space: PictureSpace = DEFAULT_SPACE
    ) -> None:
        """
        Args:
            cell: The cell. `update` draws it as it is then.
            width: The width of a row, in cells of the terminal.
            palette: The colours.
            space: How large pictures may be.
        """
        self._cell = cell
        self._space = space
        self._width = width
        self._palette = palette
        self._bar = palette.author_style(cell.person, cell.agent_index)
        """The colour of the author."""
        self._code = CodeRows(width, palette, self._bar)
        self._output = OutputRows(cell.output, width, palette, space)
        self._late_output: OutputRows | None = None
        """What the cell has printed after its end; None until it prints something."""
        self._parts: list[Rows] = []
        """All that stands below the header."""
        self._height = 0
        """The number of rows, with the header."""

    def update(self) -> None:
        """Draw what has changed, and put the parts of the cell together."""
        cell = self._cell
        self._parts = [*self._code_parts(), *self._output_parts()]
        if cell.changes:
            self._parts += [_BLANK, list(self._changes())]
        if files := describe_files(cell.files, MAX_CHANGES):
            self._parts.append(self._note_rows(" ".join(plain(files).split())))
        if staleness := describe_staleness(cell):
            self._parts.append(self._note_rows(staleness))
        self._parts += self._late_output_parts()
        self._height = 1 + sum(len(part) for part in self._parts)

    def _code_parts(self) -> Iterator[Rows]:
        """Draw the code; of a cell that has run, at most its first lines."""
        code = self._cell.code.strip("\n")
        has_run = self._cell.number is not None and not self._cell.approval
        visible_code = folded_code(code) if has_run else code
        self._code.update(visible_code)
        yield self._code
        hidden_line_count = code.count("\n", len(visible_code))
        if hidden_line_count:
            note = (f"… {hidden_line_count:,} lines", self._palette.muted)
            yield [Row([note], self._bar, fill=self._palette.surface)]

    def _output_parts(self) -> Iterator[Rows]:
        """Draw the output, and below an error what the user can do."""
        self._output.update(MAX_FRAME_CHARS, MAX_DISPLAY_CHARS)
        if len(self._cell.output):
            yield _BLANK
            yield self._output
        if self._cell.offers_explanation and not self._cell.undone:
            offer = ASK_HINT if is_prose(self._cell.code.strip()) else EXPLAIN_HINT
            yield [remark(offer, self._palette)]

    def _late_output_parts(self) -> Iterator[Rows]:
        """Draw what the cell has printed after its end."""
        late_output = self._cell.late_output
        if late_output is None:
            return
        if self._late_output is None:
            self._late_output = OutputRows(late_output, self._width, self._palette, self._space)
        self._late_output.update(MAX_FRAME_CHARS, MAX_DISPLAY_CHARS)
        yield _BLANK
        yield [remark("later", self._palette)]
        yield self._late_output

    @property
    def is_complete(self) -> bool:
        """Whether there is nothing left for a further `update`."""
        return all(output.is_complete for output in self._outputs)

    @property
    def slow_output(self) -> OutputRows | None:
        """An output with displays that take too long to be drawn in a frame; None without one."""
        return next((output for output in self._outputs if output.slow_displays), None)

    @property
    def _outputs(self) -> list[OutputRows]:
        return [output for output in (self._output, self._late_output) if output is not None]

    def __len__(self) -> int:
        return self._height

    @property
    def reading_start(self) -> int | None:
        """The row with which reading the output should begin, if that is not its end."""
        if self._cell.late_output is not None:
            return None
        output_row = self._output.reading_start
        if output_row is None:
            return None
        # Below the header, the code and a blank row.
        parts_above = self._parts[: self._parts.index(self._output)]
        return 1 + sum(len(part) for part in parts_above) + output_row

    def __getitem__(self, index: int) -> Row:
        # The header is made when it is drawn, because a running cell's time changes.
        if index == 0:
            return self._header()
        index -= 1
        for part in self._parts:
            if index < len(part):
                return part[index]
            index -= len(part)
        raise IndexError(index)

    def _changes(self) -> Iterator[Row]:
        """Draw `+ x int 3   ~ df DataFrame 100 × 4 → 98 × 5`, wrapped between changes."""
        palette = self._palette
        styles = {"+": palette.good, "~": palette.highlight, "?": palette.muted, "−": palette.bad}
        line: list[Span] = [(CHANGES_INDENT, palette.text)]

        def add(*spans: Span) -> None:
            # Non-breaking spaces keep a name and its description together, if a row can hold them.
            fits = sum(cell_len(text) for text, _ in spans) <= self._width - len(CHANGES_INDENT)
            for text, style in spans:
                line.append((text.replace(" ", "\xa0") if fits else text, style))
            line.append(("   ", palette.text))

        for change in islice(self._certain_changes_first(), MAX_CHANGES):
            sign = change.sign
            name = " ".join(plain(change.name).split())
            description = ""
            if sign != "−":
                description = f" {describe_change(change)}".replace("\n", " ").rstrip()
            add((f"{sign} ", styles[sign]), (name, styles[sign]), (description, palette.muted))
        hidden_count = len(self._cell.changes) - MAX_CHANGES
        if hidden_count > 0:
            add((f"and {hidden_count:,} more", palette.muted))
        for row in paragraph(line, self._width, palette.hairline, indent=CHANGES_INDENT):
            spans = [(text.replace("\xa0", " "), style) for text, style in row.spans]
            yield row._replace(spans=spans)

    def _certain_changes_first(self) -> Iterator[Change]:
        """Yield the changes. They are not sorted, because there may be very many."""
        changes = self._cell.changes
        yield from (change for change in changes if change.change != "perhaps")
        yield from (change for change in changes if change.change == "perhaps")

    def _note_rows(self, note: str) -> list[Row]:
        """Draw a sentence about the cell below its output."""
        spans = [(CHANGES_INDENT + note, self._palette.muted)]
        return list(paragraph(spans, self._width, self._palette.hairline, indent=CHANGES_INDENT))

    def _header(self) -> Row:
        """Draw `In 3 · you · step 2   waits for you`, and the state and time at the right edge."""
        muted = self._palette.muted
        spans: list[Span] = []
        for fact in self._facts():
            if spans:
                spans.append((" · ", muted))
            spans.append(fact)

        cell = self._cell
        if cell.approval == "waiting":
            spans += [("   ", muted), ("waits for you", self._palette.highlight)]
        elif cell.approval:
            outcome = cell.approval
            if cell.reason:
                outcome += f": {plain(cell.reason)}".replace("\n", " ")
            spans += [("   ", muted), (outcome, muted)]
        return Row(spans, self._bar, right=self._right())

    def _facts(self) -> Iterator[Span]:
        """Yield the name of the cell, its author, and the notebook, plan or answer it belongs to."""
        cell = self._cell
        palette = self._palette
        if cell.number is not None:
            yield f"In {cell.number}", self._bar
        elif cell.cell_number is not None:
            yield f"Cell {cell.cell_number}", self._bar
        else:
            yield "code", self._bar
        yield plain(cell.author), palette.muted

        if cell.cell_number is not None and cell.number is not None:
            yield f"cell {cell.cell_number} of the notebook", palette.muted
        if cell.plan_part:
            yield f"plan step {cell.plan_part}", palette.muted
        elif cell.step:
            yield f"step {cell.step + 1}", palette.muted
        if cell.edited:
            yield "edited by you", palette.person
        # Its number among the blocks of an answer matters until it runs.
        if cell.block_position and cell.number is None:
            is_waiting = cell.approval == "waiting"
            yield cell.block_position, palette.highlight if is_waiting else palette.muted

    def _right(self) -> list[Span]:
        """Return the state and the time of the cell, which stand at the right edge."""
        cell = self._cell
        palette = self._palette
        if cell.started is not None:
            elapsed_s = time.time() - cell.started
            if elapsed_s < MIN_RUNNING_TIME_S:
                return []
            return [("● ", palette.highlight), (duration(elapsed_s), palette.muted)]
        if cell.cell_number is not None and cell.number is None:
            if cell.ran_as is None:
                return [("not run", palette.muted)]
            return [(f"ran as In {cell.ran_as}", palette.muted)]
        spans: list[Span] = []
        if cell.status == "interrupted":
            spans.append(("■ interrupted", palette.highlight))
        elif cell.status not in ("", "ok"):
            spans.append((f"✗ {plain(cell.status)}", palette.bad))
        if cell.duration is not None:
            if spans:
                spans.append(("  ", palette.muted))
            spans.append((duration(cell.duration), palette.muted))
        return spans


def duration(seconds: float) -> str:
    """Format `0.08 s`, `4.2 s`, `3 min 05 s`."""
    if seconds < 0.005:
        return "<0.01 s"
    if seconds < 1:
        return f"{seconds:.2f} s"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, remaining_seconds = divmod(int(seconds), 60)
    return f"{minutes:,} min {remaining_seconds:02} s"
