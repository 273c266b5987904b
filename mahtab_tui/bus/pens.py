"""The colours and styles of a text, by the sequences that set them."""

from __future__ import annotations

import re
from functools import lru_cache, reduce

MAX_PEN_SEQUENCES = 16
MAX_SEQUENCE_CHARS = 200
Pen = str
"""The colour and style sequences in effect."""
SGR = re.compile(r"\x1b\[[0-9;:]*m")


@lru_cache(maxsize=4096)
def next_pen(pen: Pen, sequence: str) -> Pen:
    """Return the pen after one more sequence. Only the last `MAX_PEN_SEQUENCES` are kept."""
    if len(sequence) > MAX_SEQUENCE_CHARS:
        return pen
    parameters = sequence[2:-1].lstrip("0")
    if not parameters.strip("0;"):
        return ""
    pen = pen.replace(sequence, "") + sequence
    if pen.count("\x1b") > MAX_PEN_SEQUENCES:
        second_sequence = pen.index("\x1b", 1)
        return pen[second_sequence:]
    return pen


def read_pen(pen: Pen, text: str) -> Pen:
    """Return the pen after a text."""
    if "\x1b" in text:
        return reduce(next_pen, SGR.findall(text), pen)
    return pen


def style_change(previous_pen: Pen, pen: Pen) -> str:
    """Return the sequences that change from one pen to another."""
    if previous_pen == pen:
        return ""
    return f"\x1b[0m{pen}" if previous_pen else pen


def strip_colours(text: str) -> str:
    return SGR.sub("", text)
