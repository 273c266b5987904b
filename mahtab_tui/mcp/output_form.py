"""Writes the parts of a result in the form that the agent's owner has chosen."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from mahtab_tui.bus.escaping import escape_controls, escape_output
from mahtab_tui.bus.fences import fenced
from mahtab_tui.bus.pens import strip_colours
from mahtab_tui.settings.model import McpOutputFormat

ResultPart = Literal["value", "stdout", "traceback"]

_COLOUR_SEQUENCE = re.compile(r"(\x1b\[[0-9;:]{0,64}m)")
"""Colour sequences; the group keeps them when a text is split at them."""
_LANGUAGES = {"value": "python", "stdout": "text", "traceback": "pytb"}
"""Names of languages that Markdown and Pygments know."""
MAX_HIGHLIGHTED_CHARS = 50_000
"""A longer text is not highlighted."""


@dataclass(frozen=True)
class ResultForm:
    """The settings `mcp_output_format` and `mcp_highlight`."""

    format: McpOutputFormat = "plain"
    highlight: bool = False

    def write(self, part: ResultPart, text: str) -> str:
        """Return a part of a result, without line breaks at its end; empty if it is empty."""
        text = text.rstrip("\n")
        if not text:
            return ""
        if self.format == "ansi":
            return self._write_coloured(part, text)
        text = strip_colours(text)
        text = escape_output(text) if part == "stdout" else escape_controls(text)
        if self.format == "plain":
            return text
        return fenced(text, _LANGUAGES[part] if self.highlight else "")

    def _write_coloured(self, part: ResultPart, text: str) -> str:
        if self.highlight and part != "stdout" and not _COLOUR_SEQUENCE.search(text):
            text = highlight_text(text, _LANGUAGES[part])
        return keep_colours(text)


def keep_colours(text: str) -> str:
    """Return a text for a terminal: its colours stay, all other control sequences become
    visible."""
    pieces = _COLOUR_SEQUENCE.split(text)
    pieces[::2] = map(escape_controls, pieces[::2])
    reset = "\x1b[0m" if len(pieces) > 1 else ""
    return "".join([*pieces, reset])


def highlight_text(text: str, language: str) -> str:
    """Return a text with the colours of its language; a very long one as it is.

    Args:
        language: As Pygments names it, such as `python`.
    """
    if len(text) > MAX_HIGHLIGHTED_CHARS:
        return text
    from pygments import highlight
    from pygments.formatters import TerminalFormatter
    from pygments.lexers import get_lexer_by_name

    coloured: str = highlight(text, get_lexer_by_name(language), TerminalFormatter())
    return coloured.rstrip("\n")
