"""Draws pictures as blocks or by the terminal's own graphics."""

from __future__ import annotations

import base64
import io
import json
import math
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.console import RenderableType
from textual._compositor import ChopsUpdate
from textual.geometry import Region, Size
from textual.screen import Screen
from textual.strip import Strip
from textual.timer import Timer

from mahtab_tui.tui.blocks import fit_blocks, merge_cells
from mahtab_tui.tui.workers import Fetcher

if TYPE_CHECKING:
    from PIL.Image import Image, Resampling

    from mahtab_tui.tui.terminal_app import TerminalApp
    from mahtab_tui.tui.terminal_driver import GraphicsProtocol, TerminalDriver
    from mahtab_tui.tui.theme import Palette

HEADER_CHARS = 262_144
"""Of base64, in which the size of a picture is found."""
ROW_PAUSE_S = 0.001
"""Between two rows, so that the thread that reads keys can run."""
MAX_CACHED_CELLS = 20_000
"""Of all cached pictures, unless more are visible."""
_CHUNK_CHARS = 4096
"""Of base64 in one Kitty sequence."""
_SAMPLE_PIXELS = 60_000
"""The palette of a picture is computed from about this number of pixels."""
_SIXEL_TIMEOUT_S = 60.0
IDLE_DELAY_S = 0.12
"""Graphics are drawn when the screen has not changed for this time."""
MAX_ENCODED_PICTURES = 8
_SIXEL_WORKER = Path(__file__).with_name("sixel_worker.py")


def open_picture(data: str, max_pixels: int) -> Image:
    """Open a PNG or JPEG in base64, decoded later. Raises Pillow's errors, and `ValueError` if it
    is too large."""
    from PIL import Image

    with warnings.catch_warnings():
        # Pillow warns about large pictures.
        warnings.simplefilter("ignore")
        image = Image.open(io.BytesIO(base64.b64decode(data)), formats=("PNG", "JPEG"))
    if image.width * image.height > max_pixels:
        raise ValueError("too many pixels")
    return image


@dataclass(frozen=True)
class SizedPicture:
    """A picture and its size in cells."""

    key: Hashable
    columns: int
    rows: int
    pixels: Callable[[], Image] = field(compare=False)
    """Called on a thread. Raises Pillow's errors."""
    chart_palette: Palette | None = None
    """The colours of a figure that is drawn for the cells; None to draw the pixels."""

    def scaled(self, width: int, height: int, resampling: Resampling) -> Image:
        """Scale the picture, with transparent parts in white. Raises Pillow's errors."""
        from PIL import Image

        image = self.pixels()
        # Decode a JPEG no larger than necessary.
        image.draft("RGB", (width, height))
        scaled = image.convert("RGBA").resize((width, height), resampling)
        white = Image.new("RGBA", scaled.size, "white")
        return Image.alpha_composite(white, scaled).convert("RGB")

    def fitted(self, width: int, height: int, resampling: Resampling) -> Image:
        """Scale the picture to these pixels. The cells of a figure have other proportions than its
        pixels, which then leave some empty. Raises Pillow's errors."""
        from PIL import Image

        if self.chart_palette is None:
            return self.scaled(width, height, resampling)
        picture_width, picture_height = self.pixels().size
        scale = min(width / picture_width, height / picture_height)
        scaled_width = max(1, round(picture_width * scale))
        scaled_height = max(1, round(picture_height * scale))
        image = self.scaled(scaled_width, scaled_height, resampling)
        background = self.chart_palette.surface.bgcolor
        colour = "black" if background is None else background.get_truecolor().hex
        canvas = Image.new("RGB", (width, height), colour)
        canvas.paste(image, (0, 0))
        return canvas


class PicturePart(NamedTuple):
    """Consecutive rows of a picture, and where they are on the screen."""

    picture: SizedPicture
    x: int
    y: int
    top: int = 0
    """The first row, counted from the top of the picture."""
    rows: int = 1

    @property
    def region(self) -> Region:
        return Region(self.x, self.y, self.picture.columns, self.rows)


class PictureWidget:
    """A widget that shows pictures."""

    def pictures(self) -> Iterable[PicturePart]:
        raise NotImplementedError

    def fit_pictures(self) -> None:
        """Lay out the pictures again, because it has become known what the terminal can draw."""


def visible_parts(screen: Screen[Any]) -> Iterator[PicturePart]:
    """Yield the parts that are seen whole, except in the last line, where Sixel may scroll."""
    regions_in_front: list[Region] = []
    # From the front to the back.
    for widget, (region, clip) in screen._compositor.visible_widgets.items():
        visible_region = region.intersection(clip)
        for part in widget.pictures() if isinstance(widget, PictureWidget) else ():
            part_on_screen = part._replace(x=part.x + region.x, y=part.y + region.y)
            area = part_on_screen.region
            is_whole = visible_region.contains_region(area) and area.bottom < screen.size.height
            if is_whole and not any(front.overlaps(area) for front in regions_in_front):
                yield part_on_screen
        regions_in_front.append(visible_region)


def draw_blocks(picture: SizedPicture) -> list[Strip]:
    """Draw a picture in cells, or a figure with its words. Call on a thread. Raises Pillow's
    errors."""
    from PIL.Image import Resampling

    if picture.chart_palette is not None:
        from mahtab_tui.tui.charts import draw_chart, read_chart

        chart = read_chart(picture.pixels())
        if chart is not None:
            return draw_chart(chart, picture.columns, picture.rows, picture.chart_palette)
    image = picture.fitted(2 * picture.columns, 2 * picture.rows, Resampling.BOX)
    strips = []
    for cells in fit_blocks(image.tobytes(), picture.columns, picture.rows):
        strips.append(Strip(merge_cells(cells), picture.columns))
        time.sleep(ROW_PAUSE_S)
    return strips


class HalfBlockCache:
    """Draws the visible pictures one at a time. Main thread only."""

    def __init__(
        self,
        fetcher: Fetcher,
        visible: Callable[[], Iterable[SizedPicture]],
        on_drawn: Callable[[SizedPicture], None],
        on_failed: Callable[[SizedPicture], None],
    ) -> None:
        self._fetcher = fetcher
        self._visible = visible
        self._on_drawn = on_drawn
        self._on_failed = on_failed
        self._drawn: dict[SizedPicture, list[Strip]] = {}
        self._drawing = False

    def get(self, picture: SizedPicture) -> list[Strip] | None:
        return self._drawn.get(picture) or None

    def draw_next(self) -> None:
        if self._drawing:
            return
        missing = (picture for picture in self._visible() if picture not in self._drawn)
        picture = next(missing, None)
        if picture is None:
            return
        self._drawing = True
        store = partial(self._store, picture)
        draw = partial(draw_blocks, picture)
        self._fetcher.ask("half blocks", draw, store, lambda _: store([]))

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
        cells = sum(picture.columns * picture.rows for picture in self._drawn)
        for picture in list(self._drawn):
            if cells <= MAX_CACHED_CELLS:
                return
            if picture not in visible:
                del self._drawn[picture]
                cells -= picture.columns * picture.rows


def encode_kitty(image: Image, number: int) -> str:
    file = io.BytesIO()
    image.save(file, "PNG", compress_level=1)
    data = base64.b64encode(file.getvalue()).decode()
    parts = []
    for start in range(0, len(data), _CHUNK_CHARS):
        end = start + _CHUNK_CHARS
        # Only the first sequence says what follows.
        header = "" if start else f"a=t,f=100,i={number},"
        has_more = int(end < len(data))
        parts.append(f"\x1b_G{header}q=2,m={has_more};{data[start:end]}\x1b\\")
    return "".join(parts)


def kitty_draw(number: int, placement: int, part: PicturePart, cell: tuple[int, int]) -> str:
    """Return the sequence that draws a part of an encoded picture.

    Args:
        number: Identifies the picture.
        placement: Identifies this drawing of it.
        part: The rows to draw.
        cell: Width and height of a cell in pixels.
    """
    picture = part.picture
    cell_width, cell_height = cell
    top = part.top * cell_height
    width = picture.columns * cell_width
    height = part.rows * cell_height
    pixels = f"x=0,y={top},w={width},h={height}"
    cells = f"c={picture.columns},r={part.rows}"
    return f"\x1b_Ga=p,i={number},p={placement},{pixels},{cells},C=1,q=2\x1b\\"


def encode_sixel(image: Image, colours: int) -> str:
    """Raises `OSError` and `subprocess.SubprocessError`."""
    quantized = _quantize(image, colours)
    header = json.dumps([image.width, quantized.getpalette()]).encode()
    return subprocess.run(
        [sys.executable, "-I", "-S", str(_SIXEL_WORKER)],
        input=header + b"\n" + quantized.tobytes(),
        capture_output=True,
        check=True,
        timeout=_SIXEL_TIMEOUT_S,
    ).stdout.decode()


def _quantize(image: Image, colours: int) -> Image:
    """Reduce a picture to a palette, computed from some pixels because all take seconds."""
    from PIL import Image as images

    scale = max(1.0, math.sqrt(image.width * image.height / _SAMPLE_PIXELS))
    sample_size = (max(1, int(image.width / scale)), max(1, int(image.height / scale)))
    sample = image.resize(sample_size, images.Resampling.NEAREST)
    return image.quantize(palette=sample.quantize(colours), dither=images.Dither.NONE)


class GraphicsState(NamedTuple):
    """What drawings depend on; if it changes, they are gone or wrong."""

    protocol: GraphicsProtocol
    cell: tuple[int, int]
    """Width and height in pixels."""
    colours: int
    size: Size
    stops: int
    """How often the program was stopped."""


class EncodedGraphics(NamedTuple):
    """A picture in the terminal's memory, or a part as Sixel; neither if encoding failed."""

    number: int = 0
    sixel: str = ""


class Overlay:
    """Draws graphics when the screen is still, and removes those that an update moves or covers.
    Main thread only."""

    def __init__(self, app: TerminalApp[Any]) -> None:
        self._app = app
        self._graphics: GraphicsState | None = None
        self._parts: list[PicturePart] = []
        """The parts that are visible now."""
        self._drawn: dict[PicturePart, str] = {}
        """The escape sequence that removes each drawn part; empty for Sixel, which vanishes when
        its cells are painted."""
        self._encoded: dict[Hashable, EncodedGraphics] = {}
        self._encoding = False
        self._numbers = count(1)
        self._timer: Timer | None = None

    def prepare_update(self, parts: list[PicturePart], update: RenderableType) -> None:
        """Remove what an update of the screen moves or covers, and draw again soon.

        Args:
            parts: Those that are visible after the update.
            update: What will be written to the screen.
        """
        terminal = self._app.terminal
        if terminal is None or not (parts or self._parts):
            return
        old_parts = self._parts
        old_drawn_count = len(self._drawn)
        self._parts = parts
        self._check_graphics(terminal)
        for part, removal in list(self._drawn.items()):
            is_painted_over = not removal and _paints(update, part.region)
            if part not in parts or is_painted_over:
                terminal.send(self._drawn.pop(part))
        if parts != old_parts or len(self._drawn) < old_drawn_count:
            if self._timer is not None:
                self._timer.stop()
            if parts:
                self._timer = self._app.set_timer(IDLE_DELAY_S, self._draw)
            else:
                self._timer = None

    def _draw(self) -> None:
        terminal = self._app.terminal
        if not self._parts or terminal is None:
            return
        self._check_graphics(terminal)
        if self._graphics is None:
            terminal.ask_for_graphics(lambda: self._app.call_later(self._draw))
            return
        for part in self._parts:
            if part in self._drawn:
                continue
            key = self._key(part)
            encoded = self._encoded.pop(key, None)
            if encoded is None:
                self._encode(part, self._graphics)
            else:
                # The newest is the last, so that the oldest can be forgotten.
                self._encoded[key] = encoded
                self._drawn[part] = self._send(terminal, self._graphics, part, encoded)

    def _check_graphics(self, terminal: TerminalDriver) -> None:
        protocol = terminal.graphics
        cell = terminal.cell_size
        answers = terminal.answers
        graphics = None
        if protocol is not None and cell is not None:
            graphics = GraphicsState(
                protocol, cell, answers.colours, self._app.size, terminal.stops
            )
        if graphics == self._graphics:
            return
        for key in list(self._encoded):
            self._forget(terminal, key)
        self._drawn.clear()
        self._graphics = graphics
        for widget in self._app.screen._compositor.visible_widgets:
            if isinstance(widget, PictureWidget):
                self._app.call_later(widget.fit_pictures)

    def _key(self, part: PicturePart) -> Hashable:
        """Return the key of what is encoded together; with Kitty that is the whole picture."""
        if self._graphics is not None and self._graphics.protocol == "kitty":
            return part.picture
        return (part.picture, part.top, part.rows)

    def _encode(self, part: PicturePart, graphics: GraphicsState) -> None:
        if self._encoding:
            return
        self._encoding = True
        key = self._key(part)
        number = next(self._numbers)

        def encode() -> None:
            try:
                encoded, data = _encode_part(part, graphics, number)
            except Exception:
                encoded = EncodedGraphics()
                data = ""
            self._app.call_later(self._add_encoded, graphics, key, encoded, data)

        threading.Thread(target=encode, name="graphics", daemon=True).start()

    def _add_encoded(
        self, graphics: GraphicsState, key: Hashable, encoded: EncodedGraphics, data: str
    ) -> None:
        self._encoding = False
        visible_keys = {self._key(part) for part in self._parts}
        terminal = self._app.terminal
        if terminal is not None and graphics == self._graphics and key in visible_keys:
            terminal.send(data)
            self._encoded[key] = encoded
            hidden_keys = [key for key in self._encoded if key not in visible_keys]
            excess = max(0, len(self._encoded) - MAX_ENCODED_PICTURES)
            for hidden_key in hidden_keys[:excess]:
                self._forget(terminal, hidden_key)
        self._draw()

    def _forget(self, terminal: TerminalDriver, key: Hashable) -> None:
        number = self._encoded.pop(key).number
        if number:
            terminal.send(f"\x1b_Ga=d,d=I,i={number},q=2\x1b\\")

    def _send(
        self,
        terminal: TerminalDriver,
        graphics: GraphicsState,
        part: PicturePart,
        encoded: EncodedGraphics,
    ) -> str:
        """Draw a part, and return the sequence that removes it."""
        data = encoded.sixel
        removal = ""
        if encoded.number:
            placement = next(self._numbers)
            data = kitty_draw(encoded.number, placement, part, graphics.cell)
            removal = f"\x1b_Ga=d,d=i,i={encoded.number},p={placement},q=2\x1b\\"
        if data:
            # Save the cursor, go to the part, draw, and restore the cursor.
            terminal.send(f"\x1b7\x1b[{part.y + 1};{part.x + 1}H{data}\x1b8")
        return removal


def _paints(update: RenderableType, region: Region) -> bool:
    """Return whether an update writes to a cell of a region."""
    if not isinstance(update, ChopsUpdate):
        return True
    return any(
        region.y <= y < region.bottom and start < region.right and end > region.x
        for y, start, end in update.spans
    )


def _encode_part(
    part: PicturePart, graphics: GraphicsState, number: int
) -> tuple[EncodedGraphics, str]:
    from PIL.Image import Resampling

    """Return a part as it is kept, and what the terminal must get before it can be drawn."""
    picture = part.picture
    cell_width, cell_height = graphics.cell
    width = picture.columns * cell_width
    height = picture.rows * cell_height
    image = picture.fitted(width, height, Resampling.LANCZOS)
    if graphics.protocol == "kitty":
        return EncodedGraphics(number=number), encode_kitty(image, number)
    top = part.top * cell_height
    bottom = (part.top + part.rows) * cell_height
    rows = image.crop((0, top, image.width, bottom))
    return EncodedGraphics(sixel=encode_sixel(rows, graphics.colours)), ""
