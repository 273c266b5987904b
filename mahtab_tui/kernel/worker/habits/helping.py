"""``object?`` and ``object??``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..completion.explaining import explain
from ..showing.displays import show_help


def show(expression: str, level: int, namespace: dict[str, Any], local: Mapping[str, Any]) -> None:
    """Show signature and docstring of an expression's value, and from level 2 on its source."""
    try:
        value = eval(expression, namespace, dict(local))
    except (NameError, AttributeError, LookupError) as error:
        print(f"There is no {expression}: {error}")
        return
    about = explain(value, expression, with_source=level > 1)
    parts = [about.signature, about.doc or "It has no docstring.", about.where]
    if level > 1:
        parts.append(about.source or "Its source is unknown.")
    show_help("\n\n".join(part.rstrip() for part in parts if part))
