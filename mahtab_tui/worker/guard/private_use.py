"""Finds which variables code can reach and which texts they contain, for private variables. No
user code runs."""

from __future__ import annotations

import ast
import builtins
import gc
import itertools
import re
import sys
import time
import types
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any

from ..cells.reached_names import names_in
from ..magic.syntax import Aliases, Macro, parse_python
from ..values.objects import (
    Classes,
    as_library_type,
    has_own_indexes,
    is_one_of,
    is_own_type,
    is_subclass,
)

MIN_TEXT_CHARS = 8
"""Shorter texts are not sent, because they would be found everywhere."""
_WORDS = re.compile(r"[A-Za-z]?[a-z_]{0,14}")
_ROWS = 1_000
_COLUMNS = 200
_MAX_TOTAL_CHARS = 500_000
_MAX_OBJECTS = 20_000
_TIMEOUT_S = 0.1

_NAME = re.compile(r"[^\W\d]\w*")
_ANYWHERE = frozenset(
    "globals locals vars eval exec compile whos who gc inspect f_globals f_locals _getframe currentframe __globals__ __main__ Out In _ __ ___ get_ipython user_ns".split()
)
_REACHING_COMMANDS = frozenset(("hist", "history", "macro", "rerun", "tb"))
_REACHING_MAGIC = re.compile(
    rf"\b(?:run[ \t]+(?:-\w+[ \t]+){{0,20}}-\w*i|(?:{'|'.join(sorted(_REACHING_COMMANDS))})\b)"
)
"""Magic commands that run or show what the code does not name. `%run -i` runs a script that sees all
variables."""
_HISTORY_NAME = re.compile(r"_(?:i*\d*|[io]h)")
"""IPython's names of earlier inputs and values."""
_SHARED = Classes(type(None), bool, int, float, complex, type(Ellipsis), type(NotImplemented))
_SHARED_IF_SHORT = Classes(str, bytes, tuple, frozenset)
_NUMBERS = Classes(int, float, complex)
_BYTES = Classes(bytes, bytearray)
_TEXTLESS = (type, types.ModuleType, types.FunctionType, types.CodeType)
_NAMED = frozenset(
    ("FunctionDef", "AsyncFunctionDef", "ClassDef", "ExceptHandler", "MatchAs", "MatchStar")
)


def private_use(
    namespace: dict[str, Any], names: Sequence[str], codes: Sequence[str]
) -> dict[str, Any]:
    """Describe the variables `names`: other names of their objects, texts they contain, and which
    of them each code can reach."""
    values = {name: namespace[name] for name in names if name in namespace}
    objects = {id(value): name for name, value in values.items() if not _is_shared(value)}
    aliases = [
        name
        for name, value in list(namespace.items())
        if type(name) is str and name not in names and id(value) in objects
    ]

    @lru_cache(None)
    def reach(name: str) -> frozenset[str]:
        if name not in namespace:
            return frozenset()
        walk = _walk(namespace[name], namespace)
        return frozenset(objects[id(value)] for value in walk if id(value) in objects)

    return {
        "aliases": aliases,
        "texts": _texts(values.values()),
        "used": [_used(namespace, names, reach, code) for code in codes],
    }


def mentioned_names(code: str) -> frozenset[str]:
    """Return the names in code and in its strings; all words of a cell that is not plain Python."""
    tree = parse_python(code)
    names = frozenset(_NAME.findall(code) if tree is None else _names_in_tree(tree))
    is_magic = tree is None or code.strip() in _REACHING_COMMANDS
    if is_magic and _REACHING_MAGIC.search(code):
        return names | {"globals"}
    return names


def reaches_everything(names: frozenset[str]) -> bool:
    return not _ANYWHERE.isdisjoint(names) or any(map(_HISTORY_NAME.fullmatch, names))


def _names_in_tree(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            # `for _ in …` reaches nothing.
            if node.id not in _ANYWHERE or not isinstance(node.ctx, ast.Store):
                yield node.id
        elif isinstance(node, ast.Attribute):
            yield from _ANYWHERE.intersection([node.attr])
        elif isinstance(node, ast.Constant):
            text = node.value
            if isinstance(text, bytes):
                text = text.decode("latin-1")
            if isinstance(text, str):
                yield from _NAME.findall(text)
        elif isinstance(node, (ast.Global, ast.Nonlocal)):
            yield from node.names
        elif isinstance(node, ast.alias):
            yield from (node.name.partition(".")[0], node.asname or "")
        elif type(node).__name__ in _NAMED:
            yield getattr(node, "name", None) or ""


def _used(
    namespace: dict[str, Any],
    names: Sequence[str],
    reach: Callable[[str], frozenset[str]],
    code: str,
) -> list[str]:
    names_in_code = set(mentioned_names(code))
    for name in list(names_in_code):
        value = namespace.get(name)
        if type(value) is Macro:
            names_in_code.update(mentioned_names(value.value))
        names_in_code.update(_NAME.findall(Aliases.commands.get(name, "")))
        if Aliases.magics.get(name) in _REACHING_COMMANDS:
            names_in_code.add("globals")
        if type(value) is types.FunctionType and value.__globals__ is namespace:
            names_in_code.update(names_in((value.__code__,), namespace), _strings(value.__code__))
    if reaches_everything(frozenset(names_in_code)):
        return list(names)
    used_names = names_in_code.intersection(names)
    return sorted(used_names.union(*(reach(name) for name in names_in_code - used_names)))


def _strings(code: types.CodeType) -> Iterator[str]:
    for constant in code.co_consts:
        if type(constant) is str:
            yield from _NAME.findall(constant)
        elif type(constant) is types.CodeType:
            yield from _strings(constant)


def _walk(root: Any, namespace: dict[str, Any]) -> Iterator[Any]:
    visited_ids = {id(namespace), id(builtins.__dict__), id(sys.modules)}
    pending = deque([root])
    ends = time.monotonic() + _TIMEOUT_S
    while pending and len(visited_ids) < _MAX_OBJECTS and time.monotonic() < ends:
        value = pending.popleft()
        if id(value) in visited_ids:
            continue
        visited_ids.add(id(value))
        yield value
        if not any(is_subclass(type(value), base) for base in (type, types.ModuleType)):
            pending.extend(_contained(value))


def _contained(value: Any) -> list[Any]:
    kinds = (list, tuple, set, frozenset, dict)
    kind: Any = next((kind for kind in kinds if is_subclass(type(value), kind)), None)
    if kind is None:
        return gc.get_referents(value)
    try:
        items = list(itertools.islice(kind.__iter__(value), _MAX_OBJECTS))
        if kind is dict:  # of one with only string keys, the collector only knows the values
            items += itertools.islice(dict.values(value), _MAX_OBJECTS)
    except RuntimeError:  # another thread changes it
        return []
    if kind.__len__(value) <= _MAX_OBJECTS and type(value) is not kind:
        items += gc.get_referents(value)
    return items


def _is_shared(value: Any) -> bool:
    return type(value) in _SHARED or (
        type(value) in _SHARED_IF_SHORT and len(value) < MIN_TEXT_CHARS
    )


def _texts(values: Any) -> list[str]:
    texts: dict[str, None] = {}
    remaining_chars = _MAX_TOTAL_CHARS
    visited_ids: set[int] = set()
    pending: deque[Any] = deque(values)
    ends = time.monotonic() + _TIMEOUT_S
    while (
        pending
        and remaining_chars > 0
        and len(visited_ids) < _MAX_OBJECTS
        and time.monotonic() < ends
    ):
        value = pending.popleft()
        cls = type(value)
        if is_subclass(cls, str):
            text = str.__str__(value)[:remaining_chars]
            if text not in texts and len(text) >= MIN_TEXT_CHARS and _WORDS.fullmatch(text) is None:
                texts[text] = None
                remaining_chars -= len(text)
        elif cls in _BYTES:
            pending.append(bytes(value[:remaining_chars]).decode("utf-8", "replace"))
        elif cls in _NUMBERS:
            pending.append("" if cls is int and value.bit_length() > 1_000 else repr(value))
        elif id(value) not in visited_ids and not any(is_subclass(cls, base) for base in _TEXTLESS):
            visited_ids.add(id(value))
            pending.extend(_cells(value) or _contained(value))
    return list(texts)


def _cells(value: Any) -> list[Any]:
    try:
        value = as_library_type(value)
        if is_one_of(value, "pandas", "DataFrame", "Series") and has_own_indexes(value):
            if value.ndim == 2:
                table = value.iloc[:_ROWS]
            else:
                table = value.iloc[:_ROWS].to_frame()
            columns = [table.iloc[:, at] for at in range(min(table.shape[1], _COLUMNS))]
            texts = [x for x in columns if is_own_type(x.dtype) and x.dtype.kind not in "bifcmM"]
            items = itertools.chain(*(column.tolist() for column in texts))
            return [*table.columns[:_COLUMNS].tolist(), *table.index.tolist(), *items]
        if is_one_of(value, "polars", "Series"):
            value = value.to_frame()
        is_polars = is_one_of(value, "polars", "DataFrame")
        if is_polars or is_one_of(value, "pyarrow", "Table"):
            head = value.slice(0, _ROWS)
            if is_polars:
                parts = head.to_dict(as_series=False)
            else:
                parts = head.to_pydict()
            return [*parts, *itertools.chain(*list(parts.values())[:_COLUMNS])]
        if is_one_of(value, "numpy", "ndarray") and value.dtype.kind in "OUS":
            return list(value.flat[: _ROWS * 10].tolist())
    except Exception:  # a library's object in an unforeseen state
        pass
    return []
