"""A text of any length: wrapped or not, numbered, coloured, searched."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual.binding import Binding, BindingType
from textual.events import Resize
from textual.strip import Strip

from mahtab_tui.bus.sanitize import plain
from mahtab_tui.kernel.looking import TextPart
from mahtab_tui.tui.commands.inspector import TEXT_COMMANDS
from mahtab_tui.tui.commands.pane_command import bindings
from mahtab_tui.tui.rows.scrolled_rows import ScrolledRows, edge_of, styled
from mahtab_tui.tui.rows.text_window import LINE, TextRow
from mahtab_tui.tui.screens.inspector.highlighting import MOST, Colours, colours_of
from mahtab_tui.tui.screens.inspector.pattern_search import find_pattern
from mahtab_tui.tui.screens.inspector.text_source import BLOCK, BlockWindow, KernelText, NotHere, TextSource
from mahtab_tui.tui.screens.inspector.view import Asked, LineWanted, Place, View

_SIDEWAYS = 8


class TextView(View, ScrolledRows, can_focus=True):
    """A window over a text, by places in it: how many rows it has is not known."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *bindings(TEXT_COMMANDS),
        Binding("up", "move(-1)", "Up", show=False),
        Binding("down", "move(1)", "Down", show=False),
        Binding("left", "sideways(-1)", "Left", show=False),
        Binding("right", "sideways(1)", "Right", show=False),
        Binding("pageup", "page(-1)", "Page up", show=False),
        Binding("pagedown", "page(1)", "Page down", show=False),
        Binding("home", "beginning", "Beginning", show=False),
        Binding("end", "end", "End", show=False),
    ]

    def __init__(self, place: Place, source: TextSource | None = None, language: str = "") -> None:
        """`source`: another text than the object itself. `language`: what it is written in, where that is known."""
        super().__init__(place)
        self.problem = ""
        """A sentence: why there is no text, or what is wrong with it."""
        self._source: TextSource = source or KernelText(place.look, place.path, place.opened.size)
        self._window = BlockWindow(self._source)
        self._language = language
        self._colours: Colours | None = None
        self._wrapped = True
        self._top = 0
        self._left = 0
        self._rows: list[TextRow] = []
        self._reserved = 8
        """Cells for numbers of lines, beside which rows are cut. More only where there are longer ones, so that nothing jumps."""
        self._found: tuple[int, int] | None = None
        self._words = ""
        self._regex = False
        self._waiting: list[Callable[[], None]] = []

    def on_mount(self) -> None:
        self._colour()

    def show(self, source: TextSource, language: str = "", problem: str = "") -> None:
        """Show another text."""
        self.problem = problem
        self._source, self._language = source, language
        self._window = BlockWindow(source)
        self._colours = self._found = None
        self._top = min(self._top, source.size)
        self._colour()
        self._do(self._look)

    def look_again(self) -> None:
        if isinstance(self._source, KernelText):
            self.show(KernelText(self.place.look, self.place.path, self.place.opened.size))

    @property
    def chars(self) -> int:
        return self._source.size

    # Fetching

    def _do(self, work: Callable[[], None]) -> None:
        """Do something with the text; as soon as it is here."""
        if self._waiting:
            self._waiting.append(work)
            return
        try:
            work()
        except NotHere as missing:
            self._waiting.append(work)
            self._fetch(missing.block)

    def _fetch(self, block: int) -> None:
        source = self._source

        def came(part: TextPart) -> None:
            source.take(block, part)
            self._window.chars = source.size
            waiting, self._waiting = self._waiting, []
            for work in waiting:
                self._do(work)

        def failed(sentence: str) -> None:
            self._waiting.clear()
            self.fail(sentence)

        self.fetcher.ask("text", lambda: source.fetch(block), came, failed)

    def _colour(self) -> None:
        """Find out what it is written in, and colour it, on a thread."""
        source, language = self._source, self._language
        self.fetcher.forget("colours")  # those of another text
        if not 0 < source.size <= MOST:
            return

        def came(colours: Colours | None) -> None:
            self._colours = colours
            self._tell()
            self.refresh()

        blocks = range(-(-source.size // BLOCK))
        self.fetcher.ask("colours", lambda: colours_of("".join(source.fetch(block).text for block in blocks), language), came, lambda _: None)

    # Where one is

    @property
    def _gutter(self) -> int:
        """Cells of the lines' numbers."""
        return len(f"{max((row.number or 0 for row in self._rows), default=0):,}") + 3

    @property
    def _width(self) -> int:
        """Cells of a row."""
        return max(10, self.size.width - 1 - self._reserved) if self._wrapped else LINE

    def _look(self) -> None:
        """The rows that are seen are others."""
        if not self.size:
            return
        self._rows = self._window.rows(self._top, max(1, self.size.height), self._width)
        if self._gutter > self._reserved:
            self._reserved = self._gutter
            self._top = self._window.row_at(self._top, self._width)
            self._rows = self._window.rows(self._top, max(1, self.size.height), self._width)
        self._tell()
        self.refresh()

    def on_resize(self, event: Resize) -> None:
        self._start_at(self._top)

    def _tell(self) -> None:
        if self.problem:
            self.fail(self.problem)
            return
        first = next((row.number for row in self._rows if row.number is not None), 1)
        parts: list[tuple[str, str] | str] = [(f"line {first:,}  ·  {counted(self._source.size)}", "$muted")]
        if self._colours is not None:
            parts.append((f"  ·  {self._colours.language}", "$muted"))
        if self._words:
            parts.append((f"  {'pattern' if self._regex else '/'} {plain(self._words)}", "$person"))
        self.say(*parts)

    # Drawing

    def render_line(self, y: int) -> Strip:
        palette, width, base = self.palette, self.size.width, self.visual_style.rich_style
        end = self._rows[-1].end if len(self._rows) >= self.size.height else self._source.size
        edge = Segment(edge_of(range(self._top, end), self._source.size, y, self.size.height), base + palette.muted)
        if y >= len(self._rows):
            empty = " It is empty." if y == 0 and not self._source.size else ""
            return Strip([*Strip([Segment(empty, base + palette.muted)]).crop_extend(0, width - 1, base), edge])
        row = self._rows[y]
        number = f"{row.number:,}" if row.number is not None else ""
        gutter = Segment(number.rjust(self._gutter - 2) + "  ", base + palette.muted)
        text = Strip(self._segments(row, base + palette.text)).crop(self._left, self._left + width)
        return Strip([*Strip([gutter, *text]).crop_extend(0, width - 1, base), edge])

    def _segments(self, row: TextRow, base: Style) -> list[Segment]:
        styles = list(self._colours.spans(row.start, row.end, self.palette)) if self._colours is not None else []
        if self._found is not None:
            styles.append((*self._found, Style(reverse=True)))
        return styled(row.text, row.start, styles, base)

    # What the person does

    def action_move(self, step: int) -> None:
        def move() -> None:
            if step < 0:
                self._top = self._window.up(self._top, -step, self._width)
            elif not self._rows or self._rows[-1].end < self._source.size:
                self._top = min(self._window.down(self._top, step, self._width), max(self._top, self._last_top()))
            self._look()

        self._do(move)

    def action_page(self, direction: int) -> None:
        self.action_move(direction * max(1, self.size.height - 2))

    def action_sideways(self, direction: int) -> None:
        self._left = 0 if self._wrapped else max(0, self._left + direction * _SIDEWAYS)
        self.refresh()

    def action_beginning(self) -> None:
        self._top = self._left = 0
        self._do(self._look)

    def action_end(self) -> None:
        def go() -> None:
            reserved = 0
            while reserved != self._reserved:  # longer numbers of lines take room, and the end is further down
                reserved = self._reserved
                self._top = self._last_top()
                self._look()

        self._do(go)

    def _last_top(self) -> int:
        """The row from which the end is seen."""
        return self._window.up(self._window.row_at(self._source.size - 1, self._width), max(0, self.size.height - 1), self._width)

    def go_to(self, place: int) -> None:
        self._start_at(place)

    def _start_at(self, place: int) -> None:
        """Let the row that has a place be the first."""

        def go() -> None:
            self._top = self._window.row_at(place, self._width)
            self._look()

        self._do(go)

    def action_wrap(self) -> None:
        self._wrapped = not self._wrapped
        self._left = 0
        self._start_at(self._top)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """What is asked about is an object of the kernel."""
        return isinstance(self._source, KernelText) if action == "ask" else super().check_action(action, parameters)

    def action_ask(self) -> None:
        self.post_message(LineWanted("ask about this text", "", self._ask))

    def _ask(self, question: str) -> None:
        if question.strip():
            self.post_message(Asked(question.strip()))

    def action_search(self) -> None:
        self.post_message(LineWanted("search by a regular expression" if self._regex else "search the text", self._words, self._search))

    def action_regex(self) -> None:
        """What is searched is a regular expression, or words as they are."""
        self._regex = not self._regex
        self.say(("Searches by regular expressions; x: for words." if self._regex else "Searches for words; x: by regular expressions.", "$muted"))

    def _search(self, words: str) -> None:
        self._words, self._found = words, None
        if words:
            self.action_next(False)
        else:
            self._do(self._look)

    def action_next(self, backwards: bool) -> None:
        if not self._words:
            return
        source, words, regex = self._source, self._words, self._regex
        at = self._top if self._found is None else self._found[0] if backwards else self._found[1]

        def came(found: tuple[int, int] | None) -> None:
            self._found = found
            if found is None:
                self.fail("It is not in the text.")
                self.refresh()
            else:
                self._do(self._show_found)

        find = partial(find_pattern, source) if regex else source.find
        self.fetcher.ask("find", lambda: find(words, at, backwards=backwards), came, self.fail)

    def _show_found(self) -> None:
        if self._found is None:
            return
        start = self._found[0]
        if not self._rows or not self._rows[0].start <= start < self._rows[-1].end:
            self._top = self._window.up(self._window.row_at(start, self._width), min(3, self.size.height // 4), self._width)
        if not self._wrapped:
            row = next(iter(self._window.rows(self._window.row_at(start, self._width), 1, self._width)), None)
            self._left = max(0, start - row.start - self.size.width // 2) if row is not None else 0
        self._look()


def counted(characters: int) -> str:
    """``1 character``, ``2,000 characters``."""
    return f"{characters:,} character{'' if characters == 1 else 's'}"
