"""How well a screen can be read: the contrast of each pair of colours on it, as WCAG 2 computes it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from rich.segment import Segment
from textual._compositor import LayoutUpdate
from textual.app import App
from textual.color import Color
from textual.geometry import Region
from textual.pilot import Pilot
from textual.screen import Screen
from textual.strip import Strip
from textual.theme import Theme

from mahtab_tui.tui.theme import CONTRAST_THEMES, OUR_THEMES

TEXT_RATIO = 4.5
"""Level AA for text."""
SHAPE_RATIO = 3.0
"""Level AA for shapes that have a meaning: borders, bars, marks."""
_PIXELS = frozenset("▀▄▖▗▘▙▚▛▜▝▞▟░▒▓")
"""Cells of pictures and plots, whose colours are those of the data."""
_SHAPES = frozenset(map(chr, [*range(0x2500, 0x2600), *range(0x2800, 0x2900)]))
"""Lines, blocks, geometric shapes and the dots of plots."""


class Pair(NamedTuple):
    """Two colours of which one is drawn on the other."""

    colour: Color
    background: Color
    needed_ratio: float

    @property
    def ratio(self) -> float:
        return contrast_ratio(self.colour, self.background)


def contrast_ratio(first: Color, second: Color) -> float:
    """Return the contrast of two opaque colours, from 1 to 21."""
    darker, lighter = sorted((_luminance(first), _luminance(second)))
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(color: Color) -> float:
    red, green, blue = (_linear_light(channel / 255) for channel in color.rgb)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _linear_light(channel: float) -> float:
    if channel <= 0.04045:
        return channel / 12.92
    return float(((channel + 0.055) / 1.055) ** 2.4)


def drawn_pairs(app: App[Any]) -> dict[Pair, str]:
    """Return the pairs of colours on the screen, each with a text that is drawn so. Pictures, the
    sixteen colours that a program asks for, keys that do nothing now, and what lies below a dialog do
    not count."""
    update = app.screen._compositor.render_update(full=True, screen_stack=[])
    assert isinstance(update, LayoutUpdate)
    program_colours = {Color(*app.ansi_theme.ansi_colors[number]) for number in range(16)}
    pairs: dict[Pair, str] = {}
    lines = [Strip.join(line) for line in update.strips]
    for region in _read_regions(app.screen):
        for line in lines[region.y : region.bottom]:
            for segment in line.crop(region.x, region.right):
                for pair in _pairs_of(segment):
                    if pair.colour not in program_colours:
                        pairs.setdefault(pair, segment.text.strip())
    return pairs


def _read_regions(screen: Screen[Any]) -> list[Region]:
    """Return the parts of the screen that are read, without what a dialog covers."""
    if not screen.is_modal:
        return [screen.region]
    return [widget.region.intersection(screen.region) for widget in screen.displayed_children]


def _pairs_of(segment: Segment) -> Iterator[Pair]:
    style = segment.style
    characters = set(segment.text) - {" "} - _PIXELS
    if style is None or style.dim or not characters or segment.control:
        return
    assert style.color is not None
    assert style.bgcolor is not None
    colour = Color.from_rich_color(style.color)
    background = Color.from_rich_color(style.bgcolor)
    if style.reverse:
        colour, background = background, colour
    if characters - _SHAPES:
        yield Pair(colour, background, TEXT_RATIO)
    if characters & _SHAPES:
        yield Pair(colour, background, SHAPE_RATIO)


def describe_faults(app: App[Any], theme: Theme) -> list[str]:
    """Return a line for each pair on the screen that is hard to read in the present theme, whose
    hairlines only part what space parts already, and may be as quiet as the theme wants them."""
    hairline = Color.parse(theme.variables["hairline"])
    faults = []
    for pair, example in drawn_pairs(app).items():
        is_hairline = pair.colour == hairline and pair.needed_ratio == SHAPE_RATIO
        if pair.ratio >= pair.needed_ratio or (is_hairline and theme not in CONTRAST_THEMES):
            continue
        colours = f"{pair.colour.hex} on {pair.background.hex}"
        ratio = f"{pair.ratio:.2f} instead of {pair.needed_ratio}"
        faults.append(f"{theme.name}: {colours}: {ratio}: {example!r}")
    return faults


async def find_faults(pilot: Pilot[Any]) -> list[str]:
    """Return a line for each pair of colours that is hard to read on the screen in one of our themes;
    the screen is shown in its theme again then."""
    app = pilot.app
    old_theme = app.theme
    faults = []
    for theme in OUR_THEMES:
        app.theme = theme.name
        await pilot.pause()
        faults += describe_faults(app, theme)
    app.theme = old_theme
    await pilot.pause()
    return faults
