"""Draws the half blocks of pictures, two pixels in a cell, on a thread."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby

from rich.color import Color
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from mahtab_tui.tui.graphics.pictures import Picture
from mahtab_tui.tui.rows.fetcher import Fetcher

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
    cells = zip(
        upper[0::3], upper[1::3], upper[2::3], lower[0::3], lower[1::3], lower[2::3], strict=True
    )
    for (red, green, blue, *below), same in groupby(cells):
        style = Style.from_color(Color.from_rgb(red, green, blue), Color.from_rgb(*below))
        yield Segment("▀" * sum(1 for _ in same), style)


CELLS = 20_000
"""Maximum total size of the cached pictures, unless more are visible."""


class Drawings:
    """Draws the visible pictures one at a time, and drops a result that is no longer visible. Main
    thread only."""

    def __init__(
        self,
        fetcher: Fetcher,
        console: Callable[[], Console],
        seen: Callable[[], Iterable[Picture]],
        came: Callable[[Picture], None],
        failed: Callable[[Picture], None],
    ) -> None:
        """seen: returns the visible pictures. came, failed: called when a picture is drawn, or
        cannot be drawn."""
        self._fetcher = fetcher
        self._console = console
        self._seen = seen
        self._came = came
        self._failed = failed
        self._drawn: dict[Picture, list[Strip]] = {}
        """No rows for a picture that cannot be drawn."""
        self._drawing = False

    def of(self, picture: Picture) -> list[Strip] | None:
        """Return the rows of a picture; None if it is not drawn."""
        return self._drawn.get(picture) or None

    def look(self) -> None:
        """Draw the next picture, after the visible ones may have changed."""
        if (
            self._drawing
            or (picture := next((one for one in self._seen() if one not in self._drawn), None))
            is None
        ):
            return
        self._drawing, console = True, self._console()
        self._fetcher.ask(
            "half blocks",
            lambda: half_blocks(picture, console),
            lambda rows: self._take(picture, rows),
            lambda _: self._take(picture, []),
        )

    def _take(self, picture: Picture, rows: list[Strip]) -> None:
        self._drawing = False
        seen = set(self._seen())
        if picture in seen:
            self._drawn[picture] = rows
            for old in [old for old in self._drawn if old not in seen]:
                if sum(kept.columns * kept.rows for kept in self._drawn) > CELLS:
                    del self._drawn[old]
            (self._came if rows else self._failed)(picture)
        self.look()
