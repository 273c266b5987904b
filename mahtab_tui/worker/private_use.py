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

from .compiling import names_in
from .magics import parse_python
from .objects import Classes, as_library_type, has_own_indexes, is_one_of, is_own_type, is_subclass

SHORTEST = 8
"""Shorter texts are not sent, because they would be found everywhere."""
_WORDS = re.compile(r"[A-Za-z]?[a-z_]{0,14}")
_ROWS, _COLUMNS = 1_000, 200
_MOST = 500_000
_OBJECTS = 20_000
_SECONDS = 0.1

_NAME = re.compile(r"[^\W\d]\w*")
_ANYWHERE = frozenset(
    "globals locals vars eval exec compile whos who gc inspect f_globals f_locals _getframe currentframe __globals__ __main__ Out In _ __ ___ get_ipython user_ns".split()
)
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
        walk = _walk(namespace[name], namespace) if name in namespace else ()
        return frozenset(objects[id(value)] for value in walk if id(value) in objects)

    return {
        "aliases": aliases,
        "texts": _texts(values.values()),
        "used": [_used(namespace, names, reach, code) for code in codes],
    }


def mentioned_names(code: str) -> frozenset[str]:
    """Return the names in code and in its strings; all words of a cell that is not plain Python."""
    tree = parse_python(code)
    return frozenset(_NAME.findall(code) if tree is None else _names_in_tree(tree))


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
            text = node.value.decode("latin-1") if isinstance(node.value, bytes) else node.value
            yield from _NAME.findall(text) if isinstance(text, str) else ()
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
    found = set(mentioned_names(code))
    for name in list(found):
        value = namespace.get(name)
        if type(value) is types.FunctionType and value.__globals__ is namespace:
            found.update(names_in((value.__code__,), namespace), _strings(value.__code__))
    if reaches_everything(frozenset(found)):
        return list(names)
    used = found.intersection(names)
    return sorted(used.union(*(reach(name) for name in found - used)))


def _strings(code: types.CodeType) -> Iterator[str]:
    for constant in code.co_consts:
        if type(constant) is str:
            yield from _NAME.findall(constant)
        elif type(constant) is types.CodeType:
            yield from _strings(constant)


def _walk(root: Any, namespace: dict[str, Any]) -> Iterator[Any]:
    seen = {id(namespace), id(builtins.__dict__), id(sys.modules)}
    pending = deque([root])
    ends = time.monotonic() + _SECONDS
    while pending and len(seen) < _OBJECTS and time.monotonic() < ends:
        value = pending.popleft()
        if id(value) in seen:
            continue
        seen.add(id(value))
        yield value
        if not any(is_subclass(type(value), base) for base in (type, types.ModuleType)):
            pending.extend(_contained(value))


def _contained(value: Any) -> list[Any]:
    kinds = (list, tuple, set, frozenset, dict)
    kind: Any = next((kind for kind in kinds if is_subclass(type(value), kind)), None)
    if kind is None:
        return gc.get_referents(value)
    try:
        found = list(itertools.islice(kind.__iter__(value), _OBJECTS))
        if kind is dict:  # of one with only string keys, the collector only knows the values
            found += itertools.islice(dict.values(value), _OBJECTS)
    except RuntimeError:  # another thread changes it
        return []
    if kind.__len__(value) <= _OBJECTS and type(value) is not kind:
        found += gc.get_referents(value)
    return found


def _is_shared(value: Any) -> bool:
    return type(value) in _SHARED or (type(value) in _SHARED_IF_SHORT and len(value) < SHORTEST)


def _texts(values: Any) -> list[str]:
    found: dict[str, None] = {}
    room = _MOST
    seen: set[int] = set()
    pending: deque[Any] = deque(values)
    ends = time.monotonic() + _SECONDS
    while pending and room > 0 and len(seen) < _OBJECTS and time.monotonic() < ends:
        value = pending.popleft()
        cls = type(value)
        if is_subclass(cls, str):
            text = str.__str__(value)[:room]
            if text not in found and len(text) >= SHORTEST and _WORDS.fullmatch(text) is None:
                found[text] = None
                room -= len(text)
        elif cls in _BYTES:
            pending.append(bytes(value[:room]).decode("utf-8", "replace"))
        elif cls in _NUMBERS:
            pending.append("" if cls is int and value.bit_length() > 1_000 else repr(value))
        elif id(value) not in seen and not any(is_subclass(cls, base) for base in _TEXTLESS):
            seen.add(id(value))
            pending.extend(_cells(value) or _contained(value))
    return list(found)


def _cells(value: Any) -> list[Any]:
    try:
        value = as_library_type(value)
        if is_one_of(value, "pandas", "DataFrame", "Series") and has_own_indexes(value):
            table = value.iloc[:_ROWS] if value.ndim == 2 else value.iloc[:_ROWS].to_frame()
            columns = [table.iloc[:, at] for at in range(min(table.shape[1], _COLUMNS))]
            texts = [x for x in columns if is_own_type(x.dtype) and x.dtype.kind not in "bifcmM"]
            items = itertools.chain(*(column.tolist() for column in texts))
            return [*table.columns[:_COLUMNS].tolist(), *table.index.tolist(), *items]
        if is_one_of(value, "polars", "Series"):
            value = value.to_frame()
        is_polars = is_one_of(value, "polars", "DataFrame")
        if is_polars or is_one_of(value, "pyarrow", "Table"):
            head = value.slice(0, _ROWS)
            parts = head.to_dict(as_series=False) if is_polars else head.to_pydict()
            return [*parts, *itertools.chain(*list(parts.values())[:_COLUMNS])]
        if is_one_of(value, "numpy", "ndarray") and value.dtype.kind in "OUS":
            return list(value.flat[: _ROWS * 10].tolist())
    except Exception:  # a library's object in an unforeseen state
        pass
    return []
