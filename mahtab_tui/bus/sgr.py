"""Select Graphic Rendition (ECMA-48, 8.3.117): the escape sequences for colours and styles."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from rich.style import Style

Colour = int | tuple[int, int, int] | None
"""One of the 256 colours, or red, green and blue; None for the terminal's default."""


class Graphic(NamedTuple):
    """Colours and style of a character."""

    foreground: Colour = None
    background: Colour = None
    bold: bool = False
    dim: bool = False
    italic: bool = False
    underline: bool = False
    reverse: bool = False
    strike: bool = False

    def style(self) -> Style:
        """Return the Rich style. What is off is left unset, so that a pane's own colours show."""
        return _style(self)

    def codes(self) -> str:
        """Return the shortest sequence that changes `NO_STYLE` to this; empty for `NO_STYLE`."""
        numbers = [str(code) for code, name in _SWITCHES.items() if getattr(self, name)]
        numbers += _colour_codes(self.foreground, 30) + _colour_codes(self.background, 40)
        return f"\x1b[{';'.join(numbers)}m" if numbers else ""


NO_STYLE = Graphic()
_SWITCHES = {1: "bold", 2: "dim", 3: "italic", 4: "underline", 7: "reverse", 9: "strike"}
_OFF = {22: ("bold", "dim"), 23: ("italic",), 24: ("underline",), 27: ("reverse",), 29: ("strike",)}
_DOUBLE_UNDERLINE = 21
_LONGEST = 200
"""Characters of one sequence; longer ones are noise."""


@lru_cache(maxsize=4096)
def after(graphic: Graphic, parameters: str) -> Graphic:
    """Apply one sequence. `parameters` stands between ``ESC [`` and ``m``. Unknown codes are
    ignored."""
    if len(parameters) > _LONGEST:
        return graphic
    codes = [[int(part or 0) for part in group.split(":")] for group in parameters.split(";")]
    place = 0
    while place < len(codes):
        code, *more = codes[place]
        place += 1
        if code in (38, 48):
            if not more:
                more = [group[0] for group in codes[place : place + 4]]
                place += (
                    {5: 2, 2: 4}.get(more[0], 1) if more else 0
                )  # how many of them belong to it
            elif len(more) > 4:  # 38:2:SPACE:R:G:B: ignore the colour space
                more = [more[0], *more[2:5]]
            name = "foreground" if code == 38 else "background"
            graphic = _with(graphic, name, _extended(more, getattr(graphic, name)))
        elif code == 4 and more:
            graphic = graphic._replace(underline=more[0] != 0)
        else:
            graphic = _simple(graphic, code)
    return graphic


def _with(graphic: Graphic, name: str, value: Colour | bool) -> Graphic:
    fields: dict[str, Any] = {name: value}
    return graphic._replace(**fields)


def _simple(graphic: Graphic, code: int) -> Graphic:
    if code == 0:
        return NO_STYLE
    if code in _SWITCHES:
        return _with(graphic, _SWITCHES[code], True)
    if code in _OFF:
        return graphic._replace(**dict.fromkeys(_OFF[code], False))
    if code == _DOUBLE_UNDERLINE:
        return graphic._replace(underline=True)
    for name, base in (("foreground", 30), ("background", 40)):
        if base <= code < base + 8:
            return _with(graphic, name, code - base)
        if base + 60 <= code < base + 68:
            return _with(graphic, name, code - base - 60 + 8)
        if code == base + 9:
            return _with(graphic, name, None)
    return graphic


def _extended(more: list[int], before: Colour) -> Colour:
    """Return the colour that ``5;N`` or ``2;R;G;B`` names; the previous one if it names none."""
    if len(more) >= 2 and more[0] == 5 and more[1] < 256:
        return more[1]
    if len(more) >= 4 and more[0] == 2 and max(more[1:4]) < 256:
        return more[1], more[2], more[3]
    return before


def _colour_codes(colour: Colour, base: int) -> list[str]:
    if colour is None:
        return []
    if isinstance(colour, tuple):
        return [f"{base + 8};2;{';'.join(map(str, colour))}"]
    if colour < 8:
        return [str(base + colour)]
    return [str(base + 60 + colour - 8)] if colour < 16 else [f"{base + 8};5;{colour}"]


@lru_cache(maxsize=4096)
def _style(graphic: Graphic) -> Style:
    from rich.color import Color
    from rich.style import Style

    def colour(value: Colour) -> Color | None:
        if isinstance(value, tuple):
            return Color.from_rgb(*value)
        return None if value is None else Color.from_ansi(value)

    switches: dict[str, Any] = {name: True for name in _SWITCHES.values() if getattr(graphic, name)}
    return Style(color=colour(graphic.foreground), bgcolor=colour(graphic.background), **switches)
