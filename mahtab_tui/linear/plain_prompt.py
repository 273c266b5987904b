"""Reads inputs line by line with Python's `input()`, for screen readers: nothing is drawn again.

Python's `readline` edits the line, completes its words, and goes through earlier inputs.
"""

from __future__ import annotations

import builtins
import os
import signal
import sys
import termios
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from getpass import getpass
from importlib import import_module
from typing import TYPE_CHECKING, Any, TextIO

from mahtab_tui.bus.sanitize import one_line
from mahtab_tui.bus.typed_text import clean, is_complete
from mahtab_tui.linear.prompts import MODE_KEY, Prompt, TypedInput, find_completions
from mahtab_tui.store.input_history import History
from mahtab_tui.system import signal_handled_by

if TYPE_CHECKING:
    from mahtab_tui.linear.line_writer import LineWriter
    from mahtab_tui.session.open_session import SessionInputHelp

readline: Any = None
"""The module; None if this Python has none."""
with suppress(ImportError):
    readline = import_module("readline")

_WORD_DELIMITERS = " \t\n`(),[]{}=+-*/%<>!:;|&"
"""The characters between the words that `readline` completes. A dot is none of them: `df.he` is one word."""
_host_input = builtins.input
"""Python's own `input()`. While a cell runs in this process, `builtins.input` asks this interface instead."""


@contextmanager
def borrowed_readline(
    earlier_inputs: Sequence[str] = (),
    completer: Callable[[str, int], str | None] | None = None,
    draft: str = "",
) -> Iterator[None]:
    """Let `readline` have other earlier inputs and another completer while a line is read.

    This process may be the user's Python, whose own are put back afterwards. `readline` cannot return
    its startup hook or whether it adds inputs by itself, so these become what Python starts with.

    Args:
        earlier_inputs: The inputs that the arrow keys go through, the oldest first.
        completer: Gets a word and an index, and returns that completion of the word, or None if
            there are fewer; None for no completion.
        draft: The text with which the line begins.
    """
    if readline is None:
        yield
        return
    host_inputs = _read_earlier_inputs()
    host_completer = readline.get_completer()
    host_delimiters = readline.get_completer_delims()
    readline.set_auto_history(False)
    readline.set_completer_delims(_WORD_DELIMITERS)
    readline.set_completer(completer)
    if draft:
        readline.set_startup_hook(lambda: readline.insert_text(draft))
    _replace_earlier_inputs(earlier_inputs)
    try:
        yield
    finally:
        _replace_earlier_inputs(host_inputs)
        readline.set_completer(host_completer)
        readline.set_completer_delims(host_delimiters)
        if draft:
            readline.set_startup_hook(None)
        readline.set_auto_history(True)


def _read_earlier_inputs() -> list[str]:
    """Return the earlier inputs that `readline` has, the oldest first."""
    count = readline.get_current_history_length()
    items = [readline.get_history_item(number) for number in range(1, count + 1)]
    return [item for item in items if item is not None]


def _replace_earlier_inputs(inputs: Sequence[str]) -> None:
    readline.clear_history()
    for text in inputs:
        readline.add_history(text)


class PlainPrompt(Prompt):
    """Reads an input as one line after the other, until the code is complete."""

    def __init__(self, input_help: SessionInputHelp, history: History, writer: LineWriter) -> None:
        super().__init__()
        self._input_help = input_help
        self._history = history
        self._writer = writer
        self._earlier_lines = ""
        """The lines of the input before the one that is being typed, each with its newline."""
        self._label = ""
        """The words before the line that is being typed."""
        self._completed_words: list[str] = []
        """The completions of the word for which `readline` asked last."""
        self._earlier_inputs: list[str] = []
        """The inputs of this mode that the arrow keys go through, the oldest first."""
        if readline is not None:
            readline.parse_and_bind("tab: complete")

    @property
    def can_edit(self) -> bool:
        # Python edits no lines without a terminal at both ends.
        return readline is not None and os.isatty(0) and os.isatty(1)

    # An input, which may have several lines

    def read_input(self, number: int) -> TypedInput:
        draft_lines = deque(self.draft.split("\n") if self.can_edit else ())
        self.draft = ""
        self._begin_input(number)
        while True:
            draft_line = draft_lines.popleft() if draft_lines else ""
            line = self._read_line(
                self._label, self._earlier_inputs, self._complete, draft=draft_line
            )
            line = clean(line)
            if not self._earlier_lines and line.startswith(MODE_KEY):
                # The other lines of a draft were not meant for this mode.
                draft_lines.clear()
                self.toggle_mode()
                self._begin_input(number)
                line = line.removeprefix(MODE_KEY).strip()
                if not line:
                    continue
            text = self._earlier_lines + line
            if not draft_lines and (self.mode == "ask" or is_complete(text)):
                return TypedInput(self.mode, text.strip("\n"))
            self._earlier_lines = f"{text}\n"
            self._label = "...: "

    def _begin_input(self, number: int) -> None:
        """Prepare for the first line of an input.

        Args:
            number: The number of the next cell.
        """
        self._earlier_lines = ""
        self._label = self.label(number)
        self._earlier_inputs = [
            one_line(entry.text)
            for entry in reversed(self._history.entries(self.mode))
            # `readline` would edit an input of several lines as one line.
            if "\n" not in entry.text
        ]

    def _read_line(
        self,
        label: str,
        earlier_inputs: Sequence[str] = (),
        completer: Callable[[str, int], str | None] | None = None,
        draft: str = "",
    ) -> str:
        """Read a line that `readline` edits; the other arguments are those of `borrowed_readline`."""
        self._label = one_line(label)
        with (
            borrowed_readline(earlier_inputs, completer, draft),
            signal_handled_by(signal.SIGTSTP, self._stop),
        ):
            return _host_input(self._label)

    def _stop(self, *_: object) -> None:
        """Stop the program at Ctrl+Z, and after `fg` go on with the line.

        Python's `readline` would not notice: the terminal would show once more what is typed.
        """
        attributes = termios.tcgetattr(0)
        # By the system's own handler, which does not stop what no shell could let go on.
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        signal.raise_signal(signal.SIGTSTP)
        signal.signal(signal.SIGTSTP, self._stop)
        termios.tcsetattr(0, termios.TCSANOW, attributes)
        self._write_line_again()

    # An answer to a question, in one line

    def read_answer(self, label: str, *, is_hidden: bool = False) -> str:
        self._writer.end_line()
        try:
            if is_hidden:
                self._writer.start_line()
                return getpass(label)
            if sys.stdin is not sys.__stdin__ and sys.__stdin__ is not None:
                # A cell runs in this process, and reading its `sys.stdin` would ask this interface.
                return self._read_answer_from(sys.__stdin__, label)
            return self._read_line(label)
        except EOFError:
            # The terminal's cursor stays behind the label.
            self._writer.leave_line()
            self._writer.end_line()
            raise

    def _read_answer_from(self, terminal: TextIO, label: str) -> str:
        """Write a label, and read a line of the terminal, without `readline`."""
        self._writer.write(one_line(label))
        line = terminal.readline()
        if not line:
            raise EOFError
        self._writer.start_line()
        return line.removesuffix("\n")

    # While the user types

    def write_while_typing(self, write: Callable[[], None]) -> bool:
        """Let a function write lines at once, below the line that is being typed.

        Then the prompt is written again with what is typed so far. Returns always True.
        """
        # The writer did not see that the prompt has begun a line.
        self._writer.leave_line()
        write_count = self._writer.write_count
        write()
        has_written = self._writer.write_count > write_count
        if has_written:
            self._writer.end_line()
            self._write_line_again()
        else:
            self._writer.start_line()
        return True

    def _write_line_again(self) -> None:
        """Write the label, and what is typed so far."""
        typed = "" if readline is None else readline.get_line_buffer()
        self._writer.write(f"{self._label}{typed}")
        # The user ends this line with Enter, so the writer's next text begins a line.
        self._writer.start_line()

    def interrupt(self) -> None:
        """Ask the user to press Enter, because `input()` cannot be interrupted. Whoever has called
        `read_input` then lets the user answer."""
        self._writer.write_line("Something waits for your answer: press Enter.", "highlight")

    # Completion

    def _complete(self, word: str, index: int) -> str | None:
        """Return a completion of the word before the cursor; None if there are fewer.

        `readline` calls this with the indices from 0 until it returns None.
        """
        if index == 0:
            self._completed_words = []
            # `readline` hides exceptions, and Tab must do no more than find no completions.
            with suppress(Exception):
                self._completed_words = self._complete_word()
        if index < len(self._completed_words):
            return self._completed_words[index]
        return None

    def _complete_word(self) -> list[str]:
        """Return the completions of the word before the cursor, as `readline` delimits it.

        Each of them begins with the whole word.
        """
        text = self._earlier_lines + readline.get_line_buffer()
        word_start = len(self._earlier_lines) + readline.get_begidx()
        cursor = len(self._earlier_lines) + readline.get_endidx()
        completions = find_completions(self._input_help, text[:cursor], cursor, self.mode)
        if completions is None:
            return []
        # The word of `readline` may begin before what is completed, as in `df.he`, of which `he` is
        # completed; or after it, as `data` in the path `my-data`.
        word_prefix = text[word_start : completions.start]
        skipped_chars = max(0, word_start - completions.start)
        return [word_prefix + one_line(item.text)[skipped_chars:] for item in completions.items]
