"""A picture, two pixels in each cell, which every terminal with colours can show; over them the terminal's own graphics where it has them."""

from __future__ import annotations

import io
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from rich.segment import Segment
from textual.events import Resize
from textual.strip import Strip

from mahtab_tui.kernel.base import KernelError
from mahtab_tui.tui.graphics.drawn import cell_size
from mahtab_tui.tui.graphics.pictured import Part, Picture, Pictured
from mahtab_tui.tui.panes.transcript.layout.picture import LARGEST, half_blocks
from mahtab_tui.tui.panes.transcript.layout.row import Row
from mahtab_tui.tui.screens.inspector.view import Place, View

if TYPE_CHECKING:
    from PIL.Image import Image

KEPT = 8_000_000
"""Pixels that are kept of a larger picture: more than a screen has."""


class Opened(NamedTuple):
    """A picture from a file."""

    image: Image
    width: int
    """Pixels that it had there."""
    height: int


class PictureView(View, Pictured, can_focus=True):
    """Fitted to the screen."""

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self._opened: Opened | None = None
        self._picture: Picture | None = None
        """What is drawn."""
        self._rows: list[Strip] = []

    def on_mount(self) -> None:
        self.look_again()

    def look_again(self) -> None:
        place = self.place
        self.say(("…", "$muted"))
        self.fetcher.ask("picture", lambda: opened(place.look.picture(place.path)), self._came, self.fail)

    def _came(self, picture: Opened) -> None:
        self._opened = picture
        self.say((f"{picture.width:,} × {picture.height:,} pixels", "$muted"))
        self._fit()

    def on_resize(self, event: Resize) -> None:
        self._fit()

    def _fit(self) -> None:
        """Draw it as large as it fits, on a thread: a large one takes a while."""
        if self._opened is None or not self.size:
            return
        image, (width, height) = self._opened.image, self.size
        across, down = cell_size(self.app)
        scale = min((width - 2) * across / image.width, height * down / image.height)
        columns, lines = max(1, round(image.width * scale / across)), max(1, round(image.height * scale / down))
        picture = Picture(object(), columns, lines, lambda: image)
        self.fetcher.ask("drawn", lambda: half_blocks(image, columns, lines), lambda rows: self._drawn(picture, rows), self.fail)

    def _drawn(self, picture: Picture, rows: list[Row]) -> None:
        self._picture = picture
        self._rows = [Strip(Segment(text, style) for text, style in row.spans) for row in rows]
        self.refresh()

    def pictures(self) -> Iterator[Part]:
        if self._picture is not None:
            yield Part(self._picture, self._left, 0, 0, self._picture.rows)

    @property
    def _left(self) -> int:
        return 0 if self._picture is None else max(0, (self.size.width - self._picture.columns) // 2)

    def render_line(self, y: int) -> Strip:
        base = self.visual_style.rich_style
        row = self._rows[y] if y < len(self._rows) else Strip([])
        return Strip([Segment(" " * self._left, base), *row]).crop_extend(0, self.size.width, base)


def opened(data: bytes) -> Opened:
    """The picture in a file. Raises `KernelError` where it is none that can be read."""
    from PIL import Image as images
    from PIL import UnidentifiedImageError

    try:
        image = images.open(io.BytesIO(data), formats=("PNG", "JPEG", "GIF", "BMP"))
        width, height = image.size
        if width * height > LARGEST:
            raise KernelError(f"The picture has {width:,} × {height:,} pixels, which is too many to be shown.")
        return Opened(image.convert("RGBA").reduce(math.ceil(math.sqrt(width * height / KEPT))), width, height)
    except (UnidentifiedImageError, OSError, ValueError, SyntaxError, images.DecompressionBombError):
        raise KernelError("The picture cannot be read: its file is damaged.") from None
