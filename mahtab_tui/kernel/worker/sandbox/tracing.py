"""Keeps the places of strings where Python's own methods would lose them: in matches of `re`, in `join` and in f-strings.

The code of a turn is changed before it is compiled: `x.group(1)` becomes a call of `group` here with x and 1, and so on. For all other
objects these functions do what the method does.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from itertools import islice
from re import Match, Pattern
from typing import Any

from .tracked import Tracked, joined

MOST_FOUND = 10_000
"""Matches of one call that are tracked; the others are plain strings."""


def group(match: Any, *args: Any) -> Any:
    """`match.group(...)`."""
    found = match.group(*args)
    if type(match) is not Match or not isinstance(match.string, Tracked):
        return found
    if len(args) <= 1:
        return _cut(match, found, args[0] if args else 0)
    return tuple(_cut(match, each, number) for each, number in zip(found, args))


def groups(match: Any, *args: Any, **kwargs: Any) -> Any:
    """`match.groups(...)`."""
    found = match.groups(*args, **kwargs)
    if type(match) is not Match or not isinstance(match.string, Tracked):
        return found
    return tuple(_cut(match, each, number) for number, each in enumerate(found, 1))


def groupdict(match: Any, *args: Any, **kwargs: Any) -> Any:
    """`match.groupdict(...)`."""
    found = match.groupdict(*args, **kwargs)
    if type(match) is not Match or not isinstance(match.string, Tracked):
        return found
    return {name: _cut(match, each, name) for name, each in found.items()}


def item(value: Any, key: Any) -> Any:
    """`value[key]`, for a key that is written in the code."""
    found = value[key]
    return _cut(value, found, key) if type(value) is Match and isinstance(value.string, Tracked) else found


def findall(owner: Any, *args: Any, **kwargs: Any) -> Any:
    """`re.findall(...)` or `pattern.findall(...)`."""
    asked = _pattern(owner, args, kwargs)
    if asked is None:
        return owner.findall(*args, **kwargs)
    pattern, string, rest = asked
    matches = pattern.finditer(string, *rest)
    first = list(islice(matches, MOST_FOUND))
    _seen(string, first)
    found = [_found(match, pattern.groups) for match in first]
    if len(first) < MOST_FOUND:
        return found
    if first[-1].end() > first[-1].start():
        return found + pattern.findall(string, first[-1].end(), *rest[1:])
    return found + [_plain(match, pattern.groups) for match in matches]


def split(owner: Any, *args: Any, **kwargs: Any) -> Any:
    """`re.split(...)` or `pattern.split(...)`."""
    if isinstance(owner, str):
        return owner.split(*args, **kwargs)
    asked = _pattern(owner, args, kwargs, "maxsplit")
    if asked is None:
        return owner.split(*args, **kwargs)
    pattern, string, rest = asked
    most = rest[0] if rest else 0
    matches = list(islice(pattern.finditer(string), min(most, MOST_FOUND) if most > 0 else MOST_FOUND))
    if len(matches) == MOST_FOUND or most < 0:
        return owner.split(*args, **kwargs)
    _seen(string, matches)
    parts: list[Any] = []
    place = 0
    for match in matches:
        parts.append(string.piece(str.__getitem__(string, slice(place, match.start())), place))
        parts += groups(match)
        place = match.end()
    return [*parts, string.piece(str.__getitem__(string, slice(place, None)), place)]


def join(between: Any, *args: Any, **kwargs: Any) -> Any:
    """`between.join(...)`."""
    if isinstance(between, str) and len(args) == 1 and not kwargs:
        return joined(between, args[0])
    return between.join(*args, **kwargs)


def shown(value: Any, conversion: int, form: str) -> str:
    """Return a value as an f-string shows it."""
    if conversion >= 0:
        value = _CONVERSIONS[chr(conversion)](value)
    return value if isinstance(value, Tracked) and not form else format(value, form)


def all_of(*pieces: str) -> str:
    """Return the pieces of an f-string as one."""
    return joined("", pieces)


_CONVERSIONS: dict[str, Callable[[Any], str]] = {"s": str, "r": repr, "a": ascii}
_METHODS: tuple[Callable[..., Any], ...] = (group, groups, groupdict, findall, split, join)
METHODS = {function.__name__: function for function in _METHODS}
NAMES = {f"__{function.__name__}_tracked__": function for function in (*_METHODS, item, shown, all_of)}
"""What the changed code calls."""


def traced(tree: ast.Module) -> ast.Module:
    """Return the code changed; Python's positions in it stay. Raises `RecursionError` if it is nested too deeply."""
    changed: ast.Module = _Tracing().visit(tree)
    return changed


class _Tracing(ast.NodeTransformer):
    def __init__(self) -> None:
        self._inside = 0
        """How many loops and functions are around: there an f-string may be made a million times, and stays as it is."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.func, ast.Attribute) and node.func.attr in METHODS:
            return _call(node, METHODS[node.func.attr], [node.func.value, *node.args], node.keywords)
        return node

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        self.generic_visit(node)
        known = isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, (int, str))
        return _call(node, item, [node.value, node.slice]) if known and isinstance(node.ctx, ast.Load) else node

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        if self._inside:
            return node
        pieces: list[ast.expr] = []
        for value in node.values:
            if isinstance(value, ast.FormattedValue):
                form = value.format_spec or ast.copy_location(ast.Constant(""), value)
                pieces.append(_call(value, shown, [self.visit(value.value), ast.Constant(value.conversion), form]))
            else:
                pieces.append(value)
        return _call(node, all_of, pieces)

    def _within(self, node: ast.AST) -> ast.AST:
        self._inside += 1
        try:
            return self.generic_visit(node)
        finally:
            self._inside -= 1

    visit_For = visit_AsyncFor = visit_While = visit_FunctionDef = visit_AsyncFunctionDef = visit_Lambda = _within
    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = visit_ClassDef = _within


def _call(node: ast.expr, function: Callable[..., Any], args: list[ast.expr], keywords: list[ast.keyword] | None = None) -> ast.Call:
    name = ast.Name(f"__{function.__name__}_tracked__", ast.Load())
    return ast.fix_missing_locations(ast.copy_location(ast.Call(name, args, keywords or []), node))


def _pattern(owner: Any, args: tuple[Any, ...], kwargs: dict[str, Any], third: str = "") -> tuple[Pattern[str], Tracked, tuple[Any, ...]] | None:
    """Return pattern, string and further arguments of a call of `re` over a tracked string; else None. third: the argument after the string."""
    if owner is re and len(args) >= 2 and isinstance(args[1], Tracked) and kwargs.keys() <= {"flags", third}:
        rest = args[2:] if third else ()
        flags = kwargs.get("flags", args[3] if third and len(args) > 3 else args[2] if not third and len(args) > 2 else 0)
        rest = rest[:1] or ((kwargs[third],) if third in kwargs else ())
        return re.compile(args[0], flags), args[1], rest
    if type(owner) is Pattern and args and isinstance(args[0], Tracked) and kwargs.keys() <= {third}:
        return owner, args[0], args[1:] or ((kwargs[third],) if third in kwargs else ())
    return None


def _cut(match: Any, found: Any, number: Any, *, bulk: bool = False) -> Any:
    """Return a group as a tracked string. bulk: that it is seen is noted elsewhere."""
    start = match.start(number)
    if start < 0 or not isinstance(found, str):
        return found
    return match.string.piece(found, start) if bulk else match.string.cut(found, start)


def _found(match: Any, count: int) -> Any:
    """Return a match as `findall` does. count: of the groups."""
    if count <= 1:
        return _cut(match, match.group(count) or "", count, bulk=True)
    return tuple(_cut(match, each, number, bulk=True) for number, each in enumerate(match.groups(""), 1))


def _plain(match: Any, count: int) -> Any:
    return (match.group(count) or "") if count <= 1 else match.groups("")


def _seen(string: Tracked, matches: Any) -> None:
    seen = getattr(string, "seen", None)
    if seen is not None:
        seen("grep", [match.span() for match in matches])
