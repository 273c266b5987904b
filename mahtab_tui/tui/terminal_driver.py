"""The terminal: typed keys, filtered output, signals."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import select
import signal
import struct
import sys
import termios
import threading
import traceback
from codecs import getincrementaldecoder
from collections.abc import Callable, Iterator
from functools import partial
from types import FrameType
from typing import Any, Literal, TextIO

from rich.segment import Segment
from textual.app import App
from textual.color import Color
from textual.drivers.linux_driver import LinuxDriver
from textual.filter import LineFilter

from mahtab_tui.settings.model import PictureMode
from mahtab_tui.system import SHELL_CODE, exit_by_signal
from mahtab_tui.tui.textual_fixes import KeyParser

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""Also what changes the direction of text."""
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_RENDERED = re.compile(r"\x1b\[[\d;]*[mH]")
_NEVER_RENDERED = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]")
_COMMANDS = re.compile(
    r"(?:\x1b\[(?:\?\d+(?:[hl]|\$p)|>\d+u|<u))+"  # modes: the other screen, the mouse, pastes, the cursor, updates at once; the keyboard's
    r"|\x07|\x1b\]22;[a-z-]*\x07"  # bell, pointer shape
    r"|\x1b\]52;c;[A-Za-z0-9+/=]*\x07"  # clipboard
)


class TextOnly(LineFilter):
    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        text = "".join([segment.text for segment in segments])
        links = any(style is not None and style.link for _, style, _ in segments)
        if text.isprintable() and not links:
            return segments
        return [
            Segment(
                _SURROGATE.sub("\ufffd", _CONTROL.sub("", text)),
                style if style is None or not style.link else style.update_link(None),
            )
            for text, style, _ in segments
        ]


def filter_output(data: str) -> str:
    """Remove what only external text can have introduced from a piece of Textual's output."""
    if not _NEVER_RENDERED.search(_RENDERED.sub("", data)) or _COMMANDS.fullmatch(data):
        return data
    parts = _RENDERED.split(data)
    made = [*_RENDERED.findall(data), ""]
    return "".join(
        _NEVER_RENDERED.sub("", part) + sequence for part, sequence in zip(parts, made, strict=True)
    )


_PIPE_CHUNK = 65536
_WRITER = "textual-output"


class StdioRedirect:
    """Turns output of libraries and child processes on descriptors 1 and 2 into lines."""

    def __init__(self, on_line: Callable[[str], None]) -> None:
        self._on_line = on_line
        self._terminal: list[int] = []
        self._originals: tuple[TextIO | None, TextIO | None] = (None, None)
        self._streams: list[TextIO] = []
        self._write_end = -1
        self._reader: threading.Thread | None = None

    def __enter__(self) -> StdioRedirect:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        self._terminal = [os.dup(1), os.dup(2)]
        read_end, self._write_end = os.pipe()
        read = partial(self._read, read_end)
        self._reader = threading.Thread(target=read, name="screen-guard", daemon=True)
        self._reader.start()
        # Textual writes to sys.__stderr__, which may be closed, and takes the screen's size from
        # sys.__stdout__.
        self._originals = (sys.__stdout__, sys.__stderr__)
        screens = self._terminal[0], self._terminal[1 if os.isatty(2) else 0]
        self._streams = [
            os.fdopen(os.dup(fd), "w", encoding="utf-8", errors="replace") for fd in screens
        ]
        sys.__stdout__, sys.__stderr__ = self._streams  # type: ignore[misc, assignment]
        self._connect(self._write_end, self._write_end)
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._connect(*self._terminal)
        sys.__stdout__, sys.__stderr__ = self._originals  # type: ignore[misc, assignment]
        for stream in self._streams:
            with contextlib.suppress(OSError):
                stream.close()
        for fd in (*self._terminal, self._write_end):
            os.close(fd)
        if self._reader is not None:
            # A child that still has the pipe keeps the reader waiting, which is a daemon thread.
            self._reader.join(0.2)

    @contextlib.contextmanager
    def suspended(self) -> Iterator[None]:
        self._connect(*self._terminal)
        try:
            attributes = termios.tcgetattr(1)
        except termios.error:
            attributes = None
        try:
            yield
        finally:
            if attributes is not None:  # a killed program did not restore them
                with contextlib.suppress(termios.error):
                    termios.tcsetattr(1, termios.TCSANOW, attributes)
            self._connect(self._write_end, self._write_end)

    def _connect(self, output: int, errors: int) -> None:
        os.dup2(output, 1)
        os.dup2(errors, 2)

    def _read(self, read_end: int) -> None:
        pending = b""
        while chunk := os.read(read_end, _PIPE_CHUNK):
            *lines, pending = (pending + chunk).split(b"\n")
            if len(pending) > _PIPE_CHUNK:
                lines, pending = [*lines, pending], b""
            text = b"\n".join(line for line in lines if line.strip())
            if text:
                self._on_line(text.decode("utf-8", "replace"))
        if pending.strip():
            self._on_line(pending.decode("utf-8", "replace"))
        os.close(read_end)


@contextlib.contextmanager
def report_thread_failures(report: Callable[[str], None]) -> Iterator[None]:
    def failed(failure: threading.ExceptHookArgs) -> None:
        if issubclass(failure.exc_type, SystemExit):
            return
        name = failure.thread.name if failure.thread is not None else "unknown"
        error = failure.exc_value
        if isinstance(error, OSError):
            if name != _WRITER or error.errno != errno.EIO:  # else the program ends anyway
                report(f"The thread {name!r} of mahtab-tui has ended: {error}.")
            return
        lines = traceback.format_exception(failure.exc_type, error, failure.exc_traceback)
        advice = "If something breaks, restart with --continue."
        report(f"Internal error in thread {name!r}. {advice}\n{''.join(lines).rstrip()}")

    before, threading.excepthook = threading.excepthook, failed
    try:
        yield
    finally:
        threading.excepthook = before


_CHUNK = 4096
_SILENCE = 0.1


class TerminalDriver(LinuxDriver):
    """Reads keys; early ones have Enter as a line feed, which is Ctrl+J."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        numbers = (signal.SIGTSTP, signal.SIGCONT)
        self._before = {number: signal.getsignal(number) for number in numbers}
        super().__init__(*args, **kwargs)
        self.pictures: PictureMode = "auto"
        self.answers = TerminalAnswers()
        self.stops = 0
        self._left = False
        self._asked = False
        self._answered: Callable[[], object] = lambda: None

    def write(self, data: str) -> None:
        super().write(filter_output(data))

    def send(self, data: str) -> None:
        super().write(data)

    def stop_application_mode(self) -> None:
        self.stops += 1
        if self.graphics == "kitty":
            self.send(KITTY_CLEARED)
        super().stop_application_mode()

    def suspend_application_mode(self) -> None:
        self._left = True
        super().suspend_application_mode()
        signal.signal(signal.SIGTSTP, self._sigtstp_application)
        signal.signal(signal.SIGCONT, self._sigcont_application)

    def _sigcont_application(self, *_: object) -> None:
        # After SIGSTOP, the application still has the terminal.
        if self._auto_restart and self._left:
            self.resume_application_mode()
            self._app.call_later(self._app.refresh, layout=True)

    def resume_application_mode(self) -> None:
        self._left = False
        super().resume_application_mode()

    def close(self) -> None:
        super().close()
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def run_input_thread(self) -> None:
        try:
            self._read_keys()
        except Exception as error:
            self._app.call_later(self._app._handle_exception, error)

    def _read_keys(self) -> None:
        parser = KeyParser(self._debug, self._take_reply)
        decode = getincrementaldecoder("utf-8")("replace").decode
        # Pending input was typed before single keys could be read.
        before = self.input_tty
        wait = 0.0
        while not self.exit_event.is_set():
            if select.select([self.fileno], [], [], wait)[0]:
                typed = decode(os.read(self.fileno, _CHUNK))
                events = parser.feed(typed.replace("\n", "\r") if before else typed)
            else:
                events = parser.flush_pending()
            for event in events:
                self.process_message(event)
            before, wait = False, _SILENCE

    def _take_reply(self, sequence: str) -> bool:
        is_reply = self.answers.read(sequence)
        if is_reply and not self.answers.awaited:
            self._answered()
        return is_reply

    def ask_for_graphics(self, answered: Callable[[], object]) -> None:
        """Ask the terminal once. `answered` is called on another thread, or never."""
        self._answered = answered
        term = os.environ.get("TERM", "")
        # These type unknown queries, or let no graphics through.
        is_mute = term.startswith(("tmux", "screen", "linux", "dumb"))
        is_mute |= os.environ.get("TERM_PROGRAM") == "Apple_Terminal"
        if self._asked or self.pictures == "blocks" or (self.pictures == "auto" and is_mute):
            return
        self._asked = True
        self.send(self.answers.ask())

    @property
    def graphics(self) -> Protocol | None:
        if self.pictures == "auto":
            return None if self.answers.awaited else self.answers.protocol
        return None if self.pictures == "blocks" else self.pictures

    @property
    def cell_size(self) -> tuple[int, int] | None:
        with contextlib.suppress(OSError):
            sizes = fcntl.ioctl(self.fileno, termios.TIOCGWINSZ, bytes(8))
            rows, columns, width, height = struct.unpack("4H", sizes)
            if rows and columns and width >= columns and height >= rows:
                return width // columns, height // rows
        return self.answers.cell


_NAMES = "HUP INT QUIT ABRT ALRM TERM USR1 USR2 XCPU IO PWR STKFLT".split()
_NUMBERS = (getattr(signal, f"SIG{name}", None) for name in _NAMES)
TERMINATION_SIGNALS = tuple(number for number in _NUMBERS if number is not None)

SAVE_TIMEOUT, WRITE_TIMEOUT = 5.0, 1.0
"""Seconds for saving data, and for each write to the terminal."""

_RESTORE_SEQUENCE = "".join(
    (
        "\x1b\\",  # ends any truncated sequence
        "\x1b[?2026l",  # synchronized updates off
        "\x1b[?2004l",  # bracketed paste off
        "\x1b[?7h",
        "\x1b[?2048l\x1b[?1016l\x1b[?1000l\x1b[?1003l\x1b[?1015l\x1b[?1006l\x1b[?1004l",  # no reports of size, mouse, focus
        "\x1b[<u",  # keyboard protocol off
        "\x1b[?1049l\x1b[?25h\x1b[0m",  # main screen, with its cursor and default colours
    )
).encode()
"""Undoes what `LinuxDriver.start_application_mode` sends."""


class SignalHandler:
    """Ends the program on a thread, because Python's own handlers wait for the main thread."""

    def __init__(self, app: App[Any], on_shutdown: Callable[[], object] = lambda: None) -> None:
        """on_shutdown: saves data, on a thread, for at most `SAVE_TIMEOUT` seconds."""
        self._app = app
        self._on_shutdown = on_shutdown
        self._previous_handlers: dict[int, Any] = {}
        self._write_end = -1

    def __enter__(self) -> SignalHandler:
        if threading.current_thread() is not threading.main_thread():
            return self
        read_end, self._write_end = os.pipe()
        os.set_blocking(self._write_end, False)
        threading.Thread(target=self._watch, args=(read_end,), name="signals", daemon=True).start()
        self._previous_wakeup = signal.set_wakeup_fd(self._write_end, warn_on_full_buffer=False)
        for number in TERMINATION_SIGNALS:
            if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
                self._previous_handlers[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self._write_end < 0:
            return
        for number, handler in self._previous_handlers.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._previous_wakeup)
        os.close(self._write_end)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        # While another program has the terminal, `set_wakeup_fd` writes nothing.
        os.write(self._write_end, bytes([number]))
        threading.Event().wait(SAVE_TIMEOUT + 3 * WRITE_TIMEOUT)
        os._exit(SHELL_CODE + number)

    def _watch(self, read_end: int) -> None:
        while numbers := os.read(read_end, 64):
            for number in numbers:
                if number in self._previous_handlers:
                    self._exit(number)
        os.close(read_end)

    def _exit(self, number: int) -> None:
        try:
            _run_with_timeout(SAVE_TIMEOUT, self._on_shutdown)
            driver = self._app._driver
            keys = driver._key_thread if isinstance(driver, LinuxDriver) else None
            if isinstance(driver, LinuxDriver) and keys is not None and keys.is_alive():
                if (writer := driver._writer_thread) is not None:
                    _run_with_timeout(WRITE_TIMEOUT, writer.stop)  # finish the current drawing
                _restore_terminal(driver)
        finally:
            exit_by_signal(number)


def _restore_terminal(driver: LinuxDriver) -> None:
    with contextlib.suppress(OSError, termios.error):
        if os.tcgetpgrp(driver.fileno) != os.getpgrp():
            return
        if driver.attrs_before is not None:
            termios.tcsetattr(driver.fileno, termios.TCSANOW, driver.attrs_before)
        assert driver._file is not None
        screen = driver._file.fileno()
        # A blocked terminal must not keep the program alive.
        if select.select([], [screen], [], WRITE_TIMEOUT)[1]:
            kitty = isinstance(driver, TerminalDriver) and driver.graphics == "kitty"
            os.write(screen, (KITTY_CLEARED if kitty else "").encode() + _RESTORE_SEQUENCE)


def _run_with_timeout(seconds: float, work: Callable[[], object]) -> None:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(seconds)


Protocol = Literal["kitty", "sixel"]

QUESTIONS = "\x1b_Gi=31,s=1,v=1,a=q,t=d,f=24;AAAA\x1b\\\x1b[16t\x1b[?1;1;0S\x1b[c"
"""Kitty graphics, the size of a cell, the number of Sixel's colours, and device attributes, which
every terminal answers."""

KITTY_CLEARED = "\x1b_Ga=d,d=A,q=2\x1b\\"

_ANSWER = re.compile(
    r"\x1b_G(?P<kitty>[^\x1b]{0,256})\x1b\\|\x1b\[\?(?P<attributes>[\d;]{0,64})c|\x1b\[6;(?P<height>\d{1,4});(?P<width>\d{1,4})t"
    r"|\x1b\[\?1;0;(?P<colours>\d{1,9})S|\x1b\[\?1;[1-3][\d;]{0,24}S"
)


class TerminalAnswers:
    def __init__(self) -> None:
        self.protocol: Protocol | None = None
        self.cell: tuple[int, int] | None = None
        self.colours = 16
        """As in the first Sixel terminals."""
        self.awaited = False

    def ask(self) -> str:
        self.awaited = True
        return QUESTIONS

    def read(self, sequence: str) -> bool:
        answer = _ANSWER.fullmatch(sequence) if self.awaited else None
        if answer is None:
            return False
        if (reply := answer["kitty"]) is not None and reply.endswith(";OK"):
            self.protocol = "kitty"
        elif answer["height"] and int(answer["height"]) and int(answer["width"]):
            self.cell = int(answer["width"]), int(answer["height"])
        elif answer["colours"]:
            self.colours = max(2, min(256, int(answer["colours"])))
        elif (attributes := answer["attributes"]) is not None:
            if "4" in attributes.split(";")[1:]:
                self.protocol = self.protocol or "sixel"
            self.awaited = False
        return True
