"""A picture, two pixels in each cell, which every terminal with colours can show; over them the terminal's own graphics where it has them."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from rich.segment import Segment
from textual.events import Resize
from textual.geometry import Region
from textual.strip import Strip

from mahtab_tui.kernel.base import KernelError
from mahtab_tui.tui.panes.transcript.layout.picture import LARGEST, half_blocks
from mahtab_tui.tui.screens.inspector.overlay import Overlay
from mahtab_tui.tui.screens.inspector.view import Place, View

if TYPE_CHECKING:
    from PIL.Image import Image


class PictureView(View, can_focus=True):
    """Fitted to the screen."""

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self._image: Image | None = None
        self._rows: list[Strip] = []
        self._overlay = Overlay(self)

    def on_mount(self) -> None:
        self._overlay.begin(self._draw)
        self.look_again()

    def on_unmount(self) -> None:
        self._overlay.remove()

    def on_hide(self) -> None:
        self._overlay.remove()

    def look_again(self) -> None:
        place = self.place
        self.say(("…", "$muted"))
        self.fetcher.ask("picture", lambda: opened(place.look.picture(place.path)), self._came, self.fail)

    def _came(self, image: Image) -> None:
        self._image = image
        self.say((f"{image.width:,} × {image.height:,} pixels", "$muted"))
        self._draw()

    def on_resize(self, event: Resize) -> None:
        self._draw()

    def _draw(self) -> None:
        if self._image is None or not self.size:
            return
        image, (width, height) = self._image, self.size
        across, down = self._overlay.cell or (1, 2)
        scale = min((width - 2) * across / image.width, height * down / image.height)
        columns, lines = max(1, round(image.width * scale / across)), max(1, round(image.height * scale / down))
        rows = half_blocks(image, columns, lines)
        self._rows = [Strip(Segment(text, style) for text, style in row.spans) for row in rows]
        self._overlay.show(image, (width - columns) // 2, columns, lines)
        self.refresh()

    def render_lines(self, crop: Region) -> list[Strip]:
        self._overlay.painted()
        return super().render_lines(crop)

    def render_line(self, y: int) -> Strip:
        base = self.visual_style.rich_style
        row = self._rows[y] if y < len(self._rows) else Strip([])
        left = max(0, (self.size.width - row.cell_length) // 2)
        return Strip([Segment(" " * left, base), *row]).crop_extend(0, self.size.width, base)


def opened(data: bytes) -> Image:
    """The picture in a file. Raises `KernelError` where it is none that can be read."""
    from PIL import Image as images
    from PIL import UnidentifiedImageError

    try:
        image = images.open(io.BytesIO(data), formats=("PNG", "JPEG", "GIF", "BMP"))
        if image.width * image.height > LARGEST:
            raise KernelError(f"The picture has {image.width:,} × {image.height:,} pixels, which is too many to be shown.")
        return image.convert("RGBA")
    except (UnidentifiedImageError, OSError, ValueError, SyntaxError, images.DecompressionBombError):
        raise KernelError("The picture cannot be read: its file is damaged.") from None
