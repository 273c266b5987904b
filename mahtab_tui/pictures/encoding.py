"""Encodes pictures for terminals that draw pixels: Kitty's protocol, and Sixel."""

from __future__ import annotations

import base64
import io
import json
import math
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from PIL.Image import Image

_CHUNK_CHARS = 4096
"""Characters of base64 in one Kitty sequence."""
_SAMPLE_PIXELS = 60_000
"""The palette of a picture is computed from about this number of pixels."""
_SIXEL_TIMEOUT_S = 60.0
_SIXEL_WORKER = Path(__file__).with_name("sixel_worker.py")


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
