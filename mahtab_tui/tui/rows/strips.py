"""From a row to the strip that Textual draws, with what selecting text needs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from mahtab_tui.tui.patterns import Pattern
from mahtab_tui.tui.rows.row import Row, Span

MARGIN = 1
"""Cells left of the bar."""
BAR, MARK = "▌", "▐"
EDGE = MARGIN + 2
"""Cells left of the text: margin, bar, a space."""
RIGHT = 1
"""Empty cells at the right edge."""


def strip_of(
    row: Row, y: int | None, width: int, base: Style, selected: tuple[int, int] | None, selection: Style, picture: Strip | None = None
) -> Strip:
    """A row as a strip of exactly this width.

    `y` identifies the row to a selection (None: it cannot be selected); `selected` are characters of its text (-1: to the end);
    `picture` stands where its text would.
    """
    body = base + row.fill if row.fill else base
    origin = _origin(0, y)
    # One cell a segment: wherever one presses left of the text, the selection begins with its first character.
    segments = [Segment(" ", base + origin) for _ in range(MARGIN)]
    bar = Segment(BAR, base + row.bar + origin) if row.bar else Segment(" ", base + origin)
    segments += [bar, Segment(" ", body + origin)]
    chosen = _selected(row.spans, selected, selection) if selected else row.spans
    used, offset = EDGE, 0
    for text, style in chosen:
        segments.append(Segment(text, body + style + _origin(offset, y)))
        offset += len(text)
        used += cell_len(text)
    if picture is not None:
        segments += picture
        used += picture.cell_length
    right = [Segment(text, body + style) for text, style in row.right]
    right_width = sum(segment.cell_length for segment in right)
    if right and used + right_width + RIGHT > width:
        right, right_width = [], 0
    space = width - used - right_width - RIGHT
    if space < 0:
        return Strip(segments, used).crop_extend(0, width, base)
    segments += [Segment(" " * space, body), *right, Segment(" " * RIGHT, base)]
    return Strip(segments, width)


def plain_strip(row: Row, margin: int, width: int, base: Style) -> Strip:
    """A row without a bar, behind so many empty cells, as a strip of exactly this width."""
    ground = base + row.fill if row.fill else base
    segments = [Segment(text, ground + style) for text, style in [(" " * margin, Style.null()), *row.spans]]
    return Strip(segments).adjust_cell_length(width, ground)


def _origin(offset: int, y: int | None) -> Style:
    return Style.null() if y is None else Style(meta={"offset": (offset, y)})


def _selected(spans: Sequence[Span], selected: tuple[int, int], selection: Style) -> Iterator[Span]:
    """The spans, with the selection's style where it is."""
    start, end = selected
    position = 0
    for text, style in spans:
        first = min(max(start - position, 0), len(text))
        last = len(text) if end == -1 else min(max(end - position, first), len(text))
        for piece, drawn in ((text[:first], style), (text[first:last], style + selection), (text[last:], style)):
            if piece:
                yield piece, drawn
        position += len(text)


def with_sought(row: Row, sought: Pattern, style: Style) -> Row:
    """A row with what is sought in a style. Raises `TooSlow`."""
    places = list(sought.spans(row.text))
    drawn: Sequence[Span] = row.spans
    for place in places:
        drawn = list(_selected(drawn, place, style))
    return row._replace(spans=drawn) if places else row


def with_mark(strip: Strip, style: Style) -> Strip:
    """A strip of the entry that keys act on; one without a column has no room for it."""
    if not strip.cell_length:
        return strip
    first, *rest = strip
    return Strip([Segment(MARK, first.style + style if first.style else style), *rest], strip.cell_length)


def with_hint(strip: Strip, hint: str, style: Style, width: int) -> Strip:
    """A strip whose right end is covered by a hint."""
    hint = set_cell_size(hint, min(cell_len(hint), width))
    start = width - cell_len(hint)
    return Strip([*strip.crop(0, start), Segment(hint, style)], width)


def title_strip(title: str, style: Style, base: Style, width: int) -> Strip:
    """The pane's title line."""
    return Strip([Segment(" " * MARGIN, base), Segment(title, style)]).crop_extend(0, width, base)
