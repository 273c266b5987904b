"""The screen's side of the terminal: reads keys, filters what is drawn, and gives the terminal back.

Only the renderer's own sequences reach the terminal (`TextOnly`, `filter_output`), and nothing that
libraries and child processes print (`StdioRedirect`). However the program ends, the terminal is as it
was before.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import select
import signal
import sys
import termios
import threading
import traceback
from codecs import getincrementaldecoder
from collections.abc import Callable, Iterator
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, TextIO

from rich.segment import Segment
from textual.app import App
from textual.color import Color
from textual.drivers.linux_driver import LinuxDriver
from textual.filter import LineFilter

from mahtab_tui.settings.model import NOTIFICATION_TEXTS, PictureMode
from mahtab_tui.system import WRITE_TIMEOUT_S, TerminationHandler, run_with_timeout
from mahtab_tui.tui.key_parser import KeyParser

if TYPE_CHECKING:
    from mahtab_tui.pictures.terminal_answers import GraphicsProtocol, TerminalAnswers

_CONTROL_CHARACTERS = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]"
)
"""Control characters, and those that change the direction of text."""
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_RENDERED_SEQUENCE = re.compile(r"\x1b\[[\d;]*[mH]")
"""What Textual's renderer writes besides text: styles and positions."""
_NEVER_RENDERED = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]")
"""Control characters that the renderer writes only within its sequences."""
_TERMINAL_COMMANDS = re.compile(
    # Modes: the other screen, the mouse, pastes, the cursor, updates at once, the keyboard.
    r"(?:\x1b\[(?:\?\d+(?:[hl]|\$p)|>\d+u|<u))+"
    # The bell, and the shape of the pointer.
    r"|\x07|\x1b\]22;[a-z-]*\x07"
    # Notifications of the desktop, with our words only.
    rf"|\x1b\](?:9|777;notify;mahtab);(?:{'|'.join(NOTIFICATION_TEXTS)})\x07"
    # The clipboard.
    r"|\x1b\]52;c;[A-Za-z0-9+/=]*\x07"
)
"""What Textual writes apart from what it draws, in a call of `write` of its own."""
_PIPE_CHUNK_BYTES = 65536
"""Bytes that are read from the pipe of standard output at once."""
READER_TIMEOUT_S = 0.2
"""How long the end waits for the rest of what was printed."""
_WRITER_THREAD = "textual-output"
"""The name that Textual gives to its thread that writes to the terminal."""
_INPUT_CHUNK_BYTES = 4096
"""Bytes of keys that are read at once."""
_SILENCE_S = 0.1
"""After this time without input, an incomplete sequence is taken as it is: Escape, for example."""
_RESTORE_SEQUENCE = "".join(
    (
        # End any truncated sequence.
        "\x1b\\",
        # Synchronized updates and bracketed paste off, wrapping of lines on.
        "\x1b[?2026l",
        "\x1b[?2004l",
        "\x1b[?7h",
        # No reports of the size, the mouse and the focus.
        "\x1b[?2048l\x1b[?1016l\x1b[?1000l\x1b[?1003l\x1b[?1015l\x1b[?1006l\x1b[?1004l",
        # The keyboard's protocol off.
        "\x1b[<u",
        # The main screen, with its cursor and default colours.
        "\x1b[?1049l\x1b[?25h\x1b[0m",
    )
).encode()
"""Undoes what `LinuxDriver.start_application_mode` sends."""
KITTY_CLEAR_SEQUENCE = "\x1b_Ga=d,d=A,q=2\x1b\\"
"""Removes all pictures from a terminal with Kitty's graphics."""


class TextOnly(LineFilter):
    """Removes control characters and links from all that is drawn."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        text = "".join([segment.text for segment in segments])
        has_links = any(style is not None and style.link for _, style, _ in segments)
        if text.isprintable() and not has_links:
            return segments
        safe_segments = []
        for text, style, _ in segments:
            safe_text = _SURROGATE.sub("\ufffd", _CONTROL_CHARACTERS.sub("", text))
            if style is not None and style.link:
                style = style.update_link(None)
            safe_segments.append(Segment(safe_text, style))
        return safe_segments


def filter_output(data: str) -> str:
    """Remove what only external text can have introduced from a piece of Textual's output."""
    has_foreign_characters = _NEVER_RENDERED.search(_RENDERED_SEQUENCE.sub("", data)) is not None
    if not has_foreign_characters or _TERMINAL_COMMANDS.fullmatch(data):
        return data
    texts = _RENDERED_SEQUENCE.split(data)
    sequences = [*_RENDERED_SEQUENCE.findall(data), ""]
    safe_parts = []
    for text, sequence in zip(texts, sequences, strict=True):
        safe_parts.append(_NEVER_RENDERED.sub("", text) + sequence)
    return "".join(safe_parts)


class StdioRedirect:
    """Keeps what libraries and child processes print off the screen, and passes it on as lines.

    Within its context, descriptors 1 and 2 lead into a pipe, which a thread reads. Textual gets streams
    of its own to the terminal.
    """

    def __init__(self, on_line: Callable[[str], None]) -> None:
        """
        Args:
            on_line: Called with one or several lines, on a thread.
        """
        self._on_line = on_line
        self._terminal: list[int] = []
        """Descriptors of the terminal: what 1 and 2 were before."""
        self._originals: tuple[TextIO | None, TextIO | None] = (None, None)
        """`sys.__stdout__` and `sys.__stderr__` as they were before."""
        self._streams: list[TextIO] = []
        """The streams to the terminal that take their places."""
        self._write_end = -1
        """The descriptor that writes into the pipe."""
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
        self._give_streams_to_textual()
        self._connect(self._write_end, self._write_end)
        return self

    def _give_streams_to_textual(self) -> None:
        """Let Textual reach the terminal, although descriptors 1 and 2 will lead elsewhere.

        It writes to `sys.__stderr__`, which may be closed, and takes the screen's size from
        `sys.__stdout__`.
        """
        self._originals = (sys.__stdout__, sys.__stderr__)
        output, errors = self._terminal
        screen_descriptors = (output, errors if os.isatty(2) else output)
        self._streams = [
            os.fdopen(os.dup(descriptor), "w", encoding="utf-8", errors="replace")
            for descriptor in screen_descriptors
        ]
        sys.__stdout__, sys.__stderr__ = self._streams  # type: ignore[misc, assignment]

    def __exit__(self, *exc_info: object) -> None:
        self._connect(*self._terminal)
        sys.__stdout__, sys.__stderr__ = self._originals  # type: ignore[misc, assignment]
        for stream in self._streams:
            with contextlib.suppress(OSError):
                stream.close()
        for descriptor in (*self._terminal, self._write_end):
            os.close(descriptor)
        if self._reader is not None:
            # A child that still has the pipe keeps the reader waiting, which is a daemon thread.
            self._reader.join(READER_TIMEOUT_S)

    @contextlib.contextmanager
    def suspended(self) -> Iterator[None]:
        """Give the terminal to another program."""
        self._connect(*self._terminal)
        try:
            attributes = termios.tcgetattr(1)
        except termios.error:
            attributes = None
        try:
            yield
        finally:
            # A program that was killed did not restore them.
            if attributes is not None:
                with contextlib.suppress(termios.error):
                    termios.tcsetattr(1, termios.TCSANOW, attributes)
            self._connect(self._write_end, self._write_end)

    def _connect(self, output: int, errors: int) -> None:
        """Let descriptors 1 and 2 lead to where two others lead."""
        os.dup2(output, 1)
        os.dup2(errors, 2)

    def _read(self, read_end: int) -> None:
        """Pass on what is written to the pipe, as lines. Runs on a thread."""
        pending = b""
        while chunk := os.read(read_end, _PIPE_CHUNK_BYTES):
            *lines, pending = (pending + chunk).split(b"\n")
            # A line that does not end is passed on in pieces.
            if len(pending) > _PIPE_CHUNK_BYTES:
                lines.append(pending)
                pending = b""
            text = b"\n".join(line for line in lines if line.strip())
            if text:
                self._on_line(text.decode("utf-8", "replace"))
        if pending.strip():
            self._on_line(pending.decode("utf-8", "replace"))
        os.close(read_end)


@contextlib.contextmanager
def report_thread_failures(report: Callable[[str], None]) -> Iterator[None]:
    """Report exceptions that end a thread, on that thread, with a text for the user."""

    def report_failure(failure: threading.ExceptHookArgs) -> None:
        if issubclass(failure.exc_type, SystemExit):
            return
        name = failure.thread.name if failure.thread is not None else "unknown"
        error = failure.exc_value
        if isinstance(error, OSError):
            # If the terminal is gone, the program ends anyway.
            if name != _WRITER_THREAD or error.errno != errno.EIO:
                report(f"The thread {name!r} of mahtab-tui has ended: {error}.")
            return
        lines = traceback.format_exception(failure.exc_type, error, failure.exc_traceback)
        advice = "If something breaks, restart with --continue."
        report(f"Internal error in thread {name!r}. {advice}\n{''.join(lines).rstrip()}")

    previous_hook = threading.excepthook
    threading.excepthook = report_failure
    try:
        yield
    finally:
        threading.excepthook = previous_hook


class TerminalDriver(LinuxDriver):
    """Textual's driver, with our reading of keys, filter of output, and questions about graphics."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        # Before Textual sets its own.
        numbers = (signal.SIGTSTP, signal.SIGCONT)
        self._previous_handlers = {number: signal.getsignal(number) for number in numbers}
        super().__init__(*args, **kwargs)
        self.pictures: PictureMode = "auto"
        """The setting of this name."""
        self.release_count = 0
        """How often the terminal was given back: its graphics are gone then."""
        self._is_suspended = False
        """Whether another program, or the shell, has the terminal."""
        self._has_asked = False
        """Whether the terminal was asked what it can draw."""
        self._has_answered = threading.Event()
        """Set once the terminal has answered."""
        self._on_answered: Callable[[], object] = lambda: None
        """Called then."""

    @cached_property
    def answers(self) -> TerminalAnswers:
        """What the terminal has answered."""
        # Not needed before the first picture.
        from mahtab_tui.pictures.terminal_answers import TerminalAnswers

        return TerminalAnswers()

    def write(self, data: str) -> None:
        super().write(filter_output(data))

    def send(self, data: str) -> None:
        """Write sequences of our own, which `write` would remove."""
        super().write(data)

    def disable_input(self) -> None:
        # An answer that comes later would be typed into the program that has the terminal next.
        if wait_s := self.answers.wait_s:
            self._has_answered.wait(wait_s)
        super().disable_input()

    def stop_application_mode(self) -> None:
        self.release_count += 1
        if self.graphics == "kitty":
            self.send(KITTY_CLEAR_SEQUENCE)
        super().stop_application_mode()

    def suspend_application_mode(self) -> None:
        self._is_suspended = True
        super().suspend_application_mode()
        signal.signal(signal.SIGTSTP, self._sigtstp_application)
        signal.signal(signal.SIGCONT, self._sigcont_application)

    def _sigcont_application(self, *_: object) -> None:
        # After SIGSTOP, the application still has the terminal.
        if self._auto_restart and self._is_suspended:
            self.resume_application_mode()
            self._app.call_later(self._app.refresh, layout=True)

    def resume_application_mode(self) -> None:
        self._is_suspended = False
        super().resume_application_mode()

    def close(self) -> None:
        super().close()
        for number, handler in self._previous_handlers.items():
            signal.signal(number, handler)

    def run_input_thread(self) -> None:
        try:
            self._read_keys()
        except Exception as error:
            self._app.call_later(self._app._handle_exception, error)

    def _read_keys(self) -> None:
        """Read keys until the application ends. Runs on the input thread."""
        parser = KeyParser(self._debug, self._take_reply)
        decode = getincrementaldecoder("utf-8")("replace").decode
        # What is pending now was typed while the terminal still read lines: Enter has become a line
        # feed, which would be Ctrl+J.
        is_early = self.input_tty
        timeout_s = 0.0
        while not self.exit_event.is_set():
            readable, _, _ = select.select([self.fileno], [], [], timeout_s)
            if readable:
                typed = decode(os.read(self.fileno, _INPUT_CHUNK_BYTES))
                if is_early:
                    typed = typed.replace("\n", "\r")
                events = parser.feed(typed)
            else:
                events = parser.flush_pending()
            for event in events:
                self.process_message(event)
            is_early = False
            timeout_s = _SILENCE_S

    def _take_reply(self, sequence: str) -> bool:
        """Take an answer of the terminal; return False if a sequence is none, but a key."""
        is_reply = self.answers.read(sequence)
        if is_reply and not self.answers.awaited:
            self._has_answered.set()
            self._on_answered()
        return is_reply

    def ask_for_graphics(self, on_answered: Callable[[], object]) -> None:
        """Ask the terminal what it can draw, unless it was asked before or nobody needs to know.

        Args:
            on_answered: Called when it has answered, on another thread; never if it does not.
        """
        from mahtab_tui.pictures.terminal_answers import is_mute

        self._on_answered = on_answered
        if self._has_asked or self.pictures == "blocks":
            return
        if self.pictures == "auto" and is_mute():
            return
        self._has_asked = True
        self.send(self.answers.ask())

    @property
    def graphics(self) -> GraphicsProtocol | None:
        """The protocol for pictures; None if they are drawn as characters."""
        if self.pictures == "blocks":
            return None
        if self.pictures != "auto":
            return self.pictures
        if self.answers.awaited:
            return None
        return self.answers.protocol

    @property
    def cell_size(self) -> tuple[int, int] | None:
        """Width and height of a cell in pixels; None if the terminal does not say."""
        from mahtab_tui.pictures.terminal_answers import read_cell_size

        return read_cell_size(self.fileno) or self.answers.cell


class SignalHandler(TerminationHandler):
    """Ends the program by a signal, with the terminal as it was before the application."""

    def __init__(self, app: App[Any], on_shutdown: Callable[[], object] = lambda: None) -> None:
        """
        Args:
            app: The application that has the terminal.
            on_shutdown: See `TerminationHandler`.
        """
        super().__init__(on_shutdown)
        self._app = app

    def release_terminal(self) -> None:
        driver = self._app._driver
        if isinstance(driver, LinuxDriver):
            _release_terminal(driver)


@contextlib.contextmanager
def ignore_signal_keys() -> Iterator[None]:
    r"""Ignore Ctrl+C and Ctrl+\ while another program has the terminal, which gets them."""
    # Functions that do nothing, because the program would inherit `SIG_IGN`.
    keys = (signal.SIGINT, signal.SIGQUIT)
    previous_handlers = {number: signal.signal(number, lambda *_: None) for number in keys}
    wakeup_descriptor = signal.set_wakeup_fd(-1)
    try:
        yield
    finally:
        signal.set_wakeup_fd(wakeup_descriptor, warn_on_full_buffer=False)
        for number, handler in previous_handlers.items():
            signal.signal(number, handler)


def _release_terminal(driver: LinuxDriver) -> None:
    """Restore the terminal if the application has it."""
    key_thread = driver._key_thread
    if key_thread is None or not key_thread.is_alive():
        return
    # Finish the current drawing.
    writer = driver._writer_thread
    if writer is not None:
        run_with_timeout(WRITE_TIMEOUT_S, writer.stop)
    _restore_terminal(driver)


def _restore_terminal(driver: LinuxDriver) -> None:
    """Give the terminal back as it was, unless another program has it."""
    with contextlib.suppress(OSError, termios.error):
        if os.tcgetpgrp(driver.fileno) != os.getpgrp():
            return
        if driver.attrs_before is not None:
            termios.tcsetattr(driver.fileno, termios.TCSANOW, driver.attrs_before)
        assert driver._file is not None
        screen = driver._file.fileno()
        # A blocked terminal must not keep the program alive.
        _, writable, _ = select.select([], [screen], [], WRITE_TIMEOUT_S)
        if writable:
            sequence = _RESTORE_SEQUENCE
            if isinstance(driver, TerminalDriver) and driver.graphics == "kitty":
                sequence = KITTY_CLEAR_SEQUENCE.encode() + sequence
            os.write(screen, sequence)
