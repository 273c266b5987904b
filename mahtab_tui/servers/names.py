"""Names of servers, tools and arguments as Python names."""

from __future__ import annotations

import keyword
import re
from collections.abc import Container

_OTHER = re.compile(r"[^A-Za-z0-9_]+")
_LONGEST = 60


def identifier(name: str, taken: Container[str] = (), *, private: str = "tool") -> str:
    """Return a valid name that is not taken. private: put before a name that begins with an underscore or a digit."""
    base = _OTHER.sub("_", name)[:_LONGEST]
    if not base.strip("_") or base[0] in "_0123456789":
        base = f"{private}_{base.lstrip('_')}".rstrip("_")
    if keyword.iskeyword(base):
        base += "_"
    found, number = base, 1
    while found in taken:
        number += 1
        found = f"{base}_{number}"
    return found
