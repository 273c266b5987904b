"""A view of texts of any length, with line numbers, highlighting, wrapping and search."""

from __future__ import annotations

import ast
import json
import re
import time
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterator
from functools import partial
from typing import ClassVar, Protocol

from pygments.lexers import get_lexer_by_name
from pygments.token import _TokenType as TokenType
from rich.style import Style
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Static

from mahtab_tui.bus.sanitize import plain
from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.inspector_client import InspectorClient, ObjectPath, Source, TextPart
from mahtab_tui.tui.commands.command import bindings
from mahtab_tui.tui.commands.on_screens import TEXT_COMMANDS
from mahtab_tui.tui.find import MatchSpan, Pattern, PatternError
from mahtab_tui.tui.inspector.view import Subject, View
from mahtab_tui.tui.rows.row import CURSOR_KEYS, Span
from mahtab_tui.tui.rows.text_window import (
    LINE,
    Find,
    LongTextView,
    StyledPart,
    TextRow,
    TextWindow,
)
from mahtab_tui.tui.theme import Palette

BLOCK = 65_536
"""Characters per block."""
_BLOCKS = 64
"""Maximum number of cached blocks."""


class BlockMissing(Exception):
    """A block must be fetched first."""

    def __init__(self, block: int) -> None:
        super().__init__()
        self.block = block


class TextSource(Protocol):
    """A text that is read block by block."""

    size: int
    """Length in characters."""

    def block(self, number: int) -> TextPart:
        """Return a cached block. Raises `BlockMissing`."""

    def fetch(self, number: int) -> TextPart:
        """Fetch a block; waits for the kernel. Raises `KernelError`."""

    def add(self, number: int, part: TextPart) -> None:
        """Cache a fetched block."""

    def find(self, words: str, start: int, *, backwards: bool) -> tuple[int, int] | None:
        """Find the next or previous match of words; waits. Raises `KernelError`."""


class KernelText:
    """A text in the kernel."""

    def __init__(self, client: InspectorClient, path: ObjectPath, size: int) -> None:
        self.size = size
        self._client = client
        self._path = path
        self._blocks: OrderedDict[int, TextPart] = OrderedDict()

    def block(self, number: int) -> TextPart:
        part = self._blocks.get(number)
        if part is None:
            raise BlockMissing(number)
        self._blocks.move_to_end(number)
        return part

    def fetch(self, number: int) -> TextPart:
        return self._client.text(self._path, number * BLOCK, (number + 1) * BLOCK)

    def add(self, number: int, part: TextPart) -> None:
        self.size = part.size
        self._blocks[number] = part
        while len(self._blocks) > _BLOCKS:
            self._blocks.popitem(last=False)

    def find(self, words: str, start: int, *, backwards: bool) -> tuple[int, int] | None:
        return self._client.find(self._path, words, start, backwards=backwards)


class LocalText:
    """A text in this process."""

    def __init__(self, text: str, first_line: int = 1) -> None:
        self.size = len(text)
        self.text = text
        self._first = first_line - 1

    def block(self, number: int) -> TextPart:
        start = number * BLOCK
        return TextPart(
            self.text[start : start + BLOCK],
            self._first + self.text.count("\n", 0, start),
            self.size,
        )

    def fetch(self, number: int) -> TextPart:
        return self.block(number)

    def add(self, number: int, part: TextPart) -> None:
        """Do nothing: all blocks are already here."""

    def find(self, words: str, start: int, *, backwards: bool) -> tuple[int, int] | None:
        return TextWindow(lambda first, last: self.text[first:last], self.size).find(
            words, start, backwards=backwards
        )


class BlockWindow(TextWindow):
    """Moves through a text block by block. Raises `BlockMissing` if a block must be fetched
    first."""

    def __init__(self, source: TextSource) -> None:
        super().__init__(self._get, source.size)
        self._source = source

    def line_number(self, offset: int) -> int:
        """Return the number of the line that contains an offset, from 1."""
        if not self.chars:
            return 1
        block, rest = divmod(offset, BLOCK)
        if not rest and block and offset >= self.chars:
            block, rest = block - 1, BLOCK
        part = self._source.block(block)
        return 1 + part.line + part.text.count("\n", 0, rest)

    def _get(self, start: int, end: int) -> str:
        end = min(end, self.chars)
        if start >= end:
            return ""
        first, last = start // BLOCK, (end - 1) // BLOCK
        text = "".join(self._source.block(number).text for number in range(first, last + 1))
        return text[start - first * BLOCK : end - first * BLOCK]


MAX_COLOURED = 200_000
"""Maximum characters of a text that is highlighted."""
SECONDS = 3.0
"""Time limit for highlighting."""
_SAMPLE = 20_000
"""Characters at the start from which the language is guessed."""

_MARKUP = re.compile(r"\s*<(?:\?xml|!doctype|[a-z][\w:-]*[\s/>])", re.IGNORECASE)
_MARKDOWN = re.compile(
    r"^(?:#{1,6} \S|```|[-*] \S.*\n[-*] \S|\d+\. \S|\|.*\|$)|\[[^\[\]\n]{1,200}\]\([^()\n]{1,500}\)|\*\*\S",
    re.MULTILINE,
)
_CODE = re.compile(
    r"^(?:def |class |import |from \w+ import |@\w|async def )|^\w+(?:\.\w+)* = ", re.MULTILINE
)


def guess_language(text: str) -> str:
    """Guess the language: ``json``, ``xml``, ``html``, ``python``, ``markdown``, or empty for plain
    text."""
    begins = text[:2000].lstrip()
    if begins[:1] in ("{", "[") and _parses(text):
        return "json"
    if _MARKUP.match(text):
        return "html" if re.match(r"\s*<(?:!doctype )?html", text, re.IGNORECASE) else "xml"
    if _CODE.search(text[:_SAMPLE]) and _is_code(text):
        return "python"
    return "markdown" if _MARKDOWN.search(text[:_SAMPLE]) else ""


class Colours:
    """Token types of a text's characters."""

    def __init__(self, text: str, language: str) -> None:
        """Raises `TimeoutError` after `SECONDS`, because a text in the wrong language can keep a
        lexer busy for hours."""
        self.language = language
        self._tokens: list[tuple[int, int, TokenType]] = []
        """Start, end and token type of each token."""
        end = time.monotonic() + SECONDS
        for start, kind, value in get_lexer_by_name(language).get_tokens_unprocessed(text):
            self._tokens.append((start, start + len(value), kind))
            if time.monotonic() > end:
                raise TimeoutError
        self._starts = [token[0] for token in self._tokens]

    def spans(self, start: int, end: int, palette: Palette) -> Iterator[tuple[int, int, Style]]:
        """Yield the styles of a part of the text, with their offsets."""
        index = max(0, bisect_right(self._starts, start) - 1)
        for first, after, kind in self._tokens[index : bisect_left(self._starts, end)]:
            yield max(start, first), min(end, after), palette.token(kind)


def colour_text(text: str, language: str = "") -> Colours | None:
    """Highlight a text, by default in the guessed language; None if the language is unknown or this
    takes too long."""
    written = language or guess_language(text)
    try:
        return Colours(text, written) if written else None
    except TimeoutError:
        return None


def _parses(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _is_code(text: str) -> bool:
    """Return whether the start of a text, up to an empty line, is Python. No more is parsed,
    because parsing blocks other threads."""
    if len(text) > _SAMPLE:
        text = text[: max(text.rfind("\n\n", 0, _SAMPLE), 0)]
    try:
        ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


PART = 2.0
"""Time limit for one block, in seconds."""
WHOLE = 20.0
"""Time limit for a whole search, in seconds."""


def find_pattern(
    source: TextSource, words: str, start: int, *, backwards: bool
) -> MatchSpan | None:
    """Find the next match from an offset, or the last one before it; wraps around. A pattern
    without capitals ignores case.

    A match lies within one line, or within one block of a longer line. Raises `KernelError`.
    """
    until = time.monotonic() + WHOLE
    try:
        pattern = Pattern(
            words, regex=True, any_case=not any(map(str.isupper, re.sub(r"\\.", "", words)))
        )
        for block, first, last in _steps(source.size, start, backwards=backwards):
            if time.monotonic() > until:
                raise KernelError(f"Not found within {WHOLE:.0f} s, because the text is very long.")
            text, begin = _lines(source, block)
            found = _match(
                pattern,
                text,
                range(max(0, first - begin), max(0, last - begin)),
                backwards=backwards,
            )
            if found is not None:
                return begin + found[0], begin + found[1]
    except PatternError as error:
        raise KernelError(str(error)) from None
    return None


def _match(pattern: Pattern, text: str, begins: range, *, backwards: bool) -> MatchSpan | None:
    """Find the first (backwards: the last) match that starts within a range of offsets."""
    found = None
    for span in pattern.spans(text, PART, begins.start):
        if span[0] >= begins.stop:
            break
        found = span
        if not backwards:
            break
    return found


def _steps(size: int, start: int, *, backwards: bool) -> Iterator[tuple[int, int, int]]:
    """Yield the blocks in search order, each with the range in which a match may start."""
    count, here = -(-size // BLOCK), min(start, max(0, size - 1)) // BLOCK
    if backwards:
        yield from ((block, 0, start) for block in range(here, -1, -1))
        yield from ((block, start, size) for block in range(count - 1, here - 1, -1))
    else:
        yield from ((block, start, size) for block in range(here, count))
        yield from ((block, 0, start) for block in range(here + 1))


def _lines(source: TextSource, block: int) -> tuple[str, int]:
    """Read the lines that start in a block, and return the offset of the first; for a line longer
    than a block, only the block."""
    text, begin = source.fetch(block).text, block * BLOCK
    if block and not source.fetch(block - 1).text.endswith("\n") and "\n" in text:
        cut = text.index("\n") + 1
        text, begin = text[cut:], begin + cut
    if not text.endswith("\n") and begin + len(text) < source.size:
        rest, newline, _ = source.fetch(block + 1).text.partition("\n")
        text += rest if newline else ""
    return text, begin


_SIDEWAYS = 8
"""Cells by which a key scrolls sideways."""
_ABOVE = 4
"""Lines that stay visible above a marked line, if there is room."""


class TextView(View, LongTextView, can_focus=True):
    """Shows a text from this process, or one that is fetched from the kernel block by block."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *bindings(TEXT_COMMANDS),
        *CURSOR_KEYS,
        Binding("left", "sideways(-1)", "Left", show=False),
        Binding("right", "sideways(1)", "Right", show=False),
    ]

    def __init__(
        self,
        subject: Subject,
        source: TextSource | None = None,
        load: Callable[[], TextSource] | None = None,
    ) -> None:
        """source: a text other than the object itself. load: returns that text; called on a thread,
        again at each `reload`, and may raise `KernelError`."""
        self._load = load
        self._source: TextSource = (
            LocalText("")
            if load
            else source or KernelText(subject.client, subject.path, subject.opened.size)
        )
        super().__init__(subject, window=BlockWindow(self._source))
        self.problem = ""
        """A sentence that says why there is no text, or what is wrong with it."""
        self._language = ""
        """The language; empty to guess it from the text."""
        self._marked = range(0)
        self._colours: Colours | None = None
        self._reserved = 8
        """Cells for line numbers. It grows with the longest number but never shrinks, so that the
        text does not jump."""
        self._regex = False
        self._waiting: list[Callable[[], None]] = []

    def on_mount(self) -> None:
        if self._load is None:
            self._colour()
        else:
            self.reload()

    def show(
        self, source: TextSource, language: str = "", problem: str = "", marked: range = range(0)
    ) -> None:
        """Show another text. language: a Pygments name. problem: see the attribute. marked: the
        character range of a line to mark."""
        self.problem = problem
        self._source, self._language, self._marked = source, language, marked
        self.window = BlockWindow(source)
        self._colours = self.found = None
        self.top = min(self.top, source.size)
        self._colour()
        self.load_then(self.refresh_view)

    def reload(self) -> None:
        if self._load is not None:
            self.show_status(("…", "$muted"))
            self.fetcher.ask(
                "load",
                self._load,
                self.show,
                lambda problem: self.show(LocalText(""), problem=problem),
            )
        elif isinstance(self._source, KernelText):
            self.show(KernelText(self.subject.client, self.subject.path, self.subject.opened.size))

    # Fetching

    def load_then(self, work: Callable[[], None]) -> None:
        if self._waiting:
            self._waiting.append(work)
            return
        try:
            work()
        except BlockMissing as missing:
            self._waiting.append(work)
            self._fetch(missing.block)

    def _fetch(self, block: int) -> None:
        source = self._source

        def came(part: TextPart) -> None:
            source.add(block, part)
            self.window.chars = source.size
            waiting, self._waiting = self._waiting, []
            for work in waiting:
                self.load_then(work)

        def failed(sentence: str) -> None:
            self._waiting.clear()
            self.fail(sentence)

        self.fetcher.ask("text", lambda: source.fetch(block), came, failed)

    def _colour(self) -> None:
        """Guess the language and highlight the text, on a thread."""
        source, language = self._source, self._language
        self.fetcher.forget("colours")
        if not 0 < source.size <= MAX_COLOURED:
            return

        def came(colours: Colours | None) -> None:
            self._colours = colours
            self._show_status()
            self.refresh()

        blocks = range(-(-source.size // BLOCK))
        self.fetcher.ask(
            "colours",
            lambda: colour_text("".join(source.fetch(block).text for block in blocks), language),
            came,
            lambda _: None,
        )

    # Layout

    @property
    def _gutter(self) -> int:
        """Cells used for line numbers."""
        return len(f"{max((row.number or 0 for row in self.lines), default=0):,}") + 3

    @property
    def text_width(self) -> int:
        return max(10, self.size.width - 1 - self._reserved) if self._wrapped else LINE

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
        parts: list[tuple[str, str] | str] = [
            (f"line {first:,}  ·  {character_count(self._source.size)}", "$muted")
        ]
        if self._colours is not None:
            parts.append((f"  ·  {self._colours.language}", "$muted"))
        if self.words:
            parts.append((f"  {'pattern' if self._regex else '/'} {plain(self.words)}", "$person"))
        self.show_status(*parts)

    # Drawing

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
        """Draw the scrollbar's thumb and track; nothing if the whole text is visible."""
        chars, height = self._source.size, self.size.height
        end = self.lines[-1].end if len(self.lines) >= height else chars
        here = self.top * height // max(1, chars) <= y <= end * height // max(1, chars)
        return " " if self.top == 0 and end >= chars else "▐" if here else "▕", self.palette.muted

    def part_styles(self, row: TextRow) -> list[StyledPart]:
        colours = (
            self._colours.spans(row.start, row.end, self.palette)
            if self._colours is not None
            else ()
        )
        return [*colours, *super().part_styles(row)]

    # Actions

    def action_sideways(self, direction: int) -> None:
        self._left = 0 if self._wrapped else max(0, self._left + direction * _SIDEWAYS)
        self.refresh()

    def action_wrap(self) -> None:
        self._wrapped = not self._wrapped
        self._left = 0
        self.rewrap()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Only texts in the kernel have an expression to ask about."""
        return (
            isinstance(self._source, KernelText)
            if action == "ask"
            else super().check_action(action, parameters)
        )

    def action_ask(self) -> None:
        self.ask("about this text", "", self._ask, "ask:")

    def _ask(self, question: str) -> None:
        if question.strip():
            self.post_message(self.QuestionAsked(question.strip()))

    def action_search(self) -> None:
        self.ask(
            "a regular expression" if self._regex else "a text",
            self.words,
            self.search,
            "search:",
        )

    def action_regex(self) -> None:
        self._regex = not self._regex
        self.show_status(
            (
                "Searches for regular expressions; x: for words."
                if self._regex
                else "Searches for words; x: for regular expressions.",
                "$muted",
            )
        )

    @property
    def find(self) -> Find:
        return partial(find_pattern, self._source) if self._regex else self._source.find


def make_repr_view(subject: Subject) -> TextView:
    """Make a view of the object's repr. It runs the object's own code, because the user opened this
    view."""

    def load() -> TextSource:
        text, cut = subject.client.representation(subject.path)
        return LocalText(f"{text}\n… it goes on …" if cut else text)

    return TextView(subject, load=load)


def character_count(characters: int) -> str:
    return f"{characters:,} character{'' if characters == 1 else 's'}"


_DOC = 8
"""Maximum lines of the docstring shown above the source."""


class SourceView(View, Vertical):
    """Shows the signature and docstring above the source; without a source, the docstring alone."""

    def compose(self) -> ComposeResult:
        yield Static(classes="source-head", markup=False)
        yield TextView(self.subject, LocalText(""))

    def on_mount(self) -> None:
        self.reload()

    def take_focus(self) -> None:
        self.query_one(TextView).focus()

    def reload(self) -> None:
        subject = self.subject
        self.fetcher.ask(
            "source", lambda: subject.client.source(subject.path), self._show, self.fail
        )

    def _show(self, source: Source) -> None:
        doc = plain(source.doc).strip()
        parts = [Content.styled(plain(source.signature), "bold")] if source.signature else []
        if source.where:
            parts.append(Content.styled(plain(source.where), "$muted"))
        if source.source and doc:
            lines = doc.splitlines()
            parts += [
                Content(""),
                Content("\n".join(lines[:_DOC] + (["…"] if len(lines) > _DOC else []))),
            ]
        self.query_one(".source-head", Static).update(Content("\n").join(parts))
        text = self.query_one(TextView)
        if source.source:
            text.show(LocalText(source.source, source.line), "python")
        else:
            text.show(LocalText(doc or "No source was found, and there is no docstring."))
