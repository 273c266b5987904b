"""How the host lists a name."""

from __future__ import annotations

import os
import sys
import types
from typing import Any

from .secret_names import summary_of
from .statics import module_of, own_dict
from .stdlib import late_import
from .summary import kind_of, type_name

HIDDEN = frozenset(
    "__name__ __builtins__ __doc__ __file__ __loader__ __package__ __spec__ __cached__ __annotations__ __warningregistry__ _".split()
)
"""Names that are the interpreter's own."""

_LIBRARY = os.path.dirname(types.__file__)


def described(name: str, value: object) -> dict[str, Any]:
    """Describe a variable as the host lists it."""
    kind, summary = kind_of(value), summary_of(name, value)
    if not summary and kind == "data" and not _is_of_library(type(value)):
        summary = late_import(f"{__package__}.short_values").fields(value)
    return {"name": name, "type": type_name(value), "summary": summary, "kind": kind}


def _is_of_library(cls: type) -> bool:
    """Return whether a class comes from an installed package or the standard library."""
    module = sys.modules.get(module_of(cls))
    file = own_dict(module).get("__file__") if type(module) is types.ModuleType else None
    return type(file) is str and (
        "site-packages" in file or "dist-packages" in file or file.startswith(_LIBRARY)
    )
