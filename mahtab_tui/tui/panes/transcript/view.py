"""How the transcript is drawn, and how its text is selected."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from rich.style import Style
from textual.events import Click
from textual.geometry import Offset
from textual.selection import Selection
from textual.strip import Strip
from textual.timer import Timer

from mahtab_tui.bus.records import Record
from mahtab_tui.tui.graphics.drawings import Drawings
from mahtab_tui.tui.graphics.pictured import Part, Picture, Pictured
from mahtab_tui.tui.late_imports import LateImports
from mahtab_tui.tui.panes.transcript.entries import Cell, Entry
from mahtab_tui.tui.panes.transcript.layout.picture import key_of
from mahtab_tui.tui.panes.transcript.output import Shown
from mahtab_tui.tui.panes.transcript.placing import TITLE_HEIGHT, PlacedView
from mahtab_tui.tui.panes.transcript.selecting import number_of_place, selected_text, word_at
from mahtab_tui.tui.panes.transcript.window import Place
from mahtab_tui.tui.patterns import Pattern, TooSlow
from mahtab_tui.tui.rows.fetcher import Answered, Fetcher
from mahtab_tui.tui.rows.palette import BOLD, REVERSE
from mahtab_tui.tui.rows.row import Row
from mahtab_tui.tui.rows.spinner import FRAME_RATE
from mahtab_tui.tui.rows.strips import EDGE, strip_of, title_strip, with_hint, with_mark, with_sought


class TranscriptView(PlacedView, Pictured, can_focus=True):
    """Everything that happened, in order."""

    ALLOW_SELECT = True

    def __init__(self, *, id: str | None = None, watched: bool = False) -> None:
        super().__init__(id=id, watched=watched)
        self.sought: Pattern | None = None
        """What is marked wherever it stands, while the pane is at it."""
        self._finding = False
        """A line to search with is open."""
        self._mark: Entry | None = None
        """The entry that keys act on; seen while the pane has the focus."""
        self._shown: tuple[list[Row], str] = [], ""
        """The rows of the page at the last look, and the hint on them."""
        self._ticking: Timer | None = None
        self._late_imports = LateImports(self)
        self._drawings = Drawings(Fetcher(self), lambda: self.app.console, self._seen_pictures, self._redraw_picture, self._cannot_draw)

    def fold(self, records: Sequence[Record]) -> None:
        super().fold(records)
        self._tick_if_needed()

    def clear(self) -> None:
        self._mark = None
        super().clear()

    def on_mount(self) -> None:
        self._tick_if_needed()
        self._late_imports.begin()

    def on_unmount(self) -> None:
        self._late_imports.end()

    def on_focus(self) -> None:
        self.refresh()

    def on_blur(self) -> None:
        self.refresh()

    # Drawing

    def render_line(self, y: int) -> Strip:
        width = self.scrollable_content_region.width
        base = self.visual_style.rich_style
        if self._window is None or self._palette is None:
            return Strip.blank(width, base)
        if y < TITLE_HEIGHT:
            style = self._palette.text + BOLD if self.has_focus else self._palette.muted
            return title_strip("TRANSCRIPT", base + style, base, width)
        if y < self._head:
            pinned = self._pinned[y - TITLE_HEIGHT].row
            return strip_of(pinned, None, width, base, None, base, self._picture_strip(pinned))
        row = self.scroll_offset.y + y - self._head
        strip = self._strip(row, width, base)
        if y == self.size.height - 1 and (hint := self._hint()):
            return with_hint(strip, hint, base + self._palette.moon, width)
        return strip

    def _place(self) -> None:
        super()._place()
        if self._window is not None:
            self._refresh_changed()
            self._drawings.look()

    def _refresh_changed(self) -> None:
        """Draw the rows that are not what they were at the last look: of a growing answer, its end."""
        first = self.scroll_offset.y
        shown, hint = [self._row(first + y) for y in range(self._page)], self._hint()
        (before, hint_before), self._shown = self._shown, (shown, hint)
        if len(before) != len(shown) or hint_before != hint:
            self.refresh()
            return
        for y, (old, new) in enumerate(zip(before, shown, strict=True)):
            if old != new:
                self.refresh_line(first + y + self._head)

    def _row(self, row: int) -> Row:
        """What is drawn at a row, counted from the top of all entries."""
        assert self._window is not None
        place = self._window.place_of(row)
        if place.entry < len(self._transcript.entries):
            return self._window.row(place)
        tail = self._tail()
        return tail[place.row] if place.row < len(tail) else Row()

    def pictures(self) -> Iterator[Part]:
        rows, hint = self._shown
        seen = [] if self.text_selection is not None else rows[:-1] if hint else rows
        for _, same in groupby(enumerate(seen), key=_picture_begins):
            (y, row), *others = same
            if row.picture is not None and self._drawings.of(row.picture[0]):
                picture, top = row.picture
                yield Part(picture, EDGE, y + self._head, top, 1 + len(others))

    def _strip(self, row: int, width: int, base: Style) -> Strip:
        assert self._window is not None
        place = self._window.place_of(row)
        number = number_of_place(place)
        if place.entry >= len(self._transcript.entries):
            return strip_of(self._row(row), number, width, base, None, base)
        selection = self.text_selection
        span = None if selection is None else selection.get_span(number)
        # The style's own colour of letters is transparent, which is that of the ground.
        chosen = Style(color=base.color, bgcolor=self.screen.get_component_rich_style("screen--selection").bgcolor)
        drawn = self._window.row(place)
        if self.sought is not None and self._palette is not None and (self.has_focus or self._finding):
            try:
                drawn = with_sought(drawn, self.sought, self._palette.moon + REVERSE)
            except TooSlow:  # a row ends otherwise than the text that was searched
                self.sought = None
        strip = strip_of(drawn, number, width, base, span, chosen, self._picture_strip(drawn))
        entry = self._transcript.entries[place.entry]
        marked = self.has_focus and entry is self._mark and place.row >= entry.gap
        return with_mark(strip, base + self._palette.moon) if marked and self._palette is not None else strip

    # Pictures

    def on_answered(self, message: Answered) -> None:
        message.deliver()

    def _seen_rows(self) -> list[Row]:
        """What is below the title."""
        return [*(pinned.row for pinned in self._pinned), *self._shown[0]]

    def _seen_pictures(self) -> Iterable[Picture]:
        return dict.fromkeys(row.picture[0] for row in self._seen_rows() if row.picture is not None)

    def _picture_strip(self, row: Row) -> Strip | None:
        """What is drawn of a row's picture; an empty ground until there is something."""
        if row.picture is None or self._palette is None:
            return None
        picture, number = row.picture
        drawn = self._drawings.of(picture)
        return drawn[number] if drawn else Strip.blank(picture.columns, self._palette.surface)

    def _redraw_picture(self, picture: Picture) -> None:
        for y, row in enumerate(self._seen_rows(), TITLE_HEIGHT):
            if row.picture is not None and row.picture[0] == picture:
                self.refresh_line(self.scroll_offset.y + y)

    def _cannot_draw(self, picture: Picture) -> None:
        """Its text is shown instead."""
        for entry in self._transcript.entries:
            for line in entry.output if isinstance(entry, Cell) else ():
                if isinstance(line, Shown) and key_of(line) == picture.key:
                    line.unreadable = True
                    self._transcript.touch(entry)
        self.fold([])

    def _hint(self) -> str:
        if self._following and self._window is not None:
            below = self._window.total + len(self._tail()) - self._window.row_of(self._top) - self._page
            return " ↓ more " if below > 0 else ""
        if not self._grown:
            return ""
        new = len(self._transcript.entries) - self._unseen_from
        return f" ↓ {new} new " if new else " ↓ more "

    # Time

    def _tick_if_needed(self) -> None:
        needed = self._transcript.activity is not None or bool(self._transcript.running)
        if needed and self._ticking is None and self.is_attached:
            self._ticking = self.set_interval(1 / FRAME_RATE, self._tick)
        elif not needed and self._ticking is not None:
            self._ticking.stop()
            self._ticking = None

    def _tick(self) -> None:
        """Time went on: draw the rows that show it."""
        window = self._window
        if window is None:
            return
        running = self._transcript.running.values()
        rows = [window.row_of(Place(self._transcript.position(cell), int(cell.gap))) for cell in running]
        if self._transcript.activity is not None:
            rows.append(window.total + 1)
        for row in rows:
            self.refresh_line(row + self._head)

    # Selecting

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        if self._window is None:
            return None
        return selected_text(self._window, len(self._transcript.entries), selection), "\n"

    def selection_updated(self, selection: Selection | None) -> None:
        self.refresh()

    def on_click(self, event: Click) -> None:
        """On the hint: to the tail. Twice: the word. Three times: the line."""
        if event.y == self.size.height - 1 and self._hint() and event.x >= self.size.width - len(self._hint()) - 1:
            self.action_scroll_end()
        if event.chain not in (2, 3) or self._window is None or event.y < self._head:
            return
        event.prevent_default()
        place = self._window.place_of(self.scroll_offset.y + event.y - self._head)
        if place.entry >= len(self._transcript.entries):
            return
        text = self._window.row(place).text
        start, end = word_at(text, event.x - EDGE) if event.chain == 2 else (0, len(text))
        number = number_of_place(place)
        self.screen.selections = {self: Selection(Offset(start, number), Offset(end, number))}


def _picture_begins(numbered: tuple[int, Row]) -> tuple[object, int]:
    """The same for all rows of a picture that stand together: it, and where its first row stands or would."""
    y, row = numbered
    return (None, 0) if row.picture is None else (row.picture[0], y - row.picture[1])
