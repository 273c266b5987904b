"""The last gate to the terminal: only what the renderer makes passes, whatever a widget draws.

It has two parts: `TextOnly` removes control characters from what widgets draw, while text and style
are still separate; the driver passes each piece that it writes through `let_out`.
"""

from __future__ import annotations

import re

from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""C0, DEL, C1, and the characters that change the direction of text. No line of the screen has
any."""
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_RENDERED = re.compile(r"\x1b\[[\d;]*[mH]")
"""Colours, styles and positions of the cursor."""
_NEVER_RENDERED = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]")
_COMMANDS = re.compile(
    r"(?:\x1b\[(?:\?\d+(?:[hl]|\$p)|>\d+u|<u))+"  # modes: the other screen, the mouse, pastes, the cursor, updates at once; the keyboard's
    r"|\x07|\x1b\]22;[a-z-]*\x07"  # the bell, the pointer's shape
    r"|\x1b\]52;c;[A-Za-z0-9+/=]*\x07"  # copying
)
"""The commands that Textual writes besides the screen, each in a piece of its own."""


class TextOnly(LineFilter):
    """Removes from what widgets draw everything that could drive a terminal: control characters,
    and links, which are escape sequences."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        text = "".join([segment.text for segment in segments])
        if text.isprintable() and not any(
            style is not None and style.link for _, style, _ in segments
        ):
            return segments
        return [
            Segment(
                _SURROGATE.sub("\ufffd", _CONTROL.sub("", text)),
                style if style is None or not style.link else style.update_link(None),
            )
            for text, style, _ in segments
        ]


def let_out(data: str) -> str:
    """Remove from a piece of Textual's output what only text from outside can have brought in."""
    if not _NEVER_RENDERED.search(_RENDERED.sub("", data)) or _COMMANDS.fullmatch(data):
        return data
    parts = _RENDERED.split(data)
    made = [*_RENDERED.findall(data), ""]
    return "".join(
        _NEVER_RENDERED.sub("", part) + sequence for part, sequence in zip(parts, made, strict=True)
    )
