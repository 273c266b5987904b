"""Reads inputs with the terminal's own editing of lines: nothing is drawn again."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any

from mahtab_tui.bus.sanitize import one_line
from mahtab_tui.bus.typed_text import clean, is_complete
from mahtab_tui.linear.prompts import MODE_KEY, Prompt, Typed, complete
from mahtab_tui.store.input_history import History

if TYPE_CHECKING:
    from mahtab_tui.linear.line_writer import LineWriter
    from mahtab_tui.session.open_session import SessionInputHelp

readline: Any = None
"""The module, which some Pythons lack."""
with suppress(ImportError):
    readline = import_module("readline")

_WORD_ENDS = " \t\n`(),[]{}=+-*/%<>!:;|&"
_read_line = builtins.input
"""While a cell of this process runs, it has another one."""


def read_line(prompt: str) -> str:
    """Return a line that is typed on the terminal. Raises `EOFError` and `KeyboardInterrupt`."""
    return _read_line(one_line(prompt))


class PlainPrompt(Prompt):
    """Asks for one line after the other until the code is complete."""

    def __init__(self, input_help: SessionInputHelp, history: History, writer: LineWriter) -> None:
        super().__init__()
        self._input_help = input_help
        self._history = history
        self._writer = writer
        self._earlier_lines = ""
        """Those of the input that is being typed."""
        self._label = ""
        self._matches: list[str] = []
        if readline is not None:
            readline.set_auto_history(False)
            readline.set_completer_delims(_WORD_ENDS)
            readline.parse_and_bind("tab: complete")

    def read(self, number: int) -> Typed:
        self._earlier_lines = ""
        self._load_history()
        self._label = self.label(number)
        while True:
            line = clean(self._read())
            if not self._earlier_lines and line.startswith(MODE_KEY):
                self.toggle_mode()
                line = line.removeprefix(MODE_KEY).strip()
                if not line:
                    self._label = self.label(number)
                    self._load_history()
                    continue
            text = self._earlier_lines + line
            if self.mode == "ask" or is_complete(text):
                return Typed(self.mode, text.strip("\n"))
            self._earlier_lines = f"{text}\n"
            self._label = "...: "

    def _read(self) -> str:
        """Read a line, with completion."""
        if readline is not None:
            readline.set_completer(self._complete)
        try:
            return read_line(self._label)
        finally:
            if readline is not None:
                readline.set_completer(None)

    def write_above(self, write: Callable[[], None]) -> bool:
        """Write lines below the one that is being typed, and the prompt again."""
        self._writer.leave_line()
        count = self._writer.write_count
        write()
        if self._writer.write_count == count:
            self._writer.start_line()
            return True
        self._writer.end_line()
        typed = "" if readline is None else readline.get_line_buffer()
        self._writer.write(f"{self._label}{typed}")
        self._writer.start_line()
        return True

    def interrupt(self) -> None:
        """The user answers the request with the next Enter, because a line cannot be interrupted."""
        self._writer.write_line("Something waits for your answer: press Enter.", "highlight")

    def _load_history(self) -> None:
        """Let the arrow keys go through the inputs of this mode."""
        if readline is None:
            return
        readline.clear_history()
        for entry in reversed(self._history.entries(self.mode)):
            # A line of several would be edited as one.
            if "\n" not in entry.text:
                readline.add_history(one_line(entry.text))

    def _complete(self, word: str, index: int) -> str | None:
        """Return a completion of the word before the cursor, as `readline` asks for it."""
        if index == 0:
            self._matches = []
            with suppress(Exception):  # `readline` would print nothing of it
                self._matches = self._find_matches(word)
        return self._matches[index] if index < len(self._matches) else None

    def _find_matches(self, word: str) -> list[str]:
        text = self._earlier_lines + readline.get_line_buffer()
        word_start = len(self._earlier_lines) + readline.get_begidx()
        cursor = len(self._earlier_lines) + readline.get_endidx()
        completions = complete(self._input_help, text[:cursor], cursor, self.mode)
        if completions is None:
            return []
        # The word may begin before what is completed, or after it.
        start = text[word_start : completions.start]
        skipped_chars = max(0, word_start - completions.start)
        return [start + one_line(item.text)[skipped_chars:] for item in completions.items]
