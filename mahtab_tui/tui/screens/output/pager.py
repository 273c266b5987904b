"""A screen for all of a long output as plain text: search, wrap, copy, save."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import accumulate
from pathlib import Path

from textual.content import Content

from mahtab_tui.bus.sanitize import plain
from mahtab_tui.bus.store_handler import StoreError
from mahtab_tui.bus.terminal_screen import collapse
from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.inspector_client import InspectorClient, TextPart
from mahtab_tui.tui.clipboard import MOST_COPIED, copy
from mahtab_tui.tui.commands.on_screens import PAGER_COMMANDS
from mahtab_tui.tui.commands.pane_command import bindings
from mahtab_tui.tui.screens.inspector.text_source import BLOCK, LocalText
from mahtab_tui.tui.screens.inspector.text_view import TextView
from mahtab_tui.tui.screens.output.screen import OutputScreen, no_subject

_SGR = re.compile(r"\x1b\[[0-9;:]*m")
_SAMPLE = 100_000
"""Characters that are searched for the colours which the whole is likely to have."""


def readable(text: str) -> str:
    """Remove escape sequences and control characters. A million lines take less than a second."""
    if "\x1b" in text:
        # An output has few different colours: replacing each is many times faster than a pattern
        # over all of it.
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

    @property
    def lines(self) -> int:
        return self._lines[-1] + (not self.text.endswith("\n"))

    def block(self, number: int) -> TextPart:
        start = number * BLOCK
        return TextPart(self.text[start : start + BLOCK], self._lines[number], self.size)


class PagerScreen(OutputScreen):
    """Opens at once; the text is read on a thread."""

    BINDINGS = bindings(PAGER_COMMANDS)

    def __init__(
        self,
        title: str,
        file: str,
        read: Callable[[], str | None],
        look: InspectorClient,
        folder: Path,
    ) -> None:
        """read: gets the output; called on a thread, may raise `StoreError`. file: its name when it
        is saved. folder: for a saved file whose name has none."""
        super().__init__(look, folder)
        self._title_text = title
        self._file = file
        self._read = read
        self._output: WholeOutput | None = None

    def on_mount(self) -> None:
        self.set_title(self._title_text)
        self.viewer.say(Content.styled("…", "$muted"))
        self.fetcher.ask("output", self._get, self._show, self.viewer.fail)

    def _get(self) -> WholeOutput:
        try:
            text = self._read()
        except StoreError as error:
            raise KernelError(str(error)) from None
        if text is None:
            raise KernelError("This output was not kept.")
        return WholeOutput(readable(text))

    def _show(self, output: WholeOutput) -> None:
        self._output = output
        self.set_title(f"{self._title_text}  ·  {output.lines:,} lines")
        self.call_later(self.viewer.show, TextView(no_subject(self.look, "text"), output))

    def action_save(self) -> None:
        if self._output is not None:
            self.save(self._file, self._output.text.encode("utf-8", "replace"))

    def action_copy_all(self) -> None:
        if self._output is None:
            return
        if self._output.size > MOST_COPIED:
            self.viewer.fail(
                f"{self._output.size:,} characters are too many for the clipboard; Ctrl+S saves them to a file."
            )
        else:
            copy(self.app, self._output.text)
