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

_DARK_COLOURS = {
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
_LIGHT_COLOURS = {
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
# Names of Textual variables that themes define. The last four are the colours of agents.
ROLES = tuple(_DARK_COLOURS)
_TEXT_ROLES = ROLES[:-4]
GUESTS = ROLES[-4:]
# The variables that a palette is made of.
_PALETTE_VARIABLES = (*_TEXT_ROLES, "foreground", "surface", "panel", *GUESTS)
BOLD = Style(bold=True)
ITALIC = Style(italic=True)
UNDERLINE = Style(underline=True)
_NAME_TOKENS = (Name.Function, Name.Class, Name.Builtin, Name.Decorator)
STRIKE = Style(strike=True)
REVERSE = Style(reverse=True)


def _make_theme(name: str, roles: dict[str, str], selection: str, **colours: str) -> Theme:
    return Theme(
        name=name,
        dark=roles is _DARK_COLOURS,
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


MAHTAB = _make_theme(
    "mahtab",
    _DARK_COLOURS,
    "#7cc7ff 30%",
    foreground="#cfd6ee",
    background="#0d1020",
    surface="#12162a",
    panel="#1a2038",
)
MAHTAB_DAY = _make_theme(
    "mahtab-day",
    _LIGHT_COLOURS,
    "#0b62a8 25%",
    foreground="#1d2338",
    background="#f7f8fc",
    surface="#eef0f7",
    panel="#e2e6f2",
)


def role_variables(theme: Theme) -> dict[str, str]:
    """Return the colours of all roles. A theme that is not ours gets them from its own colours."""
    our_colours = _DARK_COLOURS if theme.dark else _LIGHT_COLOURS
    variables = {
        "person": theme.primary,
        "model": theme.secondary or theme.accent or theme.primary,
        "moon": theme.warning or theme.accent or theme.primary,
        "good": theme.success or theme.primary,
        "bad": theme.error or theme.primary,
        "hairline": theme.panel or theme.surface or theme.primary,
    }
    for role in ("muted", *GUESTS):
        variables[role] = our_colours[role]
    for role in ROLES:
        if role in theme.variables:
            variables[role] = theme.variables[role]
    return variables


@dataclass(frozen=True, slots=True)
class Palette:
    """Styles by role. `surface` and `panel` are backgrounds, the others colours of text."""

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
        def text_style(name: str) -> Style:
            return Style(color=Color.parse(variables[name]).rich_color)

        def background(name: str) -> Style:
            return Style(bgcolor=Color.parse(variables[name]).rich_color)

        return cls(
            **{role: text_style(role) for role in _TEXT_ROLES},
            text=text_style("foreground"),
            surface=background("surface"),
            panel=background("panel"),
            guests=tuple(text_style(role) for role in GUESTS),
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
        if any(token in kind for kind in _NAME_TOKENS):
            return self.person
        if token in Punctuation:
            return self.muted
        if token in Operator:
            return self.person
        return self.text


def get_palette(app: App[Any]) -> Palette:
    variables = app.theme_variables
    colours = [variables[name] for name in _PALETTE_VARIABLES]
    return _palette(*colours)


@lru_cache(maxsize=4)
def _palette(*colours: str) -> Palette:
    return Palette.of(dict(zip(_PALETTE_VARIABLES, colours, strict=True)))
