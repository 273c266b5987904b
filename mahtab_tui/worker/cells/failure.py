"""Finds out about an error of a cell and the objects that it is about, without running the user's
code. `failed_code.py` finds the code; `hints.py` and `table_hints.py` write what helps."""

from __future__ import annotations

import ast
from collections import deque
from functools import cached_property
from typing import Any

from ..completion.instances import Instance
from ..completion.resolve import resolve
from ..values.objects import MISSING, as_library_type, is_one_of, is_subclass, name_of, own_dict
from ..values.summaries import one_line, summary, type_name
from .failed_code import FailedFrame, copy_locals, find_failed_expressions, iter_frames
from .suggestions import nearest

_ARGS = BaseException.__dict__["args"]
"""Bypasses attributes of the exception's own class."""
_MAX_FRAMES = 200
"""At most this many frames are looked at, the innermost ones."""
_MAX_MESSAGE_CHARS = 2_000
"""Characters of an error's message that are read."""
_MAX_SUGGESTED_TABLES = 5
TRACEBACK_END_CHARS = 1_000
"""Python's own suggestion stands in this many characters at the end of a formatted traceback."""
_SUBJECT_NAMES = ("self", "obj", "arg", "data", "left", "right", "other", "frame", "df", "X")
"""Variables of library functions that may contain the object that the error is about."""
_TABLE_TYPES = (("pandas", "DataFrame"), ("polars", "DataFrame"), ("pyarrow", "Table"))


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
        """The name of the error's class."""
        arguments = _ARGS.__get__(error)
        # The first argument, such as a message or a missing key.
        self.argument: Any = arguments[0] if arguments else None
        if type(self.argument) is str:
            self.argument = self.argument[:_MAX_MESSAGE_CHARS]
        self.message = self.argument if type(self.argument) is str else ""
        """The argument, if it is a text; else empty."""

        self.user_frame: FailedFrame | None = None
        """The innermost frame of the user's own code; None if there is none."""
        self.library_frames: list[FailedFrame] = []
        """The frames of libraries to which it led."""
        for frame in deque(iter_frames(error), maxlen=_MAX_FRAMES):
            if frame.is_users_own:
                self.user_frame = frame
                self.library_frames = []
            elif self.user_frame is not None:
                self.library_frames.append(frame)

        self.names: dict[str, Any] = {}
        """What names mean in the user's failed code."""
        if self.user_frame is not None:
            self.names.update(dict.items(self.user_frame.frame.f_globals))
            self.names.update(copy_locals(self.user_frame.frame) or {})

    def is_a(self, kind: type[BaseException]) -> bool:
        """Return whether the error is of a class or of one derived from it."""
        return is_subclass(type(self.error), kind)

    @property
    def has_suggestion(self) -> bool:
        """Whether Python's own message suggests another name."""
        return "Did you mean" in self.traceback_text[-TRACEBACK_END_CHARS:]

    @cached_property
    def expressions(self) -> list[ast.expr]:
        """The expressions in the user's failed line, outer ones first."""
        if self.user_frame is None:
            return []
        return find_failed_expressions(self.user_frame)

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
            variables = copy_locals(library_frame.frame) or {}
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


def _is_table(value: object) -> bool:
    plain_value = as_library_type(value)
    return any(is_one_of(plain_value, *table_type) for table_type in _TABLE_TYPES)
