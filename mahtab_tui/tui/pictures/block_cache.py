"""Draws pictures as blocks on a thread, and keeps those that are visible."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from functools import partial

from textual.strip import Strip

from mahtab_tui.tui.pictures.blocks import fit_blocks, merge_cells
from mahtab_tui.tui.pictures.picture import SizedPicture
from mahtab_tui.tui.workers import Fetcher

ROW_PAUSE_S = 0.001
"""Seconds between two rows, so that the thread that reads keys can run."""
MAX_CACHED_CELLS = 20_000
"""All cached pictures have at most this many cells, unless more are visible."""


def draw_blocks(picture: SizedPicture) -> list[Strip]:
    """Draw a picture in cells, or a figure with its words.

    Call on a thread. Raises Pillow's errors.
    """
    from PIL.Image import Resampling

    if picture.chart_palette is not None:
        from mahtab_tui.tui.pictures.chart import read_chart
        from mahtab_tui.tui.pictures.chart_drawing import draw_chart

        chart = read_chart(picture.pixels())
        if chart is not None:
            return draw_chart(chart, picture.columns, picture.rows, picture.chart_palette)
    image = picture.fitted(2 * picture.columns, 2 * picture.rows, Resampling.BOX)
    strips = []
    for cells in fit_blocks(image.tobytes(), picture.columns, picture.rows):
        strips.append(Strip(merge_cells(cells), picture.columns))
        time.sleep(ROW_PAUSE_S)
    return strips


class BlockCache:
    """Draws the visible pictures one at a time. Main thread only."""

    def __init__(
        self,
        fetcher: Fetcher,
        visible: Callable[[], Iterable[SizedPicture]],
        on_drawn: Callable[[SizedPicture], None],
        on_failed: Callable[[SizedPicture], None],
    ) -> None:
        """
        Args:
            fetcher: Draws on a thread.
            visible: Returns the pictures that are visible now.
            on_drawn: Called when a picture can be got.
            on_failed: Called when a picture could not be drawn.
        """
        self._fetcher = fetcher
        self._visible = visible
        self._on_drawn = on_drawn
        self._on_failed = on_failed
        self._drawn: dict[SizedPicture, list[Strip]] = {}
        """The rows of each picture; none if it could not be drawn."""
        self._drawing = False

    def get(self, picture: SizedPicture) -> list[Strip] | None:
        """Return the rows of a picture; None if it is not drawn yet, or cannot be."""
        return self._drawn.get(picture) or None

    def draw_next(self) -> None:
        """Draw a visible picture that is not drawn yet, unless one is being drawn."""
        if self._drawing:
            return
        missing = (picture for picture in self._visible() if picture not in self._drawn)
        picture = next(missing, None)
        if picture is None:
            return
        self._drawing = True
        store = partial(self._store, picture)
        draw = partial(draw_blocks, picture)
        self._fetcher.run("half blocks", draw, store, lambda _: store([]))

    def _store(self, picture: SizedPicture, rows: list[Strip]) -> None:
        self._drawing = False
        visible = set(self._visible())
        if picture in visible:
            self._drawn[picture] = rows
            self._drop_hidden(visible)
            if rows:
                self._on_drawn(picture)
            else:
                self._on_failed(picture)
        self.draw_next()

    def _drop_hidden(self, visible: set[SizedPicture]) -> None:
        """Forget the oldest pictures that are not visible until the others fit."""
        cached_cells = sum(picture.columns * picture.rows for picture in self._drawn)
        for picture in list(self._drawn):
            if cached_cells <= MAX_CACHED_CELLS:
                return
            if picture not in visible:
                del self._drawn[picture]
                cached_cells -= picture.columns * picture.rows
