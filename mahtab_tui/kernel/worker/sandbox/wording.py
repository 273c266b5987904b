"""Converts values to text for FINAL and sub-calls."""

from __future__ import annotations

import json
import pprint
from typing import Any

ANSWER_LIMIT = 40_000
"""The most characters that an answer may have."""

_ONE_LINE = 120


def readable(value: object) -> str:
    """Return a value as text: strings as they are, lists, dicts and sets as JSON if possible, all else as Python shows it."""
    if isinstance(value, str):
        return str(value)
    if not isinstance(value, (list, tuple, dict, set, frozenset)):
        return str(value)
    try:
        plain = sorted(value) if isinstance(value, (set, frozenset)) else value
        line = json.dumps(plain, ensure_ascii=False)
        return line if len(line) <= _ONE_LINE else json.dumps(plain, ensure_ascii=False, indent=2)
    except (TypeError, ValueError, RecursionError):
        return pprint.pformat(value, width=_ONE_LINE)


def subset_text(name: str, value: object) -> str:
    """Return the text for a sub-call: a str as it is, a list of strings as lines, other lists, dicts and numbers as `readable` does.

    name: the function that was called, for the error. Raises TypeError for other types (a function, an iterator, None).
    """
    if isinstance(value, str):
        return value
    if isinstance(value, (list, tuple)) and all(isinstance(item, str) for item in value):
        return "\n".join(item.rstrip("\n") for item in value)
    if isinstance(value, (list, tuple, dict, set, frozenset, int, float)):
        return readable(value)
    raise TypeError(f"{name} reads a text: give a str (a part of context, or text of your own), not {_kind(value)}")


def wrong_type(name: str, argument: str, wanted: str, value: Any) -> TypeError:
    """Make the error for an argument of a wrong type."""
    return TypeError(f"{name}: {argument} must be {wanted}, not {_kind(value)}")


def _kind(value: object) -> str:
    return "None" if value is None else type(value).__name__
