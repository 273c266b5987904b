"""Draws a picture as half blocks: each cell is two pixels, one above the other."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import groupby

from rich.color import Color
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from mahtab_tui.tui.graphics.pictures import Picture

PAUSE = 0.001
"""Seconds between two rows, in which the thread that reads keys can run."""


def half_blocks(picture: Picture, console: Console) -> list[Strip]:
    """Draw a picture for a console. Called on a thread. Raises Pillow's errors for broken files."""
    from PIL.Image import Resampling

    line = 3 * picture.columns
    colours = picture.scaled(picture.columns, 2 * picture.rows, Resampling.BOX).tobytes()
    strips = []
    for start in range(0, len(colours), 2 * line):
        upper, lower = colours[start : start + line], colours[start + line : start + 2 * line]
        strip = Strip(_segments(upper, lower), picture.columns)
        strip.render(console)  # caches the styles' escape sequences
        strips.append(strip)
        time.sleep(PAUSE)
    return strips


def _segments(upper: bytes, lower: bytes) -> Iterator[Segment]:
    """Yield the segments of a row; adjacent cells of the same colours form one."""
    cells = zip(upper[0::3], upper[1::3], upper[2::3], lower[0::3], lower[1::3], lower[2::3], strict=True)
    for (red, green, blue, *below), same in groupby(cells):
        style = Style.from_color(Color.from_rgb(red, green, blue), Color.from_rgb(*below))
        yield Segment("▀" * sum(1 for _ in same), style)
