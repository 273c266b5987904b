"""Parses the conditions that the user types to filter a column."""

from __future__ import annotations

import operator
import re
from typing import Any, NamedTuple

_CONDITION = re.compile(r"\s*(<=|>=|!=|==|=|<|>)\s*(.*)", re.DOTALL)

_COMPARISONS = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
    "contains": operator.eq,
}


class Condition(NamedTuple):
    """A condition on the values of a column. Missing values match only ``missing``."""

    op: str
    """``<``, ``<=``, ``>``, ``>=``, ``==``, ``!=``, ``contains``, ``missing`` or ``present``."""
    operand: str = ""


def parse(text: str) -> Condition:
    """Parse ``> 5``, ``= berlin``, ``!= 0``, ``missing`` or ``present``; anything else is a text that values must contain."""
    word = text.strip().lower()
    if word in ("missing", "present"):
        return Condition(word)
    matched = _CONDITION.fullmatch(text)
    if matched is None:
        return Condition("contains", text.strip())
    return Condition({"=": "=="}.get(matched[1], matched[1]), matched[2].strip())


def compare(values: Any, op: str, operand: Any) -> Any:
    """Compare a value or a library's array with an operand; without texts, ``contains`` means ``==``."""
    return _COMPARISONS[op](values, operand)
