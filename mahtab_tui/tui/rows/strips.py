"""Converts rows to Textual's strips, with the metadata for selecting text."""

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
    row: Row,
    y: int | None,
    width: int,
    base: Style,
    selected: tuple[int, int] | None,
    selection: Style,
    picture: Strip | None = None,
) -> Strip:
    """Convert a row to a strip of exactly this width.

    y: identifies the row in a selection; None if it cannot be selected. selected: a range of
    characters; -1 is the end of the text. picture: replaces the text.
    """
    body = base + row.fill if row.fill else base
    origin = _origin(0, y)
    # One segment per cell, so that a click anywhere left of the text starts the selection at its
    # first character.
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
    """Convert a row without a bar to a strip of exactly this width. margin: empty cells at the
    left."""
    ground = base + row.fill if row.fill else base
    segments = [
        Segment(text, ground + style) for text, style in [(" " * margin, Style.null()), *row.spans]
    ]
    return Strip(segments).adjust_cell_length(width, ground)


def _origin(offset: int, y: int | None) -> Style:
    return Style.null() if y is None else Style(meta={"offset": (offset, y)})


def _selected(spans: Sequence[Span], selected: tuple[int, int], selection: Style) -> Iterator[Span]:
    """Yield the spans with the selection's style in the selected range."""
    start, end = selected
    position = 0
    for text, style in spans:
        first = min(max(start - position, 0), len(text))
        last = len(text) if end == -1 else min(max(end - position, first), len(text))
        for piece, drawn in (
            (text[:first], style),
            (text[first:last], style + selection),
            (text[last:], style),
        ):
            if piece:
                yield piece, drawn
        position += len(text)


def with_sought(row: Row, sought: Pattern, style: Style) -> Row:
    """Highlight the matches of a pattern in a row. Raises `TooSlow`."""
    places = list(sought.spans(row.text))
    drawn: Sequence[Span] = row.spans
    for place in places:
        drawn = list(_selected(drawn, place, style))
    return row._replace(spans=drawn) if places else row


def with_mark(strip: Strip, style: Style) -> Strip:
    """Mark a strip of the current entry at its left, unless it is empty."""
    if not strip.cell_length:
        return strip
    first, *rest = strip
    return Strip(
        [Segment(MARK, first.style + style if first.style else style), *rest], strip.cell_length
    )


def with_hint(strip: Strip, hint: str, style: Style, width: int) -> Strip:
    """Cover the right end of a strip with a hint."""
    hint = set_cell_size(hint, min(cell_len(hint), width))
    start = width - cell_len(hint)
    return Strip([*strip.crop(0, start), Segment(hint, style)], width)


def title_strip(title: str, style: Style, base: Style, width: int) -> Strip:
    return Strip([Segment(" " * MARGIN, base), Segment(title, style)]).crop_extend(0, width, base)
