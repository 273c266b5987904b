"""A text of any length, with line numbers, colours, wrapping and search."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import ClassVar

from rich.style import Style
from textual.binding import Binding, BindingType

from mahtab_tui.bus.sanitize import plain
from mahtab_tui.kernel.inspector_client import TextPart
from mahtab_tui.tui.commands.on_screens import TEXT_COMMANDS
from mahtab_tui.tui.commands.pane_command import bindings
from mahtab_tui.tui.rows.long_text_view import LongTextView, StyledPart
from mahtab_tui.tui.rows.row import Span
from mahtab_tui.tui.rows.rows_view import CURSOR_KEYS
from mahtab_tui.tui.rows.text_window import LINE, TextRow
from mahtab_tui.tui.screens.inspector.highlighting import MOST, Colours, colours_of
from mahtab_tui.tui.screens.inspector.pattern_search import find_pattern
from mahtab_tui.tui.screens.inspector.text_source import (
    BLOCK,
    BlockMissing,
    BlockWindow,
    KernelText,
    LocalText,
    TextSource,
)
from mahtab_tui.tui.screens.inspector.view import Subject, View

_SIDEWAYS = 8
"""Cells by which a key scrolls sideways."""
_ABOVE = 4
"""Lines that stay visible above a marked line, if there is room."""


class TextView(View, LongTextView, can_focus=True):
    """A text that is here, or that is fetched from the kernel block by block."""

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
        """source: a text other than the object itself. load: gets that text on a thread, again with
        each `reload`; may raise `KernelError`."""
        self._load = load
        self._source: TextSource = (
            LocalText("")
            if load
            else source or KernelText(subject.look, subject.path, subject.opened.size)
        )
        super().__init__(subject, window=BlockWindow(self._source))
        self.problem = ""
        """A sentence that says why there is no text, or what is wrong with it."""
        self._language = ""
        """Empty: to be guessed from the text."""
        self._marked = range(0)
        self._colours: Colours | None = None
        self._wrapped = True
        self._reserved = 8
        """Cells for line numbers. It grows with the longest number but never shrinks, so that the
        text does not jump."""
        self._words = ""
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
        """Show another text. language: of pygments. problem: see there. marked: the characters of a
        line that is marked."""
        self.problem = problem
        self._source, self._language, self._marked = source, language, marked
        self.window = BlockWindow(source)
        self._colours = self.found = None
        self.top = min(self.top, source.size)
        self._colour()
        self.do(self.look)

    def reload(self) -> None:
        if self._load is not None:
            self.say(("…", "$muted"))
            self.fetcher.ask(
                "load",
                self._load,
                self.show,
                lambda problem: self.show(LocalText(""), problem=problem),
            )
        elif isinstance(self._source, KernelText):
            self.show(KernelText(self.subject.look, self.subject.path, self.subject.opened.size))

    # Fetching

    def do(self, work: Callable[[], None]) -> None:
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
            source.take(block, part)
            self.window.chars = source.size
            waiting, self._waiting = self._waiting, []
            for work in waiting:
                self.do(work)

        def failed(sentence: str) -> None:
            self._waiting.clear()
            self.fail(sentence)

        self.fetcher.ask("text", lambda: source.fetch(block), came, failed)

    def _colour(self) -> None:
        """Guess the language and colour the text, on a thread."""
        source, language = self._source, self._language
        self.fetcher.forget("colours")
        if not 0 < source.size <= MOST:
            return

        def came(colours: Colours | None) -> None:
            self._colours = colours
            self._tell()
            self.refresh()

        blocks = range(-(-source.size // BLOCK))
        self.fetcher.ask(
            "colours",
            lambda: colours_of("".join(source.fetch(block).text for block in blocks), language),
            came,
            lambda _: None,
        )

    # Layout

    @property
    def _gutter(self) -> int:
        """Cells of the line numbers on the screen."""
        return len(f"{max((row.number or 0 for row in self.lines), default=0):,}") + 3

    @property
    def text_width(self) -> int:
        return max(10, self.size.width - 1 - self._reserved) if self._wrapped else LINE

    def look(self) -> None:
        if not self.size:
            return
        super().look()
        if self._gutter > self._reserved:
            self._reserved = self._gutter
            self.top = self.window.row_at(self.top, self.text_width)
            super().look()
        self._tell()

    def _tell(self) -> None:
        if self.problem:
            self.fail(self.problem)
            return
        first = next((row.number for row in self.lines if row.number is not None), 1)
        parts: list[tuple[str, str] | str] = [
            (f"line {first:,}  ·  {counted(self._source.size)}", "$muted")
        ]
        if self._colours is not None:
            parts.append((f"  ·  {self._colours.language}", "$muted"))
        if self._words:
            parts.append((f"  {'pattern' if self._regex else '/'} {plain(self._words)}", "$person"))
        self.say(*parts)

    # Drawing

    def left_of(self, row: TextRow) -> list[Span]:
        number = (f"{row.number:,}" if row.number is not None else "").rjust(self._gutter - 2)
        if row.start in self._marked:
            return [(number + "▸ ", self.palette.muted + self.palette.moon)]
        return [(number + "  ", self.palette.muted)]

    def ground(self, row: TextRow) -> Style | None:
        return self.palette.panel if row.start in self._marked else None

    @property
    def rows_above(self) -> int:
        return min(_ABOVE, self.size.height // 2) if self._marked else 0

    def edge(self, y: int) -> Span:
        """Draw a scrollbar's thumb and track; nothing if all of the text is visible."""
        chars, height = self._source.size, self.size.height
        end = self.lines[-1].end if len(self.lines) >= height else chars
        here = self.top * height // max(1, chars) <= y <= end * height // max(1, chars)
        return " " if self.top == 0 and end >= chars else "▐" if here else "▕", self.palette.muted

    def colours_in(self, row: TextRow) -> list[StyledPart]:
        colours = (
            self._colours.spans(row.start, row.end, self.palette)
            if self._colours is not None
            else ()
        )
        return [*colours, *super().colours_in(row)]

    # Actions

    def action_sideways(self, direction: int) -> None:
        self._left = 0 if self._wrapped else max(0, self._left + direction * _SIDEWAYS)
        self.refresh()

    def action_wrap(self) -> None:
        self._wrapped = not self._wrapped
        self._left = 0
        self.rewrap()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Only a text of the kernel has an expression to ask about."""
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
            self._words,
            self._search,
            "search:",
        )

    def action_regex(self) -> None:
        self._regex = not self._regex
        self.say(
            (
                "Searches for regular expressions; x: for words."
                if self._regex
                else "Searches for words; x: for regular expressions.",
                "$muted",
            )
        )

    def _search(self, words: str) -> None:
        self._words, self.found = words, None
        if words:
            self.action_next(False)
        else:
            self.do(self.look)

    def action_next(self, backwards: bool) -> None:
        if not self._words:
            return
        source, words, regex = self._source, self._words, self._regex
        at = self.top if self.found is None else self.found[0] if backwards else self.found[1]

        def came(found: tuple[int, int] | None) -> None:
            self.found = found
            if found is None:
                self.fail("Not found in the text.")
                self.refresh()
            else:
                self.do(self._show_found)

        find = partial(find_pattern, source) if regex else source.find
        self.fetcher.ask("find", lambda: find(words, at, backwards=backwards), came, self.fail)

    def _show_found(self) -> None:
        if self.found is None:
            return
        start, width = self.found[0], self.text_width
        if not self.lines or not self.lines[0].start <= start < self.lines[-1].end:
            self.top = self.window.up(
                self.window.row_at(start, width), min(3, self.size.height // 4), width
            )
        if not self._wrapped:
            row = next(iter(self.window.rows(self.window.row_at(start, width), 1, width)), None)
            self._left = max(0, start - row.start - self.size.width // 2) if row is not None else 0
        self.look()


def repr_view(subject: Subject) -> TextView:
    """A view of the object's repr. The object's own code runs for it, because the user opened this
    view."""

    def load() -> TextSource:
        text, cut = subject.look.representation(subject.path)
        return LocalText(f"{text}\n… it goes on …" if cut else text)

    return TextView(subject, load=load)


def counted(characters: int) -> str:
    return f"{characters:,} character{'' if characters == 1 else 's'}"
