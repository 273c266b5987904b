"""A program on a real pty, whose screen pyte emulates."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from mahtab_tui.tui.key_repeat import FIRST_REPEAT_S
from tests.e2e.screen import EmulatedScreen, Stream
from tests.warm import Forked

KEYS = {
    "enter": "\r",
    "escape": "\x1b",
    "tab": "\t",
    "backspace": "\x7f",
    "up": "\x1b[A",
    "down": "\x1b[B",
    "right": "\x1b[C",
    "left": "\x1b[D",
    **{letter: letter for letter in "yn"},
    "f1": "\x1bOP",
    "f2": "\x1bOQ",
    "f3": "\x1bOR",
    "f7": "\x1b[18~",
    "f8": "\x1b[19~",
    "f9": "\x1b[20~",
    **{f"ctrl+{letter}": chr(ord(letter) - 96) for letter in "abcdefghijklmnopqrstuvwxyz"},
}
DEADLINE = 60.0
"""Seconds to wait for something at most."""
_UNKNOWN = re.compile(rb"\x1b\[[<>=?][0-9;]*\$?[upqS]|\x1b[_P][^\x1b]*\x1b\\")
"""Sequences that pyte would show as text: queries of the keyboard protocol, modes and limits;
graphics."""


def _finished(data: bytes) -> tuple[bytes, bytes]:
    incomplete_sequence = re.search(rb"\x1b(\[[<>=?]?[0-9;]*\$?|[_P][^\x1b]*\x1b?)?$", data)
    return (
        (data[: incomplete_sequence.start()], incomplete_sequence[0])
        if incomplete_sequence
        else (data, b"")
    )


class Terminal:
    """Starts a program on a pty; closes it at the end of a ``with`` block."""

    def __init__(
        self,
        argv: Sequence[str],
        *,
        columns: int = 120,
        lines: int = 40,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        warm: bool = False,
    ) -> None:
        self.columns = columns
        self.lines = lines
        self.screen = EmulatedScreen(columns, lines)
        self._stream = Stream(self.screen)
        self.raw = bytearray()
        self.drawn = True
        """Whether pyte emulates the screen, which takes longer than most programs need to write."""
        self._unfinished = b""
        self.exit_code: int | None = None
        self._ended = False
        environment = {
            **os.environ,
            "TERM": "xterm-256color",
            "COLORTERM": "truecolor",
            "LANG": "C.UTF-8",
            **(env or {}),
        }
        self._forked: Forked | None = None
        if warm:
            self._fd, terminal = os.openpty()
            fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
            self._forked = Forked(argv, environment, cwd or Path.cwd(), [terminal] * 3)
            self.pid = self._forked.pid
            os.close(terminal)
            return
        self.pid, self._fd = pty.fork()
        if self.pid == 0:
            try:
                fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
                if cwd is not None:
                    os.chdir(cwd)
                os.execvpe(argv[0], list(argv), environment)
            finally:
                os._exit(127)

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *exc_info: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        self._reap(block=True)
        if self._fd >= 0:
            os.close(self._fd)

    @property
    def text(self) -> str:
        return self.screen.text

    def pump(self, wait: float = 0.05) -> bool:
        """Read what the program has drawn; return False once it has ended."""
        if self._ended or not select.select([self._fd], [], [], wait)[0]:
            return not self._ended
        try:
            data = os.read(self._fd, 1 << 16)
        except OSError:
            data = b""
        if not data:
            self._ended = True
            return False
        self.raw += data
        if self.drawn:
            self.draw(data)
        return True

    def draw(self, data: bytes) -> None:
        data, self._unfinished = _finished(self._unfinished + data)
        self._stream.feed(_UNKNOWN.sub(b"", data))

    def wait(self, pattern: str) -> str:
        """Wait until a regular expression is found on the screen; return what matched."""
        if not pattern:
            return ""
        deadline = time.monotonic() + DEADLINE
        while (match := re.search(pattern, self.text)) is None:
            if not self.pump() or time.monotonic() > deadline:
                if match := re.search(pattern, self.text):
                    break
                raise AssertionError(f"{pattern!r} was not seen. The screen:\n{self.text}")
        return match[0]

    def idle(self) -> Terminal:
        self.wait("kernel .*idle")
        return self

    def wait_gone(self, pattern: str) -> None:
        deadline = time.monotonic() + DEADLINE
        while re.search(pattern, self.text):
            if not self.pump() or time.monotonic() > deadline:
                raise AssertionError(f"{pattern!r} is still there. The screen:\n{self.text}")

    def press_until(
        self, key: str, pattern: str, *, interval_s: float = 4.0, prompt_pattern: str = ""
    ) -> None:
        """Press a key until a regular expression is found: some rows ignore the first keys."""
        deadline = time.monotonic() + DEADLINE
        while not re.search(pattern, self.text):
            if re.search(prompt_pattern, self.text):
                self.send(KEYS.get(key, key))
            again = time.monotonic() + interval_s
            while time.monotonic() < again and not re.search(pattern, self.text):
                if not self.pump(0.02):
                    break
            if time.monotonic() > deadline:
                raise AssertionError(f"{pattern!r} was not seen. The screen:\n{self.text}")

    def send(self, data: str | bytes, pattern: str = "") -> None:
        data = data.encode() if isinstance(data, str) else data
        while data:
            data = data[os.write(self._fd, data[:1024]) :]
            self.pump(0)
        self.wait(pattern)

    def type(self, text: str, pattern: str = "") -> None:
        for character in text:
            self.send(character)
            self.pump(0.002)
        self.wait(pattern)

    def press(self, *keys: str, pattern: str = "", gone_pattern: str = "") -> None:
        for key in keys:
            self.send(KEYS[key])
            self.pump(0.01)
        self.wait(pattern)
        if gone_pattern:
            self.wait_gone(gone_pattern)

    def enter(self, text: str, pattern: str = "") -> None:
        self.type(text)
        self.press("enter", pattern=pattern)

    def paste(self, text: str, pattern: str = "") -> None:
        self.send(f"\x1b[200~{text}\x1b[201~", pattern)

    def click(self, needle: str) -> None:
        """Click on the last character of the first occurrence of a text."""
        for line, row in enumerate(self.screen.display):
            if (column_index := row.find(needle)) >= 0:
                column = column_index + len(needle)
                self.send(f"\x1b[<0;{column};{line + 1}M\x1b[<0;{column};{line + 1}m")
                return
        raise AssertionError(f"{needle!r} is not shown. The screen:\n{self.text}")

    def resize(self, columns: int, lines: int) -> None:
        self.columns = columns
        self.lines = lines
        fcntl.ioctl(self._fd, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        self.screen.resize(lines, columns)
        os.kill(self.pid, signal.SIGWINCH)

    def kill(self, number: int = signal.SIGKILL) -> int:
        """Send a signal, and wait for the end as `wait_end` does."""
        os.kill(self.pid, number)
        return self.wait_end()

    def hang_up(self) -> int:
        os.close(self._fd)
        self._fd = -1
        self._ended = True
        return self.wait_end()

    def wait_end(self) -> int:
        """Wait until the program has ended; return its exit code (negative: the signal)."""
        deadline = time.monotonic() + DEADLINE
        while self._reap(block=False) is None:
            self.pump()
            if time.monotonic() > deadline:
                raise AssertionError(f"The program has not ended. The screen:\n{self.text}")
        # Read the last output; a process that it leaves behind may keep the terminal open.
        until = time.monotonic() + 0.5
        while time.monotonic() < until and self.pump():
            pass
        assert self.exit_code is not None
        return self.exit_code

    def leave(self) -> None:
        """Quit without an error: press Ctrl+Q, and again if it asks, but not as if held down."""
        self.press("ctrl+q")
        pressed = time.monotonic()
        deadline = pressed + DEADLINE
        while self._reap(block=False) is None and time.monotonic() < deadline:
            if "Leave?" in self.text and time.monotonic() - pressed > 2 * FIRST_REPEAT_S:
                self.press("ctrl+q")
                pressed = time.monotonic()
            self.pump(0.2)
        assert self.wait_end() == 0

    def _reap(self, *, block: bool) -> int | None:
        if self.exit_code is None and self._forked is not None:
            self.exit_code = self._forked.wait(block=block)
        elif self.exit_code is None:
            pid, status = os.waitpid(self.pid, 0 if block else os.WNOHANG)
            if pid:
                self.exit_code = os.waitstatus_to_exitcode(status)
        return self.exit_code
