"""Examines an error that ended a cell: message, line, and objects in it. No user code runs."""

from __future__ import annotations

import ast
import linecache
import re
import sys
from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import accumulate, islice
from types import FrameType, TracebackType
from typing import Any, NamedTuple

from .completion.resolve import Instance, resolve
from .magics import parse_python
from .objects import (
    MISSING,
    as_library_type,
    is_one_of,
    is_subclass,
    name_of,
    own_dict,
)
from .stdlib import late_import
from .tracebacks import OUR_FOLDER, library_name
from .variables import one_line, summary, type_name

_ARGS, _TRACEBACK = BaseException.__dict__["args"], BaseException.__dict__["__traceback__"]
"""These bypass attributes of the exception's own class."""
_FRAMES = 200
_NAMES = ("self", "obj", "arg", "data", "left", "right", "other", "frame", "df", "X")
"""Variables of library functions that contain the object in question."""
_COMPARED = 2_000
_MESSAGE = 2_000
_LINES = 10_000


class Frame(NamedTuple):
    frame: FrameType
    line: int
    instruction: int


class Failure:
    def __init__(self, error: BaseException, shown: str) -> None:
        self.error = error
        self.shown = shown
        self.kind = name_of(type(error))
        arguments = _ARGS.__get__(error)
        self.argument: Any = arguments[0] if arguments else None
        if type(self.argument) is str:
            self.argument = self.argument[:_MESSAGE]
        self.message = self.argument if type(self.argument) is str else ""
        frames = list(_frames(_TRACEBACK.__get__(error)))[-_FRAMES:]
        users = []
        for index, each in enumerate(frames):
            file, function = each.frame.f_code.co_filename, each.frame.f_code.co_name
            if not file.startswith(OUR_FOLDER) and not library_name(file, function):
                users.append(index)
        self.user = frames[users[-1]] if users else None
        self.inside = frames[users[-1] + 1 :] if users else []
        self.names: dict[str, Any] = {}
        if self.user is not None:
            self.names.update(dict.items(self.user.frame.f_globals))
            self.names.update(frame_locals(self.user.frame))

    def is_a(self, kind: type[BaseException]) -> bool:
        return is_subclass(type(self.error), kind)

    @property
    def suggests(self) -> bool:
        return "Did you mean" in self.shown[-1_000:]

    @cached_property
    def expressions(self) -> list[ast.expr]:
        """The expressions in the user's line, outer ones first; from 3.11 on, in the failed
        part."""
        if self.user is None:
            return []
        lines = linecache.getlines(self.user.frame.f_code.co_filename)
        line = self.user.line
        tree = parse_python("".join(lines)) if len(lines) <= _LINES else None
        if tree is None and 0 < line <= len(lines):  # a long file, or a cell with a magic command
            tree = parse_python("\n" * (line - 1) + lines[line - 1].strip())
        found = [
            node
            for node in ([] if tree is None else ast.walk(tree))
            if isinstance(node, ast.expr) and node.lineno <= line <= (node.end_lineno or 0)
        ]
        start, end = _position(self.user)
        return [
            node
            for node in found
            if start <= (node.lineno, node.col_offset)
            and (node.end_lineno or 0, node.end_col_offset or 0) <= end
        ] or found

    def evaluate(self, node: ast.expr) -> Any:
        value = resolve(ast.unparse(node), self.names)
        return MISSING if type(value) is Instance else value

    def objects(self) -> list[Any]:
        found: list[Any] = []
        for each in reversed(self.inside):
            variables = frame_locals(each.frame)
            for names in (variables, own_dict(variables.get("self"))):
                found += [names[name] for name in _NAMES if name in names]
        for node in self.expressions:
            if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)):
                found.append(self.evaluate(node))
        return list({id(value): value for value in found}.values())

    def find_name(self, value: object) -> str:
        for name, each in self.names.items():
            if each is value and type(name) is str and name[:1] != "_":
                return name
        return ""

    def tables(self, like: str) -> list[str]:
        kinds = (("pandas", "DataFrame"), ("polars", "DataFrame"), ("pyarrow", "Table"))
        found = {
            name: value
            for name, value in self.names.items()
            if type(name) is str
            and name[:1] != "_"
            and any(is_one_of(as_library_type(value), *kind) for kind in kinds)
        }
        names = list(dict.fromkeys([*nearest(like, found), *reversed(found)]))[:5]
        return [
            f"{one_line(name, 40)} ({type_name(found[name])}, {summary(found[name])})"
            for name in names
        ]


def frame_locals(frame: FrameType) -> dict[str, Any]:
    found = frame.f_locals
    if isinstance(found, dict):
        return dict(dict.items(found))
    # From Python 3.13 on.
    proxy = type(found).__name__ == "FrameLocalsProxy" and type(found).__module__ == "builtins"
    return dict(found) if proxy else {}


def nearest(name: str, names: Iterable[str]) -> list[str]:
    known = list(islice((each for each in names if each != name), _COMPARED))
    plain = {each: _plain(each) for each in known}
    wanted = _plain(name)
    if equal := [each for each in known if plain[each] == wanted]:
        return equal[:3]
    cutoff = 0.6 if len(wanted) > 3 else 0.75
    near = late_import("difflib").get_close_matches(wanted, set(plain.values()), 3, cutoff)
    found = [each for value in near for each in known if plain[each] == value]
    for each, short in plain.items():
        if min(len(wanted), len(short)) >= 3 and (wanted in short or short in wanted):
            found.append(each)
    return list(dict.fromkeys(found))[:3]


def did_you_mean(names: Iterable[str]) -> str:
    text = " or ".join(f"'{one_line(name, 60)}'" for name in names)
    return f" Did you mean {text}?" if text else ""


def list_names(names: Iterable[str], room: int = 300) -> str:
    every = [one_line(name if name == name.strip() else repr(name), 60) for name in names]
    ends = accumulate(len(name) + 2 for name in every)
    shown = every[: sum(end <= room for end in ends)]
    more = f", … ({len(every):,} in all)" if len(every) < _COMPARED else ", …"
    return ", ".join(shown) + (more if len(shown) < len(every) else "")


def _plain(name: str) -> str:
    return re.sub(r"[\W_]+", "", name[:100]).lower()


def _frames(traceback: TracebackType | None) -> Iterator[Frame]:
    while traceback is not None:
        yield Frame(traceback.tb_frame, traceback.tb_lineno, traceback.tb_lasti)
        traceback = traceback.tb_next


def _position(failed: Frame) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return start and end of the failed code, as line and column."""
    if sys.version_info >= (3, 11):
        positions = failed.frame.f_code.co_positions()
        found = next(islice(positions, failed.instruction // 2, None), (None,) * 4)
        line, end_line, column, end_column = (-1 if each is None else each for each in found)
        if min(line, end_line, column, end_column) >= 0:
            return (line, column), (end_line, end_column)
    return (1, 0), (0, 0)
