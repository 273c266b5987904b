"""A picture: two pixels in each cell, which any terminal with colours can show, and over them the
terminal's own graphics if it has any."""

from __future__ import annotations

import io
import math
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from rich.segment import Segment
from textual.events import Resize
from textual.strip import Strip

from mahtab_tui.kernel.base import KernelError
from mahtab_tui.tui.commands.on_screens import PICTURE_COMMANDS
from mahtab_tui.tui.commands.pane_command import bindings
from mahtab_tui.tui.graphics.half_blocks import Drawings
from mahtab_tui.tui.graphics.pictures import Picture, PicturePart, PictureWidget
from mahtab_tui.tui.screens.inspector.view import Subject, View
from mahtab_tui.tui.system_viewer import open_picture
from mahtab_tui.tui.terminal_app import cell_size

if TYPE_CHECKING:
    from PIL.Image import Image

LARGEST = 50_000_000
"""Pixels; a larger picture is not decoded."""
KEPT = 8_000_000
"""Pixels to which a larger picture is reduced: more than a screen has."""
HELD = 0.3
"""Seconds within which a second press counts as the key being held down."""


class DecodedPicture(NamedTuple):
    """A picture from a file."""

    content: bytes
    """The file itself."""
    suffix: str
    """Suffix of files of this format, as in ".png"."""
    image: Image
    width: int
    """Pixels, before it was reduced."""
    height: int


class PictureView(View, PictureWidget, can_focus=True):
    """A picture, as large as fits on the screen."""

    BINDINGS = bindings(PICTURE_COMMANDS)

    def __init__(self, subject: Subject, file: Callable[[], bytes] | None = None) -> None:
        """file: gets another picture than the object's; called on a thread, may raise
        `KernelError`."""
        super().__init__(subject)
        self._file = file
        self._pressed = time.monotonic()
        self._opened: DecodedPicture | None = None
        self._fitted: Picture | None = None
        """The picture at the size of the screen."""
        self._picture: Picture | None = None
        """The picture whose rows are drawn now."""
        self._rows: list[Strip] = []
        self._drawings = Drawings(
            self.fetcher,
            lambda: self.app.console,
            lambda: [self._fitted] if self._fitted else [],
            self._drawn,
            lambda _: self.fail("The picture cannot be drawn."),
        )

    def on_mount(self) -> None:
        self.reload()

    def reload(self) -> None:
        subject = self.subject
        file = self._file or partial(subject.look.picture, subject.path)
        self.say(("…", "$muted"))
        self.fetcher.ask("picture", lambda: decoded(file()), self._show, self.fail)

    def _show(self, picture: DecodedPicture) -> None:
        self._opened = picture
        self.say((f"{picture.width:,} × {picture.height:,} pixels", "$muted"))
        self._fit()

    def on_resize(self, event: Resize) -> None:
        self._fit()

    def _fit(self) -> None:
        if self._opened is None or not self.size:
            return
        image, (width, height) = self._opened.image, self.size
        across, down = cell_size(self.app)
        scale = min((width - 2) * across / image.width, height * down / image.height)
        columns, lines = (
            max(1, round(image.width * scale / across)),
            max(1, round(image.height * scale / down)),
        )
        self._fitted = Picture(object(), columns, lines, lambda: image)
        self._drawings.look()

    def action_open_outside(self) -> None:
        """Show it in the system's viewer, once while the key is held down."""
        held, self._pressed = time.monotonic() - self._pressed < HELD, time.monotonic()
        if held or self._opened is None:
            return
        content, suffix = self._opened.content, self._opened.suffix
        self.fetcher.ask(
            "viewer",
            lambda: open_picture(content, suffix),
            lambda path: self.say(f"Opened as {path}"),
            self.fail,
        )

    def _drawn(self, picture: Picture) -> None:
        self._picture, self._rows = picture, self._drawings.of(picture) or []
        self.refresh()

    def pictures(self) -> Iterator[PicturePart]:
        if self._picture is not None:
            yield PicturePart(self._picture, self._left, 0, 0, self._picture.rows)

    @property
    def _left(self) -> int:
        return (
            0 if self._picture is None else max(0, (self.size.width - self._picture.columns) // 2)
        )

    def render_line(self, y: int) -> Strip:
        base = self.visual_style.rich_style
        row = self._rows[y] if y < len(self._rows) else Strip([])
        return Strip([Segment(" " * self._left, base), *row]).crop_extend(0, self.size.width, base)


def decoded(data: bytes) -> DecodedPicture:
    """Decode the picture in a file. Raises `KernelError` if it cannot be read."""
    from PIL import Image as images
    from PIL import UnidentifiedImageError

    try:
        image = images.open(io.BytesIO(data), formats=("PNG", "JPEG", "GIF", "BMP"))
        width, height = image.size
        if width * height > LARGEST:
            raise KernelError(
                f"The picture has {width:,} × {height:,} pixels, which is too many to show."
            )
        suffix = ".jpg" if image.format == "JPEG" else f".{image.format or 'png'}".lower()
        return DecodedPicture(
            data,
            suffix,
            image.convert("RGBA").reduce(math.ceil(math.sqrt(width * height / KEPT))),
            width,
            height,
        )
    except (
        UnidentifiedImageError,
        OSError,
        ValueError,
        SyntaxError,
        images.DecompressionBombError,
    ):
        raise KernelError("The picture cannot be read: its file is damaged.") from None
