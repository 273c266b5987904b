"""The half blocks of the pictures that a widget shows, made on a thread: no key waits for them."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from rich.console import Console
from textual.strip import Strip

from mahtab_tui.tui.graphics.half_blocks import half_blocks
from mahtab_tui.tui.graphics.pictured import Picture
from mahtab_tui.tui.rows.fetcher import Fetcher

CELLS = 20_000
"""Of pictures that are kept drawn, the last drawn, as long as no more are seen."""


class Drawings:
    """Draws what is seen, one picture at a time; what is no longer seen when it has come is thrown away. Main thread only."""

    def __init__(
        self,
        fetcher: Fetcher,
        console: Callable[[], Console],
        seen: Callable[[], Iterable[Picture]],
        came: Callable[[Picture], None],
        failed: Callable[[Picture], None],
    ) -> None:
        """seen: what is to be drawn now; came, failed: called when one of it is drawn, or cannot be."""
        self._fetcher = fetcher
        self._console = console
        self._seen = seen
        self._came = came
        self._failed = failed
        self._drawn: dict[Picture, list[Strip]] = {}
        """With no rows where it cannot be drawn."""
        self._drawing = False

    def of(self, picture: Picture) -> list[Strip] | None:
        """Its rows; None as long as there are none."""
        return self._drawn.get(picture) or None

    def look(self) -> None:
        """What is seen may be another thing than before."""
        if self._drawing or (picture := next((one for one in self._seen() if one not in self._drawn), None)) is None:
            return
        self._drawing, console = True, self._console()
        self._fetcher.ask(
            "half blocks", lambda: half_blocks(picture, console), lambda rows: self._take(picture, rows), lambda _: self._take(picture, [])
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
