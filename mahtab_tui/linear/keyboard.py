"""The keyboard of the drawn prompt, from which the answers of the terminal are taken out.

The program asks the terminal what it can draw. The answers come as if the user had typed them, at any
time.
"""

from __future__ import annotations

import re
import sys
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager

from prompt_toolkit.input.posix_utils import PosixStdinReader
from prompt_toolkit.input.vt100 import Vt100Input
from prompt_toolkit.key_binding import KeyPress

from mahtab_tui.pictures.terminal_answers import TerminalAnswers

_ANSWER = re.compile(
    # Graphics, colours and other strings; attributes, modes and sizes.
    r"\x1b(?:_G|P[\d!>]|\]\d)[^\x00-\x1f\x7f]{0,4096}(?:\x1b\\|\x07)"
    r"|\x1b\[[?>=][\d;]*\$?[a-zA-Z]|\x1b\[[\d;]+t"
)
"""An answer of a terminal. Answers about the cursor are left to prompt_toolkit."""
_ANSWER_START = re.compile(
    r"\x1b(?:(?:_G|P[\d!>]|\]\d)[^\x00-\x1f\x7f]{0,4096}\x1b?"
    r"|[_P\]]?|\[(?:[?>=][\d;]{0,64}\$?|[\d;]{0,64}))\Z"
)
"""The beginning of an answer, or keys that look like one, at the end of what has come."""
_MAX_TYPED_CHARS = 3
"""A user may have typed a beginning of up to this many characters, such as `Esc`, `P` and `3`. It is held
back for half a second."""


class KeyReader(PosixStdinReader):
    """Reads what the terminal sends, and takes out its answers, however late they come."""

    def __init__(self, descriptor: int, answers: TerminalAnswers) -> None:
        super().__init__(descriptor, encoding=sys.stdin.encoding)
        self._answers = answers
        self._answer_start = ""
        """What has been read and may be the beginning of an answer whose end has not come yet. It is
        empty unless answers are waited for."""

    def read(self, count: int = 1024) -> str:
        received = self._pop_answer_start() + super().read(count)
        without_answers = _ANSWER.sub(self._take, received)
        if self._answers.wait_s:
            start = _ANSWER_START.search(without_answers)
            self._answer_start = start[0] if start else ""
        return without_answers.removesuffix(self._answer_start)

    def pop_typed_start(self) -> str:
        """Return what is held back, and forget it, unless only an answer can begin like that."""
        is_answer = len(self._answer_start) > _MAX_TYPED_CHARS and self._answers.wait_s
        return "" if is_answer else self._pop_answer_start()

    def _pop_answer_start(self) -> str:
        answer_start = self._answer_start
        self._answer_start = ""
        return answer_start

    def _take(self, answer: re.Match[str]) -> str:
        """Read an answer, and return what stands in its place: nothing."""
        self._answers.read(answer[0])
        return ""


class Keyboard(Vt100Input):
    """The user's keys, without the terminal's answers."""

    def __init__(self, answers: TerminalAnswers) -> None:
        super().__init__(sys.stdin)
        self._reader = KeyReader(self.fileno(), answers)
        self.stdin_reader = self._reader

    def flush_keys(self) -> list[KeyPress]:
        """Return the keys that are held back, except for those that begin an answer."""
        self.vt100_parser.feed(self._reader.pop_typed_start())
        return super().flush_keys()

    @contextmanager
    def without_echo(self) -> Iterator[None]:
        """Keep the terminal from showing what is typed and what it answers."""
        attributes = termios.tcgetattr(self.fileno())
        tty.setcbreak(self.fileno(), termios.TCSANOW)
        try:
            yield
        finally:
            termios.tcsetattr(self.fileno(), termios.TCSANOW, attributes)
