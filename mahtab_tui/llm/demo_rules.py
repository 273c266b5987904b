"""The rules of the demo model, from a question or an error to code."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from mahtab_tui.llm.base import ModelError
from mahtab_tui.llm.demo_reading import FailedCell, KnownVariable

REAL_MODEL = "A real model has no such limits: /model lists those that you can use here (--model NAME on the command line)."
NO_COLUMN = "There is no column"

TABLE = "DataFrame"
SEQUENCES = ("list", "tuple", "set", "frozenset", "Series", "ndarray", "range", "dict")


class DemoAnswer(NamedTuple):
    """Words and code of an answer; no code if empty."""

    words: str
    code: str = ""


class Reading(NamedTuple):
    """A way to read a question: its text and the variable that it is about."""

    text: str
    """With "it" in place of the variable's name, which may be any word: the table `orders` does not mean "order by"."""
    variable: KnownVariable

    def says(self, pattern: str) -> re.Match[str] | None:
        return re.search(rf"\b(?:{pattern})\b", self.text, re.IGNORECASE)

    @property
    def column(self) -> str:
        """The column that it names; empty if none."""
        found = re.findall(
            rf"\b(?:of|in|column|where|by|{'|'.join(_OPERATIONS.values())})\s+(?=(?:the\s+)?(?:column\s+)?[`'\"]?(\w+))", self.text, re.I
        )
        return next((word for word in found if word.lower() not in _NO_COLUMNS), "")


_OPERATIONS = {
    "statistics.mean(values)": "mean|average|avg",
    "statistics.median(values)": "median",
    "sum(values)": "sum|total",
    "min(values)": "min|minimum|smallest|lowest|least",
    "max(values)": "max|maximum|largest|highest|biggest",
}
"""Code, and the words that ask for it."""
_NO_COLUMNS = frozenset(
    "the a an it by all each any column columns value values row rows item items numbers of in is are what how many and there".split()
)
_COUNTING = frozenset(
    "how many count the number of a an all are is there in has have does do what it its me please tell rows row items item elements entries values words "
    "word lines line characters character chars letters letter".split()
)
"""Words of a question that counts everything; one with other words has a condition."""
_DESCRIBING = frozenset(
    "describe summarise summarize summary overview of show print display inspect look at into tell explain me about what which is are in has does do "
    "contain contains content contents the a an it its all whole please can you give i see".split()
)
"""Words of a question about a variable as a whole."""
_MISSING = re.compile(
    r"\b(?:no|without|missing|lacks?|empty|null|nan)\b(?:\s+(?:an?|any|the|values?|for|of|in|column))*(?:\s+[`'\"]?(?!rows?\b|items?\b)(\w+))?"
    r"|\b(?!it\b)(\w+)\s+(?:is|are)\s+(?:missing|empty|null|nan)\b",
    re.IGNORECASE,
)
_ROWS = """\
rows = {name}.to_dict("records") if hasattr({name}, "to_dict") else {name}
column = next((c for c in rows[0] if str(c).lower() == {wanted!r}), None)
has = lambda row: row.get(column) not in (None, "") and row[column] == row[column]
if column is None:
    print("{no_column} {wanted}. Columns:", ", ".join(map(str, rows[0])))
else:
"""
"""Finds a column, ignoring case, in a DataFrame or a list of dicts; the code that uses it follows."""
_SORT = """\
rest = [row for row in rows if not has(row)]
try:
    {made} = sorted(filter(has, rows), key=lambda row: float(row[column]), reverse={down}) + rest
except ValueError:
    {made} = sorted(filter(has, rows), key=lambda row: str(row[column]), reverse={down}) + rest
print(*{made}[:10], sep='\\n')"""


def plan(text: str, variables: Sequence[KnownVariable]) -> DemoAnswer:
    """Answer a question. Raises `ModelError` if no rule applies."""
    listed = "\n".join(f"- {example}" for example in examples(variables))
    if re.search(r"\b(?:which|what|list|show)\b.*\bvariables\b", text, re.IGNORECASE):
        return _list(variables)
    if re.search(r"\bwhat can you\b|\bwho are you\b", text, re.IGNORECASE):
        can = "I can list and describe variables, count, sort, find missing values, compute sums and means, and fix simple errors"
        return DemoAnswer(f"{can}, all by rules and offline. For example:\n\n{listed}")
    for reading in _readings(text, variables):
        for rule in _RULES:
            if (found := rule(reading)) is not None:
                return found
    raise ModelError(f"The demo model answers by rules, and none of them applies to this question. These would work now:\n{listed}\n{REAL_MODEL}")


def examples(variables: Sequence[KnownVariable]) -> list[str]:
    """Return three questions that work with the current variables."""
    found = []
    for variable in variables:
        name = variable.name
        if variable.type == TABLE:
            found += [f"describe {name}", f"first 5 rows of {name}", f"how many rows has {name}?"]
        elif variable.type in SEQUENCES:
            found += [f"how many items has {name}?", f"first 5 of {name}"]
        elif variable.type == "str":
            found += [f"how many words are in {name}?"]
    return [*found, "which variables are there?", "make numbers = [3, 1, 2] in Python mode, then: sort numbers", "what can you do?"][:3]


def _readings(text: str, variables: Sequence[KnownVariable]) -> list[Reading]:
    """Return the ways to read a question: each mention of the variable is its name, or only the last one ("first 5 of first")."""
    words = set(re.findall(r"\w+", text))
    named = [v for v in variables if v.name in words] or [v for v in variables if v.name.lower() in {word.lower() for word in words}]
    data = [v for v in variables if v.type in (TABLE, *SEQUENCES, "str")]
    tables = [v for v in data if v.type == TABLE]
    if not (chosen := named or (tables if len(tables) == 1 else data if len(data) == 1 else [])):
        return []
    variable = max(chosen, key=lambda v: (v in data, len(v.name)))
    name = rf"\b{re.escape(variable.name)}\b"
    texts = (re.sub(name, "it", text, flags=re.IGNORECASE), re.sub(rf"{name}(?!.*{name})", "it", text, flags=re.IGNORECASE | re.DOTALL))
    return [Reading(read, variable) for read in dict.fromkeys(texts)]


def _rows(reading: Reading, column: str, code: str) -> str:
    """Return code that finds a column and then runs `code` on the table's rows."""
    return _ROWS.format(name=reading.variable.name, wanted=column.lower(), no_column=NO_COLUMN) + "".join(
        f"    {line}\n" for line in code.split("\n")
    )


def _list(variables: Sequence[KnownVariable]) -> DemoAnswer:
    if not variables:
        return DemoAnswer("There are no variables yet. Make one in Python mode, as in `numbers = [3, 1, 2]`.")
    return DemoAnswer("\n".join(["There are these variables:", "", *(f"- `{v.name}`: {v.type} {v.summary}".rstrip() for v in variables)]))


def _missing(reading: Reading) -> DemoAnswer | None:
    """Find and count the rows that have no value in a column."""
    found = [one or other for one, other in _MISSING.findall(reading.text) if (one or other) and (one or other).lower() not in _NO_COLUMNS]
    if not found or reading.variable.type not in (TABLE, "list"):
        return None
    column = found[0]
    made = f"without_{column.lower()}"
    code = (
        f"{made} = [row for row in rows if not has(row)]\nprint(len({made}), 'of', len(rows), 'rows have no', column)\nprint(*{made}[:10], sep='\\n')"
    )
    return DemoAnswer(f"I look for rows of `{reading.variable.name}` without {column}.", _rows(reading, column, code))


def _sort(reading: Reading) -> DemoAnswer | None:
    if not reading.says(r"(?:sort|order|rank)\w*"):
        return None
    name, down = reading.variable.name, bool(reading.says("descending|reverse|down|largest first|highest first"))
    if reading.column and reading.variable.type in (TABLE, "list"):
        return DemoAnswer(f"I sort `{name}` by {reading.column}.", _rows(reading, reading.column, _SORT.format(made=f"sorted_{name}", down=down)))
    if reading.variable.type == TABLE:
        raise ModelError(f"Name the column to sort by, as in: sort {name} by price.")
    return DemoAnswer(f"I sort `{name}` into a new list.", f"sorted_{name} = sorted({name}, reverse={down})\nprint(sorted_{name}[:20])")


def _count(reading: Reading) -> DemoAnswer | None:
    if not reading.says("how many|count|number of") or set(re.findall(r"\w+", reading.text.lower())) - _COUNTING:
        return None
    name, kind = reading.variable.name, reading.variable.type
    unit, counted = "rows" if kind == TABLE else "items", name
    if kind == "str":
        unit, counted = "words", f"{name}.split()"
        if reading.says("lines?"):
            unit, counted = "lines", f"{name}.splitlines()"
        elif reading.says("char.*|letters?"):
            unit, counted = "characters", name
    return DemoAnswer(f"I count the {unit} of `{name}`.", f"count_{unit} = len({counted})\nprint('{name} has', count_{unit}, '{unit}')")


def _ends(reading: Reading) -> DemoAnswer | None:
    if (matched := reading.says("first|last|head|tail|top")) is None:
        return None
    count = int(number[0][:6]) if (number := re.search(r"\d+", reading.text)) else 5
    end, name = matched[0].lower() in ("last", "tail"), reading.variable.name
    values = f"list({name})" if reading.variable.type in ("set", "frozenset", "dict") else name
    return DemoAnswer(f"Here are the {'last' if end else 'first'} {count} of `{name}`.", f"print({values}[{f'-{count}:' if end else f':{count}'}])")


def _compute(reading: Reading) -> DemoAnswer | None:
    found = next(((code, words) for code, words in _OPERATIONS.items() if reading.says(words)), None)
    if found is None or reading.variable.type not in (TABLE, *SEQUENCES):
        return None
    name, said = reading.variable.name, found[1].partition("|")[0]
    if reading.column and reading.variable.type in (TABLE, "list"):
        result = f"{said}_{reading.column.lower()}"
        code = f"import statistics\nvalues = [float(row[column]) for row in rows if has(row)]\n{result} = {found[0]}\nprint('{said} of', column, 'is', {result})"
        return DemoAnswer(f"I take the {said} of the column {reading.column} of `{name}`.", _rows(reading, reading.column, code))
    if reading.variable.type == TABLE:
        return DemoAnswer(f"I take the {said} of each column of numbers of `{name}`.", f"print({name}.{said}(numeric_only=True))")
    values = f"{name}.values()" if reading.variable.type == "dict" else name
    return DemoAnswer(
        f"I take the {said} of `{name}`.",
        f"import statistics\nvalues = list({values})\n{said}_{name} = {found[0]}\nprint('{said} of {name} is', {said}_{name})",
    )


def _describe(reading: Reading) -> DemoAnswer | None:
    if set(re.findall(r"\w+", reading.text.lower())) - _DESCRIBING:
        return None
    name, kind = reading.variable.name, reading.variable.type
    code = f"print(type({name}))\nprint(repr({name})[:1000])"
    if kind == TABLE:
        code = f"print({name}.shape)\nprint({name}.describe())\nprint({name}.isna().sum())"
    elif kind in SEQUENCES:
        code = f"print(type({name}).__name__, len({name}))\nprint(list({name})[:5])"
    return DemoAnswer(f"I look at `{name}`.", code)


_RULES: tuple[Callable[[Reading], DemoAnswer | None], ...] = (_missing, _sort, _count, _ends, _compute, _describe)


def repair(failure: FailedCell, variables: Sequence[KnownVariable]) -> DemoAnswer:
    """Explain an error and fix it. Raises `ModelError` if no rule applies."""
    name = found[1] if (found := re.search(r"'([^']*)'", failure.message)) else ""
    if failure.kind == "NameError" and name in ("math", "json", "re", "os", "sys", "random", "datetime", "statistics"):
        return DemoAnswer(f"`{name}` was not imported.", f"import {name}\n{failure.code}")
    known = [v.name for v in variables] + ["print", "len", "range", "sum", "sorted", "open"]
    if failure.kind == "NameError" and (near := difflib.get_close_matches(name, known, n=1)):
        return DemoAnswer(f"There is no `{name}`; `{near[0]}` is similar.", re.sub(rf"\b{re.escape(name)}\b", near[0], failure.code))
    at = f" at `{failure.line}`" if failure.line else ""
    if failure.kind == "ZeroDivisionError":
        return DemoAnswer(f"The code divides by zero{at}. Tell me what it should divide by.")
    said = f"{failure.kind}: {failure.message}" if failure.message else failure.kind
    raise ModelError(f"The cell raised {said}{at}. The demo model has no rule to fix that. {REAL_MODEL}")
