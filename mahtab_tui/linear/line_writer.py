"""Writes lines to the terminal, below what is there."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import TextIO

from rich.console import Console
from rich.style import Style
from rich.syntax import Syntax
from rich.text import Text

from mahtab_tui.bus.change_lines import ChangeLine
from mahtab_tui.bus.hidden_characters import visible
from mahtab_tui.bus.sanitize import plain

STYLES = {
    "person": "cyan",
    "model": "magenta",
    "good": "green",
    "bad": "red",
    "highlight": "yellow",
    "muted": "dim",
}
"""The terminal's own colours, by role. Any other role has none."""
CODE_THEME = "ansi_dark"
"""Colours code with the terminal's own colours, too."""
CODE_INDENT = "    "
MAX_HIGHLIGHTED_CHARS = 20_000
"""Lexers are slow: longer code has no colours."""
PROGRESS_INTERVAL_S = 10.0
"""In the plain form, progress is written as lines of its own, not more often than this."""
DEFAULT_COLUMNS = 80
LINK_KEY = "link"
"""In the data of a style: the address of a link, which the console itself must not write."""
ERASE_LINE = "\r\x1b[K"
_BAR = re.compile(r"[\u2500-\u259f|]+|[#=>.\-]{3,}")
"""What bars are drawn with, which says nothing if it is read out."""


class LineWriter:
    """Writes text, which may come from outside, without its control characters."""

    def __init__(self, stream: TextIO | None = None, *, is_plain: bool) -> None:
        """
        Args:
            stream: None for stdout as it is now; cells of this process replace it while they run.
            is_plain: Whether to write no colours.
        """
        self.is_plain = is_plain
        self.stream = sys.stdout if stream is None else stream
        self.write_count = 0
        """How often something was written, besides the ends of lines."""
        self._is_at_line_start = True
        self._progress = ""
        """What was shown last of what is not complete yet."""
        self._next_progress_s = 0.0
        """When progress may be written again in the plain form, by the monotonic clock."""
        self._console = Console(
            file=self.stream,
            color_system=None if is_plain else "auto",
            no_color=True if is_plain else None,
            markup=False,
            emoji=False,
            highlight=False,
            soft_wrap=True,
        )

    def write(self, text: str, role: str = "") -> None:
        """Write text that may end anywhere in a line."""
        self.write_text(Text(plain(text), STYLES.get(role, "")))

    def write_indented(self, text: str, role: str = "") -> None:
        """Write a piece of code, whose lines are indented."""
        for index, line in enumerate(text.split("\n")):
            if index:
                self.write("\n")
            indent = CODE_INDENT if self._is_at_line_start and line.strip() else ""
            self.write(indent + line, role)

    def write_text(self, text: Text) -> None:
        """Write text whose styles are known. It must be clean."""
        if not text.plain:
            return
        self._erase_progress()
        self._progress = ""
        self.write_count += 1
        for part, address in _split_links(text):
            if address and self._has_links:
                self._write_sequence(f"\x1b]8;;{address}\x1b\\")
                self._console.print(part, end="")
                self._write_sequence("\x1b]8;;\x1b\\")
            else:
                self._console.print(part, end="")
        self._is_at_line_start = text.plain.endswith("\n")

    @property
    def _has_links(self) -> bool:
        return not self.is_plain and self.stream.isatty()

    def write_line(self, text: str | Text = "", role: str = "") -> None:
        """Write lines of their own."""
        self.end_line()
        if isinstance(text, str):
            self.write(f"{text}\n", role)
        else:
            self.write_text(text + Text("\n"))

    def write_changes(self, lines: Iterable[ChangeLine]) -> None:
        """Write lines about changes of variables and files."""
        for line in lines:
            text = Text()
            for part in line:
                text.append(plain(part.text), STYLES.get(part.role, ""))
            self.write_line(text)

    def write_code(self, code: str) -> None:
        """Write code, indented. Hidden characters become symbols."""
        text = highlighted(visible(code.strip("\n").expandtabs(4)))
        for line in text.split("\n"):
            self.write_line(Text(CODE_INDENT) + line)

    def show_progress(self, text: str) -> None:
        """Show what is not complete yet, until something else is written. text: empty for nothing."""
        if self.is_plain:
            self._write_progress_line(text)
        elif text != self._progress and self._is_at_line_start:
            self._draw_progress(text)

    def _write_progress_line(self, text: str) -> None:
        words = " ".join(_BAR.sub(" ", text).split())
        now = time.monotonic()
        if not words:
            self._progress = ""
            self._next_progress_s = now + PROGRESS_INTERVAL_S
        elif words != self._progress and now >= self._next_progress_s:
            self.write_line(_new_words(words, self._progress))
            self._progress = words
            self._next_progress_s = now + PROGRESS_INTERVAL_S

    def _draw_progress(self, text: str) -> None:
        size = terminal_size()
        columns = size[0] if size is not None else DEFAULT_COLUMNS
        line = Text(plain(text).expandtabs(8))
        line.truncate(columns - 1)
        self.stream.write(ERASE_LINE + line.plain)
        self.stream.flush()
        self._progress = text

    def _erase_progress(self) -> None:
        if self._progress and not self.is_plain:
            self.stream.write(ERASE_LINE)
            self._progress = ""

    def end_line(self) -> None:
        """Begin a line, unless one begins here."""
        self._erase_progress()
        if not self._is_at_line_start:
            self._console.print()
            self._is_at_line_start = True

    def leave_line(self) -> None:
        """Note that somebody else, such as a prompt, has written something to the line."""
        self._is_at_line_start = False

    def start_line(self) -> None:
        """Note that the terminal's cursor is at the start of a line."""
        self._is_at_line_start = True

    def notify(self, sequence: str) -> None:
        """Write a sequence of our own that shows nothing in its place, such as the bell."""
        if sequence and self.stream.isatty():
            self._write_sequence(sequence)

    def send(self, sequence: str) -> None:
        """Write a sequence of our own, such as that of a picture."""
        self._erase_progress()
        self._write_sequence(sequence)
        self.write_count += 1

    def _write_sequence(self, sequence: str) -> None:
        # The stream itself may have a filter.
        self.stream.flush()
        os.write(self.stream.fileno(), sequence.encode())


def _split_links(text: Text) -> Iterator[tuple[Text, str]]:
    """Yield the parts of a text, with the address that each is linked to; empty for none."""
    links = {}
    for span in text.spans:
        if isinstance(span.style, Style) and LINK_KEY in span.style.meta:
            links[span.start] = (span.end, str(span.style.meta[LINK_KEY]))
    edges = sorted({edge for start, (end, _) in links.items() for edge in (start, end)})
    start = 0
    for part in text.divide(edges):
        if part.plain:
            yield part, links.get(start, (0, ""))[1]
        start += len(part.plain)


def _new_words(words: str, earlier_words: str) -> str:
    """Return the words of a line that were not written yet, the last one again if it has grown."""
    if not earlier_words or not words.startswith(earlier_words):
        return words
    is_word_cut = words[len(earlier_words)] != " "
    start = earlier_words.rfind(" ") + 1 if is_word_cut else len(earlier_words)
    return words[start:].strip()


def highlighted(code: str) -> Text:
    """Return code with colours, if it is not too long. The code must be clean."""
    if len(code) > MAX_HIGHLIGHTED_CHARS:
        return Text(code)
    text = Syntax(code, "python", theme=CODE_THEME).highlight(code)
    text.rstrip()
    return text


def terminal_size() -> tuple[int, int] | None:
    """Return columns and lines of the terminal; None if there is none."""
    for descriptor in (1, 0):
        with suppress(OSError):
            size = os.get_terminal_size(descriptor)
            return size.columns, size.lines
    return None
