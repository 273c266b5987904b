"""Reads the colours and styles of a text: its SGR sequences."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from mahtab_tui.bus.sanitize import plain

if TYPE_CHECKING:
    from rich.style import Style
    from rich.text import Text

MAX_SGR_CHARS = 200
"""Characters of a sequence's numbers; a longer one has no effect."""
_SGR = re.compile(r"\x1b\[([0-9;:]*)m")
SGR_SWITCHES = {1: "bold", 2: "dim", 3: "italic", 4: "underline", 7: "reverse", 9: "strike"}
"""Styles by the numbers that switch them on."""
SGR_RESETS = {
    22: ("bold", "dim"),
    23: ("italic",),
    24: ("underline",),
    27: ("reverse",),
    29: ("strike",),
}
"""Styles by the numbers that switch them off."""
SGR_COLOURS = {30: "foreground", 40: "background"}
"""The first of eight codes that set a colour; 60 above are those of the bright colours."""

Colour = int | tuple[int, int, int] | None
"""One of 256 colours, or red, green and blue."""


class Graphic(NamedTuple):
    """Colours and styles of a text."""

    foreground: Colour = None
    background: Colour = None
    bold: bool = False
    dim: bool = False
    italic: bool = False
    underline: bool = False
    reverse: bool = False
    strike: bool = False


NO_STYLE = Graphic()


@lru_cache(maxsize=4096)
def apply_sgr(graphic: Graphic, parameters: str) -> Graphic:
    """Return the colours and styles after one more SGR sequence.

    Args:
        graphic: The colours and styles before the sequence.
        parameters: The numbers of the sequence, such as "1;31".
    """
    if len(parameters) > MAX_SGR_CHARS:
        return graphic
    codes = [-1 if ":" in part else int(part or 0) for part in parameters.split(";")]
    while codes:
        fields: dict[str, bool | Colour] = {}
        match codes:
            case [38 | 48 as kind, 5, number, *codes]:
                if number < 256:
                    fields = {SGR_COLOURS[kind - 8]: number}
            case [38 | 48 as kind, 2, red, green, blue, *codes]:
                if max(red, green, blue) < 256:
                    fields = {SGR_COLOURS[kind - 8]: (red, green, blue)}
            case [38 | 48, _, *codes]:
                pass
            case [0, *codes]:
                graphic = NO_STYLE
            case [code, *codes]:
                fields = _fields_of_code(code)
        graphic = graphic._replace(**fields)  # type: ignore[arg-type]
    return graphic


def _fields_of_code(code: int) -> dict[str, bool | Colour]:
    """Return the fields of `Graphic` that one number of a sequence sets."""
    if code in SGR_SWITCHES:
        return {SGR_SWITCHES[code]: True}
    if code in SGR_RESETS:
        return dict.fromkeys(SGR_RESETS[code], False)
    for first_code, field in SGR_COLOURS.items():
        if first_code <= code < first_code + 8:
            return {field: code - first_code}
        if first_code + 60 <= code < first_code + 68:
            return {field: code - first_code - 60 + 8}
        if code == first_code + 9:
            return {field: None}
    return {}


@lru_cache(maxsize=4096)
def rich_style(graphic: Graphic) -> Style:
    """Return the Rich style. Anything off stays unset, so that a pane's own colours show."""
    from rich.color import Color
    from rich.style import Style

    def rich_colour(colour: Colour) -> Color | None:
        if colour is None:
            return None
        if isinstance(colour, tuple):
            return Color.from_rgb(*colour)
        return Color.from_ansi(colour)

    return Style(
        color=rich_colour(graphic.foreground),
        bgcolor=rich_colour(graphic.background),
        bold=graphic.bold or None,
        dim=graphic.dim or None,
        italic=graphic.italic or None,
        underline=graphic.underline or None,
        reverse=graphic.reverse or None,
        strike=graphic.strike or None,
    )


def styled(text: str) -> Text:
    """Return the text with its colours and styles (SGR), and nothing else that `plain` removes."""
    from rich.text import Text

    if "\x1b" not in text:
        return Text(plain(text))

    styled_text = Text()
    graphic = NO_STYLE
    start = 0
    for sequence in _SGR.finditer(text):
        styled_text.append(plain(text[start : sequence.start()]), rich_style(graphic))
        graphic = apply_sgr(graphic, sequence[1])
        start = sequence.end()
    styled_text.append(plain(text[start:]), rich_style(graphic))
    return styled_text
