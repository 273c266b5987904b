"""Our themes, with colours by role.

`tests/tui/contrast.py` computes how well each pair of colours that a screen shows can be read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from pygments.token import Comment, Keyword, Name, Number, Operator, Punctuation, String
from pygments.token import _TokenType as TokenType
from rich.segment import Segment
from rich.style import Style
from textual.app import App
from textual.color import Color
from textual.strip import Strip
from textual.theme import Theme

_DARK_COLOURS = {
    "person": "#7cc7ff",
    "model": "#c9a6ff",
    "highlight": "#f2d08b",
    "good": "#8fd6a4",
    "bad": "#f08a8a",
    "hairline": "#242b47",
    "edge": "#606a8e",
    "selected-row": "#293a57",
    "muted": "#7f88a4",
    "agent-1": "#6fd0c4",
    "agent-2": "#f0a878",
    "agent-3": "#e79ac8",
    "agent-4": "#b9cc74",
}
_LIGHT_COLOURS = {
    "person": "#0b62a8",
    "model": "#7138b8",
    "highlight": "#855700",
    "good": "#1c6e37",
    "bad": "#b3261e",
    "hairline": "#cfd4e4",
    "edge": "#7b839b",
    "selected-row": "#c8def5",
    "muted": "#5e6680",
    "agent-1": "#0f6c65",
    "agent-2": "#9a4a0a",
    "agent-3": "#a12d70",
    "agent-4": "#56651a",
}
_CONTRAST_COLOURS = {
    "person": "#a8e4ff",
    "model": "#e6d5ff",
    "highlight": "#ffe27a",
    "good": "#a6f5b6",
    "bad": "#ffcccc",
    "hairline": "#8a8d9c",
    "edge": "#b8bac8",
    "selected-row": "#0058bb",
    "muted": "#d4d6e0",
    "agent-1": "#8ff0e4",
    "agent-2": "#ffd2b0",
    "agent-3": "#ffcceb",
    "agent-4": "#dcf08c",
}
_LIGHT_CONTRAST_COLOURS = {
    "person": "#00437a",
    "model": "#54208f",
    "highlight": "#5c3a00",
    "good": "#0c4a20",
    "bad": "#8f0d0d",
    "hairline": "#80859a",
    "edge": "#5a6078",
    "selected-row": "#cce5ff",
    "muted": "#3d4354",
    "agent-1": "#004a45",
    "agent-2": "#6e2f00",
    "agent-3": "#7a0f4f",
    "agent-4": "#3a4700",
}
ROLES = tuple(_DARK_COLOURS)
"""Names of Textual variables that themes define. `hairline` is for lines that only part what space
parts already; `edge`, for borders and the thumbs of scrollbars, can be seen on every background."""
AGENT_COLOURS = tuple(role for role in ROLES if role.startswith("agent-"))
"""The roles of agents that join a session; from the fifth agent on, they repeat."""
_SHEET_ROLES = ("edge", "selected-row")
"""The roles that only style sheets use."""
_TEXT_ROLES = tuple(role for role in ROLES if role not in (*AGENT_COLOURS, *_SHEET_ROLES))
_PALETTE_VARIABLES = (*_TEXT_ROLES, "foreground", "surface", "panel", *AGENT_COLOURS)
"""The variables that a palette is made of."""
SELECTED_ROW_SHARE = 0.3
"""The share of a theme's colour in the background of a selected row, in themes that are not ours."""
MAX_CACHED_PALETTES = 4
BOLD = Style(bold=True)
ITALIC = Style(italic=True)
UNDERLINE = Style(underline=True)
STRIKE = Style(strike=True)
REVERSE = Style(reverse=True)
_NAME_TOKENS = (Name.Function, Name.Class, Name.Builtin, Name.Decorator)


def _make_theme(name: str, roles: dict[str, str], **colours: str) -> Theme:
    """Return a theme.

    Args:
        name: The name by which the user chooses it.
        roles: The colour of each role.
        **colours: Textual's other colours of a theme.
    """
    return Theme(
        name=name,
        dark=roles not in (_LIGHT_COLOURS, _LIGHT_CONTRAST_COLOURS),
        primary=roles["person"],
        secondary=roles["model"],
        accent=roles["highlight"],
        warning=roles["highlight"],
        error=roles["bad"],
        success=roles["good"],
        variables={
            **roles,
            "block-cursor-foreground": colours["foreground"],
            "block-cursor-background": roles["selected-row"],
            "block-cursor-text-style": "bold",
            "block-cursor-blurred-foreground": colours["foreground"],
            "block-cursor-blurred-background": roles["selected-row"],
            "block-cursor-blurred-text-style": "bold",
            "footer-key-foreground": roles["highlight"],
            "input-selection-background": roles["selected-row"],
        },
        **colours,  # type: ignore[arg-type]
    )


MAHTAB = _make_theme(
    "mahtab",
    _DARK_COLOURS,
    foreground="#cfd6ee",
    background="#0d1020",
    surface="#12162a",
    panel="#1a2038",
)
MAHTAB_DAY = _make_theme(
    "mahtab-day",
    _LIGHT_COLOURS,
    foreground="#1d2338",
    background="#f7f8fc",
    surface="#eef0f7",
    panel="#e2e6f2",
)
MAHTAB_CONTRAST = _make_theme(
    "mahtab-contrast",
    _CONTRAST_COLOURS,
    foreground="#ffffff",
    background="#000000",
    surface="#07070a",
    panel="#0b0b10",
)
MAHTAB_CONTRAST_DAY = _make_theme(
    "mahtab-contrast-day",
    _LIGHT_CONTRAST_COLOURS,
    foreground="#000000",
    background="#ffffff",
    surface="#f7f7fa",
    panel="#f0f1f6",
)
CONTRAST_THEMES = (MAHTAB_CONTRAST, MAHTAB_CONTRAST_DAY)
OUR_THEMES = (MAHTAB, MAHTAB_DAY, *CONTRAST_THEMES)


def role_variables(theme: Theme) -> dict[str, str]:
    """Return the colours of all roles. A theme that is not ours gets them from its own colours."""
    our_colours = _DARK_COLOURS if theme.dark else _LIGHT_COLOURS
    variables = {
        "person": theme.primary,
        "model": theme.secondary or theme.accent or theme.primary,
        "highlight": theme.warning or theme.accent or theme.primary,
        "good": theme.success or theme.primary,
        "bad": theme.error or theme.primary,
        "hairline": theme.panel or theme.surface or theme.primary,
        "edge": our_colours["muted"],
        "selected-row": _selected_row(theme),
    }
    for role in ("muted", *AGENT_COLOURS):
        variables[role] = our_colours[role]
    for role in ROLES:
        if role in theme.variables:
            variables[role] = theme.variables[role]
    return variables


def _selected_row(theme: Theme) -> str:
    """Return a background for the selected row of a list, between that of lists and the colour of the
    theme."""
    panel = Color.parse(
        theme.panel or theme.surface or theme.background or _DARK_COLOURS["hairline"]
    )
    return panel.blend(Color.parse(theme.primary), SELECTED_ROW_SHARE).hex


@dataclass(frozen=True, slots=True)
class Palette:
    """The styles in which rows are drawn, by role.

    `surface` and `panel` are backgrounds, all others colours of text.
    """

    person: Style
    """What the user has written."""
    model: Style
    """What the model has written."""
    highlight: Style
    """Marks, line numbers, and what waits for the user."""
    good: Style
    bad: Style
    hairline: Style
    """Rules and bars."""
    muted: Style
    """Text that one may skip."""
    text: Style
    surface: Style
    """The background of code."""
    panel: Style
    """The background of what is marked, and of code in a sentence."""
    agents: tuple[Style, ...] = ()
    """What the agents have written that joined the session, in the order in which they joined."""

    @classmethod
    def of(cls, variables: Mapping[str, str]) -> Palette:
        """Return the palette of a theme, whose variables are colours as Textual writes them."""

        def text_style(name: str) -> Style:
            return Style(color=Color.parse(variables[name]).rich_color)

        def background(name: str) -> Style:
            return Style(bgcolor=Color.parse(variables[name]).rich_color)

        return cls(
            **{role: text_style(role) for role in _TEXT_ROLES},
            text=text_style("foreground"),
            surface=background("surface"),
            panel=background("panel"),
            agents=tuple(text_style(role) for role in AGENT_COLOURS),
        )

    @property
    def alarm(self) -> Style:
        """For characters that would hide, or change the direction of text."""
        return self.bad + BOLD + REVERSE

    def author_style(self, person: bool, agent_index: int | None = None) -> Style:
        """Return the colour of an author.

        Args:
            person: Whether it is the user; else it is the model or an agent.
            agent_index: Which agent it is, from 0; None for none.
        """
        if agent_index is not None and self.agents:
            return self.agents[agent_index % len(self.agents)]
        return self.person if person else self.model

    def token(self, token: TokenType) -> Style:
        """Return the colour of a token of code."""
        if token in Comment:
            return self.muted + ITALIC
        if token in String:
            return self.good
        if token in Number or token in Keyword.Constant:
            return self.highlight
        if token in Keyword or token in Operator.Word:
            return self.model
        if any(token in kind for kind in _NAME_TOKENS):
            return self.person
        if token in Punctuation:
            return self.muted
        if token in Operator:
            return self.person
        return self.text


def unmute(strip: Strip, palette: Palette, background: Style) -> Strip:
    """Return a line in which muted text has the usual colour of text where the background would make
    it hard to read.

    Args:
        strip: The line.
        palette: That of the application's present theme.
        background: Its colour behind the text is that of a selection or of a selected row.
    """
    segments = []
    for text, style, _ in strip:
        is_muted = style is not None and style.color == palette.muted.color
        if style is not None and is_muted and style.bgcolor == background.bgcolor:
            style += palette.text
        segments.append(Segment(text, style))
    return Strip(segments, strip.cell_length)


def get_palette(app: App[Any]) -> Palette:
    """Return the palette of the application's present theme.

    The same colours give the same object, so that a change of the theme can be noticed by
    comparing.
    """
    variables = app.theme_variables
    colours = [variables[name] for name in _PALETTE_VARIABLES]
    return _palette(*colours)


@lru_cache(maxsize=MAX_CACHED_PALETTES)
def _palette(*colours: str) -> Palette:
    return Palette.of(dict(zip(_PALETTE_VARIABLES, colours, strict=True)))
