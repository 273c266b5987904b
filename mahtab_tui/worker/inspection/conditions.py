"""Conditions by which the user chooses rows, such as `> 5` or `= berlin`."""

from __future__ import annotations

import operator
import re
from typing import Any, Callable, NamedTuple

from ..values.objects import NUMBERS
from .cell_texts import cell_text, full_text
from .limits import InspectionError

BOOLEANS = {"true": True, "1": True, "false": False, "0": False}
"""Truth values as the user writes them."""
_SIGN_AND_OPERAND = re.compile(r"\s*(<=|>=|!=|==|=|<|>)\s*(.*)", re.DOTALL)
_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
    "contains": operator.eq,
}
"""What compares values, by the `op` of a condition. A text contains another one, but a number
contains only itself."""


class Condition(NamedTuple):
    """What the values of the rows that are shown must be. Missing values only match ``missing``."""

    op: str
    """``<``, ``<=``, ``>``, ``>=``, ``==``, ``!=``, ``contains``, ``missing`` or ``present``."""
    operand: str = ""
    """What the values are compared with; empty for ``missing`` and ``present``."""

    def compare(self, values: object, operand: object) -> Any:
        """Compare a value, or all values of an array, with the operand as a value of their type."""
        return _COMPARISONS[self.op](values, operand)

    @property
    def ignores_case(self) -> bool:
        """Whether ``contains`` ignores case, as it does unless the operand has capital letters."""
        return not any(map(str.isupper, self.operand))


def parse_condition(text: str) -> Condition:
    """Parse a condition as the user writes it: ``> 5``, ``= berlin``, ``missing`` or ``present``.

    Any other text must be contained in the values.
    """
    word = text.strip().lower()
    if word in ("missing", "present"):
        return Condition(word)
    match = _SIGN_AND_OPERAND.fullmatch(text)
    if match is None:
        return Condition("contains", text.strip())
    sign, operand = match.groups()
    op = "==" if sign == "=" else sign
    return Condition(op, operand.strip())


def make_predicate(condition: Condition) -> Callable[[Any], bool]:
    """Return a function that tells whether any value fulfils a condition."""
    operand = condition.operand
    if condition.op == "missing":
        return lambda value: cell_text(value) is None
    if condition.op == "present":
        return lambda value: cell_text(value) is not None
    if condition.op == "contains" and condition.ignores_case:
        return lambda value: operand in full_text(value).lower()
    if condition.op == "contains":
        return lambda value: operand in full_text(value)

    number = _parse_number(operand)

    def fulfils(value: object) -> bool:
        if type(value) in NUMBERS:
            is_nan = value != value
            return number is not None and not is_nan and condition.compare(value, number)
        is_missing = cell_text(value) is None
        return not is_missing and condition.compare(full_text(value), operand)

    return fulfils


def _parse_number(text: str) -> float | None:
    """Return the number, or the truth value, that an operand names; None if it names none."""
    is_whole = text.lstrip("+-").isdigit()
    try:
        return int(text) if is_whole else float(text)
    except ValueError:
        return BOOLEANS.get(text.lower())


def not_comparable(operand: str, kind: str) -> InspectionError:
    """Return the error for a condition that does not apply to a column.

    Args:
        operand: The operand of the condition.
        kind: The name of the column's type.
    """
    return InspectionError(f"{operand or 'Nothing'} cannot be compared with values of {kind}.")
