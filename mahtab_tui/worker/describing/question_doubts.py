"""Tells where code does not fit the question that it should answer.

A small model counts the rows of the wrong table, or prints a number where the question asks for a name.
Used by `result_doubts`, which reads the code.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from ..values.objects import (
    as_library_type,
    has_own_indexes,
    is_one_of,
    is_own_column,
    run_with_timeout,
)
from ..values.secret_names import looks_secret
from ..values.summaries import one_line
from .table_description import text_columns

_TIMEOUT_S = 0.5
"""Seconds for all columns together."""
_MAX_QUESTION_CHARS = 4_000
_MAX_SENTENCES = 2
_MAX_SHOWN_CHARS = 60
"""Characters of a label in a sentence."""
_MAX_NUMBERS = 200_000
"""A longer column of numbers is not read."""
_MIN_NAME_CHARS = 3
"""Shorter names of tables are not looked for in a question."""
_COMMON_NAMES = frozenset(
    "data dataset file list name names result results row rows table tables value values".split()
)
"""Nor are these, which questions use for something else."""
_ASKED_FOR = re.compile(
    r"(?:^|[.?!:,]\s)(?:and\s)?(?:(?:at|for|from|in|on)\s)?which\s(\w{1,60})(?:\s(\w{1,60}))?",
    re.IGNORECASE,
)
"""The beginning of a question for some of several values, as in "for which symbol", with two words.
After "what", a word seldom means a column: "what type is it?"."""
_NUMBER = re.compile(
    r"(?<![\w.,])-?\d{1,3}(?:,\d{3}){1,4}(?!\w|[.,]\d)"
    r"|(?<![\w.])-?\d{1,15}(?:\.0{1,9})?(?![\w.]*\d)"
)
"""A whole number, as an output may write it: 5000, 5,000 or 5000.0."""
_DATE = re.compile(r"\d[-/.]\d|[a-z]{3,9}\.? \d", re.IGNORECASE)
"""A part of a date. Outputs write dates in other forms than tables."""


def question_doubts(
    tables: Mapping[str, object], nodes: Sequence[ast.AST], question: str, output: str
) -> tuple[str, ...]:
    """Return a sentence for each value that the question asks for and the output lacks, and for each
    table that the question names and the code leaves out.

    Args:
        tables: The tables that may be told of, by name.
        nodes: The nodes of the code's syntax tree.
        question: The user's words.
        output: What the code printed.
    """
    question = question[:_MAX_QUESTION_CHARS]
    names = {node.id for node in nodes if isinstance(node, ast.Name)}
    pandas_tables = {name: table for name, table in tables.items() if _is_table(table)}
    used_tables = {name: table for name, table in pandas_tables.items() if name in names}

    def write_sentences() -> list[str]:
        sentences = [
            *_missing_values(used_tables, question, output),
            *_unused_tables(pandas_tables, used_tables, question),
        ]
        return sentences[:_MAX_SENTENCES]

    try:
        return tuple(run_with_timeout(_TIMEOUT_S, write_sentences))
    except Exception:  # a library's object in an unforeseen state, or too slow
        return ()


def _is_table(value: object) -> bool:
    table = as_library_type(value)
    return is_one_of(table, "pandas", "DataFrame") and has_own_indexes(table)


def _missing_values(tables: Mapping[str, Any], question: str, output: str) -> Iterator[str]:
    """Yield a sentence for each column whose value the question asks for, if the output has none.

    Args:
        tables: The tables that the code uses, by name.
        question: The user's words.
        output: What the code printed.
    """
    if "..." in output or not output.strip():
        return
    for match in _ASKED_FOR.finditer(question):
        asked_columns = _columns_called(tables, match.groups(default=""))
        values = [_values(tables[name], label) for name, label in asked_columns]
        if asked_columns and not any(_shows_value(output, column) for column in values):
            name, label = asked_columns[0]
            column = f"{name}[{one_line(repr(label), _MAX_SHOWN_CHARS)}]"
            yield f"the question asks which {label}, but the output has no value of {column}."


def _columns_called(tables: Mapping[str, Any], words: Sequence[str]) -> Sequence[tuple[str, str]]:
    """Return the table and the label of each column that the first of these words names which names
    any, in the singular or the plural."""
    for word in words:
        forms = _singular_forms(word.casefold())
        columns = [
            (name, label)
            for name, table in tables.items()
            for label in table.columns
            if type(label) is str and label.casefold() in forms and not looks_secret(label)
        ]
        if columns:
            return columns
    return ()


def _singular_forms(word: str) -> set[str]:
    """Return a word and its possible singulars, not all of them real words."""
    forms = {word}
    for ending, singular in (("s", ""), ("es", ""), ("ies", "y")):
        if word.endswith(ending):
            forms.add(word[: -len(ending)] + singular)
    return forms


def _values(table: Any, label: str) -> Collection[str] | Collection[int]:
    """Return the different values of a column of texts or whole numbers; empty for other columns."""
    table = as_library_type(table)
    column = table[label]
    if column.ndim != 1 or not is_own_column(column):
        return ()
    if column.dtype.kind in "iu":
        return set(column.tolist()) if len(column) <= _MAX_NUMBERS else ()
    return text_columns(table, whole_only=True).get(label, ())


def _shows_value(output: str, values: Collection[Any]) -> bool:
    """Return whether an output has one of the values, or may have it in another form."""
    if not values or _DATE.search(str(next(iter(values)))):
        return True
    if type(next(iter(values))) is int:
        numbers = [int(float(number.replace(",", ""))) for number in _NUMBER.findall(output)]
        # An output without numbers may name a month, or another value, in words.
        return not numbers or any(number in values for number in numbers)
    folded_output = output.casefold()
    return any(value.casefold() in folded_output for value in values)


def _unused_tables(
    tables: Mapping[str, Any], used_tables: Mapping[str, Any], question: str
) -> Iterator[str]:
    """Yield a sentence for each table that the question names and the code leaves out, if it uses
    others that were not made from it.

    Args:
        tables: All tables, by name.
        used_tables: Those that the code uses.
        question: The user's words.
    """
    words = set(re.findall(r"\w+", question.casefold()))
    for name, table in tables.items():
        is_named = len(name) >= _MIN_NAME_CHARS and name.casefold() in words - _COMMON_NAMES
        if not is_named or name in used_tables or not used_tables:
            continue
        labels = set(table.columns)
        if any(labels <= set(other.columns) for other in used_tables.values()):
            continue
        sentence = f"the question names {name}, but the code does not use it."
        shared_columns = (
            (other_name, label)
            for other_name, other in used_tables.items()
            for label in other.columns
            if label in labels and type(label) is str
        )
        for other_name, label in islice(shared_columns, 1):
            shown_label = one_line(repr(label), _MAX_SHOWN_CHARS)
            sentence += f" Both tables together: {name}.merge({other_name}, on={shown_label})."
        yield sentence
