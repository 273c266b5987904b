"""Names in a sandbox that a caller's contexts and tools cannot have."""

from __future__ import annotations

import builtins
import keyword

from .aliases import ALIASES
from .names import FUNCTIONS

_TAKEN = frozenset((*FUNCTIONS, *ALIASES, "context", "Part"))


def why_not_a_name(name: str) -> str:
    """Say why a variable of a sandbox cannot have this name; empty if it can."""
    if not name.isidentifier() or keyword.iskeyword(name):
        return "it is no name in Python"
    if not name.isascii() or len(name) > 50:
        return "a name has at most 50 letters, without accents"
    if name.startswith("_"):
        return "it begins with an underscore"
    if name in _TAKEN:
        return "a search has that name already"
    if hasattr(builtins, name):
        return "Python has that name already"
    return ""
