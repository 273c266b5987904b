"""The lines of a cell's output: printed text, and displayed values such as pictures and tables."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from mahtab_tui.bus.terminal_screen import collapse

LINE_HEAD_CHARS = 3_000
"""Characters to keep at the start of a line."""
LINE_TAIL_CHARS = 1_000
"""Characters to keep at the end of a line."""
MAX_HELP_CHARS = 20_000
"""Characters to keep of a displayed text, such as help."""
CODE_PREFIX_CHARS = 1_000
"""This many characters of a line tell whether it is code."""
_CODE_START = re.compile(r"[\[{(]|[bru]{0,2}[\'\"]|[^\W\d][\w.]*[(\[{]|<\w+[ .][^>]*>$")
"""A bracket, a string, a call, or a repr such as ``<Figure size 640x480>``."""
_CODE_ENDS = ("]", ")", "}", "'", '"', ">")
_NUMBER_OR_CONSTANT = re.compile(r"-?[\d.]+(?:e[-+]?\d+)?j?|True|False|None")
LOCATION = re.compile(r'^(\s*File )(".*?"|\S+)(, line )(\d+)(.*)$')
"""A line of a traceback that names a place in a file."""


class DisplayedValue(NamedTuple):
    """A value that a cell displays, such as a picture or a table."""

    text: str
    """What is printed of it."""
    mime: str
    data: str
    """The data in the form that the MIME type names."""
    value: str = ""
    """The key with which the kernel opens it; empty if it cannot."""


@dataclass(slots=True, eq=False)
class OutputLine:
    """A line of output with its escape sequences."""

    kind: str
    """``stdout``, ``value`` or ``traceback``."""
    text: str
    omitted_chars: int = 0
    """Characters omitted after the first `LINE_HEAD_CHARS`."""
    frame: int | None = None
    """The frame of the traceback that it names."""

    @property
    def state(self) -> tuple[object, ...]:
        """What a drawn row depends on."""
        return self.text, self.omitted_chars, self.frame

    @property
    def final_text(self) -> str:
        """The line as a terminal finally shows it, with its colours, and a note on what was left
        out."""
        text = collapse(self.text)
        # If the text ends before, what was left out has been erased.
        if not self.omitted_chars or len(text) <= LINE_HEAD_CHARS:
            return text
        note = f" … {self.omitted_chars:,} characters left out … "
        return text[:LINE_HEAD_CHARS] + note + text[LINE_HEAD_CHARS:]

    def extend(self, text: str) -> None:
        """Add text at the end, and leave out the middle of a long line."""
        text = self.text + text
        # What stands before the last return to the start is final.
        last_return = text.rfind("\r")
        if last_return > 0:
            final_text = collapse(text[:last_return])
            self._forget_erased(final_text)
            text = final_text + text[last_return:]
        excess_chars = len(text) - LINE_HEAD_CHARS - LINE_TAIL_CHARS
        if excess_chars > 0:
            self.omitted_chars += excess_chars
            text = text[:LINE_HEAD_CHARS] + text[-LINE_TAIL_CHARS:]
        self.text = text

    def replace(self, text: str) -> None:
        """Give the line the text that it has after the cursor has moved over it."""
        self._forget_erased(text)
        self.text = ""
        self.extend(text)

    def _forget_erased(self, text: str) -> None:
        """Forget the omitted characters if the text ends before them, because it was erased."""
        if len(text) <= LINE_HEAD_CHARS:
            self.omitted_chars = 0


@dataclass(slots=True, eq=False)
class DisplayLine(OutputLine):
    """A picture, table or Markdown text."""

    mime: str = ""
    """The MIME type of the data; empty if only the text is left."""
    data: str = ""
    value: str = ""
    """The key with which the kernel opens a table; empty if it cannot."""
    offset: int = 0
    """Columns of a wide table that the user has scrolled past."""
    unreadable: bool = False
    """Whether it turned out to be no picture, so that its text is drawn."""

    @property
    def state(self) -> tuple[object, ...]:
        return self.text, self.mime, self.unreadable, self.offset

    @property
    def content(self) -> tuple[str, str, str]:
        """What makes it the same display as another."""
        return self.text, self.mime, self.data

    def drop_value(self) -> None:
        """Keep only the text."""
        self.mime = ""
        self.data = ""
        self.value = ""


def is_code(lines: Sequence[OutputLine]) -> bool:
    """Return whether the lines of a value are Python, as far as their two ends tell."""
    start = lines[0].text[:CODE_PREFIX_CHARS]
    if len(lines) == 1 and _NUMBER_OR_CONSTANT.fullmatch(start):
        return True
    return _CODE_START.match(start) is not None and lines[-1].text.endswith(_CODE_ENDS)


def display_line(text: str, mime: str, data: str, value: str) -> DisplayLine:
    """Return the line of a `DisplayedValue`, with the beginning of a long text."""
    text = text.rstrip("\n")
    max_chars = LINE_HEAD_CHARS
    if mime == "text/plain":
        max_chars = MAX_HELP_CHARS
    omitted_chars = max(0, len(text) - max_chars)
    return DisplayLine(
        "display", text[:max_chars], omitted_chars, mime=mime, data=data, value=value
    )
