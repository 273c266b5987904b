"""A view of texts of any length, with line numbers, highlighting, wrapping and search."""

from __future__ import annotations

import json
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
from mahtab_tui.kernel.inspector_client import InspectorClient, ObjectPath, Source, TextPart
from mahtab_tui.sandbox.base import TextSpan
from mahtab_tui.tui.commands.command import bindings
from mahtab_tui.tui.commands.panes import TEXT_COMMANDS
from mahtab_tui.tui.inspector import Subject, View
from mahtab_tui.tui.rows.row import CURSOR_KEYS, Span
from mahtab_tui.tui.rows.text_window import (
    BLOCK,
    LocalText,
    LongTextView,
    PartMissing,
    StyledPart,
    Text,
    TextRow,
    TextWindow,
)
from mahtab_tui.tui.theme import Palette


class KernelText:
    def __init__(self, client: InspectorClient, path: ObjectPath, size: int) -> None:
        self.size = size
        self._client = client
        self._path = path
        self._blocks: dict[int, TextPart] = {}

    def part(self, start: int, end: int) -> str:
        blocks = range(start // BLOCK, -(-min(end, self.size) // BLOCK))
        text = "".join(self._block(number).text for number in blocks)
        return text[start - blocks.start * BLOCK : end - blocks.start * BLOCK]

    def read(self, start: int, end: int) -> str:
        return self._client.text(self._path, start, end).text

    def line_number(self, offset: int) -> int:
        if not self.size:
            return 1
        number = min(offset, self.size - 1) // BLOCK
        block = self._block(number)
        return 1 + block.line + block.text.count("\n", 0, offset - number * BLOCK)

    def _block(self, number: int) -> TextPart:
        if (block := self._blocks.get(number)) is None:
            start = number * BLOCK
            fetch = partial(self._client.text, self._path, start, start + BLOCK)
            raise PartMissing(fetch, partial(self._add, number))
        return block

    def _add(self, number: int, block: TextPart) -> None:
        self.size = block.size
        self._blocks[number] = block

    def find(self, words: str, start: int, *, backwards: bool) -> TextSpan | None:
        """Waits. Raises `KernelError`."""
        return self._client.find(self._path, words, start, backwards=backwards)


MAX_COLOURED = 200_000
SECONDS = 3.0

_MARKUP = re.compile(r"\s*<(?:\?xml|!doctype|[a-z][\w:-]*[\s/>])", re.IGNORECASE)


def guess_language(text: str) -> str:
    """Return ``json``, ``xml``, ``html``, or empty for others."""
    if text[:2000].lstrip()[:1] in ("{", "["):
        with suppress(ValueError, RecursionError):
            json.loads(text)
            return "json"
    if _MARKUP.match(text):
        return "html" if re.match(r"\s*<(?:!doctype )?html", text, re.IGNORECASE) else "xml"
    return ""


class Colours:
    def __init__(self, text: str, language: str) -> None:
        """Raises `TimeoutError` after `SECONDS`: a wrong language can keep a lexer busy for
        hours."""
        self.language = language
        self._tokens: list[tuple[int, int, TokenType]] = []
        end = time.monotonic() + SECONDS
        for start, kind, value in get_lexer_by_name(language).get_tokens_unprocessed(text):
            self._tokens.append((start, start + len(value), kind))
            if time.monotonic() > end:
                raise TimeoutError
        self._starts = [token[0] for token in self._tokens]

    def spans(self, start: int, end: int, palette: Palette) -> Iterator[tuple[int, int, Style]]:
        index = max(0, bisect_right(self._starts, start) - 1)
        for first, after, kind in self._tokens[index : bisect_left(self._starts, end)]:
            yield max(start, first), min(end, after), palette.token(kind)


def colour_text(text: str, language: str = "") -> Colours | None:
    """Return None if the language is unknown or this takes too long."""
    written = language or guess_language(text)
    try:
        return Colours(text, written) if written else None
    except TimeoutError:
        return None


_ABOVE = 4


class TextView(View, LongTextView, can_focus=True):
    """Shows a text from this process, or one that is fetched from the kernel block by block."""

    BINDINGS = bindings(TEXT_COMMANDS, *CURSOR_KEYS)

    def __init__(
        self, subject: Subject, source: Text | None = None, load: Callable[[], Text] | None = None
    ) -> None:
        """source: a text other than the object. load: returns that text; called on a thread at each
        `reload`, may raise `KernelError`."""
        self._load = load
        if load is not None:
            source = LocalText("")
        elif source is None:
            source = KernelText(subject.client, subject.path, subject.opened.size)
        super().__init__(subject, source=source)
        self.problem = ""
        """Why there is no text, or what is wrong with it."""
        self._language = ""
        self._marked = range(0)
        self._colours: Colours | None = None
        self._reserved = 8
        """Cells for line numbers. Never shrinks, so that the text does not jump."""

    def on_mount(self) -> None:
        if self._load is None:
            self._colour()
        else:
            self.reload()

    def show(
        self, source: Text, language: str = "", problem: str = "", marked: range = range(0)
    ) -> None:
        """language: a Pygments name. marked: the characters of a line to mark."""
        self.problem = problem
        self.window, self._language, self._marked = TextWindow(source), language, marked
        self._colours = self.found = None
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
        source, language = self.source, self._language
        self.fetcher.forget("colours")

        def colour() -> Colours | None:
            return colour_text(source.read(0, source.size), language)

        if 0 < source.size <= MAX_COLOURED:
            self.fetcher.ask("colours", colour, self._set_colours, lambda _: None)

    def _set_colours(self, colours: Colours | None) -> None:
        self._colours = colours
        self._show_status()
        self.refresh()

    @property
    def _gutter(self) -> int:
        return len(f"{max((row.number or 0 for row in self.lines), default=0):,}") + 3

    @property
    def text_width(self) -> int:
        return max(10, self.size.width - 1 - self._reserved)

    def refresh_view(self) -> None:
        if not self.size:
            return
        super().refresh_view()
        if self._gutter > self._reserved:
            self._reserved = self._gutter
            self.top = self.window.row_at(self.top, self.text_width)
            super().refresh_view()
        self._show_status()

    def _show_status(self) -> None:
        if self.problem:
            self.fail(self.problem)
            return
        first = next((row.number for row in self.lines if row.number is not None), 1)
        size = self.source.size
        text = f"line {first:,}  ·  {size:,} characters"
        if self._colours is not None:
            text += f"  ·  {self._colours.language}"
        words = f"  / {plain(self.words)}" if self.words else ""
        self.show_status((text, "$muted"), (words, "$person"))

    def row_prefix(self, row: TextRow) -> list[Span]:
        number = (f"{row.number:,}" if row.number is not None else "").rjust(self._gutter - 2)
        if row.start in self._marked:
            return [(number + "▸ ", self.palette.muted + self.palette.moon)]
        return [(number + "  ", self.palette.muted)]

    def line_style(self, row: TextRow) -> Style | None:
        return self.palette.panel if row.start in self._marked else None

    @property
    def rows_above(self) -> int:
        return min(_ABOVE, self.size.height // 2) if self._marked else 0

    def edge(self, y: int) -> Span:
        chars, height = self.source.size, self.size.height
        end = self.lines[-1].end if len(self.lines) >= height else chars
        here = self.top * height // max(1, chars) <= y <= end * height // max(1, chars)
        return " " if self.top == 0 and end >= chars else "▐" if here else "▕", self.palette.muted

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
        self.ask("a text", self.words, self.search, "search:")

    def find(self, words: str, start: int, *, backwards: bool) -> TextSpan | None:
        if isinstance(self.source, KernelText):
            return self.source.find(words, start, backwards=backwards)
        return super().find(words, start, backwards=backwards)


def make_repr_view(subject: Subject) -> TextView:
    def load() -> Text:
        text, cut = subject.client.representation(subject.path)
        return LocalText(f"{text}\n… it goes on …" if cut else text)

    return TextView(subject, load=load)


_DOC = 8


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

    def _show(self, source: Source) -> None:
        doc = plain(source.doc).strip()
        parts = [Content.styled(plain(source.signature), "bold")] if source.signature else []
        if source.where:
            parts.append(Content.styled(plain(source.where), "$muted"))
        if source.source and doc:
            lines = doc.splitlines()
            more = ["…"] if len(lines) > _DOC else []
            parts.append(Content("\n".join(["", *lines[:_DOC], *more])))
        self.query_one(".source-head", Static).update(Content("\n").join(parts))
        text = self.query_one(TextView)
        if source.source:
            text.show(LocalText(source.source, source.line), "python")
        else:
            text.show(LocalText(doc or "No source was found, and there is no docstring."))
