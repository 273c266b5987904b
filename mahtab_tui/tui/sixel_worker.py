"""Encodes pictures as Sixel in a separate process, so that keys do not wait. Standard library only.

Input: a line of JSON (width and palette), then one byte per pixel. Output: the encoded picture.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Sequence
from itertools import groupby


def sixels(lines: Sequence[bytes], palette: Sequence[int]) -> str:
    used = sorted(set().union(*lines))
    registers = "".join(
        f"#{colour};2;"
        + ";".join(str(round(value / 2.55)) for value in palette[3 * colour : 3 * colour + 3])
        for colour in used
    )
    bands = "-".join("$".join(_band(lines[top : top + 6])) for top in range(0, len(lines), 6))
    return f'\x1bP0;1;0q"1;1;{len(lines[0])};{len(lines)}{registers}{bands}\x1b\\'


def _band(lines: Sequence[bytes]) -> Iterator[str]:
    """Encode six lines of pixels in a single pass, whatever the number of colours."""
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


def main() -> None:
    os.nice(max(0, 10 - os.nice(0)))  # give the application priority
    width, palette = json.loads(sys.stdin.buffer.readline())
    pixels = sys.stdin.buffer.read()
    lines = [pixels[start : start + width] for start in range(0, len(pixels), width)]
    sys.stdout.write(sixels(lines, palette))


if __name__ == "__main__":
    main()
