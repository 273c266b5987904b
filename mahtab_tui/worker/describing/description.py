"""Describes variables for a model, each in a few lines that fit a limit.

Anything that only user code could compute is left out. `detail` describes a variable for the user.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from typing import Callable

from ..values.objects import MISSING, address_of, run_with_timeout
from ..values.secret_names import looks_secret
from ..values.summaries import one_line, variable_kind
from .object_lines import object_lines
from .table_description import describe_table

DESCRIPTION_TIMEOUT_S = 1.0
"""Seconds for one variable."""
ALL_DESCRIPTIONS_TIMEOUT_S = 2.0
"""Seconds for all variables of a request."""
_MAX_LINE_CHARS = 240
"""Characters of a line about another object."""
_MAX_TABLE_LINE_CHARS = 600
"""Characters of a line about a table, which may list values."""
_ELLIPSIS = "..."


def describe(namespace: dict[str, object], names: Sequence[str], limit: int) -> dict[str, str]:
    """Describe variables for a model.

    Args:
        namespace: The user's namespace.
        names: The names of the variables.
        limit: Maximum characters of each description.

    Returns:
        Descriptions by name, without unknown and secret variables, and those whose description
        fails or takes too long.
    """
    descriptions: dict[str, str] = {}
    deadline = time.monotonic() + ALL_DESCRIPTIONS_TIMEOUT_S
    for name in names:
        remaining_seconds = deadline - time.monotonic()
        if remaining_seconds <= 0:
            break
        value = namespace.get(name, MISSING)
        if value is MISSING or (looks_secret(name) and variable_kind(value) == "data"):
            continue
        timeout_s = min(DESCRIPTION_TIMEOUT_S, remaining_seconds)
        work = partial(describe_value, name, value, limit)
        try:
            descriptions[name] = run_with_timeout(timeout_s, work)
        except Exception:  # a library's object in an unforeseen state, or too slow
            continue
    return descriptions


class Describer:
    """Describes variables like `describe`, and keeps the descriptions until a cell has run."""

    def __init__(self, namespace: dict[str, object], version: Callable[[], int | None]) -> None:
        """
        Args:
            namespace: The user's namespace.
            version: Returns a number that every cell increases; None while a cell runs.
        """
        self._namespace = namespace
        self._read_version = version
        self._version: int | None = None
        """The version to which the descriptions belong."""
        self._descriptions: dict[tuple[str, int, int], str] = {}
        """Descriptions by name, limit and the address of the object."""

    def describe(self, names: Sequence[str], limit: int) -> dict[str, str]:
        """Describe variables as the function `describe` does; descriptions are kept as long
        as nothing has changed."""
        version = self._read_version()
        if version is None:
            return describe(self._namespace, names, limit)
        if version != self._version:
            self._version = version
            self._descriptions = {}

        descriptions = self._descriptions
        keys = {name: (name, limit, address_of(self._namespace.get(name))) for name in names}
        missing_names = [name for name in names if keys[name] not in descriptions]
        texts = {name: descriptions[key] for name, key in keys.items() if key in descriptions}
        new_texts = describe(self._namespace, missing_names, limit)
        texts.update(new_texts)
        # What a cell may have changed meanwhile is not kept.
        if self._read_version() == version:
            descriptions.update({keys[name]: text for name, text in new_texts.items()})
        return {name: texts[name] for name in keys if name in texts}


def describe_value(name: str, value: object, limit: int) -> str:
    """Describe a variable in at most `limit` characters.

    May raise what a library's object raises in an inconsistent state.
    """
    table_lines = None
    if variable_kind(value) == "data":
        table_lines = describe_table(name, value, limit)
    if table_lines is None:
        lines = [one_line(line, _MAX_LINE_CHARS) for line in object_lines(name, value)]
    else:
        lines = [one_line(line, _MAX_TABLE_LINE_CHARS) for line in table_lines]
    return _fit_lines(lines, limit)


def _fit_lines(lines: Sequence[str], limit: int) -> str:
    """Join as many lines as fit in a limit of characters; an ellipsis stands for the others."""
    text = "\n".join(lines)
    if len(text) <= limit:
        return text

    fitting_lines: list[str] = []
    remaining_chars = limit - len(_ELLIPSIS)
    for line in lines:
        remaining_chars -= len(line) + 1
        if remaining_chars < 0:
            break
        fitting_lines.append(line)
    if not fitting_lines:
        return one_line(lines[0], max(1, limit))
    return "\n".join([*fitting_lines, _ELLIPSIS])
