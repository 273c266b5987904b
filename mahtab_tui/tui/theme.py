"""Our two themes, with colours by role. Styles and strips name roles, never colours."""

from __future__ import annotations

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

GUESTS = ("guest-1", "guest-2", "guest-3", "guest-4")
"""The colours of agents."""

ROLES = tuple(_NIGHT)
"""The theme variables that only our own themes define; `role_variables` derives them for others."""


def role_variables(theme: Theme) -> dict[str, str]:
    """The roles of a theme: its own if it defines them, else derived from its standard colours."""
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
