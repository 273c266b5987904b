"""A view of texts of any length, with line numbers, highlighting, wrapping and search."""

from __future__ import annotations

import json
import math
import re
import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial

from pygments.lexers import get_lexer_by_name
from pygments.token import _TokenType as TokenType
from rich.style import Style
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Static

from mahtab_tui.bus.sanitize import plain
from mahtab_tui.kernel.inspector_client import InspectorClient, ObjectPath, SourceCode, TextPart
from mahtab_tui.sandbox.searched_text import TextSpan
from mahtab_tui.tui.commands.declarations import TEXT_COMMANDS, bindings
from mahtab_tui.tui.inspector import Subject, View
from mahtab_tui.tui.rows.row import CURSOR_KEYS, Span
from mahtab_tui.tui.rows.text_window import (
    BLOCK_CHARS,
    LocalText,
    LongTextView,
    PartMissing,
    StyledPart,
    TextRow,
    TextSource,
    TextWindow,
)
from mahtab_tui.tui.theme import Palette

MAX_COLOURED_CHARS = 200_000
"""Longer texts have no colours."""
LEXER_TIMEOUT_S = 3.0
"""Seconds for finding the colours of a text."""
ROWS_ABOVE_MARK = 4
"""Rows above a marked line, at most half of the view."""
MAX_DOC_LINES = 8
"""Lines of a docstring above the source."""
_MARKUP = re.compile(r"\s*<(?:\?xml|!doctype|[a-z][\w:-]*[\s/>])", re.IGNORECASE)
"""The start of a text in XML or HTML."""


class KernelText:
    """A text of the kernel, cached in blocks."""

    def __init__(self, client: InspectorClient, path: ObjectPath, size: int) -> None:
        self.size = size
        self._client = client
        self._path = path
        self._blocks: dict[int, TextPart] = {}

    def part(self, start: int, end: int) -> str:
        first_block = start // BLOCK_CHARS
        end_block = math.ceil(min(end, self.size) / BLOCK_CHARS)
        blocks = [self._block(number) for number in range(first_block, end_block)]
        text = "".join(block.text for block in blocks)
        text_start = first_block * BLOCK_CHARS
        return text[start - text_start : end - text_start]

    def read(self, start: int, end: int) -> str:
        return self._client.text(self._path, start, end).text

    def line_number(self, offset: int) -> int:
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
        self.size = block.size
        self._blocks[number] = block

    def find(self, search_text: str, start: int, *, backwards: bool) -> TextSpan | None:
        """Return the next place of a text, or the previous one; None if there is none. Waits for
        the kernel, and raises `KernelError`."""
        return self._client.find(self._path, search_text, start, backwards=backwards)


def guess_language(text: str) -> str:
    """Return ``json``, ``xml``, ``html``, or empty for others."""
    if text[:2000].lstrip().startswith(("{", "[")):
        with suppress(ValueError, RecursionError):
            json.loads(text)
            return "json"
    if _MARKUP.match(text):
        is_html = re.match(r"\s*<(?:!doctype )?html", text, re.IGNORECASE)
        return "html" if is_html else "xml"
    return ""


class TokenColours:
    """The tokens of a text in a programming language."""

    def __init__(self, text: str, language: str) -> None:
        """Find the tokens of a text.

        Args:
            text: The text.
            language: Pygments' name of its language.

        Raises:
            TimeoutError: `LEXER_TIMEOUT_S` have passed: a wrong language can keep a lexer busy for
                hours.
        """
        self.language = language
        self._tokens: list[tuple[int, int, TokenType]] = []
        deadline = time.monotonic() + LEXER_TIMEOUT_S
        for start, kind, value in get_lexer_by_name(language).get_tokens_unprocessed(text):
            self._tokens.append((start, start + len(value), kind))
            if time.monotonic() > deadline:
                raise TimeoutError
        self._starts = [token[0] for token in self._tokens]

    def spans(self, start: int, end: int, palette: Palette) -> Iterator[tuple[int, int, Style]]:
        """Yield the start, the end and the style of each token between two offsets."""
        first_token = max(0, bisect_right(self._starts, start) - 1)
        end_token = bisect_left(self._starts, end)
        for token_start, token_end, kind in self._tokens[first_token:end_token]:
            yield max(start, token_start), min(end, token_end), palette.token(kind)


def colour_text(text: str, language: str = "") -> TokenColours | None:
    """Return the colours of a text; None if its language is unknown, or finding them takes too
    long."""
    language = language or guess_language(text)
    if not language:
        return None
    try:
        return TokenColours(text, language)
    except TimeoutError:
        return None


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
        self._prefix_width = 8
        """Cells for line numbers. Never shrinks, so that the text does not jump."""

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
            fail = partial(self.show, LocalText(""), "")
            self.fetcher.ask("load", self._load, self.show, fail)
        elif isinstance(self.source, KernelText):
            self.show(KernelText(self.subject.client, self.subject.path, self.subject.opened.size))

    def _colour(self) -> None:
        """Find the colours of the text on a thread."""
        source = self.source
        language = self._language
        self.fetcher.forget("colours")

        def colour() -> TokenColours | None:
            return colour_text(source.read(0, source.size), language)

        if 0 < source.size <= MAX_COLOURED_CHARS:
            self.fetcher.ask("colours", colour, self._set_colours, lambda _: None)

    def _set_colours(self, colours: TokenColours | None) -> None:
        self._colours = colours
        self._show_status()
        self.refresh()

    @property
    def _gutter(self) -> int:
        """The width of the visible line numbers and their margin, in cells."""
        last_number = max((row.number or 0 for row in self.lines), default=0)
        return len(f"{last_number:,}") + 3

    @property
    def text_width(self) -> int:
        return max(10, self.size.width - 1 - self._prefix_width)

    def refresh_view(self) -> None:
        if not self.size:
            return
        super().refresh_view()
        if self._gutter > self._prefix_width:
            self._prefix_width = self._gutter
            self.top = self.window.row_at(self.top, self.text_width)
            super().refresh_view()
        self._show_status()

    def _show_status(self) -> None:
        if self.problem:
            self.fail(self.problem)
            return
        line_number = next((row.number for row in self.lines if row.number is not None), 1)
        status = f"line {line_number:,}  ·  {self.source.size:,} characters"
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
        """Draw a scroll bar: the part of the text that is visible is marked."""
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
        self.ask("about this text", "", self._ask, "ask:")

    def _ask(self, question: str) -> None:
        if question.strip():
            self.post_message(self.QuestionAsked(question.strip()))

    def action_search(self) -> None:
        self.ask("a text", self.search_text, self.search, "search:")

    def find(self, search_text: str, start: int, *, backwards: bool) -> TextSpan | None:
        if isinstance(self.source, KernelText):
            return self.source.find(search_text, start, backwards=backwards)
        return super().find(search_text, start, backwards=backwards)


def make_repr_view(subject: Subject) -> TextView:
    """Return a view of an object's repr, which its own code makes."""

    def load() -> TextSource:
        text, is_cut = subject.client.representation(subject.path)
        if is_cut:
            text = f"{text}\n… it goes on …"
        return LocalText(text)

    return TextView(subject, load=load)


class SourceView(View, Vertical):
    """Shows the signature and docstring above the source."""

    def compose(self) -> ComposeResult:
        yield Static(classes="source-head", markup=False)
        yield TextView(self.subject, LocalText(""))

    def on_mount(self) -> None:
        self.reload()

    def take_focus(self) -> None:
        self.query_one(TextView).focus()

    def reload(self) -> None:
        read = partial(self.subject.client.source, self.subject.path)
        self.fetcher.ask("source", read, self._show, self.fail)

    def _show(self, source: SourceCode) -> None:
        """Show the signature and the docstring above the source."""
        doc = plain(source.doc).strip()
        parts = []
        if source.signature:
            parts.append(Content.styled(plain(source.signature), "bold"))
        if source.where:
            parts.append(Content.styled(plain(source.where), "$muted"))
        # Without source, the docstring is the text below.
        if source.source and doc:
            doc_lines = doc.splitlines()
            visible_lines = ["", *doc_lines[:MAX_DOC_LINES]]
            if len(doc_lines) > MAX_DOC_LINES:
                visible_lines.append("…")
            parts.append(Content("\n".join(visible_lines)))
        self.query_one(".source-head", Static).update(Content("\n").join(parts))
        text = self.query_one(TextView)
        if source.source:
            text.show(LocalText(source.source, source.line), "python")
        else:
            text.show(LocalText(doc or "No source was found, and there is no docstring."))
