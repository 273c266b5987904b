"""The rows and the size of the pictures of an output."""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

from mahtab_tui.bus.output import OutputBuffer
from mahtab_tui.bus.output_lines import DisplayLine
from mahtab_tui.pictures.picture_data import (
    HEADER_CHARS,
    MAX_PICTURE_COLUMNS,
    MAX_PICTURE_PIXELS,
    MAX_PICTURE_ROWS,
    CellSize,
    open_picture,
    size_in_cells,
)
from mahtab_tui.tui.pictures.chart import has_chart
from mahtab_tui.tui.pictures.picture import SizedPicture
from mahtab_tui.tui.rows.row import Row
from mahtab_tui.tui.theme import Palette

MIN_CHART_ROWS = 8
"""The rows that a figure drawn for the cells has even on a low screen."""


class PictureSpace(NamedTuple):
    """What the terminal has for pictures."""

    height: int = MAX_PICTURE_ROWS
    """Rows up to which a picture can be seen whole."""
    draws_charts: bool = True
    """Whether figures are drawn for the cells, because the terminal has no graphics."""


DEFAULT_SPACE = PictureSpace()


def picture_rows(
    display: DisplayLine, width: int, space: PictureSpace, palette: Palette
) -> list[Row] | None:
    """Return the rows of a picture; None if it cannot be drawn."""
    if display.unreadable:
        return None
    try:
        header = open_picture(display.data[:HEADER_CHARS], MAX_PICTURE_PIXELS)
    except Exception:
        # Pillow may raise anything for broken files.
        return None

    is_chart = space.draws_charts and has_chart(header)
    fit = chart_size_in_cells if is_chart else size_in_cells
    size = fit(*header.size, width, space.height)
    picture = SizedPicture(
        key=picture_key(display),
        columns=size.columns,
        rows=size.rows,
        pixels=lambda: open_picture(display.data, MAX_PICTURE_PIXELS),
        chart_palette=palette if is_chart else None,
    )
    return [Row(picture=(picture, index), soft=index > 0) for index in range(size.rows)]


def picture_key(display: DisplayLine) -> Hashable:
    """Return what tells pictures apart."""
    return len(display.data), hash(display.data)


def mark_unreadable(output: OutputBuffer, picture: SizedPicture) -> bool:
    """Draw the text of a picture instead from now on. Return whether it is in the output."""
    displays = (line for line in output if isinstance(line, DisplayLine))
    unreadable_lines = [line for line in displays if picture_key(line) == picture.key]
    for line in unreadable_lines:
        line.unreadable = True
    return bool(unreadable_lines)


def chart_size_in_cells(
    width: int, height: int, available_width: int, max_rows: int = MAX_PICTURE_ROWS
) -> CellSize:
    """Return the size of a figure, which is drawn for the cells, so that it can be as wide
    as possible. The arguments are those of `size_in_cells`."""
    columns = max(1, min(available_width, MAX_PICTURE_COLUMNS))
    rows = round(columns * height / width / 2)
    return CellSize(columns, max(MIN_CHART_ROWS, min(rows, MAX_PICTURE_ROWS, max_rows)))
