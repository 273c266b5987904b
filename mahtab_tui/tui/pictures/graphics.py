"""Encodes pictures for terminals that draw pixels: Kitty's protocol, and Sixel."""

from __future__ import annotations

import base64
import io
import json
import math
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from textual.geometry import Size

from mahtab_tui.tui.pictures.picture import PicturePart

if TYPE_CHECKING:
    from PIL.Image import Image

    from mahtab_tui.tui.terminal_driver import GraphicsProtocol

_CHUNK_CHARS = 4096
"""Characters of base64 in one Kitty sequence."""
_SAMPLE_PIXELS = 60_000
"""The palette of a picture is computed from about this number of pixels."""
_SIXEL_TIMEOUT_S = 60.0
_SIXEL_WORKER = Path(__file__).with_name("sixel_worker.py")


class GraphicsState(NamedTuple):
    """What drawings depend on; if it changes, they are gone or wrong."""

    protocol: GraphicsProtocol
    cell: tuple[int, int]
    """Width and height of a cell in pixels."""
    colours: int
    """How many a picture may have in Sixel."""
    size: Size
    """The size of the screen, in cells."""
    stops: int
    """How often the program was stopped."""


class EncodedGraphics(NamedTuple):
    """A picture in the terminal's memory, or a part as Sixel; neither if encoding failed."""

    number: int = 0
    """The picture's number in Kitty's protocol; 0 if it is not in the terminal's memory."""
    sixel: str = ""
    """The sequence that draws the part."""


FAILED = EncodedGraphics()


class EncodedPart(NamedTuple):
    """A part of a picture, once it is encoded."""

    graphics: EncodedGraphics
    data: str
    """What the terminal must get before the part can be drawn."""


def encode_part(part: PicturePart, graphics: GraphicsState, number: int) -> EncodedPart:
    """Encode a part of a picture; with Kitty's protocol the whole picture. Call on a thread.

    Args:
        part: What is drawn.
        graphics: What the terminal can draw.
        number: Identifies the picture in Kitty's protocol.

    Raises:
        Exception: Pillow's errors, `OSError` and `subprocess.SubprocessError`.
    """
    from PIL.Image import Resampling

    picture = part.picture
    cell_width, cell_height = graphics.cell
    width = picture.columns * cell_width
    height = picture.rows * cell_height
    image = picture.fitted(width, height, Resampling.LANCZOS)
    if graphics.protocol == "kitty":
        return EncodedPart(EncodedGraphics(number=number), encode_kitty(image, number))

    top = part.top * cell_height
    bottom = (part.top + part.rows) * cell_height
    rows = image.crop((0, top, image.width, bottom))
    return EncodedPart(EncodedGraphics(sixel=encode_sixel(rows, graphics.colours)), "")


def encode_kitty(image: Image, number: int) -> str:
    """Return the sequences that put a picture into the terminal's memory. number: identifies it."""
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
    """Return the sequence that draws a picture with at most this many colours. Raises `OSError` and
    `subprocess.SubprocessError`."""
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
