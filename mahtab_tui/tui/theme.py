"""Our two themes, with colours by role."""

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
from textual.theme import Theme

_NIGHT = {
    "person": "#7cc7ff",
    "model": "#c9a6ff",
    "moon": "#f2d08b",
    "good": "#8fd6a4",
    "bad": "#f08a8a",
    "hairline": "#242b47",
    "muted": "#6b7596",
    "guest-1": "#6fd0c4",
    "guest-2": "#f0a878",
    "guest-3": "#e79ac8",
    "guest-4": "#b9cc74",
}
_DAY = {
    "person": "#0b62a8",
    "model": "#7138b8",
    "moon": "#8a5a00",
    "good": "#1f7a3d",
    "bad": "#b3261e",
    "hairline": "#cfd4e4",
    "muted": "#626b86",
    "guest-1": "#0f6f68",
    "guest-2": "#9a4a0a",
    "guest-3": "#a12d70",
    "guest-4": "#56651a",
}


def _theme(name: str, roles: dict[str, str], selection: str, **colours: str) -> Theme:
    return Theme(
        name=name,
        dark=roles is _NIGHT,
        primary=roles["person"],
        secondary=roles["model"],
        accent=roles["moon"],
        warning=roles["moon"],
        error=roles["bad"],
        success=roles["good"],
        variables={
            **roles,
            "block-cursor-text-style": "none",
            "footer-key-foreground": roles["moon"],
            "input-selection-background": selection,
        },
        **colours,  # type: ignore[arg-type]
    )


MAHTAB = _theme(
    "mahtab",
    _NIGHT,
    "#7cc7ff 30%",
    foreground="#cfd6ee",
    background="#0d1020",
    surface="#12162a",
    panel="#1a2038",
)
MAHTAB_DAY = _theme(
    "mahtab-day",
    _DAY,
    "#0b62a8 25%",
    foreground="#1d2338",
    background="#f7f8fc",
    surface="#eef0f7",
    panel="#e2e6f2",
)

ROLES = tuple(_NIGHT)
_INKS, GUESTS = ROLES[:-4], ROLES[-4:]


def role_variables(theme: Theme) -> dict[str, str]:
    derived = {
        "person": theme.primary,
        "model": theme.secondary or theme.accent or theme.primary,
        "moon": theme.warning or theme.accent or theme.primary,
        "good": theme.success or theme.primary,
        "bad": theme.error or theme.primary,
        "hairline": theme.panel or theme.surface or theme.primary,
        **{role: (_NIGHT if theme.dark else _DAY)[role] for role in ("muted", *GUESTS)},
    }
    return {**derived, **{role: theme.variables[role] for role in ROLES if role in theme.variables}}


@dataclass(frozen=True, slots=True)
class Palette:
    person: Style
    model: Style
    moon: Style
    good: Style
    bad: Style
    hairline: Style
    muted: Style
    text: Style
    surface: Style
    panel: Style
    guests: tuple[Style, ...] = ()

    @classmethod
    def of(cls, variables: Mapping[str, str]) -> Palette:
        def ink(name: str) -> Style:
            return Style(color=Color.parse(variables[name]).rich_color)

        def ground(name: str) -> Style:
            return Style(bgcolor=Color.parse(variables[name]).rich_color)

        return cls(
            **{role: ink(role) for role in _INKS},
            text=ink("foreground"),
            surface=ground("surface"),
            panel=ground("panel"),
            guests=tuple(map(ink, GUESTS)),
        )

    @property
    def alarm(self) -> Style:
        return self.bad + BOLD + REVERSE

    def author_style(self, person: bool, agent_index: int | None = None) -> Style:
        if agent_index is not None and self.guests:
            return self.guests[agent_index % len(self.guests)]
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
        if any(token in kind for kind in (Name.Function, Name.Class, Name.Builtin, Name.Decorator)):
            return self.person
        if token in Punctuation:
            return self.muted
        return self.person if token in Operator else self.text


def get_palette(app: App[Any]) -> Palette:
    variables = app.theme_variables
    return _palette(*map(variables.__getitem__, _ROLES))


@lru_cache(maxsize=4)
def _palette(*colours: str) -> Palette:
    return Palette.of(dict(zip(_ROLES, colours, strict=True)))


_ROLES = (*_INKS, "foreground", "surface", "panel", *GUESTS)
BOLD = Style(bold=True)
ITALIC = Style(italic=True)
UNDERLINE = Style(underline=True)
STRIKE = Style(strike=True)
REVERSE = Style(reverse=True)
