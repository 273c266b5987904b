"""Protects the screen: only the application writes to the terminal.

A native library's warning, or a child process of an in-process cell, writes to descriptors 1 and 2.
While the screen is up both lead to a pipe, whose lines become notices; the application draws
through a private duplicate of the terminal. Errors that end a thread are reported, too, instead of
being printed.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import termios
import threading
import traceback
from collections.abc import Callable, Iterator
from typing import TextIO

_PIPE_CHUNK = 65536
_WRITER = "textual-output"
"""Textual's thread that writes to the terminal."""


class StdioRedirect:
    """Owns descriptors 1 and 2 while the screen is up."""

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
        self._reader = threading.Thread(
            target=self._read, args=(read_end,), name="screen-guard", daemon=True
        )
        self._reader.start()
        # Textual writes to sys.__stderr__ and takes the screen's size from sys.__stdout__.
        self._originals = (sys.__stdout__, sys.__stderr__)
        screens = (
            self._terminal[0],
            self._terminal[1 if os.isatty(2) else 0],
        )  # stderr may be closed
        self._streams = [
            os.fdopen(os.dup(fd), "w", encoding="utf-8", errors="replace") for fd in screens
        ]
        sys.__stdout__, sys.__stderr__ = self._streams  # type: ignore[misc, assignment]
        self._close_off()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._open_up()
        sys.__stdout__, sys.__stderr__ = self._originals  # type: ignore[misc, assignment]
        for stream in self._streams:
            with contextlib.suppress(OSError):
                stream.close()
        for fd in (*self._terminal, self._write_end):
            os.close(fd)
        if self._reader is not None:
            # A child that still has the pipe keeps the reader alive, which is a daemon thread.
            self._reader.join(0.2)

    @contextlib.contextmanager
    def lifted(self) -> Iterator[None]:
        """Give descriptors 1 and 2 back to a program that takes over the terminal, and restore the
        terminal's attributes afterwards."""
        self._open_up()
        try:
            attributes = termios.tcgetattr(1)
        except termios.error:
            attributes = None
        try:
            yield
        finally:
            if attributes is not None:  # a killed program has not restored them
                with contextlib.suppress(termios.error):
                    termios.tcsetattr(1, termios.TCSANOW, attributes)
            self._close_off()

    def _close_off(self) -> None:
        os.dup2(self._write_end, 1)
        os.dup2(self._write_end, 2)

    def _open_up(self) -> None:
        os.dup2(self._terminal[0], 1)
        os.dup2(self._terminal[1], 2)

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
def thread_failures_told(tell: Callable[[str], None]) -> Iterator[None]:
    """Within the block, report each thread that an error ends; `tell` is called on that thread."""

    def failed(failure: threading.ExceptHookArgs) -> None:
        if issubclass(failure.exc_type, SystemExit):
            return
        name = failure.thread.name if failure.thread is not None else "unknown"
        if (
            name == _WRITER
            and isinstance(failure.exc_value, OSError)
            and failure.exc_value.errno == errno.EIO
        ):
            return  # the terminal was closed, which ends the program
        if isinstance(failure.exc_value, OSError):  # the system's limits, a full disk
            tell(f"The thread {name!r} of mahtab-tui has ended: {failure.exc_value}.")
            return
        lines = traceback.format_exception(
            failure.exc_type, failure.exc_value, failure.exc_traceback
        )
        tell(
            f"Internal error in thread {name!r}. If something breaks, restart with --continue.\n{''.join(lines).rstrip()}"
        )

    before, threading.excepthook = threading.excepthook, failed
    try:
        yield
    finally:
        threading.excepthook = before
