"""Formats tracebacks without our own frames; library frames are only counted."""

from __future__ import annotations

import os
import re
import traceback
from collections.abc import Iterator
from itertools import groupby
from types import TracebackType
from typing import NamedTuple

OUR_FOLDER = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
"""The worker's parent, which also contains the in-process kernel."""
CELL = "In ["

_HEAD_FRAMES = 12
_TAIL_FRAMES = 20

_MAX_FRAMES = 200

_MAX_NAME_CHARS = 4_096

_PACKAGES = re.compile(r".*[/\\](?:site|dist)-packages[/\\]([^/\\]+)", re.DOTALL)
_STANDARD = os.path.dirname(os.__file__) + os.sep
_CYTHON = (".pyx", ".pxi", ".pxd")

_UNTERMINATED = re.compile("unterminated f?-?string literal|EOL while scanning string literal")
_STRING_HINT = r"Hint: a string in single quotation marks ends on its line: write three of them, or \n where a line breaks"


class TracebackRow(NamedTuple):
    file: str
    line: int
    """0 if unknown."""
    function: str
    """Empty for a syntax error."""
    row: int
    """Number of lines from this frame's line to the end of the text (1: the last); 0 if missing."""


class Traceback(NamedTuple):
    text: str
    frames: list[TracebackRow]

    def with_last_line(self, line: str) -> Traceback:
        return Traceback(
            f"{self.text}{line}\n",
            [frame._replace(row=frame.row + 1) if frame.row else frame for frame in self.frames],
        )


def cell_filename(cell: int) -> str:
    return f"{CELL}{cell}]"


def library_name(file: str, function: str) -> str:
    """Return the library of a frame; empty for cells and the user's own files."""
    if match := _PACKAGES.match(file):
        return match[1].removesuffix(".py")
    if file.startswith(_STANDARD):
        return file[len(_STANDARD) :].partition(os.sep)[0].removesuffix(".py")
    if file.startswith("<frozen "):
        return file[len("<frozen ") : -1].partition(".")[0]
    if file.startswith("<__array_function__"):
        return "numpy"
    if file.endswith(_CYTHON):
        return function.partition(".")[0]
    return ""


def _is_library(frame: traceback.FrameSummary) -> bool:
    return library_name(frame.filename, frame.name) != ""


class _ShortStack(traceback.StackSummary):
    """Counts library frames, and shortens a recursion."""

    folds = True

    def format(self, **options: object) -> list[str]:
        lines: list[str] = []
        for library, run in groupby(self, _is_library):
            if library and self.folds:
                lines.append(_fold(list(run)))
            else:
                lines += traceback.StackSummary(run).format(**options)
        omitted = len(lines) - _HEAD_FRAMES - _TAIL_FRAMES
        if omitted > 1:
            lines[_HEAD_FRAMES:-_TAIL_FRAMES] = [f"  … {omitted} frames left out …\n"]
        return lines


def _fold(frames: list[traceback.FrameSummary]) -> str:
    libraries = list(dict.fromkeys(library_name(frame.filename, frame.name) for frame in frames))
    names = ", ".join(libraries[:3]) + (", …" if len(libraries) > 3 else "")
    marks = "".join(frame.name[frame.name.rfind("\0", 0, -1) :] for frame in frames)
    return f"  … {len(frames):,} frame{'s' * (len(frames) > 1)} in {names}{marks}\n"


def describe(error: BaseException, tb: TracebackType | None) -> Traceback:
    """Format a traceback. Calls the exception's `__str__`, which may fail."""
    described = traceback.TracebackException(type(error), error, tb, lookup_lines=False)
    frames = list(described.stack)
    of_cells = [frame.filename.startswith(CELL) for frame in frames]
    first_cell_frame = 0
    if True in of_cells:
        first_cell_frame = of_cells.index(True)
    described.stack[:] = frames[first_cell_frame:]  # without asyncio's frames above the cell
    for exception in _linked_exceptions(described):
        outside = (frame for frame in exception.stack if not frame.filename.startswith(OUR_FOLDER))
        exception.stack = _ShortStack(outside)
    if isinstance(error, KeyboardInterrupt):
        described.__cause__ = described.__context__ = None
        described.stack = _ShortStack(frame for frame in described.stack if not _is_library(frame))
    elif all(
        _is_library(frame)
        for exception in _linked_exceptions(described)
        for frame in exception.stack
    ):
        for exception in _linked_exceptions(described):
            exception.stack.folds = False  # type: ignore[attr-defined]
    else:
        _drop_repeated(described)
    return _format(described)


def _drop_repeated(described: traceback.TracebackException) -> None:
    """Remove library exceptions whose message is repeated by the next one."""
    for exception in _linked_exceptions(described):
        while inner := exception.__cause__ or (
            None if exception.__suppress_context__ else exception.__context__
        ):
            is_library = inner.stack and all(map(_is_library, inner.stack))
            if not is_library or _message(inner) not in _message(exception):
                break
            exception.__cause__ = inner.__cause__
            exception.__context__ = inner.__context__
            exception.__suppress_context__ = inner.__suppress_context__


def _message(described: traceback.TracebackException) -> str:
    name, _, message = "".join(described.format_exception_only()).partition(": ")
    return message.strip() or name


def describe_safely(error: BaseException) -> Traceback:
    try:
        return describe(error, error.__traceback__)
    except RecursionError:
        note = ""
    except KeyboardInterrupt:
        note = ": (interrupted while its traceback was made)"
    except BaseException as again:
        note = f": (its traceback cannot be shown: {type(again).__name__})"
    return Traceback(f"{type(error).__name__}{note}\n", [])


def format_safely(error: BaseException) -> str:
    return describe_safely(error).text


def syntax_error(error: BaseException) -> Traceback:
    described = _format(traceback.TracebackException(type(error), error, None))
    if _UNTERMINATED.match(str(error)):
        return described.with_last_line(_STRING_HINT)
    return described


def _format(described: traceback.TracebackException) -> Traceback:
    """Format a traceback; random marks find the locations in its text."""
    lot = os.urandom(16).hex()
    locations: dict[tuple[str, int, str], str] = {}

    def mark(file: str, line: int | None, function: str) -> str:
        """Return the mark of a location; `traceback` compares names."""
        location = (file, max(0, line or 0), function)
        return locations.setdefault(location, f"\0{lot}:{len(locations)}\0")

    for exception in _linked_exceptions(described):
        for frame in exception.stack:
            frame.name += mark(frame.filename, frame.lineno, frame.name)
        # The line of a syntax error, which user code may have set to anything.
        at = str(getattr(exception, "lineno", ""))
        if at.isdecimal() and len(at) < 10:
            file = str(getattr(exception, "filename", "") or "<string>")
            exception.filename = file + mark(file, int(at), "")
    marked = re.compile(f"\0{lot}:(\\d+)\0")
    lines = "".join(described.format()).split("\n")
    known_locations = list(locations)
    marked_locations: list[tuple[tuple[str, int, str], int]] = []
    for number, line in enumerate(lines):
        if marks := marked.findall(line):
            lines[number] = marked.sub("", line)
            marked_locations += [
                (known_locations[int(index)], len(lines) - 1 - number) for index in marks
            ]
    traceback_frames = [
        _frame(*location, row=row) for location, row in marked_locations[-_MAX_FRAMES:]
    ]
    return Traceback("\n".join(lines), traceback_frames)


def _frame(file: str, line: int, function: str, row: int) -> TracebackRow:
    if not file.startswith(CELL) and not os.path.isabs(file) and os.path.isfile(file):
        file = os.path.abspath(file)
    return TracebackRow(file[-_MAX_NAME_CHARS:], line, function[:_MAX_NAME_CHARS], row)


def _linked_exceptions(
    described: traceback.TracebackException,
) -> Iterator[traceback.TracebackException]:
    waiting: list[traceback.TracebackException | None] = [described]
    while waiting:
        if (exception := waiting.pop()) is not None:
            yield exception
            waiting += [
                exception.__cause__,
                exception.__context__,
                *(getattr(exception, "exceptions", None) or ()),
            ]
