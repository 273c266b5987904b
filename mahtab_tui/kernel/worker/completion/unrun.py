"""Reads what lines above the cursor assign and import; they may not have run yet."""

from __future__ import annotations

import re
import sys
from collections import ChainMap
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from ..statics import MISSING
from .resolve import resolve
from .results import Instance

_LINES = 200
"""Lines above the cursor that are read."""
_LONGEST_LINE = 500
"""Characters of a line that is read."""
_ASSIGNED = re.compile(r"(\w+(?:\s*,\s*\w+)*)\s*(?::[^=]+)?=(?!=)\s*(\S.*)")
_OPENED = re.compile(r"(?:async\s+)?with\b(.*)\bas\s+(\w+)\s*:")
_EACH = re.compile(r"(?:async\s+)?for\s+(\w+)\s+in\b(.*):")
_IMPORTED = re.compile(r"import\s+([\w.]+)(?:\s+as\s+(\w+))?")


class Names(NamedTuple):
    """The namespace as it would be, as far as it is known."""

    values: Mapping[str, Any]
    modules: dict[str, str]
    """Modules that are imported but not loaded, by the name that they get."""


def names_at(namespace: dict[str, Any], before: str) -> Names:
    """Return the names at the end of a text."""
    found: dict[str, Any] = {}
    names = Names(ChainMap(found, namespace), {})
    for line in before.rsplit("\n", _LINES + 1)[-_LINES - 1 : -1]:
        if len(line) > _LONGEST_LINE:
            continue
        for name, value in _bound(line.strip(), names):
            if value is not MISSING:
                found[name] = value
                names.modules.pop(name, None)
    return names


def _bound(line: str, names: Names) -> Iterator[tuple[str, Any]]:
    """Yield the names that a line binds, with their values; `MISSING` if one is unknown."""
    if imported := _IMPORTED.fullmatch(line):
        path, alias = imported.groups()
        name, module = (alias, path) if alias else (path.partition(".")[0],) * 2
        if module not in sys.modules:
            names.modules[name] = module
        yield name, sys.modules.get(module, MISSING)
    elif assigned := _ASSIGNED.fullmatch(line):
        targets = [target.strip() for target in assigned[1].split(",")]
        for place, target in enumerate(targets):
            yield (
                target,
                resolve(
                    f"({assigned[2]})[{place}]" if len(targets) > 1 else assigned[2], names.values
                ),
            )
    elif opened := _OPENED.fullmatch(line):
        yield opened[2], resolve(f"{opened[1].strip()}.__enter__()", names.values)
    elif each := _EACH.fullmatch(line):
        whole = resolve(each[2].strip(), names.values)
        if type(whole) in (list, tuple):
            yield each[1], Instance(type(whole[0])) if whole else MISSING
        elif type(whole) is Instance and whole.items:
            yield each[1], whole.items[0]
