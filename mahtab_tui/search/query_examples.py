"""Examples of code that answers a query, made of the query's words and the form of the text.

A small model copies the example, so it computes what the query asks for, or only looks.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from mahtab_tui.llm.search_prompt_words import TEXT
from mahtab_tui.sandbox.searched_text import SearchedText, TextKind
from mahtab_tui.search.query_lines import (
    COMMON_WORDS,
    MAX_SEARCHED_CHARS,
    QueryLines,
    find_joint_words,
    find_query_lines,
    is_always_whole,
)
from mahtab_tui.search.query_terms import (
    COUNT,
    DATE,
    EARLIEST,
    LATEST,
    SUM,
    WHICH,
    Aggregate,
    QueryCondition,
    choose_aggregate,
    choose_key,
    find_comparison,
    find_date,
    find_named_key,
)
from mahtab_tui.search.tagged_text import join_paragraphs, tagged
from mahtab_tui.search.text_rows import RowFormat
from mahtab_tui.worker.rlm.answers import FORM, needs_code

SAMPLE_CHARS = 500
"""Names and values are looked for in this many characters at the beginning of a text."""

_JOINED: dict[TextKind, str] = {
    "str": "context",
    "list": "'\\n'.join(context)",
    "dict": "'\\n'.join(context.values())",
}
"""Code for the whole text, by the kind of the variable that holds it."""
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
"""The example of printing prints at most this many lines."""
_LOOK_AT_FORM = """\
Compute the answer from all lines. First look at their form. Example, for lines with {what}:
```python
{code}
```"""

_LOOK = """\
Line {number} has all words of the query. If it states the answer, call FINAL with it, in one block; otherwise print what the answer needs:
```python
FINAL("answer")
```"""

_NUMBER_PATTERN = r"-?\d+(?:\.\d+)?"
"""Matches a number in a text; also part of the code of an example."""
_PAIR = re.compile(r"\b([A-Za-z_]\w*)(=|: ?)(-?\w+)")
"""A name and a value, as in logs."""


class QueryStart(NamedTuple):
    """What a node is told at the beginning about its query."""

    lines: str
    """The section with the lines that have words of the query; empty if none has."""
    next_step: str
    """How to begin, with an example; empty if nothing is known about it."""


def start_query(query: str, text: SearchedText, rows: RowFormat | None) -> QueryStart:
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
    ignored_words = _words_of_form(question, rows)
    query_lines = find_query_lines(question, text.text, header=is_csv, ignored=ignored_words)

    computing = ""
    if needs_code(question, str, ()):
        if rows:
            computing = _example_of_rows(question, text, query_lines, rows)
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


def _words_of_form(query: str, rows: RowFormat | None) -> frozenset[str]:
    """Return the words of a query, in lower case, that name columns or limits: a text has them by
    chance, and not where the answer is."""
    words: set[str] = set()
    if comparison := find_comparison(query):
        words.add(comparison.number)
    if rows and (date := DATE.search(query)):
        words.update(date[0].lower().split())
    for name in rows.columns if rows else ():
        singular = name.lower().removesuffix("s")
        words |= {name.lower(), singular, f"{singular}s"}
    return frozenset(words)


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


# Lines


def _example_of_lines(query: str, text: SearchedText, query_lines: QueryLines) -> str:
    """Show how to compute what the query asks for; without its form in the text, how to look at the
    lines."""
    searched_text = text.text[:MAX_SEARCHED_CHARS]
    comparison = find_comparison(query)
    words = find_joint_words(list(query_lines.words), searched_text)
    sample = "\n".join([*(line for _, line in query_lines.excerpts), text.text[:SAMPLE_CHARS]])
    numbers = _NumberForm.find(query, sample)
    aggregate = choose_aggregate(query, numbers.name if numbers else "")
    lines_code = _lines_code(text, words)
    if comparison and numbers:
        limit = f"float(value) {comparison.operator} {comparison.number}"
        matches_code = f're.findall(r"{numbers.pattern}", line)'
        lines_code += f"\nlines = [line for line in lines for value in {matches_code} if {limit}]"

    asks_which = aggregate is not None and aggregate.is_extreme and WHICH.match(query)
    cannot_compare = comparison is not None and numbers is None
    if aggregate is None or asks_which or cannot_compare:
        return _look_at_lines(query_lines, words, lines_code)

    if aggregate is COUNT:
        code = f"{lines_code}\nFINAL(len(lines))"
        return _computing_example(COUNT.description, words, comparison, numbers, code)

    separators = {key: separator for key, separator, _ in _PAIR.findall(sample)}
    if aggregate.is_of_numbers and numbers:
        result = aggregate.description.format(key=numbers.name)
        values = _number_values(numbers, searched_text)
    elif not aggregate.is_of_numbers and separators:
        key = choose_key(query, list(separators))
        result = aggregate.description.format(key=key)
        matches_code = rf're.findall(r"\b{key}{separators[key]}(\w+)", line)'
        values = f"[value for line in lines for value in {matches_code}]"
    else:
        return _look_at_lines(query_lines, words, lines_code)
    code = f"{lines_code}\nvalues = {values}\nFINAL({aggregate.code})"
    return _computing_example(result, words, comparison, numbers, code)


def _look_at_lines(query_lines: QueryLines, words: Sequence[str], lines_code: str) -> str:
    """Show how to look at the lines, where it is not known how to compute the answer from them."""
    if not words:
        return ""
    has_rare_word = min(query_lines.words.values()) <= _MAX_PRINTED_LINES
    if has_rare_word and len(words) < len(query_lines.words):
        return _example_of_printing(query_lines)
    code = f"{lines_code}\nprint(len(lines), lines[:{_MAX_PRINTED_LINES}])"
    return _LOOK_AT_FORM.format(what=" and ".join(words), code=code)


def _lines_code(text: SearchedText, words: Sequence[str]) -> str:
    """Return the code that chooses the lines with all of these words."""
    tests: list[str] = []
    for word in words:
        if is_always_whole(word, text.text):
            tests.append(f"{word!r} in line")
        else:
            tests.append(f're.search(r"\\b{re.escape(word)}\\b", line)')
    lines = f"{_JOINED[text.kind]}.splitlines()"
    if tests:
        lines = f"[line for line in {lines} if {' and '.join(tests)}]"
    return f"import re\nlines = {lines}"


class _NumberForm(NamedTuple):
    """How a text writes the numbers that a query is about."""

    name: str
    """What the numbers are, for the model: the name or the unit that stands beside them."""
    pattern: str
    """A regular expression whose group is the number."""

    @classmethod
    def find(cls, query: str, sample: str) -> _NumberForm | None:
        """Return the form in sample lines: a number after its name, or before its unit."""
        pairs = [
            (key, separator)
            for key, separator, value in _PAIR.findall(sample)
            if re.fullmatch(r"-?\d+", value)
        ]
        keys = [key for key, _ in pairs]
        key = find_named_key(query, keys)
        if not key:
            key = choose_key(query, [key for key, separator in pairs if separator == "="])
        if not key:
            words = re.findall(r"[^\W\d_]+", query)
            # "in" is no unit, as in "shop 3 in Berlin".
            for unit in (word for word in words if word.lower() not in COMMON_WORDS):
                pattern = rf"(?<![\d:.-])({_NUMBER_PATTERN}) ?{unit}\b"
                if re.search(pattern, sample):
                    return cls(unit, pattern)
            return None
        separator = dict(pairs)[key]
        return cls(key, rf"\b{key}{separator}({_NUMBER_PATTERN})")


def _number_values(numbers: _NumberForm, text: str) -> str:
    """Return the expression for the numbers of the chosen lines; some lines may have none."""
    pattern = numbers.pattern
    value = "float(value)"
    decimal_pattern = pattern.replace(_NUMBER_PATTERN, r"-?\d+\.\d+")
    if not re.search(decimal_pattern, text):
        value = "int(value)"
        pattern = pattern.replace(_NUMBER_PATTERN, r"-?\d+")
    return f'[{value} for line in lines for value in re.findall(r"{pattern}", line)]'


def _computing_example(
    result: str,
    words: Sequence[str],
    comparison: QueryCondition | None,
    numbers: _NumberForm | None,
    code: str,
) -> str:
    """Return the example of computing a result from the lines with these words."""
    what = result
    if words:
        with_words = f"with {' and '.join(words)}"
        what += f" {with_words}" if result == COUNT.description else f" in lines {with_words}"
    if comparison and numbers:
        what += f" and {numbers.name} {comparison.operator} {comparison.number}"
    return _COMPUTE.format(what=what, code=code)


# Rows


def _example_of_rows(
    query: str, text: SearchedText, query_lines: QueryLines, rows: RowFormat
) -> str:
    """Show how to compute what the query asks for from the rows of a table."""
    searched_text = text.text[:MAX_SEARCHED_CHARS]
    cells = [word for word in query_lines.words if rows.has_cell(word, searched_text)]
    if query_lines.words and not cells:
        # Where a cell has more than the words of the query, no row has them as a value.
        return _example_of_printing(query_lines)
    words = find_joint_words(cells, searched_text)
    code = _rows_code(rows, words)

    columns = rows.columns
    number_keys = [name for name, value in columns.items() if re.fullmatch(_NUMBER_PATTERN, value)]
    number_key = choose_key(query, number_keys)
    numbers = _NumberForm(number_key, "") if number_key else None
    comparison = find_comparison(query) if numbers else None
    if comparison:
        limit = f'float(row["{number_key}"]) {comparison.operator} {comparison.number}'
        code += f"\nrows = [row for row in rows if {_has_value(number_key)} and {limit}]"

    date = find_date(query)
    dates = [name for name, value in columns.items() if re.match(r"\d{4}-\d\d", value)]
    if date and dates:
        # Rows of JSON may have no date, or null.
        starts = f'str(row.get("{dates[0]}") or "").startswith({date!r})'
        code += f"\nrows = [row for row in rows if {starts}]"

    aggregate = choose_aggregate(query, numbers.name if numbers else "") or COUNT
    group_key = ""
    if which := WHICH.match(query):
        group_key = find_named_key(which[1] or "", list(columns))
    if aggregate.is_extreme and number_key and group_key:
        what = f"the {group_key} with {aggregate.description.format(key=number_key)}"
        conditions = f"{_has_value(number_key)} and {_has_value(group_key)}"
        code += f"\nrows = [row for row in rows if {conditions}]"
        is_sum = SUM.pattern.search(query) is not None
        code += _group_code(group_key, number_key, aggregate, is_sum=is_sum)
        return _computing_example(what, words, comparison, numbers, code)

    key = number_key
    if aggregate in (EARLIEST, LATEST):
        key = choose_key(query, dates)
    elif not aggregate.is_of_numbers:
        key = choose_key(query, list(columns))
    if aggregate is COUNT or not key:
        code += "\nFINAL(len(rows))"
        return _computing_example(COUNT.description, words, comparison, numbers, code)

    result = aggregate.description.format(key=key)
    if date and dates:
        result += f" in {date}"
    value = f'float(row["{key}"])' if aggregate.is_of_numbers else f'row["{key}"]'
    code += f"\nvalues = [{value} for row in rows if {_has_value(key)}]\nFINAL({aggregate.code})"
    return _computing_example(result, words, comparison, numbers, code)


def _rows_code(rows: RowFormat, words: Sequence[str]) -> str:
    """Return the code that chooses the rows with all of these words."""
    module = "csv" if rows.form == "CSV" else "json"
    condition = " and ".join(f"{word!r} in row.values()" for word in words)
    if condition:
        condition = f" if {condition}"
    return f"import {module}\nrows = [row for row in {rows.code}{condition}]"


def _group_code(group_key: str, number_key: str, aggregate: Aggregate, *, is_sum: bool) -> str:
    """Return the code for the group that has an extreme, of its rows or of its sum."""
    function = aggregate.code.partition("(")[0]
    value = f'float(row["{number_key}"])'
    if not is_sum:
        return f'\nFINAL({function}(rows, key=lambda row: {value})["{group_key}"])'
    return (
        "\nsums = {}"
        "\nfor row in rows:"
        f'\n    sums[row["{group_key}"]] = sums.get(row["{group_key}"], 0) + {value}'
        f"\nFINAL({function}(sums, key=sums.get))"
    )


def _has_value(key: str) -> str:
    return f'row.get("{key}") not in (None, "")'
