"""A long output as plain text: without colours, each line as a terminal would show it in the end."""

from __future__ import annotations

import re
from itertools import accumulate

from mahtab_tui.bus.overwrite import collapse
from mahtab_tui.bus.sanitize import plain
from mahtab_tui.kernel.looking import TextPart
from mahtab_tui.tui.screens.inspector.text_source import BLOCK, LocalText

_SGR = re.compile(r"\x1b\[[0-9;:]*m")
_SAMPLE = 100_000
"""Characters that are searched for the colours which the whole is likely to have."""


def readable(text: str) -> str:
    """Remove escape sequences and control characters. A million lines take less than a second."""
    if "\x1b" in text:
        # An output has few different colours: replacing each is many times faster than a pattern over all of it.
        for sequence in set(_SGR.findall(text, 0, _SAMPLE)):
            text = text.replace(sequence, "")
        if "\x1b" in text:
            text = _SGR.sub("", text)
    return plain(collapse(text))


class WholeOutput(LocalText):
    """A text of any length: the lines before each block are counted once."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        counts = (text.count("\n", start, start + BLOCK) for start in range(0, len(text), BLOCK))
        self._lines = [0, *accumulate(counts)]
        self.text = text

    @property
    def lines(self) -> int:
        """The number of lines."""
        return self._lines[-1] + (not self.text.endswith("\n"))

    def block(self, number: int) -> TextPart:
        start = number * BLOCK
        return TextPart(self.text[start : start + BLOCK], self._lines[number], self.size)
