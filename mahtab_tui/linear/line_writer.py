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
"""The terminal's own colours, by role. Text in any other role has no colour."""
CODE_THEME = "ansi_dark"
"""A theme for code that also uses the terminal's own colours."""
CODE_INDENT = "    "
MAX_HIGHLIGHTED_CHARS = 20_000
"""Longer code has no colours, because lexers are slow."""
PROGRESS_INTERVAL_S = 10.0
"""In the plain form, lines about progress are written at least this many seconds after each other."""
DEFAULT_COLUMNS = 80
"""The assumed width if there is no terminal."""
LINK_KEY = "link"
"""The key, in the `meta` of a style, of the address of a link, which the console must not write itself."""
ERASE_LINE = "\r\x1b[K"
_BAR = re.compile(r"\[[\u2500-\u259f#=>.\s\-]*\]|[\u2500-\u259f|]+|[#=>.\-]{3,}")
"""The characters of drawn bars, which say nothing if they are read out."""


class LineWriter:
    """Writes text and lines, without control characters that come from outside."""

    def __init__(self, stream: TextIO | None = None, *, is_plain: bool) -> None:
        """
        Args:
            stream: Where to write; None for stdout as it is now. Cells of this process replace stdout
                while they run.
            is_plain: Whether to write the plain form, which has no colours and draws nothing again.
        """
        self.is_plain = is_plain
        self.stream = sys.stdout if stream is None else stream
        self.write_count = 0
        """How often text or a picture was written."""
        self._is_at_line_start = True
        self._progress = ""
        """The progress that was written last; empty if other text has followed."""
        self._next_progress_s = 0.0
        """When progress may be written again in the plain form, in seconds of the monotonic clock."""
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
        """Write text that may end anywhere in a line.

        Args:
            text: The text. Control characters are left out.
            role: The text's role in `STYLES`; empty for the usual colour.
        """
        self.write_text(Text(plain(text), STYLES.get(role, "")))

    def write_indented(self, text: str, role: str = "") -> None:
        """Write a piece of code, which may end anywhere in a line, with its lines indented."""
        for index, line in enumerate(text.split("\n")):
            if index:
                self.write("\n")
            indent = CODE_INDENT if self._is_at_line_start and line.strip() else ""
            self.write(indent + line, role)

    def write_text(self, text: Text) -> None:
        """Write text with its own styles. It must not have control characters."""
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
        """Write text on lines of its own.

        Args:
            text: The text; if it has its own styles, it must not have control characters.
            role: As in `write`, for a text without styles.
        """
        self.end_line()
        if isinstance(text, str):
            self.write(f"{text}\n", role)
        else:
            self.write_text(text + Text("\n"))

    def write_changes(self, lines: Iterable[ChangeLine]) -> None:
        """Write lines that describe changes of variables and files."""
        for line in lines:
            text = Text()
            for part in line:
                text.append(plain(part.text), STYLES.get(part.role, ""))
            self.write_line(text)

    def write_code(self, code: str) -> None:
        """Write code on lines of its own, indented. Hidden characters become symbols."""
        text = highlighted(visible(code.strip("\n").expandtabs(4)))
        for line in text.split("\n"):
            self.write_line(Text(CODE_INDENT) + line)

    def show_progress(self, text: str) -> None:
        """Show progress until something else is written.

        Args:
            text: What is not complete yet, such as the line of a progress bar; empty for nothing.
        """
        if self.is_plain:
            self._write_progress_line(text)
        elif text != self._progress and self._is_at_line_start:
            self._draw_progress(text)

    def _write_progress_line(self, text: str) -> None:
        """Write what is new of the progress, in the plain form, and not more often than every
        `PROGRESS_INTERVAL_S`."""
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
        """Draw the progress over what was drawn before, cut to the width of the terminal."""
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
        """End the line that is being written, if any, so that the next text begins a line."""
        self._erase_progress()
        if not self._is_at_line_start:
            self._console.print()
            self._is_at_line_start = True

    def leave_line(self) -> None:
        """Note that somebody else, such as a prompt, has written a part of a line."""
        self._is_at_line_start = False

    def start_line(self) -> None:
        """Note that somebody else has ended the line."""
        self._is_at_line_start = True

    def notify(self, sequence: str) -> None:
        """Write an escape sequence of the program that draws nothing, such as the bell."""
        if sequence and self.stream.isatty():
            self._write_sequence(sequence)

    def send(self, sequence: str) -> None:
        """Write an escape sequence of the program that draws something, such as a picture."""
        self._erase_progress()
        self._write_sequence(sequence)
        self.write_count += 1

    def _write_sequence(self, sequence: str) -> None:
        # The stream itself may have a filter.
        self.stream.flush()
        os.write(self.stream.fileno(), sequence.encode())


def _split_links(text: Text) -> Iterator[tuple[Text, str]]:
    """Yield the parts of a text, each with the address of its link; empty if it is not a link."""
    address_by_start: dict[int, str] = {}
    end_by_start: dict[int, int] = {}
    for span in text.spans:
        if isinstance(span.style, Style) and LINK_KEY in span.style.meta:
            address_by_start[span.start] = str(span.style.meta[LINK_KEY])
            end_by_start[span.start] = span.end
    edges = {*end_by_start.keys(), *end_by_start.values()}
    start = 0
    for part in text.divide(sorted(edges)):
        if part.plain:
            yield part, address_by_start.get(start, "")
        start += len(part.plain)


def _new_words(words: str, earlier_words: str) -> str:
    """Return the words of a line that were not written yet.

    If the last word has grown since, it is written again.
    """
    if not earlier_words or not words.startswith(earlier_words):
        return words
    start = len(earlier_words)
    has_last_word_grown = words[start] != " "
    if has_last_word_grown:
        start = earlier_words.rfind(" ") + 1
    return words[start:].strip()


def highlighted(code: str) -> Text:
    """Return code with colours, if it is not too long. It must not have control characters."""
    if len(code) > MAX_HIGHLIGHTED_CHARS:
        return Text(code)
    text = Syntax(code, "python", theme=CODE_THEME).highlight(code)
    text.rstrip()
    return text


def terminal_size() -> tuple[int, int] | None:
    """Return the numbers of columns and lines of the terminal; None if there is no terminal."""
    for descriptor in (1, 0):
        with suppress(OSError):
            size = os.get_terminal_size(descriptor)
            return size.columns, size.lines
    return None
