"""A view of a text of any length, with line numbers, colours, wrapping and search."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

from rich.style import Style

from mahtab_tui.bus.sanitize import plain
from mahtab_tui.kernel.inspector_client import InspectorClient, ObjectPath, TextPart
from mahtab_tui.sandbox.searched_text import TextSpan
from mahtab_tui.tui.commands.declarations import TEXT_COMMANDS, bindings
from mahtab_tui.tui.inspector import Subject, View
from mahtab_tui.tui.inspector.token_colours import TokenColours, colour_text
from mahtab_tui.tui.rows.row import CURSOR_KEYS, Span
from mahtab_tui.tui.rows.text_source import BLOCK_CHARS, LocalText, PartMissing, TextSource
from mahtab_tui.tui.rows.text_view import LongTextView, StyledPart
from mahtab_tui.tui.rows.text_window import TextRow, TextWindow

MAX_COLOURED_CHARS = 200_000
"""A longer text has no colours, because it would have to be fetched as a whole."""
ROWS_ABOVE_MARK = 4
"""This many rows are visible above a marked line, but at most half of the view."""
MIN_PREFIX_WIDTH = 8
"""The width in cells that the line numbers have at least, with their margin."""
MIN_TEXT_WIDTH = 10
"""Rows of text are at least this wide, in cells, even if the view is narrower."""


class KernelText:
    """A text of the kernel, cached in blocks."""

    def __init__(self, client: InspectorClient, path: ObjectPath, size: int) -> None:
        """
        Args:
            client: Fetches from the kernel.
            path: Where the text is in the namespace.
            size: The characters of the text, as far as they are known.
        """
        self.size = size
        """The characters of the text. Each block that is fetched says how many there are now."""
        self._client = client
        self._path = path
        self._blocks: dict[int, TextPart] = {}
        """The fetched blocks of `BLOCK_CHARS` characters, by their numbers from 0."""

    def part(self, start: int, end: int) -> str:
        """Return characters from the blocks that have been fetched. Raises `PartMissing` otherwise."""
        first_block = start // BLOCK_CHARS
        end_block = math.ceil(min(end, self.size) / BLOCK_CHARS)
        blocks = [self._block(number) for number in range(first_block, end_block)]
        text = "".join(block.text for block in blocks)
        text_start = first_block * BLOCK_CHARS
        return text[start - text_start : end - text_start]

    def read(self, start: int, end: int) -> str:
        """Return characters fetched anew. Waits for the kernel, and raises `KernelError`."""
        return self._client.text(self._path, start, end).text

    def line_number(self, offset: int) -> int:
        """Return the number of the line with a character, from 1. Raises `PartMissing`."""
        if not self.size:
            return 1
        number = min(offset, self.size - 1) // BLOCK_CHARS
        block = self._block(number)
        return 1 + block.line + block.text.count("\n", 0, offset - number * BLOCK_CHARS)

    def _block(self, number: int) -> TextPart:
        """Return a block. Raises `PartMissing` if it has to be fetched."""
        block = self._blocks.get(number)
        if block is None:
            start = number * BLOCK_CHARS
            fetch = partial(self._client.text, self._path, start, start + BLOCK_CHARS)
            raise PartMissing(fetch, partial(self._add, number))
        return block

    def _add(self, number: int, block: TextPart) -> None:
        """Add a block that was fetched, and take over the size that the text has now."""
        self.size = block.size
        self._blocks[number] = block

    def find(self, search_text: str, start: int, *, backwards: bool) -> TextSpan | None:
        """Return the next place of a text, or the previous one; None if there is none.

        Waits for the kernel, and raises `KernelError`.
        """
        return self._client.find(self._path, search_text, start, backwards=backwards)


class TextView(View, LongTextView, can_focus=True):
    """Shows a text from this process, or one that is fetched from the kernel block by block."""

    BINDINGS = bindings(TEXT_COMMANDS, *CURSOR_KEYS)

    def __init__(
        self,
        subject: Subject,
        source: TextSource | None = None,
        load: Callable[[], TextSource] | None = None,
    ) -> None:
        """
        Args:
            subject: The object that the screen shows.
            source: A text other than the object.
            load: Returns that text, on a thread at each `reload`. It may raise `KernelError`.
        """
        self._load = load
        if load is not None:
            source = LocalText("")
        elif source is None:
            source = KernelText(subject.client, subject.path, subject.opened.size)
        super().__init__(subject, source=source)
        self.problem = ""
        """Why there is no text, or what is wrong with it."""
        self._language = ""
        self._marked_span = range(0)
        """The characters of a marked line."""
        self._colours: TokenColours | None = None
        """The colours of the text; None until they are found, and if there are none."""
        self._prefix_width = MIN_PREFIX_WIDTH
        """The width of the line numbers, in cells. It never shrinks, so that the text does not jump."""
        self._first_line = 1
        """The number of the first visible line."""

    def on_mount(self) -> None:
        if self._load is None:
            self._colour()
        else:
            self.reload()

    def show(
        self,
        source: TextSource,
        language: str = "",
        problem: str = "",
        marked_span: range = range(0),
    ) -> None:
        """Show another text.

        Args:
            source: The text.
            language: Pygments' name of its language; empty to guess it.
            problem: Why there is no text, or what is wrong with it; empty if it is all right.
            marked_span: The characters of a line to mark.
        """
        self.problem = problem
        self.window = TextWindow(source)
        self._language = language
        self._marked_span = marked_span
        self._colours = None
        self.hit = None
        self.top = min(self.top, source.size)
        self._colour()
        self.load_then(self.refresh_view)

    def reload(self) -> None:
        if self._load is not None:
            self.show_status(("…", "$muted"))
            self.fetcher.run("load", self._load, self.show, self._show_problem)
        elif isinstance(self.source, KernelText):
            self.show(KernelText(self.subject.client, self.subject.path, self.subject.opened.size))

    def _show_problem(self, problem: str) -> None:
        """Show no text, and say why."""
        self.show(LocalText(""), problem=problem)

    def _colour(self) -> None:
        """Find the colours of the text on a thread, unless it is too long."""
        source = self.source
        language = self._language
        self.fetcher.forget("colours")

        def colour() -> TokenColours | None:
            return colour_text(source.read(0, source.size), language)

        if 0 < source.size <= MAX_COLOURED_CHARS:
            # If they cannot be found, the text stays without colours, and nobody is told.
            self.fetcher.run("colours", colour, self._set_colours, lambda _: None)

    def _set_colours(self, colours: TokenColours | None) -> None:
        self._colours = colours
        self._show_status()
        self.refresh()

    @property
    def _gutter(self) -> int:
        """The width that the visible line numbers need with their margin, in cells."""
        last_number = max((row.number or 0 for row in self.lines), default=0)
        return len(f"{last_number:,}") + 3

    @property
    def text_width(self) -> int:
        return max(MIN_TEXT_WIDTH, self.size.width - 1 - self._prefix_width)

    def refresh_view(self) -> None:
        if not self.size:
            return
        super().refresh_view()
        # Longer line numbers have become visible, which leave less width to the text.
        if self._gutter > self._prefix_width:
            self._prefix_width = self._gutter
            self.top = self.window.row_at(self.top, self.text_width)
            super().refresh_view()
        self._first_line = self.source.line_number(self.lines[0].start) if self.lines else 1
        self._show_status()

    def _show_status(self) -> None:
        """Show the first visible line, the length, the language and the search, or the problem."""
        if self.problem:
            self.fail(self.problem)
            return
        status = f"line {self._first_line:,}  ·  {self.source.size:,} characters"
        if self._colours is not None:
            status += f"  ·  {self._colours.language}"
        search_status = f"  / {plain(self.search_text)}" if self.search_text else ""
        self.show_status((status, "$muted"), (search_status, "$person"))

    def row_prefix(self, row: TextRow) -> list[Span]:
        number = f"{row.number:,}" if row.number is not None else ""
        number = number.rjust(self._gutter - 2)
        if row.start in self._marked_span:
            return [(number + "▸ ", self.palette.muted + self.palette.highlight)]
        return [(number + "  ", self.palette.muted)]

    def line_style(self, row: TextRow) -> Style | None:
        if row.start in self._marked_span:
            return self.palette.panel
        return None

    @property
    def rows_above(self) -> int:
        if self._marked_span:
            return min(ROWS_ABOVE_MARK, self.size.height // 2)
        return 0

    def edge(self, y: int) -> Span:
        """Return a row of the scroll bar, which marks the part of the text that is visible.

        The bar measures in characters, because the rows of a long text are not counted.
        """
        chars = self.source.size
        height = self.size.height
        visible_end = self.lines[-1].end if len(self.lines) >= height else chars
        if self.top == 0 and visible_end >= chars:
            return " ", self.palette.muted
        first_row = self.top * height // max(1, chars)
        last_row = visible_end * height // max(1, chars)
        glyph = "▐" if first_row <= y <= last_row else "▕"
        return glyph, self.palette.muted

    def part_styles(self, row: TextRow) -> list[StyledPart]:
        styles = super().part_styles(row)
        if self._colours is None:
            return styles
        return [*self._colours.spans(row.start, row.end, self.palette), *styles]

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "ask":  # no expression refers to other texts
            return isinstance(self.source, KernelText)
        return super().check_action(action, parameters)

    def action_ask(self) -> None:
        """Let the user type a question about this text."""
        self.open_line("about this text", "", self._post_question, "ask:")

    def _post_question(self, question: str) -> None:
        """Let the screen ask the model about this text."""
        if question.strip():
            self.post_message(self.QuestionAsked(question.strip()))

    def action_search(self) -> None:
        """Let the user type a text to search for."""
        self.open_line("a text", self.search_text, self.search, "search:")

    def find(self, search_text: str, start: int, *, backwards: bool) -> TextSpan | None:
        if isinstance(self.source, KernelText):
            return self.source.find(search_text, start, backwards=backwards)
        return super().find(search_text, start, backwards=backwards)


def make_repr_view(subject: Subject) -> TextView:
    """Return a view of an object's repr. The object's own code makes it at each reload, in the kernel."""

    def load() -> TextSource:
        text, is_cut = subject.client.representation(subject.path)
        if is_cut:
            text = f"{text}\n… it goes on …"
        return LocalText(text)

    return TextView(subject, load=load)
