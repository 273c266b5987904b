"""Reads pictures and draws them as half blocks."""

from __future__ import annotations

import base64
import io
import struct
import time
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from rich.color import Color
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from textual.geometry import Region
from textual.screen import Screen
from textual.strip import Strip

from mahtab_tui.tui.workers import Fetcher

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer
    from PIL.Image import Image, Resampling

STEP = 65_536
"""Bytes to decode at once; other threads run in between."""
_SEGMENTS = 1_000
"""Maximum number of JPEG segments before the size; only a hostile file has more."""
_NO_LENGTH = (0x01, *range(0xD0, 0xD9))
_SIZES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}


def read_size(data: str) -> tuple[int, int] | None:
    """Return the width and height of a PNG or JPEG in base64, in pixels; None for anything else."""
    file = _file(data)
    try:
        beginning = file.read(24)
        if beginning.startswith(b"\x89PNG\r\n\x1a\n"):
            width, height = struct.unpack("!II", beginning[16:])
        elif beginning.startswith(b"\xff\xd8"):
            file.seek(2)
            width, height = _read_jpeg_size(file)
        else:
            return None
    except (ValueError, struct.error):
        return None
    return (width, height) if width and height else None


def open_picture(data: str, largest: int) -> Image:
    """Open a picture, which is decoded when its pixels are used. Raises Pillow's errors for broken
    files, and `ValueError` if it is too large."""
    from PIL import Image

    image = Image.open(_file(data), formats=("PNG", "JPEG"))
    if image.width * image.height > largest:
        raise ValueError("too many pixels")
    return image


def _read_jpeg_size(file: BinaryIO) -> tuple[int, int]:
    for _ in range(_SEGMENTS):
        ground, mark = struct.unpack("!BB", file.read(2))
        if ground != 0xFF:
            break
        if mark in _NO_LENGTH:
            continue
        if mark == 0xFF:
            file.seek(-1, io.SEEK_CUR)
            continue
        (length,) = struct.unpack("!H", file.read(2))
        if mark in _SIZES:
            _, height, width = struct.unpack("!BHH", file.read(5))
            return width, height
        file.seek(length - 2, io.SEEK_CUR)
    raise ValueError("no size")


def _file(data: str) -> BinaryIO:
    return io.BufferedReader(_Base64(data), STEP)


class _Base64(io.RawIOBase):
    """Decodes base64 as it is read. Reading raises `ValueError` if the data is invalid."""

    def __init__(self, data: str) -> None:
        super().__init__()
        self._data = data
        self._size = len(data) // 4 * 3 - data[-2:].count("=")
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        self._position = max(0, start + offset)
        return self._position

    def readinto(self, buffer: WriteableBuffer) -> int:
        wanted = memoryview(buffer).cast("B")
        group, skipped = divmod(self._position, 3)
        end = (self._position + len(wanted) + 2) // 3
        piece = base64.b64decode(self._data[4 * group : 4 * end], validate=True)[skipped:]
        piece = piece[: len(wanted)]
        wanted[: len(piece)] = piece
        self._position += len(piece)
        return len(piece)


@dataclass(frozen=True)
class Picture:
    key: Hashable
    columns: int
    rows: int
    pixels: Callable[[], Image] = field(compare=False)
    """Called on a thread. Raises Pillow's errors for broken files."""
    faded: tuple[int, int, int] | None = None

    def scaled(self, width: int, height: int, resampling: Resampling) -> Image:
        """Scale the picture; transparent parts become white. Called on a thread. Raises Pillow's
        errors for broken files."""
        from PIL import Image

        image = self.pixels()
        image.draft("RGB", (width, height))  # decodes a JPEG no larger than necessary
        small = image.convert("RGBA").resize((width, height), resampling)
        drawn = Image.alpha_composite(Image.new("RGBA", small.size, "white"), small).convert("RGB")
        if self.faded is None:
            return drawn
        return Image.blend(drawn, Image.new("RGB", drawn.size, self.faded), 0.5)


class PicturePart(NamedTuple):
    """Some rows of a picture, and the cell of the widget or screen at which they start."""

    picture: Picture
    x: int
    y: int
    top: int = 0
    rows: int = 1

    @property
    def region(self) -> Region:
        return Region(self.x, self.y, self.picture.columns, self.rows)


class PictureWidget:
    """A widget that draws pictures in half blocks, over which the terminal may draw its own
    graphics."""

    def pictures(self) -> Iterable[PicturePart]:
        """Return the visible parts as they were last drawn."""
        raise NotImplementedError


def visible_parts(screen: Screen[Any]) -> Iterator[PicturePart]:
    """Yield the fully visible parts of pictures on the screen, except in the last line, where Sixel
    makes some terminals scroll."""
    before: list[Region] = []
    # From the front to the back.
    for widget, (region, clip) in screen._compositor.visible_widgets.items():
        seen = region.intersection(clip)
        for part in widget.pictures() if isinstance(widget, PictureWidget) else ():
            placed = part._replace(x=part.x + region.x, y=part.y + region.y)
            area = placed.region
            is_whole = seen.contains_region(area) and area.bottom < screen.size.height
            if is_whole and not any(each.overlaps(area) for each in before):
                yield placed
        before.append(seen)


PAUSE = 0.001
"""Seconds to pause between two rows, so that the thread that reads keys can run."""


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
    cells = zip(
        upper[0::3], upper[1::3], upper[2::3], lower[0::3], lower[1::3], lower[2::3], strict=True
    )
    for (red, green, blue, *below), same in groupby(cells):
        style = Style.from_color(Color.from_rgb(red, green, blue), Color.from_rgb(*below))
        yield Segment("▀" * sum(1 for _ in same), style)


CELLS = 20_000
"""Maximum total size of the cached pictures, unless more are visible."""


class HalfBlockCache:
    """Draws the visible pictures one at a time, and drops results that are no longer visible. Main
    thread only."""

    def __init__(
        self,
        fetcher: Fetcher,
        console: Callable[[], Console],
        visible: Callable[[], Iterable[Picture]],
        on_drawn: Callable[[Picture], None],
        on_failed: Callable[[Picture], None],
    ) -> None:
        """visible: returns the visible pictures. on_drawn, on_failed: called when a picture was
        drawn, or could not be drawn."""
        self._fetcher = fetcher
        self._console = console
        self._visible = visible
        self._on_drawn = on_drawn
        self._on_failed = on_failed
        self._drawn: dict[Picture, list[Strip]] = {}
        self._drawing = False

    def get(self, picture: Picture) -> list[Strip] | None:
        """Return the rows of a picture; None if it is not drawn yet."""
        return self._drawn.get(picture) or None

    def draw_next(self) -> None:
        """Draw the next picture. Called after the visible ones may have changed."""
        if self._drawing:
            return
        picture = next((one for one in self._visible() if one not in self._drawn), None)
        if picture is None:
            return
        self._drawing, console = True, self._console()
        self._fetcher.ask(
            "half blocks",
            lambda: half_blocks(picture, console),
            lambda rows: self._store(picture, rows),
            lambda _: self._store(picture, []),
        )

    def _store(self, picture: Picture, rows: list[Strip]) -> None:
        self._drawing = False
        visible = set(self._visible())
        if picture in visible:
            self._drawn[picture] = rows
            for old in [old for old in self._drawn if old not in visible]:
                if sum(drawing.columns * drawing.rows for drawing in self._drawn) > CELLS:
                    del self._drawn[old]
            (self._on_drawn if rows else self._on_failed)(picture)
        self.draw_next()
