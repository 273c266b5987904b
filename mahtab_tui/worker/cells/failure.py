"""An error of a cell, and the code and the objects that it is about, without running user code."""

from __future__ import annotations

import ast
import linecache
import sys
from collections.abc import Iterator
from functools import cached_property
from itertools import islice
from types import FrameType, TracebackType
from typing import Any, NamedTuple

from ..completion.instances import Instance
from ..completion.resolve import resolve
from ..magic.syntax import parse_python
from ..values.objects import (
    MISSING,
    as_library_type,
    is_one_of,
    is_subclass,
    name_of,
    own_dict,
)
from ..values.summaries import one_line, summary, type_name
from .suggestions import nearest
from .tracebacks import OUR_FOLDER, library_name

_ARGS = BaseException.__dict__["args"]
_TRACEBACK = BaseException.__dict__["__traceback__"]
"""These bypass attributes of the exception's own class."""
_MAX_MESSAGE_CHARS = 2_000
"""Characters of an error's message that are read."""
_MAX_FRAMES = 200
"""Frames that are looked at, the innermost ones."""
_MAX_PARSED_LINES = 10_000
"""Of a longer file, only the failed line is parsed."""
_MAX_SUGGESTED_TABLES = 5
TRACEBACK_END_CHARS = 1_000
"""The end of a formatted traceback, in which Python's own suggestion stands."""
_SUBJECT_NAMES = ("self", "obj", "arg", "data", "left", "right", "other", "frame", "df", "X")
"""Variables of library functions that may contain the object that the error is about."""
_TABLE_TYPES = (("pandas", "DataFrame"), ("polars", "DataFrame"), ("pyarrow", "Table"))


class Frame(NamedTuple):
    """A frame of a traceback."""

    frame: FrameType
    line: int
    instruction: int
    """The offset of the failed instruction, in bytes."""


class Failure:
    """An error, and where it happened.

    Args:
        error: The exception that ended a cell.
        traceback_text: Its formatted traceback, as the user sees it.
    """

    def __init__(self, error: BaseException, traceback_text: str) -> None:
        self.error = error
        self.traceback_text = traceback_text
        self.kind = name_of(type(error))
        arguments = _ARGS.__get__(error)
        self.argument: Any = arguments[0] if arguments else None
        if type(self.argument) is str:
            self.argument = self.argument[:_MAX_MESSAGE_CHARS]
        self.message = self.argument if type(self.argument) is str else ""

        # The newest frame of the user's own code, and the library's frames that it led to.
        frames = list(_frames(_TRACEBACK.__get__(error)))[-_MAX_FRAMES:]
        user_positions = [position for position, frame in enumerate(frames) if _is_users(frame)]
        self.user_frame = frames[user_positions[-1]] if user_positions else None
        self.library_frames = frames[user_positions[-1] + 1 :] if user_positions else []

        self.names: dict[str, Any] = {}
        if self.user_frame is not None:
            self.names.update(dict.items(self.user_frame.frame.f_globals))
            self.names.update(frame_locals(self.user_frame.frame))

    def is_a(self, kind: type[BaseException]) -> bool:
        return is_subclass(type(self.error), kind)

    @property
    def has_suggestion(self) -> bool:
        """Whether Python's own message suggests another name."""
        return "Did you mean" in self.traceback_text[-TRACEBACK_END_CHARS:]

    @cached_property
    def expressions(self) -> list[ast.expr]:
        """The expressions in the user's failed line, outer ones first; from Python 3.11 on, only
        those in its failed part."""
        if self.user_frame is None:
            return []
        lines = linecache.getlines(self.user_frame.frame.f_code.co_filename)
        line = self.user_frame.line
        tree = None
        if len(lines) <= _MAX_PARSED_LINES:
            tree = parse_python("".join(lines))
        if tree is None and 0 < line <= len(lines):
            # A long file, or a cell with a magic command: parse the line alone.
            tree = _parse_line(lines[line - 1].rstrip(), line)
        if tree is None:
            return []

        in_line = [
            node
            for node in ast.walk(tree)
            if isinstance(node, ast.expr) and node.lineno <= line <= (node.end_lineno or 0)
        ]
        start, end = _failed_part(self.user_frame)
        in_failed_part = [
            node
            for node in in_line
            if start <= (node.lineno, node.col_offset)
            and (node.end_lineno or 0, node.end_col_offset or 0) <= end
        ]
        return in_failed_part or in_line

    def evaluate(self, node: ast.expr) -> object:
        """Return the value of an expression; `MISSING` if code would have to run."""
        value = resolve(ast.unparse(node), self.names)
        if type(value) is Instance:
            return MISSING
        return value

    def objects(self) -> list[Any]:
        """Return the objects that the error may be about, the likeliest first."""
        candidates: list[Any] = []
        for library_frame in reversed(self.library_frames):
            variables = frame_locals(library_frame.frame)
            for namespace in (variables, own_dict(variables.get("self"))):
                candidates += [namespace[name] for name in _SUBJECT_NAMES if name in namespace]
        for node in self.expressions:
            if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)):
                candidates.append(self.evaluate(node))
        return list({id(value): value for value in candidates}.values())

    def find_name(self, value: object) -> str:
        """Return the user's name of an object; empty if it has none."""
        for name, other in self.names.items():
            if other is value and type(name) is str and name[:1] != "_":
                return name
        return ""

    def tables(self, similar_to: str) -> list[str]:
        """Describe some of the user's tables: those with a similar name, then the newest."""
        tables = {
            name: value
            for name, value in self.names.items()
            if type(name) is str and name[:1] != "_" and _is_table(value)
        }
        ordered_names = dict.fromkeys([*nearest(similar_to, tables), *reversed(tables)])
        names = list(ordered_names)[:_MAX_SUGGESTED_TABLES]
        return [
            f"{one_line(name, 40)} ({type_name(tables[name])}, {summary(tables[name])})"
            for name in names
        ]


def _parse_line(text: str, line: int) -> ast.Module | None:
    """Return the syntax tree of a line of code with its number and its columns; None if the line is
    only part of a statement."""
    if text[:1].isspace() and line > 1:
        # An indented line is the body of a block.
        return parse_python("\n" * (line - 2) + f"if 1:\n{text}")
    return parse_python("\n" * (line - 1) + text.strip())


def _is_users(frame: Frame) -> bool:
    """Return whether a frame is of the user's own code: not ours, and not a library's."""
    file = frame.frame.f_code.co_filename
    return not file.startswith(OUR_FOLDER) and not library_name(file, frame.frame.f_code.co_name)


def _is_table(value: object) -> bool:
    plain_value = as_library_type(value)
    return any(is_one_of(plain_value, *table_type) for table_type in _TABLE_TYPES)


def frame_locals(frame: FrameType) -> dict[str, object]:
    """Return a copy of a frame's variables; empty if reading them would run code."""
    local_variables = frame.f_locals
    if isinstance(local_variables, dict):
        return dict(dict.items(local_variables))
    # From Python 3.13 on, a function's variables are a proxy. Another type runs the user's code.
    kind = type(local_variables)
    if kind.__name__ == "FrameLocalsProxy" and kind.__module__ == "builtins":
        return dict(local_variables)
    return {}


def _frames(traceback: TracebackType | None) -> Iterator[Frame]:
    while traceback is not None:
        yield Frame(traceback.tb_frame, traceback.tb_lineno, traceback.tb_lasti)
        traceback = traceback.tb_next


def _failed_part(frame: Frame) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return start and end of the failed code, as line and column; an empty part if unknown."""
    if sys.version_info >= (3, 11):
        # Each instruction has two bytes.
        positions = frame.frame.f_code.co_positions()
        position = next(islice(positions, frame.instruction // 2, None), (None,) * 4)
        line, end_line, column, end_column = (-1 if part is None else part for part in position)
        if min(line, end_line, column, end_column) >= 0:
            return (line, column), (end_line, end_column)
    return (1, 0), (0, 0)
