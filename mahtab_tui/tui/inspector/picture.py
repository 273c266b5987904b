"""A view of a picture, as large as the screen allows.

Terminals that draw graphics get its pixels (`tui.pictures.overlay`), others rows of half blocks, in
which each cell has two pixels above each other.
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from rich.segment import Segment
from textual.events import Resize
from textual.strip import Strip

from mahtab_tui.kernel.base import KernelError
from mahtab_tui.tui.commands.declarations import PICTURE_COMMANDS, bindings
from mahtab_tui.tui.external import open_picture
from mahtab_tui.tui.inspector import Subject, View
from mahtab_tui.tui.pictures.block_cache import draw_blocks
from mahtab_tui.tui.pictures.chart import has_chart
from mahtab_tui.tui.pictures.picture import PicturePart, PictureWidget, SizedPicture
from mahtab_tui.tui.terminal_app import cell_size
from mahtab_tui.tui.theme import get_palette

if TYPE_CHECKING:
    from PIL.Image import Image

MAX_PICTURE_PIXELS = 50_000_000
"""A larger picture is not decoded."""
MAX_CACHED_PIXELS = 8_000_000
"""A larger picture is scaled down. This is more than a screen shows."""


class DecodedPicture(NamedTuple):
    """A picture in memory, with the file that it was read from."""

    content: bytes
    """The content of the file."""
    suffix: str
    """The suffix of the file, such as ".png"."""
    image: Image
    """The picture, scaled down if it is very large."""
    size: tuple[int, int]
    """Width and height of the picture in the file, in pixels."""


class PictureView(View, PictureWidget, can_focus=True):
    """Shows a picture as large as it fits."""

    BINDINGS = bindings(PICTURE_COMMANDS)

    def __init__(self, subject: Subject, file: Callable[[], bytes] | None = None) -> None:
        """
        Args:
            subject: The object that the screen shows.
            file: Returns the file of another picture, on a thread. It may raise `KernelError`.
        """
        super().__init__(subject)
        self._file = file
        self._decoded_picture: DecodedPicture | None = None
        self._picture: SizedPicture | None = None
        """The picture in the size in which it was drawn last."""
        self._rows: list[Strip] = []
        """The rows that were drawn of it, for terminals without graphics."""

    def on_mount(self) -> None:
        self.reload()

    def reload(self) -> None:
        subject = self.subject
        file = self._file or partial(subject.client.picture, subject.path)
        self.show_status(("…", "$muted"))
        self.fetcher.run("picture", lambda: decode_picture(file()), self._show, self.fail)

    def _show(self, picture: DecodedPicture) -> None:
        """Show a picture that has arrived."""
        self._decoded_picture = picture
        self.show_status(("{:,} × {:,} pixels".format(*picture.size), "$muted"))
        self._fit()

    def on_resize(self, event: Resize) -> None:
        self._fit()

    def _fit(self) -> None:
        """Draw the picture as large as the view is now."""
        if self._decoded_picture is None or not self.size:
            return
        image = self._decoded_picture.image
        width, height = self.size
        # The terminal's cells have sizes in pixels, so that the picture is not distorted.
        cell_width, cell_height = cell_size(self.app)
        scale = min((width - 2) * cell_width / image.width, height * cell_height / image.height)
        columns = max(1, round(image.width * scale / cell_width))
        lines = max(1, round(image.height * scale / cell_height))

        palette = None
        # A chart without graphics is drawn in the theme's colours, and may use the whole view.
        terminal = getattr(self.app, "terminal", None)
        if has_chart(image) and (terminal is None or terminal.graphics is None):
            columns = width
            lines = height
            palette = get_palette(self.app)
        picture = SizedPicture(object(), columns, lines, lambda: image, palette)

        def draw(rows: list[Strip]) -> None:
            self._picture = picture
            self._rows = rows
            self.refresh()

        def fail(_: str) -> None:
            self.fail("The picture cannot be drawn.")

        self.fetcher.run("half blocks", partial(draw_blocks, picture), draw, fail)

    def action_open_outside(self) -> None:
        """Open the picture in a program of the system."""
        picture = self._decoded_picture
        if picture is None:
            return

        def show_path(path: str) -> None:
            self.show_status(f"Opened as {path}")

        open_outside = partial(open_picture, picture.content, picture.suffix)
        self.fetcher.run("viewer", open_outside, show_path, self.fail)

    def pictures(self) -> Iterator[PicturePart]:
        if self._picture is not None:
            yield PicturePart(self._picture, self._left_margin, 0, 0, self._picture.rows)

    @property
    def _left_margin(self) -> int:
        columns = 0 if self._picture is None else self._picture.columns
        return max(0, (self.size.width - columns) // 2)

    def render_line(self, y: int) -> Strip:
        base = self.visual_style.rich_style
        margin = Segment(" " * self._left_margin, base)
        row = self._rows[y] if y < len(self._rows) else ()
        return Strip([margin, *row]).crop_extend(0, self.size.width, base)


def decode_picture(data: bytes) -> DecodedPicture:
    """Return a picture of a file, reduced if it is very large. Raises `KernelError`."""
    from PIL import Image as images

    try:
        image = images.open(io.BytesIO(data), formats=("PNG", "JPEG", "GIF", "BMP"))
        pixels = math.prod(image.size)
        if pixels > MAX_PICTURE_PIXELS:
            sentence = "The picture has {:,} × {:,} pixels, which is too many to show."
            raise KernelError(sentence.format(*image.size))
        suffix = ".jpg" if image.format == "JPEG" else f".{image.format or 'png'}".lower()
        factor = math.ceil(math.sqrt(pixels / MAX_CACHED_PIXELS))
        reduced = image.convert("RGBA").reduce(factor)
        return DecodedPicture(data, suffix, reduced, image.size)
    except (OSError, ValueError, SyntaxError, images.DecompressionBombError):
        raise KernelError("The picture cannot be read: its file is damaged.") from None
