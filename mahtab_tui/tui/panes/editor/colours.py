"""The editor's syntax colours, by the roles of the theme in use. They are those of the transcript's code."""

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
    # Within a string again what stands outside of strings.
    "foreground": ("none",),
}
"""Names of captures in Textual's query for Python, by the theme variable that colours them."""


def editor_theme(variables: Mapping[str, str]) -> TextAreaTheme:
    """A theme for the text area out of the application's theme variables."""
    styles = {
        capture: Style(color=Color.parse(variables[role]).rich_color, italic=capture == "comment" or None)
        for role, captures in _ROLES.items()
        for capture in captures
    }
    return TextAreaTheme(name="roles", syntax_styles=styles)
