"""Styles by role, made from the variables of the current theme."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from pygments.token import Comment, Keyword, Name, Number, Operator, Punctuation, String
from pygments.token import _TokenType as TokenType
from rich.style import Style
from textual.app import App
from textual.color import Color

from mahtab_tui.tui.theme import GUESTS


@dataclass(frozen=True, slots=True)
class Palette:
    """The styles of a theme. Two palettes of the same theme are equal."""

    person: Style
    model: Style
    moon: Style
    good: Style
    bad: Style
    hairline: Style
    muted: Style
    text: Style
    surface: Style
    """The background of code."""
    panel: Style
    """The background of code within words."""
    guests: tuple[Style, ...] = ()
    """The styles of agents, by the number of their colour."""

    @classmethod
    def of(cls, variables: Mapping[str, str]) -> Palette:
        """Create a palette from theme variables."""

        def ink(name: str) -> Style:
            return Style(color=Color.parse(variables[name]).rich_color)

        def ground(name: str) -> Style:
            return Style(bgcolor=Color.parse(variables[name]).rich_color)

        inks = {
            role: ink(role)
            for role in ("person", "model", "moon", "good", "bad", "hairline", "muted")
        }
        return cls(
            **inks,
            text=ink("foreground"),
            surface=ground("surface"),
            panel=ground("panel"),
            guests=tuple(map(ink, GUESTS)),
        )

    @property
    def alarm(self) -> Style:
        """The style of symbols for hidden characters."""
        return self.bad + BOLD + REVERSE

    def party(self, person: bool, guest: int | None = None) -> Style:
        if guest is not None and self.guests:
            return self.guests[guest % len(self.guests)]
        return self.person if person else self.model

    def token(self, token: TokenType) -> Style:
        if token in Comment:
            return self.muted + ITALIC
        if token in String:
            return self.good
        if token in Number or token in Keyword.Constant:
            return self.moon
        if token in Keyword or token in Operator.Word:
            return self.model
        if (
            token in Name.Function
            or token in Name.Class
            or token in Name.Builtin
            or token in Name.Decorator
        ):
            return self.person
        if token in Punctuation:
            return self.muted
        return self.person if token in Operator else self.text


def palette_of(app: App[Any]) -> Palette:
    variables = app.theme_variables
    return _palette(*map(variables.__getitem__, _ROLES))


@lru_cache(maxsize=4)
def _palette(*colours: str) -> Palette:
    return Palette.of(dict(zip(_ROLES, colours, strict=True)))


_ROLES = (
    "person",
    "model",
    "moon",
    "good",
    "bad",
    "hairline",
    "muted",
    "foreground",
    "surface",
    "panel",
    *GUESTS,
)
BOLD = Style(bold=True)
ITALIC = Style(italic=True)
UNDERLINE = Style(underline=True)
STRIKE = Style(strike=True)
REVERSE = Style(reverse=True)
