"""Reads inputs with the terminal's own editing of lines: nothing is drawn again."""

from __future__ import annotations

import builtins
import os
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from getpass import getpass
from importlib import import_module
from typing import TYPE_CHECKING, Any, TextIO

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


@contextmanager
def borrowed_readline(
    earlier_inputs: Sequence[str] = (),
    completer: Callable[[str, int], str | None] | None = None,
    draft: str = "",
) -> Iterator[None]:
    """Let `readline` have other inputs and another completer, and give the host its own back: this
    process may be the user's Python, which saves them when it ends.

    Args:
        earlier_inputs: What the arrow keys go through, the oldest first.
        completer: Completes words, as `readline` calls it; None for no completion.
        draft: What is in the line at first.
    """
    if readline is None:
        yield
        return
    host_inputs = _earlier_inputs()
    host_completer = readline.get_completer()
    host_word_ends = readline.get_completer_delims()
    readline.set_auto_history(False)
    readline.set_completer_delims(_WORD_ENDS)
    readline.set_completer(completer)
    if draft:
        readline.set_startup_hook(lambda: readline.insert_text(draft))
    _replace_earlier_inputs(earlier_inputs)
    try:
        yield
    finally:
        _replace_earlier_inputs(host_inputs)
        readline.set_completer(host_completer)
        readline.set_completer_delims(host_word_ends)
        if draft:
            readline.set_startup_hook(None)
        # Python cannot say how it was, but starts with this.
        readline.set_auto_history(True)


def _earlier_inputs() -> list[str]:
    """Return what `readline` has as earlier inputs, the oldest first."""
    count = readline.get_current_history_length()
    items = [readline.get_history_item(number) for number in range(1, count + 1)]
    return [item for item in items if item is not None]


def _replace_earlier_inputs(inputs: Sequence[str]) -> None:
    readline.clear_history()
    for text in inputs:
        readline.add_history(text)


class PlainPrompt(Prompt):
    """Asks for one line after the other until the code is complete."""

    def __init__(self, input_help: SessionInputHelp, history: History, writer: LineWriter) -> None:
        super().__init__()
        self._input_help = input_help
        self._history = history
        self._writer = writer
        self._earlier_lines = ""
        """The lines that the input being typed has already."""
        self._label = ""
        self._matches: list[str] = []
        self._earlier_inputs: list[str] = []
        """The inputs of this mode that the arrow keys go through, the oldest first."""
        if readline is not None:
            readline.parse_and_bind("tab: complete")

    @property
    def can_edit(self) -> bool:
        # Python edits no lines without a terminal at both ends.
        return readline is not None and os.isatty(0) and os.isatty(1)

    def read(self, number: int) -> Typed:
        self._earlier_lines = ""
        self._load_history()
        self._label = self.label(number)
        lines_to_edit = deque(self.draft.split("\n") if self.can_edit else ())
        self.draft = ""
        while True:
            line = clean(self._read(lines_to_edit.popleft() if lines_to_edit else ""))
            if not self._earlier_lines and line.startswith(MODE_KEY):
                self.toggle_mode()
                lines_to_edit.clear()
                line = line.removeprefix(MODE_KEY).strip()
                if not line:
                    self._label = self.label(number)
                    self._load_history()
                    continue
            text = self._earlier_lines + line
            if not lines_to_edit and (self.mode == "ask" or is_complete(text)):
                return Typed(self.mode, text.strip("\n"))
            self._earlier_lines = f"{text}\n"
            self._label = "...: "

    def _read(self, draft: str) -> str:
        """Read a line, with completion. draft: what is in it at first."""
        with borrowed_readline(self._earlier_inputs, self._complete, draft):
            return _read_line(one_line(self._label))

    def read_line(self, label: str, *, is_hidden: bool = False) -> str:
        self._writer.end_line()
        try:
            if is_hidden:
                self._writer.start_line()
                return getpass(label)
            if sys.stdin is not sys.__stdin__ and sys.__stdin__ is not None:
                return self._read_from_terminal(label, sys.__stdin__)
            with borrowed_readline():
                return _read_line(one_line(label))
        except EOFError:
            # The terminal's cursor stays behind the label.
            self._writer.leave_line()
            self._writer.end_line()
            raise

    def _read_from_terminal(self, label: str, terminal: TextIO) -> str:
        """Read a line while a cell of this process runs, whose `sys.stdin` would ask for an input
        again."""
        self._writer.write(one_line(label))
        line = terminal.readline()
        if not line:
            raise EOFError
        self._writer.start_line()
        return line.removesuffix("\n")

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
        self._earlier_inputs = [
            one_line(entry.text)
            for entry in reversed(self._history.entries(self.mode))
            # A line of several would be edited as one.
            if "\n" not in entry.text
        ]

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
