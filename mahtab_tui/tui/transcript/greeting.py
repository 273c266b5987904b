"""The greeting at the start of a session, and the widget that shows it until the transcript is
loaded."""

from __future__ import annotations

from rich.cells import cell_len, set_cell_size
from textual.reactive import var
from textual.strip import Strip

from mahtab_tui.tui.rows.row import EDGE, RIGHT, Row, RowsView, paragraph, title_strip, to_strip
from mahtab_tui.tui.theme import Palette

TITLE = "TRANSCRIPT"
TITLE_HEIGHT = 1
GreetingLines = tuple[tuple[str, ...], ...]
"""Each line is a mark followed by words and examples in turn: ``("F1", "shows all keys, ",
"Ctrl+P", " finds one.")``."""
MOST_COLUMNS = 120
"""Maximum columns of text; longer lines are hard to read."""


def text_columns(width: int) -> int:
    """Return the columns available for text in a transcript of this width."""
    return max(8, min(MOST_COLUMNS, width - EDGE - RIGHT))


def greeting_rows(lines: GreetingLines, width: int, palette: Palette) -> list[Row]:
    """Draw the greeting; its first line and the examples are bright."""
    column = max((cell_len(mark) for mark, *_ in lines), default=0) + 1
    rows = [Row()]
    for mark, *parts in lines:
        spans = [
            (part, palette.muted if number % 2 == 0 and rows[1:] else palette.text)
            for number, part in enumerate(parts)
        ]
        rows += paragraph(
            [(set_cell_size(mark, column), palette.moon), *spans], width, None, indent=" " * column
        )
    return rows


class GreetingRows:
    """A `RowSource` with the greeting."""

    def __init__(self) -> None:
        self.lines: GreetingLines = ()
        self._rows: list[Row] = []

    def lay_out(self, width: int, palette: Palette) -> None:
        self._rows = greeting_rows(self.lines, text_columns(width), palette)

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: int) -> Row:
        return self._rows[index]


class Greeting(RowsView, can_focus=False):
    """A placeholder that looks like the transcript."""

    lines: var[GreetingLines] = var(())

    def __init__(self, *, id: str | None = None) -> None:
        self._greeting = GreetingRows()
        super().__init__(self._greeting, id=id)

    def watch_lines(self) -> None:
        self._greeting.lines = self.lines
        self.reload()

    @property
    def room(self) -> tuple[int, int]:
        """Columns and lines for a cell's output, as in the transcript; (0, 0) before the first
        layout."""
        return (0, 0) if self._laid_out is None else (text_columns(self.width), self.page)

    @property
    def head(self) -> int:
        return TITLE_HEIGHT

    def render_line(self, y: int) -> Strip:
        width, base = self.width, self.visual_style.rich_style
        if self._laid_out is None:
            return Strip.blank(width, base)
        if y < TITLE_HEIGHT:
            return title_strip(TITLE, base + self._laid_out[1].muted, base, width)
        # If it does not fit, the blank row above goes first.
        row = y - TITLE_HEIGHT + (len(self._greeting) > self.page)
        return to_strip(
            self._greeting[row] if row < len(self._greeting) else Row(),
            None,
            width,
            base,
            None,
            base,
        )
