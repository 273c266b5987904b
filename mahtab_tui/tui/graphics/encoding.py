"""Encodes pictures for the terminal's graphics protocols."""

from __future__ import annotations

import base64
import io
import json
import math
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from mahtab_tui.tui.graphics.pictures import PicturePart

if TYPE_CHECKING:
    from PIL import Image

_CHUNK = 4096
_SAMPLE = 60_000
"""Number of pixels from which a palette is computed."""
_WORKER = Path(__file__).with_name("sixel_worker.py")
_PATIENCE = 60.0
"""Time limit for encoding a picture, in seconds."""


class GraphicsPiece(NamedTuple):
    """An encoded part of a picture, and its position in the picture in cells."""

    column: int
    row: int
    data: str


def kitty(image: Image.Image, number: int) -> str:
    """Encode a picture for Kitty's protocol, to be stored under a number."""
    file = io.BytesIO()
    image.save(file, "PNG", compress_level=1)
    data = base64.b64encode(file.getvalue()).decode()
    parts = []
    for start in range(0, len(data), _CHUNK):
        first = "" if start else f"a=t,f=100,i={number},"
        parts.append(
            f"\x1b_G{first}q=2,m={int(start + _CHUNK < len(data))};{data[start : start + _CHUNK]}\x1b\\"
        )
    return "".join(parts)


def kitty_placed(number: int, placement: int, part: PicturePart, cell: tuple[int, int]) -> str:
    """Return the sequence that draws a part of a stored picture at the cursor."""
    picture, (across, down) = part.picture, cell
    pixels = f"x=0,y={part.top * down},w={picture.columns * across},h={part.rows * down}"
    return f"\x1b_Ga=p,i={number},p={placement},{pixels},c={picture.columns},r={part.rows},C=1,q=2\x1b\\"


def kitty_removed(number: int, placement: int) -> str:
    """Return the sequence that removes a drawn part; the picture stays stored."""
    return f"\x1b_Ga=d,d=i,i={number},p={placement},q=2\x1b\\"


def kitty_forgotten(number: int) -> str:
    """Return the sequence that deletes a stored picture and all its drawn parts."""
    return f"\x1b_Ga=d,d=I,i={number},q=2\x1b\\"


def sixel(
    image: Image.Image, cell: tuple[int, int], colours: int, largest: tuple[int, int]
) -> list[GraphicsPiece]:
    """Encode a picture as Sixel, in pieces of whole cells up to the terminal's largest size. Waits
    for a process.

    Raises `OSError` and `subprocess.SubprocessError`.
    """
    quantized = _quantized(image, colours)
    width, height = (max(1, most // size) * size for most, size in zip(largest, cell, strict=True))
    boxes = [
        (left, top, min(width, image.width - left), min(height, image.height - top))
        for top in range(0, image.height, height)
        for left in range(0, image.width, width)
    ]
    request = (
        json.dumps([image.width, quantized.getpalette(), boxes]).encode()
        + b"\n"
        + quantized.tobytes()
    )
    answer = subprocess.run(
        [sys.executable, "-I", "-S", str(_WORKER)],
        input=request,
        capture_output=True,
        check=True,
        timeout=_PATIENCE,
    ).stdout
    return [
        GraphicsPiece(left // cell[0], top // cell[1], data)
        for (left, top, _, _), data in zip(boxes, json.loads(answer), strict=True)
    ]


def _quantized(image: Image.Image, colours: int) -> Image.Image:
    """Reduce a picture to a palette, which is computed from a sample of the pixels: all of them
    would take seconds."""
    from PIL import Image

    scale = max(1.0, math.sqrt(image.width * image.height / _SAMPLE))
    sample = image.resize(
        (max(1, int(image.width / scale)), max(1, int(image.height / scale))),
        Image.Resampling.NEAREST,
    )
    return image.quantize(palette=sample.quantize(colours), dither=Image.Dither.NONE)
