"""Shows functions, classes and modules: signature, docstring, source."""

from __future__ import annotations

import os
import types
from contextlib import suppress
from typing import Any

from ..completion.explaining import explain
from ..statics import Classes, is_class, is_module, name_of, own_dict
from ..summary import one_line, version_of

_NAMED = Classes(types.FunctionType, types.BuiltinFunctionType)
MOST = 400_000
"""Characters of a source or docstring that are shown."""


def source(value: Any, expression: str) -> dict[str, Any]:
    """Return signature, docstring, location and source; of a module, its version instead of a signature."""
    if is_module(value):
        return _module(value)
    found = explain(value, _name(value) or expression, with_source=True)
    place, _, number = found.where.rpartition(":")
    line = int(number) if number.isdigit() else 1
    return {
        "signature": found.signature[:MOST],
        "doc": found.doc[:MOST],
        "where": found.where if place else "",
        "line": line,
        "source": found.source[:MOST],
    }


def _name(value: Any) -> str:
    if type(value) is types.MethodType:
        value = value.__func__
    if is_class(value):
        return one_line(name_of(value))
    return one_line(value.__name__) if type(value) in _NAMED else ""


def _module(value: Any) -> dict[str, Any]:
    names = own_dict(value)
    file, version, doc = names.get("__file__"), version_of(names), names.get("__doc__")
    text = ""
    if type(file) is str and file.endswith(".py") and os.path.isfile(file):  # a pipe could block for ever
        with suppress(OSError), open(file, encoding="utf-8", errors="replace") as opened:
            text = opened.read(MOST)
    return {
        "signature": f"version {version}" if version else "",
        "doc": doc[:MOST] if type(doc) is str else "",
        "where": file if type(file) is str else "built in",
        "line": 1,
        "source": text,
    }
