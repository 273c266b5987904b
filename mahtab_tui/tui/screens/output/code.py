"""The source code of a traceback's frame: a file, or a cell."""

from __future__ import annotations

import io
import os
import stat
import tokenize
from collections.abc import Callable
from typing import NamedTuple

from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.values import TracebackFrame
from mahtab_tui.kernel.worker.tracebacks import CELL

MOST_READ = 10_000_000
"""Bytes of a file that are read."""


class Code(NamedTuple):
    """A source, and the line of the frame."""

    text: str
    line: range | None
    """The positions of its characters; None if there is no such line."""


def cell_of(frame: TracebackFrame) -> int | None:
    """The number of the cell that a frame is in; None for a file."""
    number = frame.file.removeprefix(CELL).removesuffix("]")
    return (
        int(number)
        if frame.file == f"{CELL}{number}]"
        and number.isascii()
        and number.isdecimal()
        and len(number) < 10
        else None
    )


def code_of(frame: TracebackFrame, cell: Callable[[int], str | None]) -> Code:
    """Read the source of a frame; waits. cell: gets the code of a cell. Raises `KernelError` with a
    sentence if it cannot be read."""
    number = cell_of(frame)
    if number is None:
        return _with_line(_read(frame.file), frame.line)
    text = cell(number)
    if text is None:
        raise KernelError(f"The code of cell {number} was not kept.")
    return _with_line(text, frame.line)


def is_file(frame: TracebackFrame) -> bool:
    """Whether a frame is in a file that exists."""
    try:
        return os.path.isabs(frame.file) and os.path.isfile(frame.file)
    except ValueError:  # the name has a NUL
        return False


def _with_line(text: str, line: int) -> Code:
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    start = 0
    for _ in range(line - 1):
        start = text.find("\n", start) + 1
        if not start:
            return Code(text, None)
    end = text.find("\n", start)
    return Code(text, range(start, len(text) if end < 0 else end) if line > 0 else None)


def _read(path: str) -> str:
    if not os.path.isabs(path):
        raise KernelError("This frame is in no file, and its source was not kept.")
    try:
        # Reading a pipe or a device may never end.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise KernelError("This is not a regular file.")
            data = file.read(MOST_READ)
    except OSError as error:
        raise KernelError(f"The file cannot be read: {error.strerror}.") from None
    except ValueError:
        raise KernelError("No file can have this name.") from None
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
    except SyntaxError:
        encoding = "utf-8"
    return data.decode(encoding, "replace")
