"""What a person types to filter a column."""

from __future__ import annotations

import re
from typing import NamedTuple

_CONDITION = re.compile(r"\s*(<=|>=|!=|==|=|<|>)\s*(.*)", re.DOTALL)


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
