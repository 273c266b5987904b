"""Rows of text, and a view that scrolls over them.

A row consists of spans, which are pieces of text with a style each. Widths are in cells of the terminal,
and offsets in characters.
"""

from __future__ import annotations

import re
from collections import deque
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

Span = tuple[str, Style]
"""A text, and how it is drawn."""

FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
"""The frames of a spinner."""
FRAME_RATE = 10
"""Frames a second."""

NARROW_FOCUS_MARK = " ◂"
"""Follows the title of the pane with the focus if there is no room for words."""
BAR = "▌"
MARK = "▐"
"""The sign in the margin of a marked entry."""

MARGIN = 1
"""Empty cells on the left of a row with a bar."""
EDGE = MARGIN + 2
"""Cells on the left of such a row's text: the margin, the bar and a blank."""
RIGHT = 1
"""Empty cells on the right of such a row."""
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
"""The keys that move the cursor of a `RowsView`."""
_WORD = re.compile(r"([^ ]+) *| +")
"""A word, and the spaces after it."""
_TOKEN = re.compile(r"""((?:['"]?[\w.]+|[^\w. ])(?:[^\w. '"]|['"](?!\w))*) *| +""")
"""A token of code, and the spaces after it. The token is a name or a number, with a quote before it and
the punctuation after it, except for a quote that belongs to the next token."""


class Row(NamedTuple):
    """One line on the screen."""

    spans: Sequence[Span] = ()
    bar: Style | None = None
    """The style of the bar on the left; None for no bar."""
    soft: bool = False
    """Whether the row continues the line of the row above."""
    fill: Style | None = None
    """The style behind the whole row."""
    indent: int = 0
    """Characters at the beginning of a soft row that are not copied."""
    right: Sequence[Span] = ()
    """The text at the right edge, which is not copied."""
    picture: tuple[SizedPicture, int] | None = None
    """A picture, and which of its rows this is, from 0."""

    @property
    def text(self) -> str:
        """The text without styles, and without what stands at the right edge."""
        return "".join(text for text, _ in self.spans)


class Rows(Protocol):
    """A sequence of rows, which may be made when they are asked for."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> Row: ...


# Spans


def fit_text(text: str, width: int) -> str:
    """Return a text that is padded with blanks or cut to a width. An ellipsis ends a cut text."""
    if cell_len(text) <= width:
        return set_cell_size(text, width)
    if width <= 0:
        return ""
    shortened = set_cell_size(text, width - 1).rstrip() + "…"
    return set_cell_size(shortened, width)


def hard_cuts(text: str, width: int, first_width: int = 0) -> list[int]:
    """Return the offsets at which rows start if each is filled to its last cell.

    Args:
        text: The text, on one line.
        width: The width of a row.
        first_width: The width of the first row; 0 if it is as wide as the others.
    """
    row_width = first_width or width
    if len(text) <= row_width and (text.isascii() or cell_len(text) <= row_width):
        return [0]
    if text.isascii():
        return [0, *range(row_width, len(text), width)]
    cuts = [0]
    used_cells = 0
    # A grapheme may have several characters, such as an emoji and a selector that makes it wider.
    graphemes, _ = split_graphemes(text)
    for position, _, cells in graphemes:
        if used_cells and used_cells + cells > row_width:
            cuts.append(position)
            used_cells = 0
            row_width = width
        used_cells += cells
    return cuts


def word_cuts(text: str, width: int, first_width: int = 0) -> list[int]:
    """Return the offsets at which rows start if they end between words.

    The arguments are the same as for `hard_cuts`.
    """
    return _cut_between(_WORD, text, width, first_width)


def token_cuts(text: str, width: int, first_width: int = 0) -> list[int]:
    """Return the offsets at which rows of code start if they end between tokens, even without spaces.

    The arguments are the same as for `hard_cuts`.
    """
    return _cut_between(_TOKEN, text, width, first_width)


def _cut_between(pieces: re.Pattern[str], text: str, width: int, first_width: int) -> list[int]:
    """Return the offsets at which rows start if they end between pieces.

    Args:
        pieces: Matches a piece with the spaces after it. Its first group is the piece.
        text: The text, on one line.
        width: The width of a row.
        first_width: The width of the first row; 0 if it is as wide as the others.
    """
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
        # Spaces at the end of a row may stand beyond its edge.
        used_cells += word_cells + len(piece[0]) - len(word)
    return cuts


def cut_spans(spans: Iterable[Span], cuts: Sequence[int]) -> Iterator[list[Span]]:
    """Yield the spans of each row.

    Args:
        spans: The spans of a text.
        cuts: The offsets at which the rows start.
    """
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


def style_ranges(
    spans: Iterable[Span], ranges: Iterable[tuple[int, int]], added: Style
) -> list[Span]:
    """Return spans in which a style is added to the characters in some ranges.

    Args:
        spans: The spans.
        ranges: The offsets at which each range starts and ends. The ranges are in order and do not
            overlap.
        added: The style.
    """
    styled: list[Span] = []
    remaining_ranges = deque(ranges)
    offset = 0
    for text, style in spans:
        text_end = offset + len(text)
        styled_chars = 0
        while remaining_ranges and remaining_ranges[0][0] < text_end:
            start, end = remaining_ranges[0]
            inner_start = max(start - offset, styled_chars)
            inner_end = min(max(end - offset, inner_start), len(text))
            styled.append((text[styled_chars:inner_start], style))
            styled.append((text[inner_start:inner_end], style + added))
            styled_chars = inner_end
            # The range goes on in the next span.
            if end > text_end:
                break
            remaining_ranges.popleft()
        styled.append((text[styled_chars:], style))
        offset = text_end
    return [(text, style) for text, style in styled if text]


# Rows


def paragraph(
    spans: Sequence[Span],
    width: int,
    bar: Style | None,
    indent: str = "",
    cut: Callable[[str, int, int], list[int]] = word_cuts,
) -> Iterator[Row]:
    """Yield the rows of a line that is wrapped.

    Args:
        spans: The line.
        width: The width of a row, in cells.
        bar: The style of the bar on the left of each row; None for no bar.
        indent: What stands before the text of each row after the first.
        cut: Where to cut the line: `word_cuts`, `token_cuts` or `hard_cuts`.
    """
    text = "".join(span_text for span_text, _ in spans)
    cuts = cut(text, max(1, width - len(indent)), width)
    for number, row in enumerate(cut_spans(spans, cuts)):
        if number and indent:
            row = [(indent, Style.null()), *row]
        yield Row(row, bar, soft=number > 0, indent=len(indent))


def to_strip(
    row: Row, y: int | None, width: int, base: Style, picture: Strip | None = None
) -> Strip:
    """Return the strip of a row with a bar, or with an empty cell in its place.

    Args:
        row: The row.
        y: Identifies the row in a selection; None if it cannot be selected.
        width: The width of the strip, in cells.
        base: The style behind all that is drawn.
        picture: What is drawn of the row's picture, if it has one.
    """
    body = base + row.fill if row.fill else base
    origin = selection_origin(0, y)
    # One segment for each cell, so that a selection that starts anywhere to the left of the text has
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
    """Return the strip of a row without a bar.

    Args:
        row: The row.
        margin: The number of empty cells on the left.
        width: The width of the strip, in cells.
        base: The style behind all that is drawn.
        y: Identifies the row in a selection; None if it cannot be selected.
    """
    body = base + row.fill if row.fill else base
    segments = [Segment(" ", body + selection_origin(0, y)) for _ in range(margin)]
    offset = 0
    for text, style in row.spans:
        segments.append(Segment(text, body + style + selection_origin(offset, y)))
        offset += len(text)
    return Strip(segments).adjust_cell_length(width, body)


def selection_origin(offset: int, y: int | None) -> Style:
    """Return a style that tells Textual which character is under the mouse.

    Args:
        offset: The index of the character in its row.
        y: Identifies the row; None if it cannot be selected.
    """
    if y is None:
        return Style.null()
    return Style(meta={"offset": (offset, y)})


def mark_selection(widget: Widget, spans: Sequence[Span], y: int) -> Sequence[Span]:
    """Return the spans of a row, with another background behind what is selected.

    Args:
        widget: The widget that draws the row.
        spans: The row.
        y: Identifies the row in a selection.
    """
    selection = widget.text_selection
    selected_span = selection.get_span(y) if selection is not None else None
    if selected_span is None:
        return spans
    start, end = selected_span
    if end == -1:  # up to the end of the row
        end = sum(len(text) for text, _ in spans)
    # The text keeps its colour, because that of the style for selections is transparent.
    background = widget.screen.get_component_rich_style("screen--selection").bgcolor
    selected = Style(color=widget.visual_style.rich_style.color, bgcolor=background)
    return style_ranges(spans, [(start, end)], selected)


def selected_rows_text(rows: Iterable[tuple[int, Row]], selection: Selection) -> str:
    """Return the selected text, without blanks at the ends of lines. Wrapped lines are joined again.

    Args:
        rows: The rows, each with what identifies it in a selection.
        selection: What is selected.
    """
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


def highlight_matches(row: Row, pattern: re.Pattern[str], style: Style) -> Row:
    """Return a row in which a style is added to all that matches a pattern."""
    ranges = [match.span() for match in pattern.finditer(row.text)]
    return row._replace(spans=style_ranges(row.spans, ranges, style))


def mark_strip(strip: Strip, style: Style) -> Strip:
    """Return the strip of a row with a mark in its margin."""
    if not strip.cell_length:
        return strip
    margin, *other_segments = strip
    mark = Segment(MARK, margin.style + style if margin.style else style)
    return Strip([mark, *other_segments], strip.cell_length)


def overlay_hint(strip: Strip, hint: str, style: Style, width: int) -> Strip:
    """Return a strip of this width whose right end is replaced by a hint."""
    hint = set_cell_size(hint, min(cell_len(hint), width))
    start = width - cell_len(hint)
    return Strip([*strip.crop(0, start), Segment(hint, style)], width)


def focus_words(has_focus: bool) -> str:
    """Return what the title of a pane says about its focus, since not everybody sees how bright it is."""
    return "  (focus)" if has_focus else ""


def title_strip(title: str, style: Style, base: Style, width: int) -> Strip:
    """Return the strip of a pane's title."""
    return Strip([Segment(" " * MARGIN, base), Segment(title, style)]).crop_extend(0, width, base)


# The view


class RowSource(Rows, Protocol):
    """The rows of a view."""

    def lay_out(self, width: int, palette: Palette) -> None:
        """Make rows of this width, in cells, and with these colours from now on."""


class RowsView(ScrollView, can_focus=True):
    """A scrolling view over rows.

    A subclass with a cursor adds `CURSOR_KEYS` to its bindings, and one with a title overrides `head`
    and `head_row`.
    """

    ALLOW_SELECT: ClassVar[bool] = False
    """In panes whose rows are chosen, dragging selects no text."""

    bars: ClassVar[bool] = False
    """Whether rows have a bar on the left, and a text on the right."""
    margin: ClassVar[int] = 1
    """The number of empty cells on the left of rows without bars."""

    cursor: reactive[int] = reactive(-1)
    """The index of the chosen row; -1 if none is chosen."""

    def __init__(self, source: RowSource, *, id: str | None = None) -> None:
        """
        Args:
            source: The rows. `refresh_view` must be called when their number changes, and
                `refresh_changed` when some are drawn differently.
            id: The id of the widget.
        """
        super().__init__(id=id)
        self._source = source
        self._laid_out_for: tuple[int, Palette] | None = None
        """The width and the colours for which the rows are laid out; None before the first time."""
        self._drawn_rows: list[Row] = []
        """The visible rows when `refresh_changed` was called last."""

    @property
    def head(self) -> int:
        """The number of rows that stay above the others when these scroll, such as a title."""
        return 0

    def head_row(self, y: int) -> Row:
        """Return one of the rows that stay above the others."""
        raise NotImplementedError

    @property
    def page(self) -> int:
        """The number of rows that are visible at a time."""
        return max(1, self.size.height - self.head)

    @property
    def width(self) -> int:
        """The width of a row, in cells."""
        return self.scrollable_content_region.width

    def refresh_view(self) -> None:
        """Draw everything, after the number of rows or the size of the view has changed."""
        if self.is_attached and self.size:
            self.lay_out()
            self.set_row_count(self.head + len(self._source))
            self.refresh()

    def lay_out(self) -> None:
        """Lay out the rows anew if the width or the colours have changed."""
        layout = (self.width, get_palette(self.app))
        if layout != self._laid_out_for:
            self._laid_out_for = layout
            self._source.lay_out(*layout)

    def reload(self) -> None:
        """Lay out the rows anew, and draw everything."""
        self._laid_out_for = None
        self.refresh_view()

    def set_row_count(self, row_count: int) -> None:
        """Set how many rows there are, with those that do not scroll."""
        size = Size(self.width, row_count)
        is_same_width = size.width == self.virtual_size.width
        has_rows_below = row_count > self.scroll_offset.y + self.size.height
        scrollbar_stays = self.show_vertical_scrollbar and is_same_width and has_rows_below
        if scrollbar_stays or self.styles.overflow_y == "scroll":
            # Only the scrollbar depends on the size, but a plain assignment would lay out the whole
            # screen.
            self.set_reactive(Widget.virtual_size, size)
            self.vertical_scrollbar.window_virtual_size = row_count
        else:
            self.virtual_size = size

    def on_resize(self, event: Resize) -> None:
        self.refresh_view()

    def notify_style_update(self) -> None:
        super().notify_style_update()
        if self._laid_out_for is None or not self.is_attached:
            return
        if self._laid_out_for != (self.width, get_palette(self.app)):
            self.refresh_view()

    def render_line(self, y: int) -> Strip:
        width = self.width
        base = self.visual_style.rich_style
        if self._laid_out_for is None:
            return Strip.blank(width, base)
        if y < self.head:
            return plain_strip(self.head_row(y), self.margin, width, base)
        index = self.scroll_offset.y + y - self.head
        if index >= len(self._source):
            return Strip.blank(width, base)
        row = self._source[index]
        if index == self.marked_row:
            _, palette = self._laid_out_for
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
        """Draw the visible rows that have changed since the last call."""
        top = self.scroll_offset.y
        old_rows = self._drawn_rows
        visible_rows = range(top, min(top + self.page, len(self._source)))
        self._drawn_rows = [self._source[index] for index in visible_rows]
        for index, (old, new) in enumerate(zip_longest(old_rows, self._drawn_rows), top):
            if old != new:
                self.refresh_line(index + self.head)

    def tick_while(self, is_moving: bool) -> None:
        """Draw changed rows at the frame rate, or stop that.

        Args:
            is_moving: Whether something in the rows moves, such as a spinner.
        """
        interval_s = 1 / FRAME_RATE if is_moving and self.is_attached else None
        if interval_s != self.auto_refresh:
            self.auto_refresh = interval_s

    def automatic_refresh(self) -> None:
        self.refresh_changed()

    @property
    def marked_row(self) -> int:
        """The index of the highlighted row; -1 for none."""
        return self.cursor if self.has_focus else -1

    def on_focus(self) -> None:
        self.refresh()

    on_blur = on_focus

    def row_at(self, y: int) -> int | None:
        """Return the index of the row on a line of the view; None if there is none."""
        index = self.scroll_offset.y + y - self.head
        if y >= self.head and index < len(self._source):
            return index
        return None

    def go_to(self, row: int) -> None:
        """Choose the row with this index, or the nearest one, and scroll to it."""
        self.cursor = max(0, min(len(self._source) - 1, row))
        self.show_row(self.cursor)

    def show_row(self, row: int) -> None:
        """Scroll so that the row with this index is visible."""
        self.scroll_to_region(Region(0, row, 1, self.head + 1), animate=False, force=True)
        self.refresh()

    def action_move(self, step: int) -> None:
        """Choose the row that is so many rows below, or above if the number is negative."""
        self.go_to(self.cursor + step)

    def action_move_page(self, direction: int) -> None:
        """Go down (1) or up (-1) by almost a page."""
        self.action_move(direction * max(1, self.page - 1))

    def action_move_to(self, row: int) -> None:
        """Choose the first row (0) or the last one (-1)."""
        self.go_to(0 if row == 0 else len(self._source) - 1)
