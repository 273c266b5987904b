"""Describes a variable in detail, for the user. With the user's leave, code of its class may
run."""

from __future__ import annotations

from typing import Any

from ..completion.docstrings import get_docstring
from ..completion.source_code import find_source
from ..inspection.limits import InspectionError, run_limited
from ..values.objects import SCALARS, limited_repr
from ..values.secret_names import HIDDEN_VALUE, is_hidden
from ..values.short_values import describe_type
from ..values.summaries import PLAIN, safe_length, type_name
from ..values.variables import masked_summary
from .description import describe_value

MAX_DETAIL_CHARS = 200_000
"""Characters of a value that the user looks at."""
DETAIL_TIMEOUT_S = 2.0


def describe_detail(
    namespace: dict[str, object], name: str, *, run_code: bool = True
) -> dict[str, Any]:
    """Describe a variable for the user.

    Args:
        namespace: The user's namespace.
        name: The name of the variable.
        run_code: Whether code of the user's classes may run for some seconds, such as `__repr__`.

    Returns:
        The fields of the host's `Detail`.

    Raises:
        KeyError: There is no such variable.
    """
    value = namespace[name]
    source = find_source(value)
    result: dict[str, Any] = {
        "name": name,
        "type": type_name(value),
        "summary": masked_summary(name, value),
        "text": "",
        "cut": 0,
        "doc": get_docstring(value),
        "source": source.text,
        "where": source.location,
        "error": "",
    }
    if is_hidden(name, value):
        error = f"The value of {name} is hidden, because its name looks like a secret's."
        return {**result, "text": HIDDEN_VALUE, "error": error}
    is_plain = type(value) in PLAIN

    def write() -> tuple[str, bool]:
        if run_code:
            return limited_repr(value, MAX_DETAIL_CHARS)
        if not is_plain:
            return describe_value(name, value, MAX_DETAIL_CHARS), False
        return limited_repr(value, MAX_DETAIL_CHARS, _write_item)

    subject = "Its __repr__" if run_code else "Describing it"
    try:
        result["text"], was_cut = run_limited(write, subject, DETAIL_TIMEOUT_S)
    except InspectionError as error:
        return {**result, "error": str(error)}
    if not run_code and not is_plain:
        advice = f"a cell with `{name}` shows more"
        result["error"] = f"Described without running code of its class; {advice}."
    if was_cut:
        size = safe_length(value) if type(value) in SCALARS else None
        result["cut"] = 1 if size is None else max(1, size - MAX_DETAIL_CHARS)
    return result


def _write_item(value: object) -> str:
    """Write an item of a container without running code of its class."""
    if type(value) in PLAIN:
        return repr(value)
    return describe_type(value)
