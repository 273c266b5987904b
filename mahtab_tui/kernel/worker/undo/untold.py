"""Objects that cannot be compared. If a cell mentions one, it is named, since the cell may have changed it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..statics import address_of
from .guarded import guarded, has_sign
from .kinds import REDUCED, Kinds
from .outside import NotRestored
from .part import ATOMS


def untold(names: dict[str, Any], touched: Iterable[str], kinds: Kinds) -> list[NotRestored]:
    """Return those of the touched names whose objects cannot be compared."""
    found = []
    for name in touched:
        value = names.get(name)
        if address_of(type(value)) in ATOMS:
            continue
        kind = guarded(type(value))
        if kind is not None:
            if not has_sign(kind):
                found.append(NotRestored(name, kind.reason))
        elif kinds.parts(value) == (REDUCED,) and not REDUCED.read(value):
            found.append(NotRestored(name, "it is not known what was changed in it"))
    return found
