"""Completes and explains code at the cursor from the live namespace, without running user code."""

from __future__ import annotations

from typing import Any

from ..values.objects import MISSING
from .candidates import find_candidates, is_server
from .explanations import explain
from .instances import Instance
from .point import point_at
from .preceding_lines import names_at
from .ranking import list_best
from .resolve import resolve
from .string_candidates import complete_string
from .tokens import call_at


def complete(namespace: dict[str, Any], code: str, cursor: int) -> dict[str, Any]:
    """Complete the text before the cursor.

    Args:
        namespace: The user's namespace.
        code: The whole code.
        cursor: An offset in it, in characters.

    Returns:
        The fields of the host's `Completions`.
    """
    point = point_at(code[:cursor])
    names = names_at(namespace, code[: point.start])
    if point.kind == "string":
        return complete_string(names, point, code[cursor:])

    # Checked first, so that tools that arrive meanwhile are listed.
    is_pending = False
    if point.kind == "attribute":
        server = resolve(point.target, names.values)
        is_pending = is_server(server) and server.load_in_background()
    candidates = find_candidates(namespace, names, point, code)
    return {**list_best(candidates, point.stem, point.start), "pending": is_pending}


def explain_at(namespace: dict[str, object], code: str, cursor: int) -> dict[str, str] | None:
    """Explain the call around the cursor, or the name at it.

    Args:
        namespace: The user's namespace.
        code: The whole code.
        cursor: An offset in it, in characters.

    Returns:
        The fields of the host's `Explanation`; None if nothing is known.
    """
    expression = call_at(code, cursor)
    value = resolve(expression, namespace) if expression else MISSING
    if type(value) is Instance:
        value = value.cls
    if value is MISSING:
        return None
    return {**explain(value, expression), "name": expression, "source": ""}
