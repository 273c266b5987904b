"""Formats tracebacks for the user: without our own frames, and shortened if they are long."""

from __future__ import annotations

import os
import re
import traceback
from collections.abc import Iterator
from types import TracebackType
from typing import Any, NamedTuple

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
"""The folder of all our code around a cell: the worker's parent, which contains the in-process kernel."""
CELL = "In ["
"""The start of the file names of cells."""

_HEAD, _TAIL = 12, 20
"""Frames of a long traceback that are shown."""

_MOST_FRAMES = 200
"""Frames that are listed with a traceback, the last ones."""

_LONGEST_NAME = 4_096
"""Characters of a name that are kept; no file has a longer one."""


class TracebackFrame(NamedTuple):
    """The source location of a line of a traceback."""

    file: str
    """As Python gives it, made absolute if the file exists; `cell_filename` for cells."""
    line: int
    """0 if unknown."""
    function: str
    """Empty for a syntax error."""
    row: int
    """Number of lines from this frame's line to the end of the text: 1 is the last; 0 if the text lacks it."""


class Traceback(NamedTuple):
    """The text of a traceback, and the locations in it."""

    text: str
    frames: list[TracebackFrame]
    """In the order of the text."""


def cell_filename(cell: int) -> str:
    """Return the file name of a cell in `linecache`."""
    return f"{CELL}{cell}]"


class _ShortStack(traceback.StackSummary):
    """A stack without its middle if it is long, as in a recursion."""

    def format(self, **options: Any) -> list[str]:
        lines = super().format(**options)
        if len(lines) <= _HEAD + _TAIL + 1:
            return lines
        return [*lines[:_HEAD], f"  … {len(lines) - _HEAD - _TAIL} frames left out …\n", *lines[-_TAIL:]]


def describe(error: BaseException, tb: TracebackType | None) -> Traceback:
    """Format a traceback. Calls the exception's `__str__`, which may fail."""
    described = traceback.TracebackException(type(error), error, tb, lookup_lines=False)
    frames = list(described.stack)
    cells = [place for place, frame in enumerate(frames) if frame.filename.startswith(CELL)]
    if isinstance(error, KeyboardInterrupt):
        described.__cause__ = described.__context__ = None
        described.stack = _ShortStack(frames[place] for place in cells)
    else:
        described.stack[:] = frames[cells[0] if cells else 0 :]  # without asyncio's frames above the cell
        for one in _all(described):
            one.stack = _ShortStack(frame for frame in one.stack if not frame.filename.startswith(HERE))
    return _formatted(described)


def describe_safely(error: BaseException) -> Traceback:
    """Format the traceback of any exception, even a misbehaving one."""
    try:
        return describe(error, error.__traceback__)
    except RecursionError:
        return Traceback(f"{type(error).__name__}\n", [])
    except KeyboardInterrupt:
        return Traceback(f"{type(error).__name__}: (interrupted while its traceback was made)\n", [])
    except BaseException as again:
        return Traceback(f"{type(error).__name__}: (its traceback cannot be shown: {type(again).__name__})\n", [])


def format_safely(error: BaseException) -> str:
    """Return the text of `describe_safely`."""
    return describe_safely(error).text


def syntax_error(error: BaseException) -> Traceback:
    """Format a compile error: reason and location, without a stack, since nothing ran."""
    return _formatted(traceback.TracebackException(type(error), error, None))


def _formatted(described: traceback.TracebackException) -> Traceback:
    """Format a traceback, and find the locations in its text with random marks that no message can contain."""
    lot = os.urandom(16).hex()
    places: dict[tuple[str, int, str], str] = {}

    def mark(file: str, line: int | None, function: str) -> str:
        """Return the mark of a location, always the same one, because `traceback` shortens repeated frames by comparing names."""
        place = (file, max(0, line or 0), function)
        return places.setdefault(place, f"\0{lot}:{len(places)}\0")

    for one in _all(described):
        for frame in one.stack:
            frame.name += mark(frame.filename, frame.lineno, frame.name)
        at = str(getattr(one, "lineno", ""))  # of a syntax error; user code may have set it to anything
        if at.isdecimal() and len(at) < 10:
            file = str(getattr(one, "filename", "") or "<string>")
            one.filename = file + mark(file, int(at), "")
    marked = re.compile(f"\0{lot}:(\\d+)\0")
    lines = "".join(described.format()).split("\n")
    known = list(places)
    frames = []
    for number, line in enumerate(lines):
        found = marked.search(line)
        if found:
            lines[number] = line.replace(found.group(), "")
            frames.append(_frame(*known[int(found.group(1))], row=len(lines) - 1 - number))
    return Traceback("\n".join(lines), frames[-_MOST_FRAMES:])


def _frame(file: str, line: int, function: str, row: int) -> TracebackFrame:
    if not file.startswith(CELL) and not os.path.isabs(file) and os.path.isfile(file):
        file = os.path.abspath(file)
    return TracebackFrame(file[-_LONGEST_NAME:], line, function[:_LONGEST_NAME], row)


def _all(described: traceback.TracebackException) -> Iterator[traceback.TracebackException]:
    """Yield an exception and all its linked exceptions, which `traceback` has made a tree even if they were circular."""
    waiting: list[traceback.TracebackException | None] = [described]
    while waiting:
        one = waiting.pop()
        if one is not None:
            yield one
            waiting += [one.__cause__, one.__context__, *(getattr(one, "exceptions", None) or ())]
