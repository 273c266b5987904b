"""A picture, two pixels in each cell: every terminal with colours can show it."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from rich.color import Color
from rich.segment import Segment
from rich.style import Style
from textual.events import Resize
from textual.strip import Strip

from mahtab_tui.kernel.base import KernelError
from mahtab_tui.tui.screens.inspector.view import Place, View

if TYPE_CHECKING:
    from PIL.Image import Image

PIXELS = 64_000_000
"""Of a picture that is opened: a small file may hold a large one."""


class PictureView(View, can_focus=True):
    """Fitted to the screen."""

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self._image: Image | None = None
        self._rows: list[Strip] = []

    def on_mount(self) -> None:
        self.look_again()

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
        self._rows = half_blocks(self._image, self.size.width - 2, self.size.height)
        self.refresh()

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
        if image.width * image.height > PIXELS:
            raise KernelError(f"The picture has {image.width:,} × {image.height:,} pixels, which is too many to be shown.")
        return image.convert("RGBA")
    except (UnidentifiedImageError, OSError, ValueError, SyntaxError, images.DecompressionBombError):
        raise KernelError("The picture cannot be read: its file is damaged.") from None


def half_blocks(image: Image, width: int, height: int) -> list[Strip]:
    """A picture in at most so many cells, its sides as they are to each other."""
    scale = min(width / image.width, 2 * height / image.height)
    size = max(1, round(image.width * scale)), max(1, round(image.height * scale))
    small = image.resize(size)
    ground = small.copy()
    ground.paste((255, 255, 255, 255), (0, 0, *size))
    ground.alpha_composite(small)
    pixels = ground.convert("RGB").load()
    rows = []
    for y in range(0, size[1], 2):
        segments = []
        for x in range(size[0]):
            upper = Color.from_rgb(*pixels[x, y])  # type: ignore[index, misc]
            lower = Color.from_rgb(*pixels[x, y + 1]) if y + 1 < size[1] else None  # type: ignore[index, misc]
            segments.append(Segment("▀", Style(color=upper, bgcolor=lower)))
        rows.append(Strip(segments, size[0]))
    return rows
