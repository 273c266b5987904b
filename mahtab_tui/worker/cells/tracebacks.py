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
"""What the file names of cells begin with."""

_HEAD_FRAMES = 12
"""Frames to show at the beginning of a long traceback."""
_TAIL_FRAMES = 20
"""Frames to show at its end."""
_MAX_FRAMES = 200
"""Frames whose places are sent to the host."""
_MAX_NAME_CHARS = 4_096
_MAX_NAMED_LIBRARIES = 3
"""Libraries that are named in one line."""
_MAX_LINE_DIGITS = 9
"""Digits of a syntax error's line number, which code may have set to anything."""

_PACKAGES = re.compile(r".*[/\\](?:site|dist)-packages[/\\]([^/\\]+)", re.DOTALL)
_STANDARD_LIBRARY = os.path.dirname(os.__file__) + os.sep
_FROZEN_MODULE = "<frozen "
_NUMPY_FUNCTION = "<__array_function__"
"""What the file names of frozen modules, and of numpy's generated functions, begin with."""
_CYTHON_SUFFIXES = (".pyx", ".pxi", ".pxd")

_UNTERMINATED = re.compile("unterminated f?-?string literal|EOL while scanning string literal")
_STRING_HINT = r"Hint: a string in single quotation marks ends on its line: write three of them, or \n where a line breaks"


class TracebackRow(NamedTuple):
    """A frame of a traceback, and where it stands in the text."""

    file: str
    line: int
    """0 if unknown."""
    function: str
    """Empty for a syntax error."""
    row: int
    """Number of lines from this frame's line to the end of the text (1: the last); 0 if missing."""


class Traceback(NamedTuple):
    """A formatted traceback."""

    text: str
    frames: list[TracebackRow]

    def with_last_line(self, line: str) -> Traceback:
        """Return a traceback with one more line."""
        frames = [
            frame._replace(row=frame.row + 1) if frame.row else frame for frame in self.frames
        ]
        return Traceback(f"{self.text}{line}\n", frames)


class _Location(NamedTuple):
    """The place of a frame, or of a syntax error."""

    file: str
    line: int
    function: str

    def to_row(self, row: int) -> TracebackRow:
        file = self.file
        if not file.startswith(CELL) and not os.path.isabs(file) and os.path.isfile(file):
            file = os.path.abspath(file)
        function = self.function[:_MAX_NAME_CHARS]
        return TracebackRow(file[-_MAX_NAME_CHARS:], self.line, function, row)


def cell_filename(cell: int) -> str:
    """Return the name under which a cell is compiled, such as ``In [3]``."""
    return f"{CELL}{cell}]"


def library_name(file: str, function: str) -> str:
    """Return the library of a frame; empty for cells and the user's own files."""
    if match := _PACKAGES.match(file):
        return match[1].removesuffix(".py")
    if file.startswith(_STANDARD_LIBRARY):
        return file[len(_STANDARD_LIBRARY) :].partition(os.sep)[0].removesuffix(".py")
    if file.startswith(_FROZEN_MODULE):
        return file[len(_FROZEN_MODULE) : -1].partition(".")[0]
    if file.startswith(_NUMPY_FUNCTION):
        return "numpy"
    if file.endswith(_CYTHON_SUFFIXES):
        return function.partition(".")[0]
    return ""


def _is_library(frame: traceback.FrameSummary) -> bool:
    return library_name(frame.filename, frame.name) != ""


class _ShortStack(traceback.StackSummary):
    """Counts library frames, and shortens a recursion."""

    folds = True
    """Whether a run of library frames is one line."""

    def format(self, **options: object) -> list[str]:
        lines: list[str] = []
        for is_library, run in groupby(self, _is_library):
            if is_library and self.folds:
                lines.append(_fold(list(run)))
            else:
                lines += traceback.StackSummary(run).format(**options)
        omitted_count = len(lines) - _HEAD_FRAMES - _TAIL_FRAMES
        if omitted_count > 1:
            lines[_HEAD_FRAMES:-_TAIL_FRAMES] = [f"  … {omitted_count} frames left out …\n"]
        return lines


def _fold(frames: list[traceback.FrameSummary]) -> str:
    """Return the line in place of library frames, with the marks in their names (see `_Marks`)."""
    libraries = list(dict.fromkeys(library_name(frame.filename, frame.name) for frame in frames))
    names = ", ".join(libraries[:_MAX_NAMED_LIBRARIES])
    if len(libraries) > _MAX_NAMED_LIBRARIES:
        names += ", …"
    plural = "s" if len(frames) > 1 else ""
    marks = "".join(frame.name[frame.name.rfind("\0", 0, -1) :] for frame in frames)
    return f"  … {len(frames):,} frame{plural} in {names}{marks}\n"


def describe(error: BaseException, tb: TracebackType | None) -> Traceback:
    """Format a traceback. Calls the exception's `__str__`, which may fail."""
    described = traceback.TracebackException(type(error), error, tb, lookup_lines=False)
    # Without asyncio's frames above the cell.
    described.stack[:] = _frames_from_cell(list(described.stack))
    exceptions = list(_linked_exceptions(described))
    for exception in exceptions:
        visible = [frame for frame in exception.stack if not frame.filename.startswith(OUR_FOLDER)]
        exception.stack = _ShortStack(visible)

    if isinstance(error, KeyboardInterrupt):
        described.__cause__ = None
        described.__context__ = None
        user_frames = [frame for frame in described.stack if not _is_library(frame)]
        described.stack = _ShortStack(user_frames)
    elif all(_is_library(frame) for exception in exceptions for frame in exception.stack):
        for exception in exceptions:
            exception.stack.folds = False  # type: ignore[attr-defined]
    else:
        _drop_repeated(described)
    return _format(described)


def _frames_from_cell(frames: list[traceback.FrameSummary]) -> list[traceback.FrameSummary]:
    """Return the frames from the first one of a cell on; all of them without one."""
    for index, frame in enumerate(frames):
        if frame.filename.startswith(CELL):
            return frames[index:]
    return frames


def _drop_repeated(described: traceback.TracebackException) -> None:
    """Remove library exceptions whose message is repeated by the next one."""
    for exception in _linked_exceptions(described):
        while (inner := _shown_cause(exception)) is not None:
            is_library = inner.stack and all(map(_is_library, inner.stack))
            if not is_library or _message(inner) not in _message(exception):
                break
            exception.__cause__ = inner.__cause__
            exception.__context__ = inner.__context__
            exception.__suppress_context__ = inner.__suppress_context__


def _shown_cause(
    described: traceback.TracebackException,
) -> traceback.TracebackException | None:
    """Return the exception that a traceback shows above another one."""
    if described.__cause__ is not None or described.__suppress_context__:
        return described.__cause__
    return described.__context__


def _message(described: traceback.TracebackException) -> str:
    """Return the text of an exception; its class if it has none."""
    name, _, message = "".join(described.format_exception_only()).partition(": ")
    return message.strip() or name


def describe_safely(error: BaseException) -> Traceback:
    """Format the traceback of an error; only its class if that is impossible. Never raises."""
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
    """Return the text of a traceback, as `describe_safely` makes it."""
    return describe_safely(error).text


def syntax_error(error: BaseException) -> Traceback:
    """Format an error of code that was not compiled, without the frames of the compiler."""
    described = _format(traceback.TracebackException(type(error), error, None))
    if _UNTERMINATED.match(str(error)):
        return described.with_last_line(_STRING_HINT)
    return described


class _Marks:
    """Marks in the text of a traceback, by which the lines of locations are found in it.

    They are random, so that no text imitates them.
    """

    def __init__(self) -> None:
        self._prefix = os.urandom(16).hex()
        self._marks: dict[_Location, str] = {}

    def mark(self, file: str, line: int | None, function: str) -> str:
        """Return the mark of a location, always the same one, because `traceback` compares names."""
        location = _Location(file, max(0, line or 0), function)
        return self._marks.setdefault(location, f"\0{self._prefix}:{len(self._marks)}\0")

    def remove(self, text: str) -> Traceback:
        """Return a text without its marks, and the frames that they stand for."""
        pattern = re.compile(f"\0{self._prefix}:(\\d+)\0")
        locations = list(self._marks)
        lines = text.split("\n")
        frames: list[TracebackRow] = []
        for number, line in enumerate(lines):
            indexes = pattern.findall(line)
            if not indexes:
                continue
            lines[number] = pattern.sub("", line)
            row = len(lines) - 1 - number
            frames += [locations[int(index)].to_row(row) for index in indexes]
            del frames[:-_MAX_FRAMES]
        return Traceback("\n".join(lines), frames)


def _format(described: traceback.TracebackException) -> Traceback:
    """Format a traceback, and find its frames in the text."""
    marks = _Marks()
    for exception in _linked_exceptions(described):
        for frame in exception.stack:
            frame.name += marks.mark(frame.filename, frame.lineno, frame.name)
        # The line of a syntax error.
        line = str(getattr(exception, "lineno", ""))
        if line.isdecimal() and len(line) <= _MAX_LINE_DIGITS:
            file = str(getattr(exception, "filename", "") or "<string>")
            exception.filename = file + marks.mark(file, int(line), "")
    return marks.remove("".join(described.format()))


def _linked_exceptions(
    described: traceback.TracebackException,
) -> Iterator[traceback.TracebackException]:
    """Yield an exception, and those that its traceback shows above and inside it."""
    pending: list[traceback.TracebackException | None] = [described]
    while pending:
        exception = pending.pop()
        if exception is None:
            continue
        yield exception
        # Of an exception group, also those in it.
        inner_exceptions = getattr(exception, "exceptions", None) or ()
        pending += [exception.__cause__, exception.__context__, *inner_exceptions]
