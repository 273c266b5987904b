"""What a question to the demo model is about: a variable, and a column of it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from mahtab_tui.llm.demo_reading import Known

TABLES = ("DataFrame",)
ROWS = ("list",)
"""What a table is where there is no pandas: a list of dicts."""
SEQUENCES = ("list", "tuple", "set", "frozenset", "Series", "ndarray", "range", "dict")

COLUMN = re.compile(r"\b(?:of|in|column|where|average|mean|sum|total|median|sort by|by)\s+(?=(?:the\s+)?(?:column\s+)?[`'\"]?(\w+))", re.IGNORECASE)
NOT_COLUMNS = frozenset(
    "the a an it by all each any column columns value values row rows item items entries numbers of in is are what how many and".split()
)


class Asked(NamedTuple):
    """A question, the variable it is about, and the column, where it names one."""

    text: str
    """With "it" for the variable's name, which may be any word: a table `orders` is not "order by"."""
    variable: Known | None
    column: str


def choose_variable(text: str, variables: Sequence[Known]) -> Known | None:
    """The variable that a question names; else the only one of its kind that the question can be about."""
    words = set(re.findall(r"\w+", text))
    named = [v for v in variables if v.name in words] or [v for v in variables if v.name.lower() in {word.lower() for word in words}]
    kinds = (*TABLES, *SEQUENCES, "str")
    if named:
        return max(named, key=lambda v: (v.type in kinds, len(v.name)))
    data = [v for v in variables if v.type in kinds]
    tables = [v for v in data if v.type in TABLES]
    return tables[0] if len(tables) == 1 else data[0] if len(data) == 1 else None


def understand(text: str, variables: Sequence[Known]) -> list[Asked]:
    """The question's parts, as it can be read: with all mentions of the variable as its name, then with the last one only ("first 5 of first")."""
    variable = choose_variable(text, variables)
    texts = [text]
    if variable is not None:
        name = rf"\b{re.escape(variable.name)}\b"
        texts = [re.sub(name, "it", text, flags=re.IGNORECASE), re.sub(rf"{name}(?!.*{name})", "it", text, flags=re.IGNORECASE | re.DOTALL)]
    return [Asked(read, variable, _column(read)) for read in dict.fromkeys(texts)]


def _column(text: str) -> str:
    return next((column for column in COLUMN.findall(text) if column.lower() not in NOT_COLUMNS), "")
