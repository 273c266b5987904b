"""Makes the example of code with which a search begins, from its query and the form of its text.

A small model copies the example. So the example computes what the query asks for, or if it is not
clear how, it only prints some of the text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from mahtab_tui.llm.search_prompt_words import TEXT
from mahtab_tui.sandbox.searched_text import SearchedText, TextKind
from mahtab_tui.search.query_lines import (
    COMMON_WORDS,
    MAX_SEARCHED_CHARS,
    NumberedLine,
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
MAX_PRINTED_LINES = 40
"""An example that prints lines prints at most this many."""

_WHOLE_TEXT_CODE: dict[TextKind, str] = {
    "str": "context",
    "list": "'\\n'.join(context)",
    "dict": "'\\n'.join(context.values())",
}
"""An expression for the whole text, by the type of the variable `context` that has it."""
_COMPUTE_STEP = """\
Compute the answer from all lines and call FINAL with it. Example, for {what}:
```python
{code}
```"""
_PRINT_STEP = """\
These lines may not be all that the answer needs, and the text may use other words. Print what matters, and answer when it is printed. \
Example, for lines with {what}:
```python
{code}
```"""
_LOOK_AT_FORM_STEP = """\
Compute the answer from all lines. First look at their form. Example, for lines with {what}:
```python
{code}
```"""
_ANSWER_AT_ONCE_STEP = """\
Line {number} has all words of the query. If it states the answer, call FINAL with it, in one block; otherwise print what the answer needs:
```python
FINAL("answer")
```"""

_NUMBER_PATTERN = r"-?\d+(?:\.\d+)?"
"""Matches a number in a text. The code of the examples contains the same pattern."""
_INTEGER_PATTERN = r"-?\d+"
_NAME_AND_VALUE = re.compile(r"\b([A-Za-z_]\w*)(=|: ?)(-?\w+)")
"""A name, a separator and a value, as in logs: ``size=12``."""
_ISO_DATE_START = re.compile(r"\d{4}-\d\d")


class QueryStart(NamedTuple):
    """What the first message to a node says about its query."""

    lines: str
    """A section with lines that have words of the query; empty if no line has any."""
    next_step: str
    """How to begin, with an example of code; empty if the query and the text do not show how."""


def start_query(query: str, text: SearchedText, rows: RowFormat | None) -> QueryStart:
    """Return what the first message to a node says about its query.

    An answer at once is only suggested if one line has all words of the query, because a model does
    what is suggested.

    Args:
        query: What the node is to answer.
        text: The node's text.
        rows: The form of the rows of which the text consists; None for other texts.
    """
    question = query.partition(FORM)[0]
    is_csv = rows is not None and rows.form == "CSV"
    ignored_words = _words_not_searched(question, rows)
    query_lines = find_query_lines(question, text.text, header=is_csv, ignored=ignored_words)

    computing = ""
    if needs_code(question, str, ()):
        if rows:
            computing = _example_from_rows(question, text, query_lines, rows)
        else:
            computing = _example_from_lines(question, text, query_lines)
    if not query_lines.excerpts:
        return QueryStart("", computing)

    numbered_lines = "\n".join(f"{number}: {line}" for number, line in query_lines.excerpts)
    counts = _word_counts(query_lines, is_whole=len(text.text) <= MAX_SEARCHED_CHARS)
    section = join_paragraphs(
        f"{counts} Some lines, with their numbers:", tagged(TEXT, numbered_lines)
    )
    if computing:
        return QueryStart(section, computing)
    if query_lines.has_whole_query and query_lines.complete_line_count == 1:
        step = _ANSWER_AT_ONCE_STEP.format(number=_complete_line_number(query_lines))
        return QueryStart(section, step)
    return QueryStart(section, _example_of_printing(query_lines))


def _words_not_searched(query: str, rows: RowFormat | None) -> frozenset[str]:
    """Return words of a query, in lower case, that do not lead to the lines that answer it.

    They are limits, and in a table also dates and the names of columns. A line has them by chance.
    """
    words: set[str] = set()
    comparison = find_comparison(query)
    if comparison is not None:
        words.add(comparison.number)
    if rows is None:
        return frozenset(words)

    date = DATE.search(query)
    if date is not None:
        words.update(date[0].lower().split())
    for column in rows.columns:
        singular = column.lower().removesuffix("s")
        words |= {column.lower(), singular, f"{singular}s"}
    return frozenset(words)


def _word_counts(query_lines: QueryLines, *, is_whole: bool) -> str:
    """Return a sentence that says how many lines have each word of the query, and how many have all.

    Args:
        query_lines: The lines that have words of the query.
        is_whole: Whether the whole text was searched, and not only its beginning.
    """
    counts = ", ".join(f"{word} {count:,}" for word, count in query_lines.words.items())
    part = "" if is_whole else f", of the first {MAX_SEARCHED_CHARS:,} characters"
    sentence = f"Number of lines with words of the query{part}: {counts}"
    if len(query_lines.words) == 1:
        return f"{sentence}."
    return f"{sentence}; with all of these in one line: {query_lines.complete_line_count:,}."


def _complete_line_number(query_lines: QueryLines) -> int:
    """Return the number of the line that has all words of the query."""

    def count_words(excerpt: NumberedLine) -> int:
        return sum(word.lower() in excerpt.line.lower() for word in query_lines.words)

    return max(query_lines.excerpts, key=count_words).number


# Examples that print lines


def _example_of_printing(query_lines: QueryLines) -> str:
    """Show how to print the lines that have any of the rarest words of the query."""
    rarest_first = sorted(query_lines.words, key=query_lines.words.__getitem__)
    words: list[str] = []
    line_count = 0
    for word in rarest_first:
        line_count += query_lines.words[word]
        if words and line_count > MAX_PRINTED_LINES:
            break
        words.append(word)

    # Outside brackets, a hyphen needs no backslash.
    escaped_words = [re.escape(word).replace(r"\-", "-") for word in words]
    pattern = "(?i)" + "|".join(escaped_words)
    search = f"grep({pattern!r}, context_lines=1, max_matches={MAX_PRINTED_LINES})"
    code = f"for hit in {search}:\n    print(hit.line, hit)"
    what = words[0] if len(words) == 1 else f"any of the words {', '.join(words)}"
    return _PRINT_STEP.format(what=what, code=code)


def _example_of_looking(query_lines: QueryLines, words: Sequence[str], lines_code: str) -> str:
    """Show how to look at lines if it is not clear how to compute the answer from them.

    Args:
        query_lines: The lines that have words of the query.
        words: The words that all lines to look at have.
        lines_code: Code that binds `lines` to these lines.

    Returns:
        The example; empty if there are no such words.
    """
    if not words:
        return ""
    has_rare_word = min(query_lines.words.values()) <= MAX_PRINTED_LINES
    if has_rare_word and len(words) < len(query_lines.words):
        return _example_of_printing(query_lines)
    code = f"{lines_code}\nprint(len(lines), lines[:{MAX_PRINTED_LINES}])"
    return _LOOK_AT_FORM_STEP.format(what=" and ".join(words), code=code)


# Examples that compute the answer


class _Computation(NamedTuple):
    """A way to compute a result."""

    result: str
    """What is computed, for the model: "the sum of days"."""
    code: str
    """Statements that compute it, and call `FINAL`."""


def _computing_example(computation: _Computation, words: Sequence[str], limit: str) -> str:
    """Return the example of a computation.

    Args:
        computation: What is computed, and how.
        words: It is computed from the lines that have all of these words.
        limit: A condition that these lines fulfil, such as ``days > 30``; empty for none.
    """
    what = computation.result
    if words:
        with_words = f"with {' and '.join(words)}"
        counts_lines = what == COUNT.description
        what += f" {with_words}" if counts_lines else f" in lines {with_words}"
    if limit:
        what += f" and {limit}"
    return _COMPUTE_STEP.format(what=what, code=computation.code)


def _limit(name: str, comparison: QueryCondition | None) -> str:
    """Return a condition as ``days > 30``; empty if there is none."""
    if comparison is None or not name:
        return ""
    return f"{name} {comparison.operator} {comparison.number}"


# From lines


class _NumberForm(NamedTuple):
    """How a text writes the numbers that a query is about."""

    name: str
    """What the numbers are, for the model: the name or the unit that stands beside them."""
    pattern: str
    """A regular expression whose group is the number."""


def _find_numbers(
    query: str, sample: str, named_values: Sequence[tuple[str, str, str]]
) -> _NumberForm | None:
    """Return how sample lines write the numbers of a query: after a name, or before a unit.

    Args:
        query: The query.
        sample: The lines.
        named_values: The name, the separator and the value of each value in them that has a name.
    """
    number_names = [
        (name, separator)
        for name, separator, value in named_values
        if re.fullmatch(_INTEGER_PATTERN, value)
    ]
    separator_by_number_name = dict(number_names)
    assigned_names = [name for name, separator in number_names if separator == "="]
    name = find_named_key(query, list(separator_by_number_name)) or choose_key(
        query, assigned_names
    )
    if name:
        separator = separator_by_number_name[name]
        return _NumberForm(name, rf"\b{name}{separator}({_NUMBER_PATTERN})")

    for unit in re.findall(r"[^\W\d_]+", query):
        # A word such as "in" is not a unit, as in "shop 3 in Berlin".
        if unit.lower() in COMMON_WORDS:
            continue
        pattern = rf"(?<![\d:.-])({_NUMBER_PATTERN}) ?{unit}\b"
        if re.search(pattern, sample):
            return _NumberForm(unit, pattern)
    return None


def _example_from_lines(query: str, text: SearchedText, query_lines: QueryLines) -> str:
    """Show how to compute what the query asks for from lines of a text without a fixed form.

    If the lines do not show how, show how to look at them.
    """
    searched_text = text.text[:MAX_SEARCHED_CHARS]
    words = find_joint_words(list(query_lines.words), searched_text)
    sample = "\n".join([*(line for _, line in query_lines.excerpts), text.text[:SAMPLE_CHARS]])
    named_values = _NAME_AND_VALUE.findall(sample)
    numbers = _find_numbers(query, sample, named_values)
    comparison = find_comparison(query)
    lines_code = _lines_code(text, words)
    limit = ""
    if comparison and numbers:
        condition = f"float(value) {comparison.operator} {comparison.number}"
        matches = f're.findall(r"{numbers.pattern}", line)'
        lines_code += f"\nlines = [line for line in lines for value in {matches} if {condition}]"
        limit = _limit(numbers.name, comparison)

    aggregate = choose_aggregate(query, numbers.name if numbers else "")
    asks_which = aggregate is not None and aggregate.is_extreme and WHICH.match(query)
    cannot_compare = comparison is not None and numbers is None
    if aggregate is None or asks_which or cannot_compare:
        return _example_of_looking(query_lines, words, lines_code)
    if aggregate is COUNT:
        computation = _Computation(COUNT.description, f"{lines_code}\nFINAL(len(lines))")
        return _computing_example(computation, words, limit)

    separator_by_name = {name: separator for name, separator, _ in named_values}
    if aggregate.needs_numbers and numbers:
        name = numbers.name
        values = _number_values(numbers, searched_text)
    elif not aggregate.needs_numbers and separator_by_name:
        name = choose_key(query, list(separator_by_name))
        matches = rf're.findall(r"\b{name}{separator_by_name[name]}(\w+)", line)'
        values = f"[value for line in lines for value in {matches}]"
    else:
        return _example_of_looking(query_lines, words, lines_code)
    result = aggregate.description.format(key=name)
    code = f"{lines_code}\nvalues = {values}\nFINAL({aggregate.code})"
    return _computing_example(_Computation(result, code), words, limit)


def _lines_code(text: SearchedText, words: Sequence[str]) -> str:
    """Return code that binds `lines` to the lines that have all of these words."""
    conditions: list[str] = []
    for word in words:
        if is_always_whole(word, text.text):
            conditions.append(f"{word!r} in line")
        else:
            conditions.append(f're.search(r"\\b{re.escape(word)}\\b", line)')
    lines = f"{_WHOLE_TEXT_CODE[text.kind]}.splitlines()"
    if conditions:
        lines = f"[line for line in {lines} if {' and '.join(conditions)}]"
    return f"import re\nlines = {lines}"


def _number_values(numbers: _NumberForm, text: str) -> str:
    """Return an expression for the numbers of `lines`, some of which may have none.

    The numbers are integers if the text has no other such numbers.
    """
    decimal_pattern = numbers.pattern.replace(_NUMBER_PATTERN, r"-?\d+\.\d+")
    if re.search(decimal_pattern, text):
        pattern = numbers.pattern
        value = "float(value)"
    else:
        pattern = numbers.pattern.replace(_NUMBER_PATTERN, _INTEGER_PATTERN)
        value = "int(value)"
    return f'[{value} for line in lines for value in re.findall(r"{pattern}", line)]'


# From rows


def _example_from_rows(
    query: str, text: SearchedText, query_lines: QueryLines, rows: RowFormat
) -> str:
    """Show how to compute what the query asks for from the rows of a table."""
    searched_text = text.text[:MAX_SEARCHED_CHARS]
    cell_words = [word for word in query_lines.words if rows.has_cell(word, searched_text)]
    if query_lines.words and not cell_words:
        # The words are parts of cells, so no row has them as values.
        return _example_of_printing(query_lines)

    words = find_joint_words(cell_words, searched_text)
    columns = _find_columns(query, rows.columns)
    comparison = find_comparison(query) if columns.numbers else None
    date = find_date(query) if columns.dates else ""
    statements = [_rows_code(rows, words)]
    if comparison:
        number = f'float(row["{columns.numbers}"])'
        condition = (
            f"{_has_value(columns.numbers)} and {number} {comparison.operator} {comparison.number}"
        )
        statements.append(f"rows = [row for row in rows if {condition}]")
    if date:
        # Rows of JSON may have no date, or null.
        condition = f'str(row.get("{columns.dates[0]}") or "").startswith({date!r})'
        statements.append(f"rows = [row for row in rows if {condition}]")

    computation = _rows_computation(query, columns, date)
    statements.append(computation.code)
    whole_computation = computation._replace(code="\n".join(statements))
    return _computing_example(whole_computation, words, _limit(columns.numbers, comparison))


class _QueryColumns(NamedTuple):
    """The columns of a table that a query may be about."""

    names: Sequence[str]
    """All columns."""
    numbers: str
    """The column of numbers that the query is most likely about; empty if no column has numbers."""
    dates: Sequence[str]
    """The columns that have dates."""


def _find_columns(query: str, first_values: Mapping[str, str]) -> _QueryColumns:
    """Return the columns that a query may be about.

    Args:
        query: The query.
        first_values: The first value of each column, by the column's name.
    """
    number_columns = [
        name for name, value in first_values.items() if re.fullmatch(_NUMBER_PATTERN, value)
    ]
    date_columns = [name for name, value in first_values.items() if _ISO_DATE_START.match(value)]
    return _QueryColumns(list(first_values), choose_key(query, number_columns), date_columns)


def _rows_computation(query: str, columns: _QueryColumns, date: str) -> _Computation:
    """Return how to compute what a query asks for from `rows`.

    Args:
        query: The query.
        columns: The columns that the query may be about.
        date: The date, month or year that all rows have; empty if they have different ones.
    """
    aggregate = choose_aggregate(query, columns.numbers) or COUNT
    which = WHICH.match(query)
    group_column = find_named_key(which[1] or "", columns.names) if which else ""
    if aggregate.is_extreme and columns.numbers and group_column:
        is_sum = SUM.pattern.search(query) is not None
        return _group_computation(group_column, columns.numbers, aggregate, is_sum=is_sum)

    column = columns.numbers
    if aggregate in (EARLIEST, LATEST):
        column = choose_key(query, columns.dates)
    elif not aggregate.needs_numbers:
        column = choose_key(query, columns.names)
    if aggregate is COUNT or not column:
        return _Computation(COUNT.description, "FINAL(len(rows))")

    result = aggregate.description.format(key=column)
    if date:
        result += f" in {date}"
    value = f'float(row["{column}"])' if aggregate.needs_numbers else f'row["{column}"]'
    values = f"[{value} for row in rows if {_has_value(column)}]"
    return _Computation(result, f"values = {values}\nFINAL({aggregate.code})")


def _group_computation(
    group_column: str, number_column: str, aggregate: Aggregate, *, is_sum: bool
) -> _Computation:
    """Return how to find the group with the largest or the smallest number.

    Args:
        group_column: The column that names the groups.
        number_column: The column of the numbers.
        aggregate: The largest or the smallest number.
        is_sum: Whether the sums of the groups are compared, and not the numbers of their rows.
    """
    function = aggregate.code.partition("(")[0]
    number = f'float(row["{number_column}"])'
    conditions = f"{_has_value(number_column)} and {_has_value(group_column)}"
    statements = [f"rows = [row for row in rows if {conditions}]"]
    if is_sum:
        group = f'row["{group_column}"]'
        statements += [
            "sums = {}",
            "for row in rows:",
            f"    sums[{group}] = sums.get({group}, 0) + {number}",
            f"FINAL({function}(sums, key=sums.get))",
        ]
    else:
        statements.append(f'FINAL({function}(rows, key=lambda row: {number})["{group_column}"])')
    result = f"the {group_column} with {aggregate.description.format(key=number_column)}"
    return _Computation(result, "\n".join(statements))


def _rows_code(rows: RowFormat, words: Sequence[str]) -> str:
    """Return code that binds `rows` to the rows that have all of these words as values."""
    module = "csv" if rows.form == "CSV" else "json"
    condition = " and ".join(f"{word!r} in row.values()" for word in words)
    if condition:
        condition = f" if {condition}"
    return f"import {module}\nrows = [row for row in {rows.code}{condition}]"


def _has_value(column: str) -> str:
    """Return an expression that tells whether `row` has a value in a column."""
    return f'row.get("{column}") not in (None, "")'
