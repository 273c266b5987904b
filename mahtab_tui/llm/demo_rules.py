"""From a question to code, by rules."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from mahtab_tui.llm.demo_reading import Known

TABLES = ("DataFrame",)
SEQUENCES = ("list", "tuple", "set", "frozenset", "Series", "ndarray", "range", "dict")


class Plan(NamedTuple):
    """What the demo says, and what it wants to run (empty: nothing)."""

    words: str
    code: str = ""


class Asked(NamedTuple):
    """A question, the variable it is about, and the column, where it names one."""

    text: str
    variable: Known | None
    column: str


_OPERATIONS = {
    "mean": r"\b(?:mean|average|avg)\b",
    "median": r"\bmedian\b",
    "sum": r"\b(?:sum|total|add up)\b",
    "min": r"\b(?:min|minimum|smallest|lowest|least)\b",
    "max": r"\b(?:max|maximum|largest|highest|biggest|greatest)\b",
    "std": r"\b(?:std|standard deviation)\b",
}
_GROUP = re.compile(r"\b(?:by|per|for each)\s+(\w+)")
_COLUMN = re.compile(r"\b(?:of|in|column|where|average|mean|sum|total|median|sort by|by)\s+(?=(?:the\s+)?(?:column\s+)?[`'\"]?(\w+))", re.IGNORECASE)
_NOT_COLUMNS = frozenset("the a an it all each column values rows numbers of in is are what how many and".split())
_COUNTING = frozenset(
    "how many count the number of a an all are is there in has have does do what it its me please tell rows row items item elements entries values words "
    "word lines line characters character chars letters letter".split()
)
_FILTER = re.compile(r"\b(\w+)\s*(>=|<=|==|!=|>|<|=|is over|is above|is under|is below|over|above|under|below)\s*(-?[\d.]+|'[^']*'|\"[^\"]*\")")
_WORDS_FOR = {"is over": ">", "is above": ">", "over": ">", "above": ">", "is under": "<", "is below": "<", "under": "<", "below": "<", "=": "=="}
_NUMBER = re.compile(r"\b(\d+)\b")

_FIND_COLUMN = """\
column = next((c for c in {table}.columns if str(c).lower() == {wanted!r}), None)
if column is None:
    print("There is no column {wanted}. Columns:", ", ".join(map(str, {table}.columns)))
else:
"""


def choose_variable(text: str, variables: Sequence[Known]) -> Known | None:
    """The variable that a question names; else the only one of its kind that the question can be about."""
    words = set(re.findall(r"\w+", text))
    named = [v for v in variables if v.name in words] or [v for v in variables if v.name.lower() in {word.lower() for word in words}]
    if named:
        return max(named, key=lambda v: len(v.name))
    data = [v for v in variables if v.type in (*TABLES, *SEQUENCES, "str")]
    tables = [v for v in data if v.type in TABLES]
    return tables[0] if len(tables) == 1 else data[0] if len(data) == 1 else None


def understand(text: str, variables: Sequence[Known]) -> Asked:
    """The question's parts."""
    variable = choose_variable(text, variables)
    taken = {variable.name} if variable else set()
    columns = [c for c in _COLUMN.findall(text) if c not in taken and c.lower() not in _NOT_COLUMNS]
    return Asked(text, variable, columns[0] if columns else "")


def plan(text: str, variables: Sequence[Known]) -> Plan:
    """What to say to a question, and what to run."""
    asked = understand(text, variables)
    for rule in _RULES:
        found = rule(asked, variables)
        if found is not None:
            return found
    return _cannot(variables)


def examples(variables: Sequence[Known]) -> list[str]:
    """Three questions that would work on the variables there are."""
    table = next((v for v in variables if v.type in TABLES), None)
    sequence = next((v for v in variables if v.type in SEQUENCES), None)
    text = next((v for v in variables if v.type == "str"), None)
    found = []
    if table:
        found += [f"describe {table.name}", f"first 5 rows of {table.name}", f"how many rows has {table.name}?"]
    if sequence:
        found += [f"what is the mean of {sequence.name}?", f"sort {sequence.name}"]
    if text:
        found += [f"how many words are in {text.name}?"]
    return [*found, "which variables are there?", "make numbers = [3, 1, 2] in Python mode, then: sort numbers", "what can you do?"][:3]


def _cannot(variables: Sequence[Known]) -> Plan:
    listed = "\n".join(f"- {example}" for example in examples(variables))
    return Plan(f"My rules have no answer to that. These would work now:\n\n{listed}\n\nFor anything else choose a real model: `/model claude`.")


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
    find = _FIND_COLUMN.format(table=name, wanted=column.lower())
    code = f"{find}    selected = {name}[{name}[column] {sign} {value}]\n    print(len(selected), 'of', len({name}), 'rows')\n    print(selected.head(10))"
    return Plan(f"I select the rows of `{name}` where {column} {sign} {value}.", code)


def _group(asked: Asked, variables: Sequence[Known]) -> Plan | None:
    matched = _GROUP.search(asked.text)
    operation = _operation(asked.text)
    if matched is None or operation is None or asked.variable is None or asked.variable.type not in TABLES or re.search(r"\bsort", asked.text):
        return None
    name, key = asked.variable.name, matched[1]
    values = [c for c in _COLUMN.findall(asked.text) if c not in (name, key) and c.lower() not in _NOT_COLUMNS]
    chosen = (
        f"{name}.groupby(column)[[c for c in {name}.columns if str(c).lower() == {values[0].lower()!r}]]" if values else f"{name}.groupby(column)"
    )
    find = _FIND_COLUMN.format(table=name, wanted=key.lower())
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
        find = _FIND_COLUMN.format(table=name, wanted=asked.column.lower())
        result = f"{operation}_{asked.column.lower()}"
        return Plan(
            f"I take the {operation} of the column {asked.column} of `{name}`.",
            f"{find}    {result} = {name}[column].{operation}()\n    print('{operation} of', column, 'is', {result})",
        )
    if asked.variable.type not in SEQUENCES:
        return None
    values = f"list({name}.values())" if asked.variable.type == "dict" else f"list({name})"
    result = f"{operation}_{name}"
    expressions = {"sum": "sum(values)", "min": "min(values)", "max": "max(values)"}
    expression = expressions.get(operation, f"statistics.{'stdev' if operation == 'std' else operation}(values)")
    needs = "import statistics\n" if "statistics" in expression else ""
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
    if set(re.findall(r"\w+", asked.text.lower())) - _COUNTING - {name.lower()}:
        return None  # a condition, as in "rows that have no price": all of them are not the answer
    if kind == "str":
        unit = "lines" if "line" in asked.text else "characters" if "char" in asked.text or "letter" in asked.text else "words"
        expression = {"lines": f"len({name}.splitlines())", "characters": f"len({name})", "words": f"len({name}.split())"}[unit]
        return Plan(f"I count the {unit} of `{name}`.", f"count_{unit} = {expression}\nprint('{name} has', count_{unit}, '{unit}')")
    unit = "rows" if kind in TABLES else "items"
    return Plan(f"I count the {unit} of `{name}`.", f"count_{unit} = len({name})\nprint('{name} has', count_{unit}, '{unit}')")


def _sort(asked: Asked, variables: Sequence[Known]) -> Plan | None:
    if not re.search(r"\b(?:sort|order|rank)\w*\b", asked.text, re.IGNORECASE) or asked.variable is None:
        return None
    name = asked.variable.name
    down = bool(re.search(r"\bdescending\b|\breverse\b|\bdown\b|\blargest first\b|\bhighest first\b", asked.text, re.IGNORECASE))
    if asked.variable.type in TABLES:
        if not asked.column:
            return Plan(f"Say by which column, as in: sort {name} by its name.")
        find = _FIND_COLUMN.format(table=name, wanted=asked.column.lower())
        return Plan(
            f"I sort `{name}` by {asked.column}.",
            f"{find}    sorted_{name} = {name}.sort_values(column, ascending={not down})\n    print(sorted_{name}.head(10))",
        )
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
    if asked.variable is None:
        return None
    named = asked.variable.name in re.findall(r"\w+", asked.text)
    if not named and not re.search(r"\b(?:describe|summar\w+|overview)\b", asked.text, re.IGNORECASE):
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
    _group,
    _sort,
    _count,
    _ends,
    _compute,
    _find,
    _describe,
)
