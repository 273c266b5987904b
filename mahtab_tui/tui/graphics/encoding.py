"""A picture as what a terminal is sent to draw it."""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Iterator
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from mahtab_tui.tui.graphics.pictured import Part

if TYPE_CHECKING:
    from PIL import Image

KITTY_CLEARED = "\x1b_Ga=d,d=A,q=2\x1b\\"
"""Nothing is to stand anywhere."""
_CHUNK = 4096
_SAMPLE = 60_000
"""Pixels that a palette is chosen by."""


class Piece(NamedTuple):
    """A part of a picture, and where it stands in it."""

    column: int
    row: int
    data: str


def on_white(image: Image.Image, width: int, height: int) -> Image.Image:
    """A picture in so many pixels, on white where one sees through it."""
    from PIL import Image

    small = image.convert("RGBA").resize((width, height), Image.Resampling.LANCZOS)
    return Image.alpha_composite(Image.new("RGBA", small.size, "white"), small).convert("RGB")


def kitty(image: Image.Image, number: int) -> str:
    """For Kitty's protocol: a picture that it is to keep under a number."""
    file = io.BytesIO()
    image.save(file, "PNG", compress_level=1)
    data = base64.b64encode(file.getvalue()).decode()
    chunks = [data[start : start + _CHUNK] for start in range(0, len(data), _CHUNK)]
    parts = []
    for place, chunk in enumerate(chunks):
        first = f"a=t,f=100,i={number}," if place == 0 else ""
        parts.append(f"\x1b_G{first}q=2,m={int(place < len(chunks) - 1)};{chunk}\x1b\\")
    return "".join(parts)


def kitty_placed(number: int, placement: int, part: Part, cell: tuple[int, int]) -> str:
    """A part of such a picture at the cursor."""
    picture, (across, down) = part.picture, cell
    pixels = f"x=0,y={part.top * down},w={picture.columns * across},h={part.rows * down}"
    return f"\x1b_Ga=p,i={number},p={placement},{pixels},c={picture.columns},r={part.rows},C=1,q=2\x1b\\"


def kitty_removed(number: int, placement: int) -> str:
    """What was placed is to be taken away; the picture is kept."""
    return f"\x1b_Ga=d,d=i,i={number},p={placement},q=2\x1b\\"


def kitty_forgotten(number: int) -> str:
    """A picture is no longer kept, wherever it was placed."""
    return f"\x1b_Ga=d,d=I,i={number},q=2\x1b\\"


def sixel(image: Image.Image, cell: tuple[int, int], colours: int, largest: tuple[int, int]) -> list[Piece]:
    """For Sixel, in pieces of whole cells that are no larger than a terminal draws."""
    quantized = _quantized(image, colours)
    width, height = (max(1, most // size) * size for most, size in zip(largest, cell, strict=True))
    return [
        Piece(left // cell[0], top // cell[1], _sixels(quantized.crop((left, top, min(left + width, image.width), min(top + height, image.height)))))
        for top in range(0, image.height, height)
        for left in range(0, image.width, width)
    ]


def _quantized(image: Image.Image, colours: int) -> Image.Image:
    """With a palette of so many colours, chosen among a part of the pixels: among all it takes seconds."""
    from PIL import Image

    scale = max(1.0, math.sqrt(image.width * image.height / _SAMPLE))
    sample = image.resize((max(1, int(image.width / scale)), max(1, int(image.height / scale))), Image.Resampling.NEAREST)
    return image.quantize(palette=sample.quantize(colours), dither=Image.Dither.NONE)


def _sixels(image: Image.Image) -> str:
    palette = image.getpalette() or []
    pixels = image.tobytes()
    registers = "".join(
        f"#{colour};2;" + ";".join(str(round(value / 2.55)) for value in palette[3 * colour : 3 * colour + 3]) for colour in sorted(set(pixels))
    )
    lines = [pixels[start : start + image.width] for start in range(0, len(pixels), image.width)]
    bands = "-".join("$".join(_band(lines[top : top + 6])) for top in range(0, len(lines), 6))
    return f'\x1bP0;1;0q"1;1;{image.width};{image.height}{registers}{bands}\x1b\\'


def _band(lines: list[bytes]) -> Iterator[str]:
    """Six lines of pixels, a colour after the other. Walked once, so that it takes no longer for more colours."""
    drawn: dict[int, list[str]] = {}
    ends: dict[int, int] = {}
    x = 0
    for column, same in groupby(zip(*lines, strict=True)):
        width = sum(1 for _ in same)
        bits: dict[int, int] = {}
        for line, colour in enumerate(column):
            bits[colour] = bits.get(colour, 0) | 1 << line
        for colour, sixel in bits.items():
            parts = drawn.setdefault(colour, [f"#{colour}"])
            if gap := x - ends.get(colour, 0):
                parts.append(_run("?", gap))
            parts.append(_run(chr(sixel + 63), width))
            ends[colour] = x + width
        x += width
    yield from map("".join, drawn.values())


def _run(character: str, times: int) -> str:
    return f"!{times}{character}" if times > 3 else character * times
