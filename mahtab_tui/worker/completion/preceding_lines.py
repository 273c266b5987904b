"""What the lines above the cursor bind."""

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
"""At most this many lines above the cursor are read."""
_MAX_LINE_CHARS = 500
"""Longer lines are left out."""
# Statements that bind names: their groups are what they bind, and the expression with the value.
_ASSIGNMENT = re.compile(r"(\w+(?:\s*,\s*\w+)*)\s*(?::[^=]+)?=(?!=)\s*(\S.*)")
_WITH_STATEMENT = re.compile(r"(?:async\s+)?with\b(.*)\bas\s+(\w+)\s*:")
_FOR_LOOP = re.compile(r"(?:async\s+)?for\s+(\w+)\s+in\b(.*):")
_IMPORT = re.compile(r"import\s+([\w.]+)(?:\s+as\s+(\w+))?")


class NamesAtCursor(NamedTuple):
    """The namespace after the preceding lines."""

    values: Mapping[str, Any]
    """Values and instances by name."""
    modules: dict[str, str]
    """Modules that the lines import and that are not loaded, by the name that they get."""


def names_at(namespace: dict[str, object], code: str) -> NamesAtCursor:
    """Return the namespace after all lines of code but the last one, which is being written."""
    values: dict[str, Any] = {}
    names = NamesAtCursor(ChainMap(values, namespace), {})
    for line in code.rsplit("\n", _MAX_LINES + 1)[-_MAX_LINES - 1 : -1]:
        if len(line) > _MAX_LINE_CHARS:
            continue
        for name, value in _bindings(line.strip(), names):
            if value is not MISSING:
                values[name] = value
                names.modules.pop(name, None)
    return names


def _bindings(line: str, names: NamesAtCursor) -> Iterator[tuple[str, Any]]:
    """Yield the names that a line binds, with their values; note modules that are not loaded."""
    if match := _IMPORT.fullmatch(line):
        path, alias = match.groups()
        # Without an alias, `import os.path` binds `os`.
        module = path if alias else path.partition(".")[0]
        name = alias or module
        if module not in sys.modules:
            names.modules[name] = module
        yield name, sys.modules.get(module, MISSING)
    elif match := _ASSIGNMENT.fullmatch(line):
        target_list, expression = match.groups()
        targets = [target.strip() for target in target_list.split(",")]
        for index, target in enumerate(targets):
            item = expression
            if len(targets) > 1:
                item = f"({expression})[{index}]"
            yield target, resolve(item, names.values)
    elif match := _WITH_STATEMENT.fullmatch(line):
        manager, name = match.groups()
        yield name, resolve(f"{manager.strip()}.__enter__()", names.values)
    elif match := _FOR_LOOP.fullmatch(line):
        name, expression = match.groups()
        iterable = resolve(expression.strip(), names.values)
        if type(iterable) in _SEQUENCES:
            item_type = MISSING
            if iterable:
                item_type = Instance(type(iterable[0]))
            yield name, item_type
        elif type(iterable) is Instance and iterable.items:
            yield name, iterable.items[0]
