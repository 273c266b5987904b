"""Finds the names that the lines above the cursor bind, without running the lines."""

from __future__ import annotations

import re
import sys
from collections import ChainMap
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from ..values.objects import MISSING, Classes
from .instances import Instance
from .resolve import resolve

_SEQUENCES = Classes(list, tuple)
"""Sequences whose first item tells what a loop over them binds."""
_MAX_LINES = 200
"""Maximum lines above the cursor that are read."""
_MAX_LINE_CHARS = 500
"""Longer lines are left out."""

# Statements that bind names.
_IMPORT = re.compile(r"import\s+(?P<path>[\w.]+)(?:\s+as\s+(?P<alias>\w+))?")
_ASSIGNMENT = re.compile(
    r"(?P<targets>\w+(?:\s*,\s*\w+)*)\s*(?::[^=]+)?=(?!=)\s*(?P<expression>\S.*)"
)
_WITH_STATEMENT = re.compile(r"(?:async\s+)?with\b(?P<manager>.*)\bas\s+(?P<name>\w+)\s*:")
_FOR_LOOP = re.compile(r"(?:async\s+)?for\s+(?P<name>\w+)\s+in\b(?P<iterable>.*):")


class NamesAtCursor(NamedTuple):
    """The namespace after the preceding lines."""

    values: Mapping[str, Any]
    """Values and instances by name."""
    modules: dict[str, str]
    """Modules that the lines import and that are not loaded, by the name that they get."""


class _Binding(NamedTuple):
    """A name that a line binds."""

    name: str
    value: Any
    """A value, or an `Instance` if only its class is known; `MISSING` if nothing is known."""


def names_at(namespace: dict[str, object], code: str) -> NamesAtCursor:
    """Return the namespace after all lines of code but the last one, which is being written.

    Args:
        namespace: The user's namespace before the code.
        code: The code up to the cursor.
    """
    new_values: dict[str, Any] = {}
    names = NamesAtCursor(ChainMap(new_values, namespace), {})
    preceding_lines = code.rsplit("\n", _MAX_LINES + 1)[-_MAX_LINES - 1 : -1]
    for line in preceding_lines:
        if len(line) > _MAX_LINE_CHARS:
            continue
        for binding in _bindings(line.strip(), names):
            if binding.value is not MISSING:
                new_values[binding.name] = binding.value
                names.modules.pop(binding.name, None)
    return names


def _bindings(line: str, names: NamesAtCursor) -> Iterator[_Binding]:
    """Yield what a line binds; note the modules that it imports and that are not loaded.

    Args:
        line: A line without its indentation.
        names: The namespace before the line.
    """
    import_match = _IMPORT.fullmatch(line)
    if import_match is not None:
        yield _import_module(import_match["path"], import_match["alias"], names)
        return
    assignment = _ASSIGNMENT.fullmatch(line)
    if assignment is not None:
        yield from _assign(assignment["targets"], assignment["expression"], names)
        return
    with_statement = _WITH_STATEMENT.fullmatch(line)
    if with_statement is not None:
        entered = f"{with_statement['manager'].strip()}.__enter__()"
        yield _Binding(with_statement["name"], resolve(entered, names.values))
        return
    for_loop = _FOR_LOOP.fullmatch(line)
    if for_loop is not None:
        iterable = resolve(for_loop["iterable"].strip(), names.values)
        yield _Binding(for_loop["name"], _find_item(iterable))


def _import_module(path: str, alias: str | None, names: NamesAtCursor) -> _Binding:
    """Return what an import binds; note a module that is not loaded."""
    # Without an alias, `import os.path` binds `os`.
    module = path if alias else path.partition(".")[0]
    name = alias or module
    if module not in sys.modules:
        names.modules[name] = module
    return _Binding(name, sys.modules.get(module, MISSING))


def _assign(target_list: str, expression: str, names: NamesAtCursor) -> Iterator[_Binding]:
    """Yield what an assignment binds.

    Args:
        target_list: One name, or several with commas.
    """
    targets = [target.strip() for target in target_list.split(",")]
    if len(targets) == 1:
        yield _Binding(targets[0], resolve(expression, names.values))
        return
    for index, target in enumerate(targets):
        yield _Binding(target, resolve(f"({expression})[{index}]", names.values))


def _find_item(iterable: Any) -> Any:
    """Return what a loop over a value binds first: an instance, or `MISSING` if that is unknown."""
    if type(iterable) in _SEQUENCES and iterable:
        return Instance(type(iterable[0]))
    if type(iterable) is Instance and iterable.items:
        return iterable.items[0]
    return MISSING
