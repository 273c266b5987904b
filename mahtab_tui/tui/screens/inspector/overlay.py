"""The terminal's own graphics over what a view has drawn in cells."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from textual.errors import NoWidget
from textual.geometry import Offset
from textual.widget import Widget

from mahtab_tui.tui.screens.inspector.fetcher import Answered, Fetcher
from mahtab_tui.tui.typed_ahead import TypedAheadDriver

if TYPE_CHECKING:
    from PIL.Image import Image

    from mahtab_tui.tui.graphics.encoding import Piece


class Overlay:
    """One picture, drawn each time after the view was painted, and only while nothing stands before it."""

    def __init__(self, view: Widget) -> None:
        self._view = view
        self._fetcher = Fetcher(view)
        self._left = 0
        self._pieces: list[Piece] = []
        self._drawn_at: Offset | None = None
        self._coming = False

    def begin(self, known: Callable[[], None]) -> None:
        """Ask the terminal; `known` is called when it has said what it has."""
        if (driver := self._driver) is None:
            return
        view, app = self._view, self._view.app
        driver.ask_for_graphics(lambda: view.post_message(Answered(known)))
        app.screen_change_signal.subscribe(view, lambda _: self.painted() if app.screen is view.screen else self.remove())
        app.app_suspend_signal.subscribe(view, lambda _: self.remove(), immediate=True)

    @property
    def cell(self) -> tuple[int, int] | None:
        """Pixels of a cell, width and height; None where there are no graphics."""
        driver = self._driver
        return driver.cell_size if driver is not None and driver.graphics else None

    def show(self, image: Image, left: int, columns: int, rows: int) -> None:
        """Draw a picture over so many cells, from a column of the view on, as soon as it is encoded."""
        self.remove()
        self._left, self._pieces = left, []
        driver, cell = self._driver, self.cell
        if driver is None or cell is None:
            return
        protocol, answers = driver.graphics, driver.answers

        def encoded() -> list[Piece]:
            from mahtab_tui.tui.graphics import encoding

            pixels = encoding.on_white(image, columns * cell[0], rows * cell[1])
            if protocol == "kitty":
                return encoding.kitty(pixels, columns, rows)
            return encoding.sixel(pixels, cell, answers.colours, answers.largest)

        def came(pieces: list[Piece]) -> None:
            self._pieces = pieces
            self.painted()

        self._fetcher.ask("graphics", encoded, came, lambda sentence: None)

    def painted(self) -> None:
        """The view is being painted: the picture belongs over it."""
        if self._pieces and not self._coming:
            self._coming = True
            self._view.call_after_refresh(self._draw)

    def remove(self) -> None:
        """Take the picture away. One of Sixel's stands in the cells, and goes when they are painted."""
        driver = self._driver
        if self._drawn_at is not None and driver is not None and driver.graphics == "kitty":
            from mahtab_tui.tui.graphics.encoding import KITTY_REMOVAL

            driver.write(KITTY_REMOVAL)
        self._drawn_at = None

    def _draw(self) -> None:
        self._coming = False
        driver, view = self._driver, self._view
        if driver is None or not self._free:
            self.remove()
            return
        x, y = place = view.region.offset
        if not self._pieces or (place == self._drawn_at and driver.graphics == "kitty"):
            return
        parts = [f"\x1b[{y + piece.row + 1};{x + self._left + piece.column + 1}H{piece.data}" for piece in self._pieces]
        driver.write("\x1b7" + "".join(parts) + "\x1b8")
        self._drawn_at = place

    @property
    def _free(self) -> bool:
        """Whether the whole view is seen and nothing stands before it."""
        view = self._view
        if not view.is_attached or view.app.screen is not view.screen:
            return False
        try:
            place = view.screen.find_widget(view)
        except NoWidget:
            return False
        if place.visible_region != place.region or place.region.bottom >= view.screen.size.height:
            return False
        before = view.screen.query("Toast, Tooltip")
        return not any(each.display and each.region.overlaps(place.region) for each in before)

    @property
    def _driver(self) -> TypedAheadDriver | None:
        driver = self._view.app._driver
        return driver if isinstance(driver, TypedAheadDriver) else None
