"""A picture as what a terminal is sent to draw it."""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Iterator
from typing import NamedTuple

from PIL import Image

KITTY_ID = 4_711
"""The number of the one picture that there is at a time."""
_CHUNK = 4096
_RUN = re.compile(rb"(.)\1{3,}", re.DOTALL)
_SIXELS = bytes(min(bits + 63, 126) for bits in range(256))


class Piece(NamedTuple):
    """A part of a picture, and where it stands in it."""

    column: int
    row: int
    data: str


def on_white(image: Image.Image, width: int, height: int) -> Image.Image:
    """A picture in so many pixels, on white where one sees through it."""
    small = image.convert("RGBA").resize((width, height), Image.Resampling.LANCZOS)
    return Image.alpha_composite(Image.new("RGBA", small.size, "white"), small).convert("RGB")


def kitty(image: Image.Image, columns: int, rows: int) -> list[Piece]:
    """For Kitty's protocol, over so many cells."""
    file = io.BytesIO()
    image.save(file, "PNG", compress_level=1)
    data = base64.b64encode(file.getvalue()).decode()
    chunks = [data[start : start + _CHUNK] for start in range(0, len(data), _CHUNK)]
    parts = []
    for number, chunk in enumerate(chunks):
        first = f"a=T,f=100,i={KITTY_ID},p=1,c={columns},r={rows},C=1," if number == 0 else ""
        parts.append(f"\x1b_G{first}q=2,m={int(number < len(chunks) - 1)};{chunk}\x1b\\")
    return [Piece(0, 0, "".join(parts))]


KITTY_REMOVAL = f"\x1b_Ga=d,d=I,i={KITTY_ID},q=2\x1b\\"


def sixel(image: Image.Image, cell: tuple[int, int], colours: int, largest: tuple[int, int]) -> list[Piece]:
    """For Sixel, in pieces of whole cells that are no larger than a terminal draws."""
    quantized = image.quantize(colours)
    width, height = (max(1, most // size) * size for most, size in zip(largest, cell, strict=True))
    return [
        Piece(left // cell[0], top // cell[1], _sixels(quantized.crop((left, top, min(left + width, image.width), min(top + height, image.height)))))
        for top in range(0, image.height, height)
        for left in range(0, image.width, width)
    ]


def _sixels(image: Image.Image) -> str:
    palette = image.getpalette() or []
    used = sorted(set(image.tobytes()))
    registers = "".join(f"#{colour};2;" + ";".join(str(round(value / 2.55)) for value in palette[3 * colour : 3 * colour + 3]) for colour in used)
    bands = "-".join("$".join(_band(image, top)) for top in range(0, image.height, 6))
    return f'\x1bP0;1;0q"1;1;{image.width};{image.height}{registers}{bands}\x1b\\'


def _band(image: Image.Image, top: int) -> Iterator[str]:
    """Six lines of pixels, a colour after the other."""
    lines = [image.crop((0, line, image.width, line + 1)).tobytes() for line in range(top, min(top + 6, image.height))]
    for colour in sorted(set().union(*lines)):
        bits = 0
        for number, line in enumerate(lines):
            there = bytearray(256)
            there[colour] = 1 << number
            bits |= int.from_bytes(line.translate(there), "big")
        row = bits.to_bytes(image.width, "big").translate(_SIXELS).rstrip(b"?")
        yield f"#{colour}" + _RUN.sub(lambda run: b"!%d%c" % (len(run[0]), run[1]), row).decode()
