"""Examples of code that answers a query, made of the query's words and the form of the text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from mahtab_tui.llm.search_prompt_words import TEXT
from mahtab_tui.sandbox.base import SearchedText, TextKind
from mahtab_tui.search.query_lines import (
    MAX_SEARCHED_CHARS,
    QueryLines,
    find_query_lines,
    is_always_whole,
)
from mahtab_tui.search.tagged_text import join_paragraphs, tagged
from mahtab_tui.search.text_rows import Rows
from mahtab_tui.worker.rlm.answers import FORM, needs_code

SAMPLE_CHARS = 500
"""Characters at the beginning of a text in which names and values are looked for."""

_JOINED: dict[TextKind, str] = {
    "str": "context",
    "list": "'\\n'.join(context)",
    "dict": "'\\n'.join(context.values())",
}
_COMPUTE = """\
Compute the answer from all lines and call FINAL with it. Example, for {what}:
```python
{code}
```"""
_PRINT = """\
These lines may not be all that the answer needs, and the text may use other words. Print what matters, and answer when it is printed. \
Example, for lines with {what}:
```python
{code}
```"""
_MAX_PRINTED_LINES = 40
"""Lines that the example of printing may print."""
_LOOK = """\
Line {number} has all words of the query. If it states the answer, call FINAL with it, in one block; otherwise print what the answer needs:
```python
FINAL("answer")
```"""

_DIFFERENT = "(?:different|distinct|unique)"
"""A pattern for words that ask for different values."""

_PAIR = re.compile(r"\b([A-Za-z_]\w*)=(\w+)")
"""A name and a value, as in logs."""
_NUMBER = re.compile(r"-?\d+(\.\d+)?")
_MONTH = re.compile(r"\d{4}-\d\d")
"""The beginning of a date."""


class _Aggregate(NamedTuple):
    """A way to compute an answer from many lines."""

    pattern: re.Pattern[str]
    """Words of a query that asks for it."""
    name: str
    """What it is of `{key}`, for the model."""
    code: str
    """An expression over `values`."""
    is_of_numbers: bool = True


def _aggregate(words: str, name: str, code: str, *, is_of_numbers: bool = True) -> _Aggregate:
    pattern = re.compile(rf"\b(?:{words})\b", re.IGNORECASE)
    return _Aggregate(pattern, name, code, is_of_numbers)


_COUNT = _aggregate("how many|how often|number of|count", "the number of lines", "len(values)")
_AGGREGATES = (
    _aggregate(
        rf"(?:how many|number of|count)(?: \w+)? {_DIFFERENT}",
        "the number of different values of {key}",
        "len(set(values))",
        is_of_numbers=False,
    ),
    _aggregate("average|mean", "the average of {key}", "sum(values) / len(values)"),
    _aggregate("maximum|largest|highest|longest", "the largest {key}", "max(values)"),
    _aggregate("minimum|smallest|lowest|shortest", "the smallest {key}", "min(values)"),
    _aggregate("sum|total|altogether", "the sum of {key}", "sum(values)"),
    _COUNT,
)
"""The first whose words a query has is shown as the example."""


class QueryStart(NamedTuple):
    """What a node is told at the beginning about its query."""

    lines: str
    """The section with the lines that have words of the query; empty if none has."""
    next_step: str
    """How to begin, with an example; empty if nothing is known about it."""


def start_query(query: str, text: SearchedText, rows: Rows | None) -> QueryStart:
    """Return the lines that have words of the query, and how to begin.

    An answer at once is only offered where one line has all words, because a model takes what is
    offered.

    Args:
        query: What the node is to answer.
        text: Its text.
        rows: The rows that the text consists of, if it does.
    """
    question = query.partition(FORM)[0]
    is_csv = rows is not None and rows.form == "CSV"
    query_lines = find_query_lines(question, text.text, header=is_csv)

    computing = ""
    if needs_code(question, str, ()):
        if rows:
            computing = _example_of_rows(question, query_lines, rows)
        else:
            computing = _example_of_lines(question, text, query_lines)
    if not query_lines.excerpts:
        return QueryStart("", computing)

    lines = "\n".join(f"{number}: {line}" for number, line in query_lines.excerpts)
    counts = _word_counts(query_lines, is_whole=len(text.text) <= MAX_SEARCHED_CHARS)
    section = join_paragraphs(f"{counts} Some lines, with their numbers:", tagged(TEXT, lines))
    if computing:
        return QueryStart(section, computing)
    if query_lines.complete and query_lines.lines == 1:
        return QueryStart(section, _LOOK.format(number=_complete_line(query_lines)))
    return QueryStart(section, _example_of_printing(query_lines))


def _word_counts(query_lines: QueryLines, *, is_whole: bool) -> str:
    """Return a sentence saying how many lines have each word of the query, and how many have all."""
    counts = ", ".join(f"{word} {count:,}" for word, count in query_lines.words.items())
    part = "" if is_whole else f", of the first {MAX_SEARCHED_CHARS:,} characters"
    sentence = f"Number of lines with words of the query{part}: {counts}"
    if len(query_lines.words) == 1:
        return f"{sentence}."
    return f"{sentence}; with all of these in one line: {query_lines.lines:,}."


def _complete_line(query_lines: QueryLines) -> int:
    """Return the number of the shown line that has all words."""

    def count_words(excerpt: tuple[int, str]) -> int:
        _, line = excerpt
        return sum(word.lower() in line.lower() for word in query_lines.words)

    number, _ = max(query_lines.excerpts, key=count_words)
    return number


def _filter_words(query_lines: QueryLines) -> list[str]:
    """Return the words by which an example chooses lines: all if some lines have all, or else the
    rarest."""
    if query_lines.lines or not query_lines.words:
        return list(query_lines.words)
    return [min(query_lines.words, key=query_lines.words.__getitem__)]


def _example_of_printing(query_lines: QueryLines) -> str:
    """Show how to print the lines with any of the rarest words."""
    words: list[str] = []
    line_count = 0
    for word in sorted(query_lines.words, key=query_lines.words.__getitem__):
        line_count += query_lines.words[word]
        if words and line_count > _MAX_PRINTED_LINES:
            break
        words.append(word)
    # Outside brackets, a hyphen means itself.
    pattern = "|".join(re.escape(word).replace(r"\-", "-") for word in words)
    search = f"grep({'(?i)' + pattern!r}, context_lines=1, max_matches={_MAX_PRINTED_LINES})"
    code = f"for hit in {search}:\n    print(hit.line, hit)"
    what = words[0] if len(words) == 1 else f"any of the words {', '.join(words)}"
    return _PRINT.format(what=what, code=code)


def _choose_aggregate(query: str) -> _Aggregate | None:
    """Return the first way to compute whose words a query has."""
    for aggregate in _AGGREGATES:
        if aggregate.pattern.search(query):
            return aggregate
    return None


def _choose_key(query: str, keys: Sequence[str]) -> str:
    """Return the name that the query uses, also in the plural, or else the first; empty if there is
    none."""
    words = {word.lower() for word in re.findall(r"\w+", query)}
    words |= {word.removesuffix("s") for word in words}
    for key in keys:
        if key.lower() in words or key.lower().removesuffix("s") in words:
            return key
    return keys[0] if keys else ""


def _example_of_lines(query: str, text: SearchedText, query_lines: QueryLines) -> str:
    """Show how to compute what the query asks for; without its form in the text, how to print."""
    aggregate = _choose_aggregate(query)
    sample = "\n".join(line for _, line in query_lines.excerpts) or text.text[:SAMPLE_CHARS]
    pairs = _PAIR.findall(sample)
    is_of_numbers = aggregate is not None and aggregate.is_of_numbers
    keys = [key for key, value in pairs if value[0].isdigit() or not is_of_numbers]
    key = _choose_key(query, keys)
    if aggregate is not _COUNT and (aggregate is None or not key):
        return _example_of_printing(query_lines) if query_lines.words else ""

    words = _filter_words(query_lines)
    code = f"import re\nlines = {_lines_code(words, text)}"
    if aggregate is _COUNT:
        return _computing_example(_COUNT.name, words, f"{code}\nFINAL(len(lines))")
    values = _values_code(key, text.text, is_of_numbers=is_of_numbers)
    code += f"\nvalues = {values}\nFINAL({aggregate.code})"
    return _computing_example(aggregate.name.format(key=key), words, code)


def _lines_code(words: Sequence[str], text: SearchedText) -> str:
    """Return the expression for the lines that have all of these words."""
    lines = f"{_JOINED[text.kind]}.splitlines()"
    tests: list[str] = []
    for word in words:
        # A word that is never part of another one needs no expression.
        if is_always_whole(word, text.text):
            tests.append(f"{word!r} in line")
        else:
            tests.append(f're.search(r"\\b{re.escape(word)}\\b", line)')
    if not tests:
        return lines
    return f"[line for line in {lines} if {' and '.join(tests)}]"


def _values_code(key: str, text: str, *, is_of_numbers: bool) -> str:
    """Return the code that reads the values of a key from lines; some lines may have none."""
    value = "value"
    pattern = r"\w+"
    if is_of_numbers and re.search(rf"\b{key}=-?\d+\.\d", text):
        value = "float(value)"
        pattern = r"-?\d+(?:\.\d+)?"
    elif is_of_numbers:
        value = "int(value)"
        pattern = r"-?\d+"
    return rf'[{value} for line in lines for value in re.findall(r"\b{key}=({pattern})", line)]'


def _computing_example(result: str, words: Sequence[str], code: str) -> str:
    """Return the example of computing a result from the lines with these words."""
    what = result
    if words:
        with_words = f"with {' and '.join(words)}"
        what += f" {with_words}" if result == _COUNT.name else f" in lines {with_words}"
    return _COMPUTE.format(what=what, code=code)


def _example_of_rows(query: str, query_lines: QueryLines, rows: Rows) -> str:
    """Show how to compute what the query asks for from the rows of a table."""
    words = _filter_words(query_lines)
    module = "csv" if rows.form == "CSV" else "json"
    condition = ""
    if words:
        condition = " if " + " and ".join(f"{word!r} in row.values()" for word in words)
    code = f"import {module}\nrows = [row for row in {rows.code}{condition}]"

    aggregate = _choose_aggregate(query) or _COUNT
    keys = list(rows.columns)
    if aggregate.is_of_numbers:
        keys = [name for name, value in rows.columns.items() if _NUMBER.fullmatch(value)]
    key = _choose_key(query, keys)
    if aggregate is _COUNT or not key:
        return _computing_example(_COUNT.name, words, f"{code}\nFINAL(len(rows))")

    result = aggregate.name.format(key=key)
    date_condition = ""
    dates = [name for name, value in rows.columns.items() if _MONTH.match(value)]
    if dates and not words:
        result += " in December 2025"
        date_condition = f' if row["{dates[0]}"].startswith("2025-12")'
    value = f'float(row["{key}"])' if aggregate.is_of_numbers else f'row["{key}"]'
    code += f"\nvalues = [{value} for row in rows{date_condition}]\nFINAL({aggregate.code})"
    return _computing_example(result, words, code)
