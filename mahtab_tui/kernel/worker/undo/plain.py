"""Compares large containers of plain values, whose objects are too many to be walked through one by one."""

from __future__ import annotations

import marshal
from itertools import chain
from typing import Any

from ..statics import address_of
from .part import ATOMS

_CONTAINERS = frozenset(map(address_of, (list, tuple, dict)))
_VALUES = 250_000
"""That a container may have, with those of all containers inside it."""


def plain_digest(value: Any) -> int | None:
    """Return a number for what lists, tuples and dictionaries hold, however deep; None where they hold anything but plain values, or too many. Runs no
    code of the user's."""
    if address_of(type(value)) not in _CONTAINERS:
        return None
    level, left = [value], _VALUES
    while level:
        left -= sum(map(len, level))
        if left < 0:  # also of containers that hold themselves
            return None
        held = list(chain.from_iterable(chain.from_iterable((each, each.values()) if type(each) is dict else (each,) for each in level)))
        types = set(map(address_of, map(type, held))) - ATOMS
        if not types <= _CONTAINERS:
            return None
        level = [each for each in held if address_of(type(each)) not in ATOMS] if types else []
    try:
        return hash(marshal.dumps(value, 0))  # later formats tell whether a text is interned, and that may change
    except ValueError:  # too deep
        return None
