"""What a person types to filter a column."""

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
    """A condition on the values of one column. Missing values fit none but ``missing``."""

    op: str
    """``<``, ``<=``, ``>``, ``>=``, ``==``, ``!=``, ``contains``, ``missing`` or ``present``."""
    operand: str = ""


def parse(text: str) -> Condition:
    """``> 5``, ``= berlin``, ``!= 0``, ``missing``, ``present``; anything else is a text that the value shall contain."""
    word = text.strip().lower()
    if word in ("missing", "present"):
        return Condition(word)
    matched = _CONDITION.fullmatch(text)
    if matched is None:
        return Condition("contains", text.strip())
    return Condition({"=": "=="}.get(matched[1], matched[1]), matched[2].strip())


def compare(values: Any, op: str, operand: Any) -> Any:
    """Which values of an array of a library's fit; ``contains`` is ``==`` where there are no texts."""
    return _COMPARISONS[op](values, operand)
