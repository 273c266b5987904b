"""Formats text for the agent's screen: with colours, as Markdown, or plain."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from mahtab_tui.bus.escaping import escape_for_model, escape_output

Format = Literal["ansi", "markdown", "plain"]

SHORT = 200
"""Characters of a name or type that are shown, since code can make longer ones."""

_COLOURS = re.compile(r"\x1b\[[0-9;:]*m")
_RED, _END = "\x1b[31m", "\x1b[0m"
_TICKS = re.compile("`{3,}")


@dataclass(frozen=True, slots=True)
class AnswerFormat:
    """The format of answers, and whether code is highlighted in it."""

    format: Format = "plain"
    highlight: bool = True

    @property
    def colour(self) -> bool:
        """Whether programs may print in colour."""
        return self.format == "ansi" and self.highlight

    def code(self, text: str) -> str:
        """Format a value as Python."""
        return self._shown(text, "python")

    def traceback(self, text: str) -> str:
        """Format a traceback, with its last line in red."""
        if self.format == "markdown" or not self.colour or _COLOURS.search(text):
            return self._shown(text, "pytb")
        head, newline, last = escape_for_model(text).rpartition("\n")
        return f"{head}{newline}{_RED}{last}{_END}" if last else ""

    def output(self, text: str) -> str:
        """Format output, with its own colours or none, and no other control sequences."""
        if not text:
            return ""
        if self.colour:
            return safe(text)
        bare = escape_output(_COLOURS.sub("", text))
        return fenced(bare, "text") if self.format == "markdown" else bare

    def _shown(self, text: str, language: str) -> str:
        if not text:
            return ""
        bare = escape_for_model(_COLOURS.sub("", text))
        if self.format == "markdown":
            return fenced(bare, language if self.highlight else "")
        if not self.colour:
            return bare
        return safe(text) if _COLOURS.search(text) else highlighted(bare, language)


def short(text: str, most: int = SHORT) -> str:
    """Return a text as one line of at most `most` characters."""
    text = escape_for_model(text).replace("\n", " ")
    return text if len(text) <= most else text[: most - 1] + "…"


def fenced(text: str, language: str) -> str:
    """Return a Markdown code block that its text cannot close."""
    ticks = "`" * max([3, *(len(found) + 1 for found in _TICKS.findall(text))])
    end = "" if text.endswith("\n") else "\n"
    return f"{ticks}{language}\n{text}{end}{ticks}"


def highlighted(text: str, language: str) -> str:
    """Highlight a text with terminal colours (SGR)."""
    from pygments import highlight
    from pygments.formatters import TerminalFormatter
    from pygments.lexers import get_lexer_by_name

    shown = highlight(
        text, get_lexer_by_name(language, stripnl=False, ensurenl=False), TerminalFormatter()
    )
    return str(shown).rstrip("\n")


def safe(text: str) -> str:
    """Keep a text's colours, reset at its end, and no other control sequences."""
    pieces: list[str] = []
    start = 0
    for code in _COLOURS.finditer(text):
        pieces += (escape_for_model(text[start : code.start()]), code[0])
        start = code.end()
    pieces.append(escape_for_model(text[start:]))
    return "".join(pieces) + (_END if start else "")
