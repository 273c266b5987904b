"""Objects of which nobody can tell whether a cell has changed them: where the cell mentions one, it is named."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .guarded import guarded, has_sign
from .kinds import REDUCED, Kinds
from .outside import NotRestored
from .part import ATOMS


def untold(names: dict[str, Any], touched: Iterable[str], kinds: Kinds) -> list[NotRestored]:
    """Of the names that were touched, those whose objects cannot be compared."""
    found = []
    for name in touched:
        value = names.get(name)
        if id(type(value)) in ATOMS:
            continue
        kind = guarded(type(value))
        if kind is not None:
            if not has_sign(kind):
                found.append(NotRestored(name, kind.reason))
        elif kinds.parts(value) == (REDUCED,) and not REDUCED.read(value):
            found.append(NotRestored(name, "nobody can tell what was changed in it"))
    return found
