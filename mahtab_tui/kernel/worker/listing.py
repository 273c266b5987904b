"""How the host lists a name."""

from __future__ import annotations

from typing import Any

from .secret_names import summary_of
from .summary import kind_of, type_name

HIDDEN = frozenset("__name__ __builtins__ __doc__ __file__ __loader__ __package__ __spec__ __cached__ __annotations__ __warningregistry__ _".split())
"""Names that are the interpreter's own."""


def described(name: str, value: object) -> dict[str, Any]:
    """A name as the host lists it."""
    return {"name": name, "type": type_name(value), "summary": summary_of(name, value), "kind": kind_of(value)}
