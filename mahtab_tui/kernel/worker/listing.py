"""How the host lists a name."""

from __future__ import annotations

from typing import Any

from .secret_names import summary_of
from .stdlib import late_import
from .summary import kind_of, type_name

HIDDEN = frozenset(
    "__name__ __builtins__ __doc__ __file__ __loader__ __package__ __spec__ __cached__ __annotations__ __warningregistry__ _".split()
)
"""Names that are the interpreter's own."""


def described(name: str, value: object) -> dict[str, Any]:
    """Describe a variable as the host lists it."""
    kind, summary = kind_of(value), summary_of(name, value)
    if not summary and kind == "data":
        summary = late_import(f"{__package__}.short_values").fields(value)
    return {"name": name, "type": type_name(value), "summary": summary, "kind": kind}
