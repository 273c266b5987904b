"""Rows of text, and a view that scrolls over them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Protocol

from rich.cells import cell_len, set_cell_size, split_graphemes
from rich.segment import Segment
from rich.style import Style
from textual.binding import Binding
from textual.events import Resize
from textual.geometry import Region, Size
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.selection import Selection
from textual.strip import Strip
from textual.widget import Widget

from mahtab_tui.tui.theme import Palette, get_palette

if TYPE_CHECKING:
    from mahtab_tui.tui.pictures.picture import SizedPicture

FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
"""The frames of a spinner."""
FRAME_RATE = 10
"""Frames a second."""
Span = tuple[str, Style]
_WORD = re.compile(r"([^ ]+) *| +")
"""A word, and the spaces after it."""
_TOKEN = re.compile(r"""((?:['"]?[\w.]+|[^\w. ])(?:[^\w. '"]|['"](?!\w))*) *| +""")
"""A name or number with a quote before it and the punctuation after it, except a quote of the next
one; and the spaces after these."""
# Cells beside the text of a row: on the left a margin, a bar and a space.
MARGIN = 1
NARROW_FOCUS_MARK = " ◂"
"""In the title of the pane with the focus, where there is no room for words."""
BAR = "▌"
MARK = "▐"
"""The sign in the margin of a marked entry."""
EDGE = MARGIN + 2
RIGHT = 1
CURSOR_KEYS = tuple(
    Binding(key, action, description, show=False)
    for key, action, description in (
        ("up", "move(-1)", "Up"),
        ("down", "move(1)", "Down"),
        ("pageup", "move_page(-1)", "Page up"),
        ("pagedown", "move_page(1)", "Page down"),
        ("home", "move_to(0)", "First"),
        ("end", "move_to(-1)", "Last"),
    )
)


class Row(NamedTuple):
    """One line on the screen."""

    spans: Sequence[Span] = ()
    bar: Style | None = None
    """The style of the bar on the left; None for no bar."""
    soft: bool = False
    """Whether the row continues the line above."""
    fill: Style | None = None
    """The style behind the whole row."""
    indent: int = 0
    """Characters of a soft row that are not copied."""
    right: Sequence[Span] = ()
    """The text at the right edge, which is not copied."""
    picture: tuple[SizedPicture, int] | None = None
    """A picture, and the row's number in it."""

    @property
    def text(self) -> str:
        return "".join(text for text, _ in self.spans)


class Rows(Protocol):
    """A sequence of rows, which may be made when they are asked for."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> Row: ...


def fit_text(text: str, width: int) -> str:
    """Pad or truncate a text to a width in cells."""
    if cell_len(text) <= width:
        return set_cell_size(text, width)
    if width <= 0:
        return ""
    shortened = set_cell_size(text, width - 1).rstrip() + "…"
    return set_cell_size(shortened, width)


def hard_cuts(text: str, width: int, first_width: int = 0) -> list[int]:
    """Return where rows start that are filled to the last cell. first_width: that of the first row."""
    row_width = first_width or width
    if len(text) <= row_width and (text.isascii() or cell_len(text) <= row_width):
        return [0]
    if text.isascii():
        return [0, *range(row_width, len(text), width)]
    cuts = [0]
    used_cells = 0
    # Graphemes, not characters: an emoji's selector may make it wider.
    graphemes, _ = split_graphemes(text)
    for position, _, cells in graphemes:
        if used_cells and used_cells + cells > row_width:
            cuts.append(position)
            used_cells = 0
            row_width = width
        used_cells += cells
    return cuts


def word_cuts(text: str, width: int, first_width: int = 0) -> list[int]:
    """Return where rows start that end between words. first_width: that of the first row."""
    return _cut_between(_WORD, text, width, first_width)


def token_cuts(text: str, width: int, first_width: int = 0) -> list[int]:
    """Return where rows start that end between tokens of code, also where it has no spaces."""
    return _cut_between(_TOKEN, text, width, first_width)


def _cut_between(pieces: re.Pattern[str], text: str, width: int, first_width: int) -> list[int]:
    """Return where rows start. pieces: matches a word, its first group, with the spaces after it."""
    row_width = first_width or width
    if len(text) <= row_width and (text.isascii() or cell_len(text) <= row_width):
        return [0]
    cuts = [0]
    used_cells = 0
    for piece in pieces.finditer(text):
        start = piece.start()
        word = piece[1] or ""
        word_cells = cell_len(word)
        if used_cells and used_cells + word_cells > row_width:
            cuts.append(start)
            used_cells = 0
            row_width = width

        # A word that is wider than a row is cut anywhere.
        if word_cells > row_width:
            inner_cuts = hard_cuts(word, width, row_width)[1:]
            if inner_cuts:
                cuts += [start + cut for cut in inner_cuts]
                word_cells = cell_len(word[inner_cuts[-1] :])
                row_width = width
        # Spaces that end a row may stand out of it.
        used_cells += word_cells + len(piece[0]) - len(word)
    return cuts


def cut_spans(spans: Iterable[Span], cuts: Sequence[int]) -> Iterator[list[Span]]:
    """Yield the spans of rows that start at these offsets."""
    row_ends = [*cuts[1:], None]
    row: list[Span] = []
    row_number = 0
    offset = 0
    for text, style in spans:
        start = 0
        span_end = offset + len(text)
        # Divide a span where rows end.
        while (row_end := row_ends[row_number]) is not None and span_end > row_end:
            if row_end > offset:
                row.append((text[start : start + row_end - offset], style))
            yield row
            start += row_end - offset
            row = []
            offset = row_end
            row_number += 1
        if start < len(text):
            row.append((text[start:], style))
            offset = span_end
    for _ in range(row_number, len(cuts)):
        yield row
        row = []


def paragraph(
    spans: Sequence[Span],
    width: int,
    bar: Style | None,
    indent: str = "",
    cut: Callable[[str, int, int], list[int]] = word_cuts,
) -> Iterator[Row]:
    """Wrap a line. indent: of the rows after the first."""
    text = "".join(span_text for span_text, _ in spans)
    cuts = cut(text, max(1, width - len(indent)), width)
    for number, row in enumerate(cut_spans(spans, cuts)):
        if number and indent:
            row = [(indent, Style.null()), *row]
        yield Row(row, bar, soft=number > 0, indent=len(indent))


def to_strip(
    row: Row, y: int | None, width: int, base: Style, picture: Strip | None = None
) -> Strip:
    """Convert a row to a strip. y: identifies it in a selection."""
    body = base + row.fill if row.fill else base
    origin = selection_origin(0, y)
    # One segment per cell, so that a click anywhere to the left of the text starts a selection at
    # its first character.
    segments = [Segment(" ", base + origin) for _ in range(MARGIN)]
    bar = Segment(BAR, base + row.bar + origin) if row.bar else Segment(" ", base + origin)
    segments += [bar, Segment(" ", body + origin)]

    used_width = EDGE
    offset = 0
    for text, style in row.spans:
        segments.append(Segment(text, body + style + selection_origin(offset, y)))
        offset += len(text)
        used_width += cell_len(text)
    if picture is not None:
        segments += picture
        used_width += picture.cell_length

    # What stands at the right edge is left out if it does not fit.
    right = [Segment(text, body + style) for text, style in row.right]
    right_width = sum(segment.cell_length for segment in right)
    if right and used_width + right_width + RIGHT > width:
        right = []
        right_width = 0
    space_width = width - used_width - right_width - RIGHT
    if space_width < 0:
        return Strip(segments, used_width).crop_extend(0, width, base)
    segments += [Segment(" " * space_width, body), *right, Segment(" " * RIGHT, base)]
    return Strip(segments, width)


def plain_strip(row: Row, margin: int, width: int, base: Style, y: int | None = None) -> Strip:
    """Convert a row without a bar.

    Args:
        row: The row.
        margin: The number of empty cells on the left.
        width: The number of cells of the strip.
        base: The style of all cells.
        y: Identifies the row in a selection.
    """
    body = base + row.fill if row.fill else base
    segments = [Segment(" ", body + selection_origin(0, y)) for _ in range(margin)]
    offset = 0
    for text, style in row.spans:
        segments.append(Segment(text, body + style + selection_origin(offset, y)))
        offset += len(text)
    return Strip(segments).adjust_cell_length(width, body)


def selection_origin(offset: int, y: int | None) -> Style:
    """Return a style that tells Textual what a selection contains."""
    if y is None:
        return Style.null()
    return Style(meta={"offset": (offset, y)})


def mark_selection(widget: Widget, spans: Sequence[Span], y: int) -> Sequence[Span]:
    """Return the spans of a row with the background of what is selected. y: as for
    `selection_origin`."""
    selection = widget.text_selection
    selected_span = selection.get_span(y) if selection is not None else None
    if selected_span is None:
        return spans
    start, end = selected_span
    if end == -1:  # up to the end of the row
        end = sum(len(text) for text, _ in spans)
    # The selection style's own text colour is transparent, so keep the text's.
    background = widget.screen.get_component_rich_style("screen--selection").bgcolor
    selected = Style(color=widget.visual_style.rich_style.color, bgcolor=background)
    return style_range(spans, start, end, selected)


def selected_rows_text(rows: Iterable[tuple[int, Row]], selection: Selection) -> str:
    """Return a selected text, without blanks at the ends of lines; lines that were wrapped are
    joined again. rows: each with its `y`, as for `selection_origin`."""
    parts: list[str] = []
    for y, row in rows:
        span = selection.get_span(y)
        if span is None:
            continue
        start, end = span
        if row.soft:
            start = max(start, row.indent)
        elif parts:
            parts.append("\n")
        # -1 stands for the end of the row.
        parts.append(row.text[start:] if end == -1 else row.text[start:end])
    return "\n".join(line.rstrip() for line in "".join(parts).split("\n"))


def style_range(spans: Iterable[Span], start: int, end: int, added: Style) -> list[Span]:
    """Add a style to the characters between two offsets."""
    styled: list[Span] = []
    offset = 0
    for text, style in spans:
        # The part of this span that is between the offsets.
        inner_start = min(max(start - offset, 0), len(text))
        inner_end = min(max(end - offset, inner_start), len(text))
        styled.append((text[:inner_start], style))
        styled.append((text[inner_start:inner_end], style + added))
        styled.append((text[inner_end:], style))
        offset += len(text)
    return [(text, style) for text, style in styled if text]


def highlight_matches(row: Row, pattern: re.Pattern[str], style: Style) -> Row:
    for match in pattern.finditer(row.text):
        row = row._replace(spans=style_range(row.spans, *match.span(), style))
    return row


def mark_strip(strip: Strip, style: Style) -> Strip:
    if not strip.cell_length:
        return strip
    margin, *other_segments = strip
    mark = Segment(MARK, margin.style + style if margin.style else style)
    return Strip([mark, *other_segments], strip.cell_length)


def overlay_hint(strip: Strip, hint: str, style: Style, width: int) -> Strip:
    hint = set_cell_size(hint, min(cell_len(hint), width))
    start = width - cell_len(hint)
    return Strip([*strip.crop(0, start), Segment(hint, style)], width)


def focus_words(has_focus: bool) -> str:
    """Return what the title of a pane says besides its brightness, which not everybody sees."""
    return "  (focus)" if has_focus else ""


def title_strip(title: str, style: Style, base: Style, width: int) -> Strip:
    return Strip([Segment(" " * MARGIN, base), Segment(title, style)]).crop_extend(0, width, base)


class RowSource(Rows, Protocol):
    """The rows of a view."""

    def lay_out(self, width: int, palette: Palette) -> None:
        """Create rows for this width and these colours from now on."""


class RowsView(ScrollView, can_focus=True):
    """A scrolling view over rows. With a cursor, add `CURSOR_KEYS`; with a title, override `head`
    and `head_row`."""

    ALLOW_SELECT: ClassVar[bool] = False
    """In panes whose rows are chosen, dragging selects no text."""

    bars: ClassVar[bool] = False
    margin: ClassVar[int] = 1

    cursor: reactive[int] = reactive(-1)

    def __init__(self, source: RowSource, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._source = source
        self._laid_out: tuple[int, Palette] | None = None
        self._drawn_rows: list[Row] = []

    @property
    def head(self) -> int:
        """The number of rows above the scrolled ones, such as a title."""
        return 0

    def head_row(self, y: int) -> Row:
        raise NotImplementedError

    @property
    def page(self) -> int:
        """The number of visible rows."""
        return max(1, self.size.height - self.head)

    @property
    def width(self) -> int:
        return self.scrollable_content_region.width

    def refresh_view(self) -> None:
        if self.is_attached and self.size:
            self.lay_out()
            self.set_row_count(self.head + len(self._source))
            self.refresh()

    def lay_out(self) -> None:
        layout = (self.width, get_palette(self.app))
        if layout != self._laid_out:
            self._laid_out = layout
            self._source.lay_out(*layout)

    def reload(self) -> None:
        self._laid_out = None
        self.refresh_view()

    def set_row_count(self, rows: int) -> None:
        size = Size(self.width, rows)
        is_same_width = size.width == self.virtual_size.width
        has_rows_below = rows > self.scroll_offset.y + self.size.height
        scrollbar_stays = self.show_vertical_scrollbar and is_same_width and has_rows_below
        if scrollbar_stays or self.styles.overflow_y == "scroll":
            # Only the scrollbar depends on the size, but a plain assignment would trigger a layout
            # of the whole screen.
            self.set_reactive(Widget.virtual_size, size)
            self.vertical_scrollbar.window_virtual_size = rows
        else:
            self.virtual_size = size

    def on_resize(self, event: Resize) -> None:
        self.refresh_view()

    def notify_style_update(self) -> None:
        super().notify_style_update()
        if self._laid_out is None or not self.is_attached:
            return
        if self._laid_out != (self.width, get_palette(self.app)):
            self.refresh_view()

    def render_line(self, y: int) -> Strip:
        width = self.width
        base = self.visual_style.rich_style
        if self._laid_out is None:
            return Strip.blank(width, base)
        if y < self.head:
            return plain_strip(self.head_row(y), self.margin, width, base)
        index = self.scroll_offset.y + y - self.head
        if index >= len(self._source):
            return Strip.blank(width, base)
        row = self._source[index]
        if index == self.marked_row:
            _, palette = self._laid_out
            row = row._replace(fill=palette.panel)
        row = row._replace(spans=mark_selection(self, row.spans, index))
        if self.bars:
            return to_strip(row, index, width, base)
        return plain_strip(row, self.margin, width, base, index if self.allow_select else None)

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """Return the selected text, and the line break after it."""
        first_row = selection.start.y if selection.start is not None else 0
        last_row = selection.end.y if selection.end is not None else len(self._source) - 1
        visible_rows = range(max(0, first_row), min(last_row + 1, len(self._source)))
        rows = ((index, self._source[index]) for index in visible_rows)
        return selected_rows_text(rows, selection), "\n"

    def refresh_changed(self) -> None:
        """Draw the visible rows that have changed."""
        top = self.scroll_offset.y
        old_rows = self._drawn_rows
        visible_rows = range(top, min(top + self.page, len(self._source)))
        self._drawn_rows = [self._source[index] for index in visible_rows]
        for index, (old, new) in enumerate(zip_longest(old_rows, self._drawn_rows), top):
            if old != new:
                self.refresh_line(index + self.head)

    def tick_while(self, needed: bool) -> None:
        """Draw changed rows at the frame rate while something moves."""
        interval = 1 / FRAME_RATE if needed and self.is_attached else None
        if interval != self.auto_refresh:
            self.auto_refresh = interval

    def automatic_refresh(self) -> None:
        self.refresh_changed()

    @property
    def marked_row(self) -> int:
        """The highlighted row; -1 for none."""
        return self.cursor if self.has_focus else -1

    def on_focus(self) -> None:
        self.refresh()

    on_blur = on_focus

    def row_at(self, y: int) -> int | None:
        index = self.scroll_offset.y + y - self.head
        if y >= self.head and index < len(self._source):
            return index
        return None

    def go_to(self, row: int) -> None:
        self.cursor = max(0, min(len(self._source) - 1, row))
        self.show_row(self.cursor)

    def show_row(self, row: int) -> None:
        self.scroll_to_region(Region(0, row, 1, self.head + 1), animate=False, force=True)
        self.refresh()

    def action_move(self, step: int) -> None:
        self.go_to(self.cursor + step)

    def action_move_page(self, direction: int) -> None:
        self.action_move(direction * max(1, self.page - 1))

    def action_move_to(self, row: int) -> None:
        self.go_to(0 if row == 0 else len(self._source) - 1)
