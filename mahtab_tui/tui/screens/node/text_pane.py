"""The text of a call, at its place in the text of the whole search."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.events import Click, MouseScrollDown, MouseScrollUp, Resize
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Input, Static

from mahtab_tui.recursion.coverage import Coverage, How
from mahtab_tui.recursion.text import Span
from mahtab_tui.tui.panes.recursion.marks import COVER
from mahtab_tui.tui.panes.transcript.palette import Palette
from mahtab_tui.tui.screens.node.text_window import TextRow, TextWindow
from mahtab_tui.tui.widgets.line import Line

_WHEEL = 3
"""Rows that the wheel moves."""


class TextRows(Widget, can_focus=True):
    """Rows of the text; at the right edge, what was covered of it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "move(-1)", "Up", show=False),
        Binding("down", "move(1)", "Down", show=False),
        Binding("pageup", "page(-1)", "Page up", show=False),
        Binding("pagedown", "page(1)", "Page down", show=False),
        Binding("home", "go(0)", "Beginning of the text", show=False),
        Binding("end", "end", "End of the text", show=False),
    ]

    def __init__(self, window: TextWindow, spans: Sequence[Span], coverage: Coverage) -> None:
        """`spans`: what the call has of the text."""
        super().__init__()
        self.window = window
        self.found: Span | None = None
        """What was searched for."""
        self.place: Span | None = None
        """What somebody came here for."""
        self._spans = spans
        self._marks: Sequence[Span] = ()
        self._coverage = coverage
        self._top = spans[0][0] if spans else 0
        self._palette: Palette | None = None
        self._rows: list[TextRow] = []
        self._cells: Sequence[How | None] = ()
        """What was covered, from the top of the right edge to its bottom."""

    @property
    def top(self) -> int:
        """Where the first row that is seen begins."""
        return self._top

    def mark(self, spans: Sequence[Span]) -> None:
        """Draw these as what an answer rests on."""
        self._marks = spans
        self.look()

    def go_to(self, place: int) -> None:
        """Show a place of the text, some rows below the top."""
        self._top = self.window.up(self.window.row_at(place, self._width), min(3, self.size.height // 4), self._width)
        self.look()

    def look(self) -> None:
        """The rows that are seen are others."""
        self._rows = self.window.rows(self._top, max(1, self.size.height), self._width) if self.size else []
        self._cells = self._coverage.cells(max(1, self.size.height))
        self.refresh()

    @property
    def _gutter(self) -> int:
        return len(f"{max(1, self.window.chars // 40):,}") + 4

    @property
    def _width(self) -> int:
        """Cells of the text."""
        return max(10, self.size.width - self._gutter - 2)

    def on_resize(self, event: Resize) -> None:
        self._top = self.window.row_at(self._top, self._width)
        self.look()

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._palette = None

    def render_line(self, y: int) -> Strip:
        if self._palette is None:
            self._palette = Palette.of({**self.app.get_theme_variable_defaults(), **self.app.theme_variables})
        palette, width, base = self._palette, self.size.width, self.visual_style.rich_style
        role = COVER[self._cells[y] if y < len(self._cells) else None][1]
        edge = Segment("▕" if role == "hairline" else "▐", base + getattr(palette, role))
        if y >= len(self._rows):
            return Strip([Segment(" " * (width - 1), base), edge], width)
        row = self._rows[y]
        inside = any(start <= row.start < end for start, end in self._spans)
        number = f"{row.number:,}" if row.number is not None else ""
        segments = [Segment(number.rjust(self._gutter - 3) + " ", base + palette.muted), Segment("▌" if inside else " ", base + palette.person)]
        segments += [Segment(" ", base), *self._text(row, base + (palette.text if inside else palette.muted), palette)]
        return Strip([*Strip(segments).crop_extend(0, width - 1, base), edge], width)

    def _text(self, row: TextRow, base: Style, palette: Palette) -> list[Segment]:
        """A row's text, with what is marked and what was found in it."""
        styles: list[tuple[Span, Style]] = [(span, palette.moon) for span in self._marks]
        if self.place is not None:
            styles.append((self.place, palette.panel))
        if self.found is not None:
            styles.append((self.found, Style(reverse=True)))
        limits = sorted({row.start, row.end, *(place for span, _ in styles for place in span if row.start < place < row.end)})
        segments = []
        for start, end in pairwise(limits):
            style = base
            for span, drawn in styles:
                if span[0] <= start < span[1]:
                    style += drawn
            segments.append(Segment(row.text[start - row.start : end - row.start], style))
        return segments

    # Moving

    def action_move(self, step: int) -> None:
        if step > 0:
            last = self.window.up(self.window.row_at(self.window.chars - 1, self._width), max(0, self.size.height - 1), self._width)
            self._top = min(self.window.down(self._top, step, self._width), max(self._top, last))
        else:
            self._top = self.window.up(self._top, -step, self._width)
        self.look()

    def action_page(self, direction: int) -> None:
        self.action_move(direction * max(1, self.size.height - 2))

    def action_go(self, place: int) -> None:
        self._top = place
        self.look()

    def action_end(self) -> None:
        self.go_to(self.window.chars - 1)
        self.action_page(-1)
        self.action_page(1)

    def on_mouse_scroll_down(self, event: MouseScrollDown) -> None:
        event.stop()
        self.action_move(_WHEEL)

    def on_mouse_scroll_up(self, event: MouseScrollUp) -> None:
        event.stop()
        self.action_move(-_WHEEL)

    def on_click(self, event: Click) -> None:
        """At the right edge: go to that part of the text."""
        if event.x == self.size.width - 1:
            self.go_to(event.y * self.window.chars // max(1, self.size.height))


class TextPane(Vertical):
    """The rows, and a line to search in them."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "search", "Search", key_display="/"),
        Binding("n", "next(False)", "Next", show=False),
        Binding("N,shift+n", "next(True)", "Previous", show=False),
        Binding("right_square_bracket", "place(1)", "Next place that was found", show=False),
        Binding("left_square_bracket", "place(-1)", "Place found before", show=False),
    ]

    def __init__(self, window: TextWindow, spans: Sequence[Span], coverage: Coverage, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._window = window
        self.rows = TextRows(window, spans, coverage)
        self._coverage = coverage
        self._spans = spans

    def compose(self) -> ComposeResult:
        if not self._spans:
            yield Static("This call's text was made by code: it stands nowhere in the text of the search.", classes="quiet-words", markup=False)
        elif not self._window.held:
            yield Static("The text is not held any more.", classes="quiet-words", markup=False)
        else:
            yield self.rows
            yield Line(placeholder="search the text", compact=True, id="find")

    def on_mount(self) -> None:
        for line in self.query("#find"):
            line.display = False

    @property
    def shown(self) -> bool:
        """Whether there is a text to be seen."""
        return self.rows.is_attached

    def show(self, span: Span) -> None:
        """Go to a span."""
        if self.shown:
            self.rows.place, self.rows.found = span, None
            self.rows.go_to(span[0])

    def action_place(self, step: int) -> None:
        """Go to the next place that was matched or that an answer rests on, or to the one before."""
        if not self.shown:
            return
        found = sorted([*self._coverage.spans("grep"), *self._coverage.spans("answer")])
        at = self.rows.top if self.rows.place is None else self.rows.place[0] + (step > 0)
        beyond = [span for span in found if (span[0] >= at if step > 0 else span[0] < at)]
        if beyond:
            self.show(beyond[0 if step > 0 else -1])

    def action_search(self) -> None:
        if self.shown:
            line = self.query_one("#find", Line)
            line.display = True
            line.focus()

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.rows.focus()
        self._find(event.value, backwards=False)

    def action_next(self, backwards: bool) -> None:
        if self.shown:
            self._find(self.query_one("#find", Line).value, backwards=backwards)

    @work(exclusive=True, thread=True)
    def _find(self, words: str, *, backwards: bool) -> None:
        """Search on a thread: the text may be long."""
        rows = self.rows
        at = rows.top if rows.found is None else rows.found[0] if backwards else rows.found[1]
        found = self._window.find(words, at, backwards=backwards)
        self.app.call_from_thread(self._found, words, found)

    def _found(self, words: str, found: Span | None) -> None:
        if found is not None:
            self.rows.found = found
            self.rows.go_to(found[0])
        elif words:
            self.app.notify("It is not in the text.", markup=False, timeout=3)

    def leave_search(self) -> bool:
        """Close the line; False where it is not open."""
        for line in self.query("#find"):
            if line.display and line.has_focus:
                line.display = False
                self.rows.focus()
                return True
        return False
