"""Rows of a cell: header, code, output, changes."""

from __future__ import annotations

import time
from collections.abc import Iterator

from mahtab_tui.bus.sanitize import plain
from mahtab_tui.kernel.values import CHANGE_SIGNS
from mahtab_tui.tui.cell_output.output_rows import OutputRows
from mahtab_tui.tui.panes.editor.languages import is_prose
from mahtab_tui.tui.panes.transcript.entries import Cell
from mahtab_tui.tui.rows.changes import described
from mahtab_tui.tui.rows.code import CodeRows
from mahtab_tui.tui.rows.palette import Palette
from mahtab_tui.tui.rows.row import Row, Rows, Span, paragraph

CHANGES = 12
"""Maximum number of names in the line of changes; more are counted."""

EXPLAIN = "Alt+X asks the model about this error"
ASK = "F2 asks the model"

PATIENCE = 0.3
"""Seconds before the time of a running cell is shown: most have ended by then."""


class CellRows:
    def __init__(self, cell: Cell, width: int, palette: Palette) -> None:
        self._cell = cell
        self._width = width
        self._palette = palette
        self._bar = palette.party(cell.person, cell.guest)
        self._code = CodeRows(width, palette, self._bar)
        self._output = OutputRows(cell.output, width, palette)
        self._later: OutputRows | None = None
        self._parts: list[Rows] = []
        self._height = 0

    def update(self) -> None:
        cell = self._cell
        self._code.update(cell.code.strip("\n"))
        self._parts = [self._code]
        blank = [Row()]
        if len(cell.output):
            self._output.update()
            self._parts += [blank, self._output]
        if cell.offers_explanation:
            offer = ASK if is_prose(cell.code.strip()) else EXPLAIN
            self._parts += [[Row([(offer, self._palette.muted)], self._palette.hairline)]]
        if cell.changes:
            self._parts += [blank, list(self._changes())]
        if cell.later is not None:
            self._later = self._later or OutputRows(cell.later, self._width, self._palette)
            self._later.update()
            self._parts += [
                blank,
                [Row([("later", self._palette.muted)], self._palette.hairline)],
                self._later,
            ]
        self._height = 1 + sum(len(part) for part in self._parts)

    def __len__(self) -> int:
        return self._height

    @property
    def reading(self) -> int | None:
        """The first row of a text to read, if the output ends with one."""
        if self._cell.later is not None or (row := self._output.reading) is None:
            return None
        return 1 + len(self._code) + 1 + row  # below the header, the code and a blank row

    def __getitem__(self, index: int) -> Row:
        if index == 0:  # made when drawn, since the time of a running cell changes
            return self._header()
        index -= 1
        for part in self._parts:
            if index < len(part):
                return part[index]
            index -= len(part)
        raise IndexError(index)

    def _changes(self) -> Iterator[Row]:
        """Draw the changes to the namespace in one line, wrapped between names."""
        palette = self._palette
        styles = {"+": palette.good, "~": palette.moon, "?": palette.muted, "−": palette.bad}
        line: list[Span] = [("  ", palette.text)]

        def add(*item: Span) -> None:
            # Non-breaking spaces keep names and their descriptions together.
            line.extend((text.replace(" ", "\xa0"), style) for text, style in item)
            line.append(("   ", palette.text))

        certain_first = sorted(self._cell.changes, key=lambda change: change.change == "perhaps")
        for change in certain_first[:CHANGES]:
            sign = CHANGE_SIGNS.get(change.change, "~")
            description = "" if sign == "−" else described(change).replace("\n", " ")
            name = " ".join(plain(change.name).split())
            add(
                (f"{sign} ", styles[sign]),
                (name, styles[sign]),
                (f" {description}" if description else "", palette.muted),
            )
        if (more := len(self._cell.changes) - CHANGES) > 0:
            add((f"and {more} more", palette.muted))
        for row in paragraph(line, self._width, palette.hairline, indent="  "):
            yield row._replace(
                spans=[(text.replace("\xa0", " "), style) for text, style in row.spans]
            )

    def _header(self) -> Row:
        """Draw the dim line above the code."""
        cell, palette = self._cell, self._palette
        name = (
            f"In {cell.number}"
            if cell.number is not None
            else "code"
            if cell.place is None
            else f"Cell {cell.place}"
        )
        spans: list[Span] = [
            (name, self._bar),
            (" · ", palette.muted),
            (plain(cell.party), palette.muted),
        ]
        if cell.place is not None and cell.number is not None:
            spans += [(" · ", palette.muted), (f"cell {cell.place} of the notebook", palette.muted)]
        if cell.edited:
            spans += [(" · ", palette.muted), ("edited by you", palette.person)]
        if cell.part and cell.number is None:
            spans += [
                (" · ", palette.muted),
                (cell.part, palette.moon if cell.approval == "waiting" else palette.muted),
            ]
        if cell.approval == "waiting":
            spans += [("   ", palette.muted), ("waits for you", palette.moon)]
        elif cell.approval:
            reason = f": {plain(cell.reason)}" if cell.reason else ""
            spans += [
                ("   ", palette.muted),
                (cell.approval + reason.replace("\n", " "), palette.muted),
            ]
        return Row(spans, self._bar, right=self._right())

    def _right(self) -> list[Span]:
        cell, palette = self._cell, self._palette
        if cell.started is not None:
            elapsed = time.time() - cell.started
            return (
                [("● ", palette.moon), (duration(elapsed), palette.muted)]
                if elapsed >= PATIENCE
                else []
            )
        if cell.place is not None and cell.number is None:
            return [
                ("not run" if cell.ran_as is None else f"ran as In {cell.ran_as}", palette.muted)
            ]
        spans: list[Span] = []
        if cell.status == "interrupted":
            spans.append(("■ interrupted", palette.moon))
        elif cell.status not in ("", "ok"):
            spans.append((f"✗ {plain(cell.status)}", palette.bad))
        if cell.duration is not None:
            spans += [
                *([("  ", palette.muted)] if spans else []),
                (duration(cell.duration), palette.muted),
            ]
        return spans


def duration(seconds: float) -> str:
    """Format seconds: `0.08 s`, `4.2 s`, `3 min 05 s`."""
    if seconds < 0.005:
        return "<0.01 s"
    if seconds < 1:
        return f"{seconds:.2f} s"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes} min {rest:02} s"
