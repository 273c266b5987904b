"""From a question, or an error, to code: the rules of the demo model."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from mahtab_tui.llm.base import ModelError
from mahtab_tui.llm.demo_reading import Failure, Known

REAL_MODEL = "A real model is not bound to rules: /model shows those that can be used here (--model NAME on the command line)."
NO_COLUMN = "There is no column"

TABLE = "DataFrame"
SEQUENCES = ("list", "tuple", "set", "frozenset", "Series", "ndarray", "range", "dict")


class Plan(NamedTuple):
    """What the demo says, and what it wants to run (empty: nothing)."""

    words: str
    code: str = ""


class Asked(NamedTuple):
    """A question and the variable that it is about."""

    text: str
    """With "it" for the variable's name, which may be any word: a table `orders` is not "order by"."""
    variable: Known

    def says(self, pattern: str) -> re.Match[str] | None:
        return re.search(rf"\b(?:{pattern})\b", self.text, re.IGNORECASE)

    @property
    def column(self) -> str:
        """The column that it names; empty where it names none."""
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
"""Code, and the words for it."""
_NO_COLUMNS = frozenset(
    "the a an it by all each any column columns value values row rows item items numbers of in is are what how many and there".split()
)
_COUNTING = frozenset(
    "how many count the number of a an all are is there in has have does do what it its me please tell rows row items item elements entries values words "
    "word lines line characters character chars letters letter".split()
)
"""Words of a question that counts all there is. One with other words has a condition."""
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
"""Finds a column, however it is capitalised, in a DataFrame or a list of dicts; begins the block that works with it."""
_SORT = """\
rest = [row for row in rows if not has(row)]
try:
    {made} = sorted(filter(has, rows), key=lambda row: float(row[column]), reverse={down}) + rest
except ValueError:
    {made} = sorted(filter(has, rows), key=lambda row: str(row[column]), reverse={down}) + rest
print(*{made}[:10], sep='\\n')"""


def plan(text: str, variables: Sequence[Known]) -> Plan:
    """What to say to a question, and what to run. Raises `ModelError` where no rule has an answer."""
    listed = "\n".join(f"- {example}" for example in examples(variables))
    if re.search(r"\b(?:which|what|list|show)\b.*\bvariables\b", text, re.IGNORECASE):
        return _list(variables)
    if re.search(r"\bwhat can you\b|\bwho are you\b", text, re.IGNORECASE):
        can = "I can list and describe variables, count, sort, find what is missing, compute sums and means, and mend simple errors"
        return Plan(f"{can}; all by rules, offline. For example:\n\n{listed}")
    for asked in _readings(text, variables):
        for rule in _RULES:
            if (found := rule(asked)) is not None:
                return found
    raise ModelError(f"The demo model answers by rules, and none of them fits this question. These would work now:\n{listed}\n{REAL_MODEL}")


def examples(variables: Sequence[Known]) -> list[str]:
    """Three questions that would work on the variables there are."""
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


def _readings(text: str, variables: Sequence[Known]) -> list[Asked]:
    """A question as it can be read: all mentions of the variable are its name, or the last one only ("first 5 of first")."""
    words = set(re.findall(r"\w+", text))
    named = [v for v in variables if v.name in words] or [v for v in variables if v.name.lower() in {word.lower() for word in words}]
    data = [v for v in variables if v.type in (TABLE, *SEQUENCES, "str")]
    tables = [v for v in data if v.type == TABLE]
    if not (chosen := named or (tables if len(tables) == 1 else data if len(data) == 1 else [])):
        return []
    variable = max(chosen, key=lambda v: (v in data, len(v.name)))
    name = rf"\b{re.escape(variable.name)}\b"
    texts = (re.sub(name, "it", text, flags=re.IGNORECASE), re.sub(rf"{name}(?!.*{name})", "it", text, flags=re.IGNORECASE | re.DOTALL))
    return [Asked(read, variable) for read in dict.fromkeys(texts)]


def _rows(asked: Asked, column: str, code: str) -> str:
    """Code that works on the rows of a table, indented, after what finds its column."""
    return _ROWS.format(name=asked.variable.name, wanted=column.lower(), no_column=NO_COLUMN) + "".join(f"    {line}\n" for line in code.split("\n"))


def _list(variables: Sequence[Known]) -> Plan:
    if not variables:
        return Plan("There are no variables yet. Make one in Python mode, as in `numbers = [3, 1, 2]`.")
    return Plan("\n".join(["These variables are there:", "", *(f"- `{v.name}`: {v.type} {v.summary}".rstrip() for v in variables)]))


def _missing(asked: Asked) -> Plan | None:
    """Which rows have no value in a column, and how many."""
    found = [one or other for one, other in _MISSING.findall(asked.text) if (one or other) and (one or other).lower() not in _NO_COLUMNS]
    if not found or asked.variable.type not in (TABLE, "list"):
        return None
    column = found[0]
    made = f"without_{column.lower()}"
    code = (
        f"{made} = [row for row in rows if not has(row)]\nprint(len({made}), 'of', len(rows), 'rows have no', column)\nprint(*{made}[:10], sep='\\n')"
    )
    return Plan(f"I look for the rows of `{asked.variable.name}` that have no {column}.", _rows(asked, column, code))


def _sort(asked: Asked) -> Plan | None:
    if not asked.says(r"(?:sort|order|rank)\w*"):
        return None
    name, down = asked.variable.name, bool(asked.says("descending|reverse|down|largest first|highest first"))
    if asked.column and asked.variable.type in (TABLE, "list"):
        return Plan(f"I sort `{name}` by {asked.column}.", _rows(asked, asked.column, _SORT.format(made=f"sorted_{name}", down=down)))
    if asked.variable.type == TABLE:
        raise ModelError(f"Say by which column of the table, by its name, as in: sort {name} by price.")
    return Plan(f"I sort `{name}` into a new list.", f"sorted_{name} = sorted({name}, reverse={down})\nprint(sorted_{name}[:20])")


def _count(asked: Asked) -> Plan | None:
    if not asked.says("how many|count|number of") or set(re.findall(r"\w+", asked.text.lower())) - _COUNTING:
        return None
    name, kind = asked.variable.name, asked.variable.type
    unit, counted = "rows" if kind == TABLE else "items", name
    if kind == "str":
        unit, counted = "words", f"{name}.split()"
        if asked.says("lines?"):
            unit, counted = "lines", f"{name}.splitlines()"
        elif asked.says("char.*|letters?"):
            unit, counted = "characters", name
    return Plan(f"I count the {unit} of `{name}`.", f"count_{unit} = len({counted})\nprint('{name} has', count_{unit}, '{unit}')")


def _ends(asked: Asked) -> Plan | None:
    if (matched := asked.says("first|last|head|tail|top")) is None:
        return None
    count = int(number[0][:6]) if (number := re.search(r"\d+", asked.text)) else 5
    end, name = matched[0].lower() in ("last", "tail"), asked.variable.name
    values = f"list({name})" if asked.variable.type in ("set", "frozenset", "dict") else name
    return Plan(f"Here are the {'last' if end else 'first'} {count} of `{name}`.", f"print({values}[{f'-{count}:' if end else f':{count}'}])")


def _compute(asked: Asked) -> Plan | None:
    found = next(((code, words) for code, words in _OPERATIONS.items() if asked.says(words)), None)
    if found is None or asked.variable.type not in (TABLE, *SEQUENCES):
        return None
    name, said = asked.variable.name, found[1].partition("|")[0]
    if asked.column and asked.variable.type in (TABLE, "list"):
        result = f"{said}_{asked.column.lower()}"
        code = f"import statistics\nvalues = [float(row[column]) for row in rows if has(row)]\n{result} = {found[0]}\nprint('{said} of', column, 'is', {result})"
        return Plan(f"I take the {said} of the column {asked.column} of `{name}`.", _rows(asked, asked.column, code))
    if asked.variable.type == TABLE:
        return Plan(f"I take the {said} of each column of numbers of `{name}`.", f"print({name}.{said}(numeric_only=True))")
    values = f"{name}.values()" if asked.variable.type == "dict" else name
    return Plan(
        f"I take the {said} of `{name}`.",
        f"import statistics\nvalues = list({values})\n{said}_{name} = {found[0]}\nprint('{said} of {name} is', {said}_{name})",
    )


def _describe(asked: Asked) -> Plan | None:
    if set(re.findall(r"\w+", asked.text.lower())) - _DESCRIBING:
        return None
    name, kind = asked.variable.name, asked.variable.type
    code = f"print(type({name}))\nprint(repr({name})[:1000])"
    if kind == TABLE:
        code = f"print({name}.shape)\nprint({name}.describe())\nprint({name}.isna().sum())"
    elif kind in SEQUENCES:
        code = f"print(type({name}).__name__, len({name}))\nprint(list({name})[:5])"
    return Plan(f"I look at `{name}`.", code)


_RULES: tuple[Callable[[Asked], Plan | None], ...] = (_missing, _sort, _count, _ends, _compute, _describe)


def repair(failure: Failure, variables: Sequence[Known]) -> Plan:
    """What was wrong, and code that mends it. Raises `ModelError` where no rule knows how."""
    name = found[1] if (found := re.search(r"'([^']*)'", failure.message)) else ""
    if failure.kind == "NameError" and name in ("math", "json", "re", "os", "sys", "random", "datetime", "statistics"):
        return Plan(f"`{name}` was not imported.", f"import {name}\n{failure.code}")
    known = [v.name for v in variables] + ["print", "len", "range", "sum", "sorted", "open"]
    if failure.kind == "NameError" and (near := difflib.get_close_matches(name, known, n=1)):
        return Plan(f"There is no `{name}`; `{near[0]}` is near.", re.sub(rf"\b{re.escape(name)}\b", near[0], failure.code))
    at = f" at `{failure.line}`" if failure.line else ""
    if failure.kind == "ZeroDivisionError":
        return Plan(f"Something is divided by zero{at}, which no number allows. Say what it should be divided by.")
    said = f"{failure.kind}: {failure.message}" if failure.message else failure.kind
    raise ModelError(f"The cell raised {said}{at}. No rule of the demo model mends that. {REAL_MODEL}")
