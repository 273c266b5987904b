"""Conditions by which the user chooses rows, such as `> 5` or `= berlin`."""

from __future__ import annotations

import operator
import re
from typing import Any, Callable, NamedTuple

from ..values.objects import NUMBERS
from .cell_texts import cell_text, full_text
from .limits import InspectionError

BOOLEANS = {"true": True, "1": True, "false": False, "0": False}
_CONDITION = re.compile(r"\s*(<=|>=|!=|==|=|<|>)\s*(.*)", re.DOTALL)
_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
    "contains": operator.eq,
}
"""Except for texts, ``contains`` means ``==``."""


class Condition(NamedTuple):
    """What the values of the rows that are shown must be. Missing values only match ``missing``."""

    op: str
    """``<``, ``<=``, ``>``, ``>=``, ``==``, ``!=``, ``contains``, ``missing`` or ``present``."""
    operand: str = ""

    def compare(self, values: object, operand: object) -> Any:
        """Compare a value, or all values of an array, with the operand as a value of their type."""
        return _COMPARISONS[self.op](values, operand)

    @property
    def ignores_case(self) -> bool:
        """Whether ``contains`` ignores case: unless the operand has capital letters."""
        return not any(map(str.isupper, self.operand))


def parse_condition(text: str) -> Condition:
    """Parse ``> 5``, ``= berlin``, ``missing`` or ``present``; other texts must be contained."""
    word = text.strip().lower()
    if word in ("missing", "present"):
        return Condition(word)
    match = _CONDITION.fullmatch(text)
    if match is None:
        return Condition("contains", text.strip())
    sign = match[1]
    return Condition("==" if sign == "=" else sign, match[2].strip())


def not_comparable(operand: str, kind: str) -> InspectionError:
    """Return the error for a condition that the values of a type do not have."""
    return InspectionError(f"{operand or 'Nothing'} cannot be compared with values of {kind}.")


def make_predicate(condition: Condition) -> Callable[[Any], bool]:
    """Return what says whether a value fulfils a condition."""
    op, operand = condition
    if op in ("missing", "present"):
        return lambda value: (cell_text(value) is None) == (op == "missing")
    if op == "contains":
        fold: Callable[[str], str] = str.lower if condition.ignores_case else str
        return lambda value: operand in fold(full_text(value))
    number = _parse_number(operand)

    def compares(value: object) -> bool:
        if type(value) in NUMBERS:
            return number is not None and value == value and condition.compare(value, number)
        return cell_text(value) is not None and condition.compare(full_text(value), operand)

    return compares


def _parse_number(text: str) -> float | None:
    """Return the number, or the truth value, that a condition names; None if it names none."""
    try:
        return int(text) if text.lstrip("+-").isdigit() else float(text)
    except ValueError:
        return BOOLEANS.get(text.lower())
