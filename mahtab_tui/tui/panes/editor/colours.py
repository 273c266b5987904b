"""The editor's syntax colours, from the roles of the current theme, as in the transcript."""

from __future__ import annotations

from collections.abc import Mapping

from rich.style import Style
from textual.color import Color
from textual.widgets.text_area import TextAreaTheme

_ROLES: Mapping[str, tuple[str, ...]] = {
    "muted": ("comment", "punctuation.bracket", "punctuation.delimiter"),
    "good": ("string",),
    "moon": ("number", "float", "boolean", "constant.builtin", "string.escape"),
    "model": ("keyword", "keyword.function", "keyword.operator", "keyword.return", "conditional", "repeat", "exception", "include"),
    "person": ("operator", "function", "function.builtin", "method", "type.class", "type.builtin", "attribute", "attribute.builtin"),
    # Code within a string.
    "foreground": ("none",),
}
"""Captures of Textual's query for Python, by theme variable."""


def editor_theme(variables: Mapping[str, str]) -> TextAreaTheme:
    """Create a theme for the text area from the application's theme variables."""
    styles = {
        capture: Style(color=Color.parse(variables[role]).rich_color, italic=capture == "comment" or None)
        for role, captures in _ROLES.items()
        for capture in captures
    }
    return TextAreaTheme(name="roles", syntax_styles=styles)
