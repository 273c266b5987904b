"""What stands in the panes until there is something to show: the greeting and the search
example."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rich.cells import cell_len, set_cell_size
from textual.content import Content
from textual.reactive import var
from textual.strip import Strip
from textual.widgets import Static

from mahtab_tui.tui.rows.row import EDGE, RIGHT, Row, RowsView, paragraph, title_strip, to_strip
from mahtab_tui.tui.theme import Palette

if TYPE_CHECKING:
    from mahtab_tui.session import Session

TITLE = "TRANSCRIPT"
TITLE_HEIGHT = 1
MIN_TEXT_COLUMNS = 8
MAX_TEXT_COLUMNS = 120

SEARCH_CALL = Content.assemble(
    ("rlm(", "$foreground"),
    ('"question"', "$good"),
    (", text)", "$foreground"),
    (" searches a long text", "$muted"),
)
EXAMPLE = Content.assemble(
    ("RECURSION\n\n", "$muted"), SEARCH_CALL, ("; each call shows here", "$muted")
)
EXAMPLE_LINES = 5
SHORT_EXAMPLE = Content.assemble(("RECURSION\n", "$muted"), SEARCH_CALL)
SHORT_EXAMPLE_LINES = 2


class GreetingLine(NamedTuple):
    """One line of the greeting."""

    mark: str
    """A sign or a word that stands before the text, in a column of its own."""
    text: str
    """A sentence, or what to type."""


GreetingLines = tuple[GreetingLine, ...]


def greeting_lines(session: Session) -> GreetingLines:
    """Return what greets the user: what this is, and what to do with the session's files."""
    lines = [
        GreetingLine("◐", "One Python namespace, shared by you and a language model."),
        GreetingLine("`", "Type Python; press backtick and ask the model instead."),
    ]

    table = next((file.name for file in session.files if file.is_table), "")
    if table:
        lines.append(GreetingLine("Ask", f"` what stands out in {table}?"))
        hint = f"Ctrl+O N, then Enter on {table}: every row, to sort, filter."
        lines.append(GreetingLine("Look", hint))
    long_text = next((file.name for file in session.files if file.is_long_text), "")
    if long_text:
        call = f'rlm("what failed, and why?", {long_text})'
        lines.append(GreetingLine("Search", f"{call} reads all of it, part by part."))

    lines.append(GreetingLine("F1", "shows all keys."))
    if not session.files:
        hint = "mahtab-tui data.csv, mahtab-tui FOLDER. Here: %cd FOLDER"
        lines.append(GreetingLine("Data", hint))
    if session.model == "demo":
        hint = "demo: offline, canned rules. Type /model to connect a real one."
        lines.append(GreetingLine("Model", hint))
    return tuple(lines)


def text_columns(width: int) -> int:
    """Return how wide a text is on a pane of this width, in cells."""
    return max(MIN_TEXT_COLUMNS, min(MAX_TEXT_COLUMNS, width - EDGE - RIGHT))


def greeting_rows(lines: GreetingLines, width: int, palette: Palette) -> list[Row]:
    """Return the greeting below a blank row, with the texts beside the widest mark.

    Args:
        lines: What `greeting_lines` returned.
        width: The width of a row, in cells; longer texts are wrapped.
        palette: The theme's styles.
    """
    mark_width = max((cell_len(line.mark) for line in lines), default=0) + 1
    rows = [Row()]
    for line in lines:
        mark_span = (set_cell_size(line.mark, mark_width), palette.highlight)
        text_span = (line.text, palette.text)
        rows += paragraph([mark_span, text_span], width, None, indent=" " * mark_width)
    return rows


class GreetingRows(list[Row]):
    """The rows of the greeting."""

    lines: GreetingLines = ()

    def lay_out(self, width: int, palette: Palette) -> None:
        self[:] = greeting_rows(self.lines, text_columns(width), palette)


class Greeting(RowsView, can_focus=False):
    """Stands where the transcript will be."""

    head = TITLE_HEIGHT
    lines: var[GreetingLines] = var(())

    def __init__(self, *, id: str | None = None) -> None:
        self._greeting = GreetingRows()
        super().__init__(self._greeting, id=id)

    def watch_lines(self) -> None:
        self._greeting.lines = self.lines
        self.reload()

    def render_line(self, y: int) -> Strip:
        width = self.width
        base = self.visual_style.rich_style
        if self._laid_out_for is None:
            return Strip.blank(width, base)
        if y < TITLE_HEIGHT:
            return title_strip(TITLE, base + self._laid_out_for[1].muted, base, width)
        index = y - TITLE_HEIGHT
        row = self._greeting[index] if index < len(self._greeting) else Row()
        return to_strip(row, None, width, base)


class SearchExample(Static):
    """Stands where the searches will be, and shows how one is called."""

    short = var(False, init=False)
    """Whether to leave lines for the preview of a variable above it."""

    def __init__(self, *, id: str) -> None:
        super().__init__(EXAMPLE, id=id)

    @property
    def line_count(self) -> int:
        """The lines that the example needs."""
        return SHORT_EXAMPLE_LINES if self.short else EXAMPLE_LINES

    def watch_short(self) -> None:
        self.update(SHORT_EXAMPLE if self.short else EXAMPLE)
