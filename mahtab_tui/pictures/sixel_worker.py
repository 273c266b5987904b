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
    """Encode a picture. lines: a colour's number for each pixel. palette: red, green, blue of each
    colour, from 0 to 255."""
    used_colours = sorted(set().union(*lines))
    registers = []
    for colour in used_colours:
        rgb = palette[3 * colour : 3 * colour + 3]
        # Sixel counts in percent.
        percents = ";".join(str(round(value / 2.55)) for value in rgb)
        registers.append(f"#{colour};2;{percents}")
    bands = []
    for top in range(0, len(lines), 6):
        bands.append("$".join(_band(lines[top : top + 6])))
    header = f'\x1bP0;1;0q"1;1;{len(lines[0])};{len(lines)}'
    return f"{header}{''.join(registers)}{'-'.join(bands)}\x1b\\"


def _band(lines: Sequence[bytes]) -> Iterator[str]:
    """Encode six lines of pixels in a single pass, whatever the number of colours."""
    runs_by_colour: dict[int, list[str]] = {}
    ends: dict[int, int] = {}
    x = 0
    for column, equal_columns in groupby(zip(*lines, strict=True)):
        width = sum(1 for _ in equal_columns)
        bits: dict[int, int] = {}
        for line, colour in enumerate(column):
            bits[colour] = bits.get(colour, 0) | 1 << line
        for colour, sixel in bits.items():
            runs = runs_by_colour.setdefault(colour, [f"#{colour}"])
            gap_width = x - ends.get(colour, 0)
            if gap_width:
                runs.append(_repeat("?", gap_width))
            runs.append(_repeat(chr(sixel + 63), width))
            ends[colour] = x + width
        x += width
    for runs in runs_by_colour.values():
        yield "".join(runs)


def _repeat(character: str, times: int) -> str:
    # A short run is shorter without its count.
    if times > 3:
        return f"!{times}{character}"
    return character * times


def main() -> None:
    # Give the application priority.
    os.nice(max(0, 10 - os.nice(0)))
    width, palette = json.loads(sys.stdin.buffer.readline())
    pixels = sys.stdin.buffer.read()
    lines = [pixels[start : start + width] for start in range(0, len(pixels), width)]
    sys.stdout.write(sixels(lines, palette))


if __name__ == "__main__":
    main()
