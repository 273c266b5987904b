"""Tracebacks as the person reads them: the cell's lines, without our own frames, short where they repeat."""

from __future__ import annotations

import os
import re
import traceback
from collections.abc import Iterator
from types import TracebackType
from typing import Any, NamedTuple

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
"""The folder of all that is ours around a cell: the worker's parent, which holds the in-process kernel."""
CELL = "In ["
"""How the file names of cells begin."""

_HEAD, _TAIL = 12, 20
"""Frames that are shown of a traceback that is longer."""

_MOST_FRAMES = 200
"""Frames that are told beside a traceback, the last."""

_LONGEST_NAME = 4_096
"""Characters that are told of a name: no file has a longer one."""


class TracebackFrame(NamedTuple):
    """Where a line of a traceback leads."""

    file: str
    """As Python has it, made absolute where there is such a file; of cells `cell_filename`."""
    line: int
    """0 where it is not known."""
    function: str
    """Empty of a place that does not compile."""
    row: int
    """Lines of the traceback's text from this frame's to the end: 1 is the last; 0 where it is not told."""


class Traceback(NamedTuple):
    """A traceback as text, and the places that it names."""

    text: str
    frames: list[TracebackFrame]
    """In the order of the text."""


def cell_filename(cell: int) -> str:
    """The name under which a cell's source is in `linecache`."""
    return f"{CELL}{cell}]"


class _ShortStack(traceback.StackSummary):
    """A stack of which the middle is left out: a recursion's thousand frames say no more than thirty."""

    def format(self, **options: Any) -> list[str]:
        lines = super().format(**options)
        if len(lines) <= _HEAD + _TAIL + 1:
            return lines
        return [*lines[:_HEAD], f"  … {len(lines) - _HEAD - _TAIL} frames left out …\n", *lines[-_TAIL:]]


def describe(error: BaseException, tb: TracebackType | None) -> Traceback:
    """A traceback. Calls the exception's `__str__`, which may itself misbehave."""
    described = traceback.TracebackException(type(error), error, tb, lookup_lines=False)
    if isinstance(error, KeyboardInterrupt):
        described.__cause__ = described.__context__ = None
        _keep(described, cells_only=True)
    else:
        _keep(described, cells_only=False)
        _without_own_frames(described)
    return _formatted(described)


def describe_safely(error: BaseException) -> Traceback:
    """As `describe`, for any exception that a person's code can make."""
    try:
        return describe(error, error.__traceback__)
    except RecursionError:
        return Traceback(f"{type(error).__name__}\n", [])
    except KeyboardInterrupt:
        return Traceback(f"{type(error).__name__}: (interrupted while its traceback was made)\n", [])
    except BaseException as again:
        return Traceback(f"{type(error).__name__}: (its traceback cannot be shown: {type(again).__name__})\n", [])


def format_safely(error: BaseException) -> str:
    """The text of `describe_safely`."""
    return describe_safely(error).text


def syntax_error(error: BaseException) -> Traceback:
    """A source that does not compile: what and where, and no stack, since none of it ran."""
    return _formatted(traceback.TracebackException(type(error), error, None))


def _formatted(described: traceback.TracebackException) -> Traceback:
    """The text, and where in it which place is named: told by marks that no message can hold, since they are drawn by lot."""
    lot = os.urandom(16).hex()
    places: dict[tuple[str, int, str], str] = {}

    def mark(file: str, line: int | None, function: str) -> str:
        """The same place has the same mark: what repeats itself is shortened by comparing names."""
        place = (file, max(0, line or 0), function)
        return places.setdefault(place, f"\0{lot}:{len(places)}\0")

    for one in _all(described):
        for frame in one.stack:
            frame.name += mark(frame.filename, frame.lineno, frame.name)
        at = str(getattr(one, "lineno", ""))  # of what does not compile; its own code may have set it to anything
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
    """An exception and all that it is linked to: a tree, whatever circles the exceptions themselves make."""
    waiting: list[traceback.TracebackException | None] = [described]
    while waiting:
        one = waiting.pop()
        if one is not None:
            yield one
            waiting += [one.__cause__, one.__context__, *(getattr(one, "exceptions", None) or ())]


def _keep(described: traceback.TracebackException, cells_only: bool) -> None:
    """Begin the stack at the cell: what called it is ours, and asyncio's."""
    frames = list(described.stack)
    cells = [index for index, frame in enumerate(frames) if frame.filename.startswith(CELL)]
    if cells_only:
        frames = [frames[index] for index in cells]
    elif cells:
        frames = frames[cells[0] :]
    described.stack = _ShortStack(frames)


def _without_own_frames(described: traceback.TracebackException) -> None:
    for one in _all(described):
        one.stack = _ShortStack([frame for frame in one.stack if not frame.filename.startswith(HERE)])
