"""From a question to code, by rules."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from mahtab_tui.llm.base import ModelError
from mahtab_tui.llm.demo_question import COLUMN, NOT_COLUMNS, ROWS, SEQUENCES, TABLES, Asked, understand
from mahtab_tui.llm.demo_reading import Known

REAL_MODEL = "A real model is not bound to rules: /model shows those that can be used here (--model NAME on the command line)."


class Plan(NamedTuple):
    """What the demo says, and what it wants to run (empty: nothing)."""

    words: str
    code: str = ""


_OPERATIONS = {
    "mean": r"\b(?:mean|average|avg)\b",
    "median": r"\bmedian\b",
    "sum": r"\b(?:sum|total|add up)\b",
    "min": r"\b(?:min|minimum|smallest|lowest|least)\b",
    "max": r"\b(?:max|maximum|largest|highest|biggest|greatest)\b",
    "std": r"\b(?:std|standard deviation)\b",
}
_GROUP = re.compile(r"\b(?:by|per|for each)\s+(\w+)")
_COUNTING = frozenset(
    "how many count the number of a an all are is there in has have does do what it its me please tell rows row items item elements entries values words "
    "word lines line characters character chars letters letter".split()
)
_DESCRIBING = frozenset(
    "describe summarise summarize summary overview of show print display inspect look at into tell explain me about what which is are in has does do "
    "contain contains content contents the a an it its all whole please can you give i see".split()
)
"""Words of a question about a variable as a whole. One with other words asks for something else."""
_MISSING = re.compile(
    r"\b(?:no|without|missing|lacks?|lacking|empty|null|nan)\b(?:\s+(?:an?|any|the|values?|for|of|in|column))*(?:\s+[`'\"]?(?!rows?\b|items?\b)(\w+))?",
    re.IGNORECASE,
)
_IS_MISSING = re.compile(r"\b(\w+)\s+(?:is|are)\s+(?:missing|empty|null|nan)\b", re.IGNORECASE)
_FILTER = re.compile(r"\b(\w+)\s*(>=|<=|==|!=|>|<|=|is over|is above|is under|is below|over|above|under|below)\s*(-?[\d.]+|'[^']*'|\"[^\"]*\")")
_WORDS_FOR = {"is over": ">", "is above": ">", "over": ">", "above": ">", "is under": "<", "is below": "<", "under": "<", "below": "<", "=": "=="}
_NUMBER = re.compile(r"\b(\d+)\b")

NO_COLUMN = "There is no column"
_FIND_COLUMN = """\
columns = {columns}
column = next((c for c in columns if str(c).lower() == {wanted!r}), None)
if column is None:
    print("{no_column} {wanted}. Columns:", ", ".join(map(str, columns)))
else:
"""


def plan(text: str, variables: Sequence[Known]) -> Plan:
    """What to say to a question, and what to run. Raises `ModelError` where no rule has an answer."""
    for asked in understand(text, variables):
        for rule in _RULES:
            found = rule(asked, variables)
            if found is not None:
                return found
    listed = "\n".join(f"- {example}" for example in examples(variables))
    raise ModelError(f"The demo model answers by rules, and none of them fits this question. These would work now:\n{listed}\n{REAL_MODEL}")


def _find_column(variable: Known, wanted: str) -> str:
    """Code that finds a column, however it is capitalised, and begins the block that works with it."""
    name = variable.name
    columns = f"list({name}.columns)" if variable.type in TABLES else f"[c for row in {name}[:1] if isinstance(row, dict) for c in row]"
    return _FIND_COLUMN.format(columns=columns, wanted=wanted.lower(), no_column=NO_COLUMN)


def _numbers(name: str) -> str:
    """An expression for a column's numbers in a list of dicts, where a file's are texts."""
    return f"[float(row[column]) for row in {name} if row.get(column) not in (None, '')]"


def examples(variables: Sequence[Known]) -> list[str]:
    """Three questions that would work on the variables there are."""
    table = next((v for v in variables if v.type in TABLES), None)
    sequence = next((v for v in variables if v.type in SEQUENCES), None)
    text = next((v for v in variables if v.type == "str"), None)
    found = []
    if table:
        found += [f"describe {table.name}", f"first 5 rows of {table.name}", f"how many rows has {table.name}?"]
    if sequence:
        found += [f"how many items has {sequence.name}?", f"first 5 of {sequence.name}"]
    if text:
        found += [f"how many words are in {text.name}?"]
    return [*found, "which variables are there?", "make numbers = [3, 1, 2] in Python mode, then: sort numbers", "what can you do?"][:3]


def _help(asked: Asked, variables: Sequence[Known]) -> Plan | None:
    if not re.search(r"\bwhat can you\b|\bhelp\b|\bwho are you\b", asked.text, re.IGNORECASE):
        return None
    listed = "\n".join(f"- {example}" for example in examples(variables))
    return Plan(
        "I can list and describe variables, compute mean, median, sum, min and max, count, sort, filter, group, find lines in a text, and mend simple"
        f" errors; all by rules, offline. For example:\n\n{listed}"
    )


def _list(asked: Asked, variables: Sequence[Known]) -> Plan | None:
    if not re.search(r"\b(?:which|what|list|show)\b.*\bvariables\b", asked.text, re.IGNORECASE):
        return None
    if not variables:
        return Plan("There are no variables yet. Make one in Python mode, as in `numbers = [3, 1, 2]`.")
    return Plan("\n".join(["These variables are there:", "", *(f"- `{v.name}`: {v.type} {v.summary}".rstrip() for v in variables)]))


def _filter(asked: Asked, variables: Sequence[Known]) -> Plan | None:
    matched = _FILTER.search(asked.text)
    if matched is None or asked.variable is None or asked.variable.type not in TABLES:
        return None
    column, sign, value = matched[1], _WORDS_FOR.get(matched[2], matched[2]), matched[3]
    name = asked.variable.name
    find = _find_column(asked.variable, column)
    code = f"{find}    selected = {name}[{name}[column] {sign} {value}]\n    print(len(selected), 'of', len({name}), 'rows')\n    print(selected.head(10))"
    return Plan(f"I select the rows of `{name}` where {column} {sign} {value}.", code)


def _group(asked: Asked, variables: Sequence[Known]) -> Plan | None:
    matched = _GROUP.search(asked.text)
    operation = _operation(asked.text)
    if matched is None or operation is None or asked.variable is None or asked.variable.type not in TABLES or re.search(r"\bsort", asked.text):
        return None
    name, key = asked.variable.name, matched[1]
    values = [c for c in COLUMN.findall(asked.text) if c not in (name, key) and c.lower() not in NOT_COLUMNS]
    chosen = (
        f"{name}.groupby(column)[[c for c in {name}.columns if str(c).lower() == {values[0].lower()!r}]]" if values else f"{name}.groupby(column)"
    )
    find = _find_column(asked.variable, key)
    code = f"{find}    grouped = {chosen}.{operation}(numeric_only=True)\n    print(grouped)"
    return Plan(f"I take the {operation} for each {key} of `{name}`.", code)


def _operation(text: str) -> str | None:
    return next((name for name, pattern in _OPERATIONS.items() if re.search(pattern, text, re.IGNORECASE)), None)


def _compute(asked: Asked, variables: Sequence[Known]) -> Plan | None:
    operation = _operation(asked.text)
    if operation is None or asked.variable is None:
        return None
    name = asked.variable.name
    if asked.variable.type in TABLES:
        if not asked.column:
            return Plan(f"I take the {operation} of each column of numbers of `{name}`.", f"print({name}.{operation}(numeric_only=True))")
        find = _find_column(asked.variable, asked.column)
        result = f"{operation}_{asked.column.lower()}"
        return Plan(
            f"I take the {operation} of the column {asked.column} of `{name}`.",
            f"{find}    {result} = {name}[column].{operation}()\n    print('{operation} of', column, 'is', {result})",
        )
    if asked.variable.type not in SEQUENCES:
        return None
    expressions = {"sum": "sum(values)", "min": "min(values)", "max": "max(values)"}
    expression = expressions.get(operation, f"statistics.{'stdev' if operation == 'std' else operation}(values)")
    needs = "import statistics\n" if "statistics" in expression else ""
    if asked.column and asked.variable.type in ROWS:
        find = _find_column(asked.variable, asked.column)
        result = f"{operation}_{asked.column.lower()}"
        return Plan(
            f"I take the {operation} of the column {asked.column} of `{name}`.",
            f"{needs}{find}    values = {_numbers(name)}\n    {result} = {expression}\n    print('{operation} of', column, 'is', {result})",
        )
    values = f"list({name}.values())" if asked.variable.type == "dict" else f"list({name})"
    result = f"{operation}_{name}"
    return Plan(
        f"I take the {operation} of `{name}`.", f"{needs}values = {values}\n{result} = {expression}\nprint('{operation} of {name} is', {result})"
    )


def _count(asked: Asked, variables: Sequence[Known]) -> Plan | None:
    if not re.search(r"\bhow many\b|\bcount\b|\bnumber of\b|\bdistinct\b|\bunique\b", asked.text, re.IGNORECASE) or asked.variable is None:
        return None
    name, kind = asked.variable.name, asked.variable.type
    if re.search(r"\bdistinct\b|\bunique\b", asked.text, re.IGNORECASE):
        if kind in TABLES:
            return Plan(f"I count the distinct values of each column of `{name}`.", f"print({name}.nunique())")
        return Plan(f"I count the distinct values of `{name}`.", f"distinct = len(set({name}))\nprint(distinct, 'distinct values')")
    if set(re.findall(r"\w+", asked.text.lower())) - _COUNTING:
        return None  # a condition, as in "rows that have no price": all of them are not the answer
    if kind == "str":
        unit = "lines" if "line" in asked.text else "characters" if "char" in asked.text or "letter" in asked.text else "words"
        expression = {"lines": f"len({name}.splitlines())", "characters": f"len({name})", "words": f"len({name}.split())"}[unit]
        return Plan(f"I count the {unit} of `{name}`.", f"count_{unit} = {expression}\nprint('{name} has', count_{unit}, '{unit}')")
    unit = "rows" if kind in TABLES else "items"
    return Plan(f"I count the {unit} of `{name}`.", f"count_{unit} = len({name})\nprint('{name} has', count_{unit}, '{unit}')")


def _missing(asked: Asked, variables: Sequence[Known]) -> Plan | None:
    """Which rows have no value in a column, and how many; without a column, how many values of each are missing."""
    found = [matched for matched in (_MISSING.search(asked.text), _IS_MISSING.search(asked.text)) if matched]
    if not found or asked.variable is None or asked.variable.type not in (*TABLES, *ROWS):
        return None
    name, column = asked.variable.name, next((m[1] for m in found if m[1] and m[1].lower() not in NOT_COLUMNS), "")
    if column:
        rows, result = f"[row for row in {name} if row.get(column) in (None, '')]", f"without_{column.lower()}"
        shown = f"*{result}[:10], sep='\\n'"
        if asked.variable.type in TABLES:
            rows, shown = f"{name}[{name}[column].isna()]", f"{result}.head(10)"
        code = f"    {result} = {rows}\n    print(len({result}), 'of', len({name}), 'rows have no', column)\n    if len({result}):\n        print({shown})"
        return Plan(f"I look for the rows of `{name}` without {column}.", _find_column(asked.variable, column) + code)
    words = f"I count the missing values of each column of `{name}`."
    if asked.variable.type in TABLES:
        return Plan(words, f"print({name}.isna().sum())")
    return Plan(words, f"print({{c: sum(row.get(c) in (None, '') for row in {name}) for c in dict.fromkeys(c for row in {name} for c in row)}})")


def _sort(asked: Asked, variables: Sequence[Known]) -> Plan | None:
    if not re.search(r"\b(?:sort|order|rank)\w*\b", asked.text, re.IGNORECASE) or asked.variable is None:
        return None
    name = asked.variable.name
    down = bool(re.search(r"\bdescending\b|\breverse\b|\bdown\b|\blargest first\b|\bhighest first\b", asked.text, re.IGNORECASE))
    if asked.variable.type in TABLES:
        if not asked.column:
            raise ModelError(f"Say by which column of the table, by its name, as in: sort {name} by price.")
        find = _find_column(asked.variable, asked.column)
        return Plan(
            f"I sort `{name}` by {asked.column}.",
            f"{find}    sorted_{name} = {name}.sort_values(column, ascending={not down})\n    print(sorted_{name}.head(10))",
        )
    if asked.column and asked.variable.type in ROWS:
        find = _find_column(asked.variable, asked.column)
        code = (
            f"    rows = [row for row in {name} if row.get(column) not in (None, '')]\n"
            f"    try:\n        rows.sort(key=lambda row: float(row[column]), reverse={down})\n"
            f"    except ValueError:\n        rows.sort(key=lambda row: str(row[column]), reverse={down})\n"
            f"    sorted_{name} = rows + [row for row in {name} if row.get(column) in (None, '')]\n    print(*sorted_{name}[:10], sep='\\n')"
        )
        return Plan(f"I sort `{name}` by {asked.column}.", find + code)
    return Plan(f"I sort `{name}` into a new list.", f"sorted_{name} = sorted({name}, reverse={down})\nprint(sorted_{name}[:20])")


def _ends(asked: Asked, variables: Sequence[Known]) -> Plan | None:
    matched = re.search(r"\b(first|last|head|tail|top)\b", asked.text, re.IGNORECASE)
    if matched is None or asked.variable is None:
        return None
    number = _NUMBER.search(asked.text)
    count = int(number[1][:6]) if number else 5
    end = matched[1].lower() in ("last", "tail")
    name = asked.variable.name
    if asked.variable.type in (*TABLES, "Series"):
        return Plan(f"Here are the {'last' if end else 'first'} {count} rows of `{name}`.", f"print({name}.{'tail' if end else 'head'}({count}))")
    part = f"[-{count}:]" if end else f"[:{count}]"
    values = name if asked.variable.type in ("str", "list", "tuple") else f"list({name})"
    return Plan(f"Here are the {'last' if end else 'first'} {count} of `{name}`.", f"print({values}{part})")


def _find(asked: Asked, variables: Sequence[Known]) -> Plan | None:
    matched = re.search(r"\b(?:find|search|grep|lines with|mention\w*)\s+(?:for\s+)?['\"`]?([\w.@-]+)", asked.text, re.IGNORECASE)
    if matched is None or asked.variable is None or asked.variable.type != "str":
        return None
    return Plan(f"I look for {matched[1]} in `{asked.variable.name}`.", f"print(grep({asked.variable.name}, {re.escape(matched[1])!r}))")


def _describe(asked: Asked, variables: Sequence[Known]) -> Plan | None:
    if asked.variable is None or set(re.findall(r"\w+", asked.text.lower())) - _DESCRIBING:
        return None
    name, kind = asked.variable.name, asked.variable.type
    if kind in (*TABLES, "Series"):
        return Plan(
            f"I describe `{name}`: its size, its columns, what is missing.",
            f"print({name}.shape)\nprint({name}.describe())\nprint({name}.isna().sum())",
        )
    if kind == "str":
        return Plan(f"`{name}` is a text; I look at its beginning.", f"print(len({name}.splitlines()), 'lines')\nprint(peek({name}, 500))")
    if kind in SEQUENCES:
        return Plan(f"I look at the beginning of `{name}`.", f"print(type({name}).__name__, len({name}))\nprint(list({name})[:5])")
    return Plan(f"I look at `{name}`.", f"print(type({name}))\nprint(repr({name})[:1000])")


_RULES: tuple[Callable[[Asked, Sequence[Known]], Plan | None], ...] = (
    _help,
    _list,
    _filter,
    _missing,
    _group,
    _sort,
    _count,
    _ends,
    _compute,
    _find,
    _describe,
)
