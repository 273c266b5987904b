"""Describes a variable in detail, for the user. With the user's leave, code of its class may
run."""

from __future__ import annotations

from functools import partial
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
"""Maximum characters of a value that the user looks at."""
DETAIL_TIMEOUT_S = 2.0
"""Seconds in which the value must be written."""


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
    detail: dict[str, Any] = {
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
        detail["text"] = HIDDEN_VALUE
        detail["error"] = f"The value of {name} is hidden, because its name looks like a secret's."
        return detail

    write = partial(_write_value, name, value, run_code=run_code)
    subject = "Its __repr__" if run_code else "Describing it"
    try:
        detail["text"], is_cut = run_limited(write, subject, DETAIL_TIMEOUT_S)
    except InspectionError as error:
        detail["error"] = str(error)
        return detail
    if is_cut:
        detail["cut"] = _count_cut_chars(value)
    is_plain = type(value) in PLAIN
    if not run_code and not is_plain:
        detail["error"] = (
            f"Described without running code of its class; a cell with `{name}` shows more."
        )
    return detail


def _write_value(name: str, value: object, *, run_code: bool) -> tuple[str, bool]:
    """Write a value for the user.

    Args:
        name: The name of the variable.
        value: Its value.
        run_code: Whether code of the user's classes may run.

    Returns:
        The text, and whether it was cut.
    """
    if run_code:
        return limited_repr(value, MAX_DETAIL_CHARS)
    if type(value) in PLAIN:
        return limited_repr(value, MAX_DETAIL_CHARS, _write_item)
    return describe_value(name, value, MAX_DETAIL_CHARS), False


def _write_item(item: object) -> str:
    """Write an item of a container without running code of its class."""
    if type(item) in PLAIN:
        return repr(item)
    return describe_type(item)


def _count_cut_chars(value: object) -> int:
    """Return how many characters of a value were cut from its text; 1 if that is not known."""
    char_count: int | None = None
    if type(value) in SCALARS:
        char_count = safe_length(value)
    if char_count is None:
        return 1
    return max(1, char_count - MAX_DETAIL_CHARS)
