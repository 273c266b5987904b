"""Where an error happened: the frames of its traceback, and the expressions in the failed line."""

from __future__ import annotations

import ast
import linecache
import sys
from collections.abc import Iterator
from itertools import islice
from types import FrameType, TracebackType
from typing import NamedTuple

from ..magic.syntax import parse_python
from ..values.objects import is_subclass
from .tracebacks import OUR_FOLDER, library_name

_TRACEBACK = BaseException.__dict__["__traceback__"]
"""Bypasses attributes of the exception's own class."""
_MAX_PARSED_LINES = 10_000
"""Lines of a file that is parsed whole; in a longer one, only the failed line is parsed."""


class FailedFrame(NamedTuple):
    """A frame of a traceback."""

    frame: FrameType
    line: int
    """The number of the failed line."""
    instruction: int
    """The offset of the failed instruction, in bytes."""

    @property
    def is_users_own(self) -> bool:
        """Whether the code is the user's own: not ours, and not a library's."""
        code = self.frame.f_code
        is_ours = code.co_filename.startswith(OUR_FOLDER)
        return not is_ours and not library_name(code.co_filename, code.co_name)


class _Span(NamedTuple):
    """A part of a source, with lines from 1 and columns from 0, in bytes."""

    start: tuple[int, int]
    """Line and column."""
    end: tuple[int, int]

    def contains(self, node: ast.expr) -> bool:
        """Return whether an expression is completely in it."""
        node_end = (node.end_lineno or 0, node.end_col_offset or 0)
        return self.start <= (node.lineno, node.col_offset) and node_end <= self.end


def copy_locals(frame: FrameType) -> dict[str, object] | None:
    """Return a copy of a frame's variables; None if reading them would run code."""
    local_variables = frame.f_locals
    kind = type(local_variables)
    if is_subclass(kind, dict):
        return dict(dict.items(local_variables))
    # From Python 3.13 on, a function's variables are a proxy. Another type runs the user's code.
    if kind.__name__ == "FrameLocalsProxy" and kind.__module__ == "builtins":
        return dict(local_variables)
    return None


def iter_frames(error: BaseException) -> Iterator[FailedFrame]:
    """Yield the frames of an error's traceback, the innermost at the end."""
    traceback: TracebackType | None = _TRACEBACK.__get__(error)
    while traceback is not None:
        yield FailedFrame(traceback.tb_frame, traceback.tb_lineno, traceback.tb_lasti)
        traceback = traceback.tb_next


def find_failed_expressions(frame: FailedFrame) -> list[ast.expr]:
    """Return the expressions in the failed line, outer ones first; from Python 3.11 on, only those in
    its failed part."""
    lines = linecache.getlines(frame.frame.f_code.co_filename)
    tree = None
    if len(lines) <= _MAX_PARSED_LINES:
        tree = parse_python("".join(lines))
    if tree is None and 0 < frame.line <= len(lines):
        # A long file, or a cell with a magic command: parse the line alone.
        tree = _parse_line(lines[frame.line - 1].rstrip(), frame.line)
    if tree is None:
        return []

    in_line = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.expr) and node.lineno <= frame.line <= (node.end_lineno or 0)
    ]
    failed_span = _find_failed_span(frame)
    return [node for node in in_line if failed_span.contains(node)] or in_line


def _parse_line(text: str, line: int) -> ast.Module | None:
    """Return the syntax tree of a line of code with its number and its columns; None if the line is
    only part of a statement."""
    if text[:1].isspace() and line > 1:
        # An indented line is the body of a block.
        return parse_python("\n" * (line - 2) + f"if 1:\n{text}")
    return parse_python("\n" * (line - 1) + text.strip())


def _find_failed_span(frame: FailedFrame) -> _Span:
    """Return the failed code; an empty span if it is unknown."""
    if sys.version_info >= (3, 11):
        # Each instruction has two bytes.
        positions = frame.frame.f_code.co_positions()
        position = next(islice(positions, frame.instruction // 2, None), (None,) * 4)
        line, end_line, column, end_column = (-1 if part is None else part for part in position)
        if min(line, end_line, column, end_column) >= 0:
            return _Span((line, column), (end_line, end_column))
    return _Span((1, 0), (0, 0))
