"""The editor's syntax colours, by the roles of the theme in use."""

from __future__ import annotations

from collections.abc import Mapping

from rich.style import Style
from textual.color import Color
from textual.widgets.text_area import TextAreaTheme


def editor_theme(variables: Mapping[str, str]) -> TextAreaTheme:
    """A theme for the text area out of the application's theme variables."""

    def style(role: str, *, bold: bool = False, italic: bool = False) -> Style:
        return Style(color=Color.parse(variables[role]).rich_color, bold=bold or None, italic=italic or None)

    keyword, text, string, number = style("person"), style("foreground"), style("good"), style("moon")
    comment, name, constant = style("muted", italic=True), style("foreground", bold=True), style("moon")
    return TextAreaTheme(
        name="roles",
        syntax_styles={
            "comment": comment,
            "string": string,
            "string.documentation": string,
            "number": number,
            "float": number,
            "boolean": constant,
            "constant.builtin": constant,
            "keyword": keyword,
            "keyword.function": keyword,
            "keyword.return": keyword,
            "keyword.operator": keyword,
            "conditional": keyword,
            "repeat": keyword,
            "include": keyword,
            "exception": keyword,
            "operator": style("person"),
            "function": name,
            "function.call": text,
            "method": name,
            "method.call": text,
            "class": name,
            "type": text,
            "type.class": name,
            "type.builtin": style("model"),
            "variable": text,
            "parameter": text,
            "regex.punctuation.bracket": number,
            "punctuation.bracket": style("muted"),
        },
    )
