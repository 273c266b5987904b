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
    from mahtab_tui.tui.terminal_driver import Protocol, TerminalDriver
    from mahtab_tui.tui.theme import Palette

HEAD = 262_144
"""Characters of base64 that hold the size of a picture."""


def open_picture(data: str, largest: int) -> Image:
    """Open a PNG or JPEG in base64, decoded later. Raises Pillow's errors, and `ValueError` if it
    is too large."""
    from PIL import Image

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about its size
        image = Image.open(io.BytesIO(base64.b64decode(data)), formats=("PNG", "JPEG"))
    if image.width * image.height > largest:
        raise ValueError("too many pixels")
    return image


@dataclass(frozen=True)
class Picture:
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
        image.draft("RGB", (width, height))  # decodes a JPEG no larger than necessary
        small = image.convert("RGBA").resize((width, height), resampling)
        return Image.alpha_composite(Image.new("RGBA", small.size, "white"), small).convert("RGB")

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
        ground = self.chart_palette.surface.bgcolor
        colour = "black" if ground is None else ground.get_truecolor().hex
        canvas = Image.new("RGB", (width, height), colour)
        canvas.paste(image, (0, 0))
        return canvas


class PicturePart(NamedTuple):
    picture: Picture
    x: int
    y: int
    top: int = 0
    rows: int = 1

    @property
    def region(self) -> Region:
        return Region(self.x, self.y, self.picture.columns, self.rows)


class PictureWidget:
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


PAUSE = 0.001
"""Seconds between two rows, so that the thread that reads keys can run."""


def draw_blocks(picture: Picture) -> list[Strip]:
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
        time.sleep(PAUSE)
    return strips


CELLS = 20_000
"""Maximum total size of the cached pictures, unless more are visible."""


class HalfBlockCache:
    """Draws the visible pictures one at a time. Main thread only."""

    def __init__(
        self,
        fetcher: Fetcher,
        visible: Callable[[], Iterable[Picture]],
        on_drawn: Callable[[Picture], None],
        on_failed: Callable[[Picture], None],
    ) -> None:
        self._fetcher = fetcher
        self._visible = visible
        self._on_drawn = on_drawn
        self._on_failed = on_failed
        self._drawn: dict[Picture, list[Strip]] = {}
        self._drawing = False

    def get(self, picture: Picture) -> list[Strip] | None:
        return self._drawn.get(picture) or None

    def draw_next(self) -> None:
        if self._drawing:
            return
        picture = next((one for one in self._visible() if one not in self._drawn), None)
        if picture is None:
            return
        self._drawing = True
        store = partial(self._store, picture)
        draw = partial(draw_blocks, picture)
        self._fetcher.ask("half blocks", draw, store, lambda _: store([]))

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


_CHUNK = 4096
_SAMPLE = 60_000
_WORKER = Path(__file__).with_name("sixel_worker.py")
_PATIENCE = 60.0


def encode_kitty(image: Image, number: int) -> str:
    file = io.BytesIO()
    image.save(file, "PNG", compress_level=1)
    data = base64.b64encode(file.getvalue()).decode()
    parts = []
    for start in range(0, len(data), _CHUNK):
        end = start + _CHUNK
        first = "" if start else f"a=t,f=100,i={number},"
        parts.append(f"\x1b_G{first}q=2,m={int(end < len(data))};{data[start:end]}\x1b\\")
    return "".join(parts)


def kitty_draw(number: int, placement: int, part: PicturePart, cell: tuple[int, int]) -> str:
    picture = part.picture
    across, down = cell
    pixels = f"x=0,y={part.top * down},w={picture.columns * across},h={part.rows * down}"
    return f"\x1b_Ga=p,i={number},p={placement},{pixels},c={picture.columns},r={part.rows},C=1,q=2\x1b\\"


def encode_sixel(image: Image, colours: int) -> str:
    """Raises `OSError` and `subprocess.SubprocessError`."""
    quantized = _quantize(image, colours)
    header = json.dumps([image.width, quantized.getpalette()]).encode()
    return subprocess.run(
        [sys.executable, "-I", "-S", str(_WORKER)],
        input=header + b"\n" + quantized.tobytes(),
        capture_output=True,
        check=True,
        timeout=_PATIENCE,
    ).stdout.decode()


def _quantize(image: Image, colours: int) -> Image:
    """Reduce a picture to a palette, computed from some pixels because all take seconds."""
    from PIL import Image as images

    scale = max(1.0, math.sqrt(image.width * image.height / _SAMPLE))
    size = max(1, int(image.width / scale)), max(1, int(image.height / scale))
    sample = image.resize(size, images.Resampling.NEAREST)
    return image.quantize(palette=sample.quantize(colours), dither=images.Dither.NONE)


IDLE_DELAY = 0.12
CACHED = 8


class _Graphics(NamedTuple):
    protocol: Protocol
    cell: tuple[int, int]
    colours: int
    size: Size
    stops: int


class _EncodedPicture(NamedTuple):
    number: int = 0
    sixel: str = ""


class Overlay:
    """Draws graphics when the screen is still, and removes those that an update moves or covers.
    Main thread only."""

    def __init__(self, app: TerminalApp[Any]) -> None:
        self._app = app
        self._graphics: _Graphics | None = None
        self._wanted: list[PicturePart] = []
        self._drawn: dict[PicturePart, str] = {}
        """The escape sequence that removes each drawn part; empty for Sixel, which vanishes when
        its cells are painted."""
        self._ready: dict[Hashable, _EncodedPicture] = {}
        self._encoding = False
        self._numbers = count(1)
        self._timer: Timer | None = None

    def prepare_update(self, wanted: list[PicturePart], update: RenderableType) -> None:
        if not (wanted or self._wanted) or (terminal := self._app.terminal) is None:
            return
        before = len(self._drawn)
        was_wanted = self._wanted
        self._wanted = wanted
        self._check_graphics(terminal)
        for part in list(self._drawn):
            if part not in wanted or (not self._drawn[part] and _paints(update, part.region)):
                terminal.send(self._drawn.pop(part))
        if wanted != was_wanted or len(self._drawn) < before:
            if self._timer is not None:
                self._timer.stop()
            self._timer = self._app.set_timer(IDLE_DELAY, self._draw) if self._wanted else None

    def _draw(self) -> None:
        if not self._wanted or (terminal := self._app.terminal) is None:
            return
        self._check_graphics(terminal)
        if self._graphics is None:
            terminal.ask_for_graphics(lambda: self._app.call_later(self._draw))
            return
        for part in self._wanted:
            if part in self._drawn:
                continue
            if (ready := self._ready.pop(self._key(part), None)) is None:
                self._encode(part, self._graphics)
            else:
                self._ready[self._key(part)] = ready
                self._drawn[part] = self._send(terminal, self._graphics, part, ready)

    def _check_graphics(self, terminal: TerminalDriver) -> None:
        protocol = terminal.graphics
        cell = terminal.cell_size
        answers = terminal.answers
        graphics = None
        if protocol is not None and cell is not None:
            graphics = _Graphics(protocol, cell, answers.colours, self._app.size, terminal.stops)
        if graphics == self._graphics:
            return
        for key in list(self._ready):
            self._forget(terminal, key)
        self._drawn.clear()
        self._graphics = graphics
        for widget in self._app.screen._compositor.visible_widgets:
            if isinstance(widget, PictureWidget):
                self._app.call_later(widget.fit_pictures)

    def _key(self, part: PicturePart) -> Hashable:
        """Return the key of what is encoded together; with Kitty that is the whole picture."""
        whole = self._graphics is not None and self._graphics.protocol == "kitty"
        return part.picture if whole else (part.picture, part.top, part.rows)

    def _encode(self, part: PicturePart, graphics: _Graphics) -> None:
        if self._encoding:
            return
        self._encoding = True
        key = self._key(part)
        number = next(self._numbers)

        def encode() -> None:
            try:
                ready, data = _encode_part(part, graphics, number)
            except Exception:
                ready = _EncodedPicture()
                data = ""
            self._app.call_later(self._add_encoded, graphics, key, ready, data)

        threading.Thread(target=encode, name="graphics", daemon=True).start()

    def _add_encoded(
        self, graphics: _Graphics, key: Hashable, ready: _EncodedPicture, data: str
    ) -> None:
        self._encoding = False
        wanted = {self._key(part) for part in self._wanted}
        terminal = self._app.terminal
        if terminal is not None and graphics == self._graphics and key in wanted:
            terminal.send(data)
            self._ready[key] = ready
            unseen = [old for old in self._ready if old not in wanted]
            for old in unseen[: max(0, len(self._ready) - CACHED)]:
                self._forget(terminal, old)
        self._draw()

    def _forget(self, terminal: TerminalDriver, key: Hashable) -> None:
        if number := self._ready.pop(key).number:
            terminal.send(f"\x1b_Ga=d,d=I,i={number},q=2\x1b\\")

    def _send(
        self,
        terminal: TerminalDriver,
        graphics: _Graphics,
        part: PicturePart,
        ready: _EncodedPicture,
    ) -> str:
        data = ready.sixel
        removal = ""
        if ready.number:
            placement = next(self._numbers)
            data = kitty_draw(ready.number, placement, part, graphics.cell)
            removal = f"\x1b_Ga=d,d=i,i={ready.number},p={placement},q=2\x1b\\"
        if data:
            terminal.send(f"\x1b7\x1b[{part.y + 1};{part.x + 1}H{data}\x1b8")
        return removal


def _paints(update: RenderableType, region: Region) -> bool:
    if not isinstance(update, ChopsUpdate):
        return True
    return any(
        region.y <= y < region.bottom and start < region.right and end > region.x
        for y, start, end in update.spans
    )


def _encode_part(
    part: PicturePart, graphics: _Graphics, number: int
) -> tuple[_EncodedPicture, str]:
    from PIL.Image import Resampling

    picture = part.picture
    across, down = graphics.cell
    image = picture.fitted(picture.columns * across, picture.rows * down, Resampling.LANCZOS)
    if graphics.protocol == "kitty":
        return _EncodedPicture(number=number), encode_kitty(image, number)
    cut = image.crop((0, part.top * down, image.width, (part.top + part.rows) * down))
    return _EncodedPicture(sixel=encode_sixel(cut, graphics.colours)), ""
