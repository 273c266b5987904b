"""Reports errors that end a thread, instead of printing them over the screen."""

from __future__ import annotations

import contextlib
import errno
import threading
import traceback
from collections.abc import Callable, Iterator

_WRITER = "textual-output"
"""Textual's thread that writes to the terminal."""


@contextlib.contextmanager
def thread_failures_told(tell: Callable[[str], None]) -> Iterator[None]:
    """Within the block, report each thread that an error ends; `tell` is called on that thread."""

    def failed(failure: threading.ExceptHookArgs) -> None:
        if issubclass(failure.exc_type, SystemExit):
            return
        name = failure.thread.name if failure.thread is not None else "unknown"
        if name == _WRITER and isinstance(failure.exc_value, OSError) and failure.exc_value.errno == errno.EIO:
            return  # the terminal was closed, which ends the program
        lines = traceback.format_exception(failure.exc_type, failure.exc_value, failure.exc_traceback)
        tell(
            f"An error has ended the thread {name!r} of mahtab-tui. If something no longer works, leave, and come back with --continue."
            f"\n{''.join(lines).rstrip()}"
        )

    before, threading.excepthook = threading.excepthook, failed
    try:
        yield
    finally:
        threading.excepthook = before
