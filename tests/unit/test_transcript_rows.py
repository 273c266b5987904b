"""Entries as rows: wrapping, highlighting, Markdown, cells and calls of tools."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.color import Color
from rich.style import Style
from textual.strip import Strip

from mahtab_tui.bus.entries import AnswerText, Cell, Entry, Note, Question, ToolUse
from mahtab_tui.bus.output import OutputBuffer
from mahtab_tui.bus.values import Change, ChangeKind, StoredChange, Variable
from mahtab_tui.tui.rows.code import CodeRows, is_drawn_whole
from mahtab_tui.tui.rows.long_texts import MAX_CODE_LINES
from mahtab_tui.tui.rows.row import (
    Row,
    Rows,
    cut_spans,
    hard_cuts,
    mark_strip,
    style_ranges,
    token_cuts,
    word_cuts,
)
from mahtab_tui.tui.theme import BOLD, MAHTAB
from mahtab_tui.tui.transcript.cell_rows import CellRows
from mahtab_tui.tui.transcript.layout import (
    MAX_ARGUMENTS_CHARS,
    EntryRows,
    estimate_rows,
    is_text_drawn_whole,
    tool_rows,
)
from mahtab_tui.tui.transcript.output import OutputRows
from mahtab_tui.tui.transcript.output_lines import expand_tabs, value_spans
from mahtab_tui.tui.transcript.words_rows import WordsRows
from tests.unit.transcripts import palette_of

PALETTE = palette_of(MAHTAB)

CODE = '''def f(x):
    """Doc
    string""" ; y = {"a": [1, 2]}
    return f"{x!r} {y}" + 'b' # comment

class A: pass
'''

MARKDOWN = """# Title

Some *emphasis*, **strong**, `code`, ~~gone~~ and [a link](https://example.org/a).
A second line.

- one
- two
  - inner

1. first
2. second

| a | b |
|---|--:|
| 1 | 22 |

> quoted

---

```sql
SELECT 1;

SELECT 2;
```

Last words.
"""

VISIBLE = [
    "[/x]",
    "[@click=app.quit]press[/]",
    "<b>bold</b> <script>x</script>",
    "<div>\nblock\n</div>",
    "[name]: https://example.org",
]


def drawn(rows: Rows) -> list[Row]:
    return [rows[number] for number in range(len(rows))]


def lines(rows: Rows) -> list[str]:
    return [row.text for row in drawn(rows)]


def cell_rows(width: int, **about: Any) -> CellRows:
    rows = CellRows(Cell(author="you", person=True, **{"code": "x", **about}), width, PALETTE)
    rows.update()
    return rows


def added(name: str, type_name: str = "int", summary: str = "1") -> Change:
    return Change(name, "added", Variable(name, type_name, summary, "data"))


def words_rows(source: str, width: int = 60) -> WordsRows:
    rows = WordsRows(AnswerText(author="claude", source=source), width, PALETTE)
    rows.update()
    return rows


def output_rows(text: str, width: int = 60, kind: str = "stdout") -> OutputRows:
    output = OutputBuffer()
    output.feed(kind, text)
    rows = OutputRows(output, width, PALETTE)
    rows.update()
    return rows


texts = st.text(alphabet="ab \u4f60e\u0301\U0001f600", max_size=60)


@pytest.mark.parametrize(("cut", "overhang"), [(hard_cuts, ""), (word_cuts, " ")])
@given(texts, st.integers(2, 12))
def test_wrapped_rows_fit_without_loss_but_for_spaces_after_words(
    cut: Callable[[str, int], list[int]], overhang: str, text: str, width: int
) -> None:
    cuts = cut(text, width)
    pieces = [text[start:end] for start, end in pairwise([*cuts, len(text)])]
    assert "".join(pieces) == text
    assert all(cell_len(piece.rstrip(overhang) if overhang else piece) <= width for piece in pieces)


@given(st.lists(st.text(alphabet="ab", max_size=6), max_size=6), st.integers(1, 7))
def test_cut_spans_compose_the_rows(pieces: list[str], width: int) -> None:
    text = "".join(pieces)
    cuts = hard_cuts(text, width)
    rows = list(cut_spans([(piece, Style.null()) for piece in pieces], cuts))
    assert ["".join(piece for piece, _ in row) for row in rows] == [
        text[start:end] for start, end in pairwise([*cuts, len(text)])
    ]


@given(st.lists(st.integers(0, len(CODE)), max_size=8), st.integers(10, 40))
def test_streamed_code_is_drawn_like_complete_code(offsets: list[int], width: int) -> None:
    streamed = CodeRows(width, PALETTE, PALETTE.model)
    for offset in sorted(offsets):
        streamed.update(CODE[:offset])
    streamed.update(CODE)
    whole_rows = CodeRows(width, PALETTE, PALETTE.model)
    whole_rows.update(CODE)
    assert drawn(streamed) == drawn(whole_rows)


def test_long_code_shows_its_ends_and_the_omitted_count() -> None:
    rows = CodeRows(40, PALETTE, PALETTE.model)
    rows.update("\n".join(f"x{number} = 1" for number in range(10_000)))
    assert len(rows) == MAX_CODE_LINES + 1
    assert "# … 9,600 lines left out …" in lines(rows)


@pytest.mark.parametrize("line_count", [1, 50])
def test_long_lines_of_code_show_its_ends_and_the_omitted_count(line_count: int) -> None:
    code = "\n".join(["x" * 100_000] * line_count)
    rows = CodeRows(100, PALETTE, PALETTE.model)
    rows.update(code)
    assert sum(map(len, lines(rows))) < 60_000
    omitted = f"# … {len(code) - 40_000:,} characters left out …"
    assert omitted in lines(rows)
    assert not is_drawn_whole(code)


@pytest.mark.parametrize(
    "unit", ["words of one paragraph ", "x", "- an item\n", "A paragraph.\n\n"]
)
def test_a_long_streamed_text_shows_its_ends_and_the_omitted_count(unit: str) -> None:
    words = AnswerText(author="claude", source="Beginning ")
    rows = WordsRows(words, 60, PALETTE)
    while len(words.source) < 200_000:
        words.source += unit * (30_000 // len(unit))
        rows.update()
    words.source += "end"
    rows.update()
    drawn_lines = lines(rows)
    assert "Beginning" in drawn_lines[0]
    assert "end" in "".join(drawn_lines[-2:])
    (omitted,) = (line for line in drawn_lines if "characters left out" in line)
    assert 170_000 < int(omitted.split()[1].replace(",", "")) < len(words.source)
    assert sum(map(len, drawn_lines)) < 40_000
    assert not is_text_drawn_whole(words)


@pytest.mark.parametrize("control_characters", ["", "\x01" * 12])
def test_a_streamed_text_that_becomes_too_long_is_drawn_like_one_that_came_whole(
    control_characters: str,
) -> None:
    words = AnswerText(author="claude", source="")
    rows = WordsRows(words, 60, PALETTE)
    paragraphs = [
        f"Paragraph {number:04} of a text{control_characters} that grows.\n\n"
        for number in range(700)
    ]
    for paragraph in paragraphs:
        words.source += paragraph
        rows.update()
        if not is_text_drawn_whole(words):
            break
    assert lines(rows) == lines(words_rows(words.source))


def test_the_end_of_a_long_text_begins_with_a_line_or_a_word() -> None:
    for separator in ("\n\n", " "):
        rows = words_rows(separator.join(["word"] * 20_000))
        drawn_lines = lines(rows)
        (note,) = (line for line in drawn_lines if "characters left out" in line)
        assert drawn_lines[drawn_lines.index(note) + 2].split()[0] == "word"


def test_a_text_of_many_short_lines_shows_both_ends_and_the_omitted_count() -> None:
    source = "Beginning\n" + "ab\n" * 1_200 + "c" * 290
    drawn_text = "".join(line.strip() for line in lines(words_rows(source)))
    match = re.search(r"([\d,]+) characters left out", drawn_text)
    assert match is not None
    drawn_chars = drawn_text.count("ab") * len("ab\n") + len("Beginning\n") + 290
    assert int(match[1].replace(",", "")) == len(source) - drawn_chars
    assert drawn_text.endswith("c" * 290)


@pytest.mark.parametrize("text", ["x" * 200_000, "line\n" * 40_000])
def test_long_results_of_tools_questions_and_notes_show_their_ends(text: str) -> None:
    use = ToolUse(name="find", arguments="{}", state="ok", text=text)
    entries = [use, Question(text=text), Note(level="info", text=text)]
    for entry in entries:
        rows = EntryRows(entry, 60, PALETTE)
        rows.update()
        # Enter does not open notes, which cannot be marked.
        hint = "" if isinstance(entry, Note) else " (Enter shows all)"
        assert f"… 160,000 characters left out{hint} …" in "".join(lines(rows))
        assert estimate_rows(entry, 60) < 10_000


@given(st.lists(st.integers(0, len(MARKDOWN)), max_size=8), st.integers(20, 80))
def test_streamed_markdown_is_drawn_like_complete_markdown(offsets: list[int], width: int) -> None:
    words = AnswerText(author="claude")
    rows = WordsRows(words, width, PALETTE)
    for offset in sorted(offsets):
        words.source = MARKDOWN[:offset]
        rows.update()
    words.source = MARKDOWN
    rows.update()
    assert drawn(rows) == drawn(words_rows(MARKDOWN, width))


def test_markdown_of_all_kinds_is_drawn() -> None:
    assert lines(words_rows(MARKDOWN)) == [
        "Claude  ",
        "Title",
        "─────",
        "",
        "Some emphasis, strong, code, gone and a link ",
        "(https://example.org/a).",
        "A second line.",
        "",
        "• one",
        "• two",
        "  • inner",
        "",
        "1. first",
        "2. second",
        "",
        "a   b",
        "─────",
        "1  22",
        "",
        "▎ quoted",
        "",
        "─" * 60,
        "",
        "SELECT 1;",
        "",
        "SELECT 2;",
        "",
        "Last words.",
    ]


@pytest.mark.parametrize(
    "source",
    [
        *VISIBLE,
        "&#x202e;",
        "```",
        "```nosuchlanguage\nx\n",
        "> " * 200 + "deep",
        "- " * 200 + "deep",
        "|" * 500 + "\n" + "|-" * 500,
        "\x1b]52;c;aGk=\x07",
        "\ud800",
        "",
    ],
)
def test_hostile_words_are_drawn_as_text(source: str) -> None:
    text = "\n".join(lines(words_rows(source)))
    assert not set(text) & set("\x1b\x07\u202e\ud800")
    if source in VISIBLE:
        assert source in text


@pytest.mark.parametrize("mark", ["- ", "> ", "1. ", "> - ", "- > "])
@pytest.mark.parametrize("depth", [9, 10, 19, 60])
def test_what_is_nested_deeply_is_drawn(mark: str, depth: int) -> None:
    words = words_rows(f"{mark * depth}deepest\n\nend")
    assert "deepest" in "\n".join(lines(words))
    assert lines(words)[-1] == "end"


def test_items_of_a_deeply_nested_list_are_all_drawn() -> None:
    source = "".join(f"{'  ' * depth}- item{depth}\n" for depth in range(60))
    text = "\n".join(lines(words_rows(source, 100)))
    assert re.findall(r"item\d+", text) == [f"item{depth}" for depth in range(60)]


def test_titles_of_links_and_pictures_are_drawn() -> None:
    words = words_rows('[a](http://b "Read\nthis") and ![c](http://d "too") and [e](http://f)', 100)
    assert lines(words) == [
        'Claude  a (http://b "Read this") and c (http://d "too") and e (http://f)'
    ]


def test_words_behind_the_language_of_a_fence_are_drawn() -> None:
    assert lines(words_rows("```python the file a.py\nx = 1\n```"))[1:] == [
        "the file a.py",
        "x = 1",
    ]


@pytest.mark.parametrize(
    "row",
    ["| 1 | 2 | more | and `a\\|b` |", "1 | 2 | more | and `a\\|b`", "|1|2|more|and `a\\|b`|"],
)
def test_cells_beyond_the_columns_of_a_table_are_drawn(row: str) -> None:
    source = f"| a | b |\n|---|---|\n{row}\n| 3 |\n| | 4 |\n|5||\n"
    assert [line.split() for line in lines(words_rows(source))[-4:]] == [
        ["1", "2", "|", "more", "|", "and", "a|b"],
        ["3"],
        ["4"],
        ["5"],
    ]


@pytest.mark.parametrize("count", [51, 900, 5_000])
def test_long_output_folds_to_its_ends(count: int) -> None:
    rows = lines(output_rows("".join(f"{number}\n" for number in range(count))))
    assert rows[:20] == [str(number) for number in range(20)]
    assert rows[20] == f"… {count - 30:,} lines (Enter shows all)"
    assert rows[21:] == [str(number) for number in range(count - 10, count)]


def test_output_of_a_page_is_not_folded() -> None:
    assert len(output_rows("x\n" * 50)) == 50


def test_long_value_folds_to_its_head() -> None:
    text = ",\n ".join(f"'item {number}'" for number in range(300))
    rows = lines(output_rows(f"[{text}]\n", kind="value"))
    assert (len(rows), rows[0], rows[-1]) == (21, "['item 0',", "… 280 more (Enter shows all)")


def test_numbers_of_omitted_entries_are_muted_in_one_pass(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    add = Mock(side_effect=Style.__add__)
    monkeypatch.setattr(Style, "__add__", lambda style, other: add(style, other))
    spans = value_spans("[1, … 2,345 more]," * 300, PALETTE)
    muted = "".join(text for text, style in spans if style.color == PALETTE.muted.color)
    assert muted.count("… 2,345 more") == 300
    assert "".join(text for text, _ in spans) == "[1, … 2,345 more]," * 300
    assert add.call_count < 300 * 10  # once for each token, and not once for each two of them


@given(
    st.lists(st.text("ab", max_size=5), max_size=8),
    st.lists(st.integers(-3, 40), max_size=8, unique=True).map(sorted),
)
def test_style_is_added_to_each_range(texts: list[str], offsets: list[int]) -> None:
    ranges = list(zip(offsets[::2], offsets[1::2], strict=False))
    spans = style_ranges([(text, Style.null()) for text in texts], ranges, BOLD)
    characters = [(character, style) for text, style in spans for character in text]
    assert characters == [
        (character, BOLD if any(start <= offset < end for start, end in ranges) else Style.null())
        for offset, character in enumerate("".join(texts))
    ]


@pytest.mark.parametrize(
    ("text", "coloured"),
    [
        ("{'a': 1}\n", "1"),
        ("Account(owner='Ada',\n        balance=3)\n", "3"),
        ("42\n", "42"),
        ("shape: (3, 2)\n", ""),
        ("[characters 0 to 10 of 20]\nfor 3 in text\n", ""),
        ("0    1\n1    2\ndtype: int64\n", ""),
    ],
)
def test_values_are_coloured_if_they_are_code(text: str, coloured: str) -> None:
    rows = output_rows(text, kind="value")
    spans = [span for row in drawn(rows) for span in row.spans]
    assert [text for text, style in spans if style == PALETTE.highlight] == [coloured] * bool(
        coloured
    )


def test_code_wraps_before_the_quote_of_a_string() -> None:
    code = "{'first': [1, 2, 3], 'second': load('file')}"
    starts = token_cuts(code, 24)
    rows = [code[start:end] for start, end in zip(starts, [*starts[1:], None], strict=True)]
    assert rows == ["{'first': [1, 2, 3], ", "'second': load('file')}"]


def test_output_wraps_between_words_and_values_between_tokens() -> None:
    assert lines(output_rows("one two three four\n", width=10)) == ["one two ", "three four"]
    value = output_rows("[aaaa,bbbb,cccc]\n", width=11, kind="value")
    assert lines(value) == ["[aaaa,bbbb,", "cccc]"]


@pytest.mark.parametrize("lines_of_code", [50, 51, 300])
def test_pasted_code_folds_once_it_has_run(lines_of_code: int) -> None:
    code = "\n".join(f"x{number} = 1" for number in range(lines_of_code))
    assert len(cell_rows(60, code=code)) == 1 + lines_of_code
    rows = lines(cell_rows(60, code=code, number=1))
    if lines_of_code == 50:
        assert len(rows) == 51
    else:
        assert rows[-2:] == ["x19 = 1", f"… {lines_of_code - 20} lines"]
    assert len(cell_rows(60, code=code, number=1, approval="waiting")) == 1 + lines_of_code


def test_sgr_colours_are_styles_and_nothing_else_passes() -> None:
    rows = output_rows("\x1b[31mred\x1b[0m \x1b]0;title\x07plain\x1b[6n\n")
    assert rows[0].text == "red plain"
    text, style = rows[0].spans[0]
    assert (text, style.color) == ("red", Color.parse("color(1)"))


def test_huge_line_shows_the_omitted_count() -> None:
    text = "".join(lines(output_rows("x" * 200_000)))
    assert len(text) < 5_000
    assert "196,000 characters left out" in text


def test_tabs_stop_every_eight_columns() -> None:
    assert expand_tabs("a\tb") == "a       b"
    assert expand_tabs("你\tb") == "你      b"
    assert expand_tabs("\x1b[31ma\x1b[0m\tb") == "\x1b[31ma\x1b[0m       b"


def test_a_traceback_begins_with_its_error_in_bold() -> None:
    text = 'Traceback (most recent call last):\n  File "a.py", line 3, in f\n    1/0\n    ~^~\nZeroDivisionError: no\nHint: x\n'
    rows = output_rows(text, kind="traceback")
    assert lines(rows) == [
        "ZeroDivisionError: no",
        "Hint: x",
        '  File "a.py", line 3, in f',
        "    1/0",
        "    ~^~",
    ]
    assert [(style.color, style.bold) for _, style in rows[0].spans] == [(PALETTE.bad.color, True)]
    assert [style.color for _, style in rows[1].spans] == [
        PALETTE.highlight.color,
        PALETTE.text.color,
    ]
    assert PALETTE.person.color in [style.color for _, style in rows[2].spans]


@pytest.mark.parametrize("printed", ["\x1b[2mfaint\x1b[22m\n", "\x1b[31mred, not ended\n"])
def test_printed_colours_do_not_reach_the_traceback(printed: str) -> None:
    output = OutputBuffer()
    output.feed("stdout", printed)
    output.feed("traceback", "Traceback (most recent call last):\nZeroDivisionError: no\n")
    rows = OutputRows(output, 80, PALETTE)
    rows.update()
    assert lines(rows)[1:] == ["ZeroDivisionError: no"]
    assert [(style.color, style.bold) for _, style in rows[1].spans] == [(PALETTE.bad.color, True)]


def test_chained_errors_are_labelled_with_their_link() -> None:
    first_error = 'Traceback (most recent call last):\n  File "a.py", line 1, in f\n    g()\nValueError: first\n'
    second_error = first_error.replace("first", "second")
    cause = "The above exception was the direct cause of the following exception:"
    context = "During handling of the above exception, another exception occurred:"
    for words, lead in ((cause, "caused by"), (context, "raised while handling")):
        rows = lines(
            output_rows(f"{first_error}\n{words}\n\n{second_error}Hint: h\n", kind="traceback")
        )
        errors = [row for row in rows if row[:1] != " "][-3:]
        assert errors == ["ValueError: second", "Hint: h", f"{lead} ValueError: first"]


def test_a_traceback_is_wrapped_between_words() -> None:
    rows = output_rows("Hint: columns\ncolumns of df", width=10, kind="traceback")
    assert lines(rows) == ["Hint: ", "columns", "columns of ", "df"]


def test_marked_entry_without_columns_is_drawn() -> None:
    assert mark_strip(Strip([], 0), Style(bold=True)).cell_length == 0


# Changes of a cell, and its status.


def test_changes_are_limited_and_counted() -> None:
    last_line = lines(cell_rows(1_000, changes=[added(f"n{number}") for number in range(24)]))[-1]
    assert all(text in last_line for text in ("+ n0 int 1", "+ n11 int 1", "and 12 more"))


def test_changes_wrap_between_names() -> None:
    rows = cell_rows(40, changes=[added(name, "Series", "31") for name in "abc"])
    assert [line.strip() for line in lines(rows)[-2:]] == [
        "+ a Series 31   + b Series 31",
        "+ c Series 31",
    ]


def test_change_names_the_columns_of_a_table() -> None:
    after = Variable("df", "DataFrame", "9 × 3", "data")
    before = Variable("df", "DataFrame", "9 × 2", "data")
    change = Change("df", "changed", after, before, "+ column `z`")
    expected = "~ df DataFrame 9 × 2 → 9 × 3  + column `z`"
    assert lines(cell_rows(80, changes=[change]))[-1].strip() == expected


def test_change_that_is_wider_than_a_row_wraps_between_words() -> None:
    after = Variable("df", "DataFrame", "1,200 × 48", "data")
    before = Variable("df", "DataFrame", "1,200 × 50", "data")
    columns = "− columns `metric_00`, `metric_01`"
    change = Change("df", "changed", after, before, columns)
    assert [line.strip() for line in lines(cell_rows(60, changes=[change]))[-2:]] == [
        "~ df DataFrame 1,200 × 50 → 1,200 × 48  − columns",
        "`metric_00`, `metric_01`",
    ]


def test_changed_object_names_only_its_changed_fields() -> None:
    after = Variable("a", "Account", "(owner='Ada', balance=50)", "data")
    before = Variable("a", "Account", "(owner='Ada', balance=100)", "data")
    change = Change("a", "changed", after, before)
    assert lines(cell_rows(80, changes=[change]))[-1].strip() == "~ a Account(balance=100 → 50)"


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (
            Variable("x", "function", "(price)", "function"),
            Variable("x", "int", "3", "data"),
            "~ x function (price) → int 3",
        ),
        (
            Variable("x", "Order", "(id=7)", "data"),
            Variable("x", "function", "(price)", "function"),
            "~ x Order(id=7) → function (price)",
        ),
    ],
)
def test_earlier_value_is_described_as_what_it_was(
    before: Variable, after: Variable, expected: str
) -> None:
    change = Change("x", "rebound", after, before)
    stored_change = StoredChange.from_change(change).as_change()
    for shown_change in (change, stored_change):
        assert lines(cell_rows(80, changes=[shown_change]))[-1].strip() == expected


@pytest.mark.parametrize(
    ("change", "old_value", "new_value", "expected"),
    [
        ("added", None, ("int", "3"), "+ x int 3"),
        (
            "rebound",
            ("DataFrame", "100 × 4"),
            ("DataFrame", "98 × 5"),
            "~ x DataFrame 100 × 4 → 98 × 5",
        ),
        ("rebound", ("int", "3"), ("str", "'three'"), "~ x int 3 → str 'three'"),
        ("changed", ("list", "y" * 40), ("list", "2 items"), f"~ x list {'y' * 23}… → 2 items"),
        ("deleted", None, None, "− x"),
        ("deleted", ("int", "3"), None, "− x"),
        ("changed", ("list", "2 items"), ("list", "2 items"), "~ x list 2 items"),
    ],
)
def test_change_shows_the_previous_value(
    change: ChangeKind,
    old_value: tuple[str, str] | None,
    new_value: tuple[str, str] | None,
    expected: str,
) -> None:
    before = old_value and Variable("x", *old_value, "data")
    after = new_value and Variable("x", *new_value, "data")
    changed = Change("x", change, after, before)
    assert lines(cell_rows(80, changes=[changed]))[-1].strip() == expected


@pytest.mark.parametrize(
    ("status", "mark"),
    [
        ("ok", ""),
        ("error", "✗ error"),
        ("interrupted", "■ interrupted"),
        ("killed", "✗ killed"),
        ("died", "✗ died"),
    ],
)
def test_cell_shows_its_final_status(status: str, mark: str) -> None:
    first_row = cell_rows(60, number=1, status=status, duration=0.08)[0]
    assert "".join(text for text, _ in first_row.right) == f"{mark}  0.08 s".strip()
    assert first_row.text == "In 1 · you"


# Tool calls.


def use(arguments: str, text: str = "") -> ToolUse:
    return ToolUse(author="demo", name="look", arguments=arguments, text=text, state="ok")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ('{"pattern": "a b", "count": 3}', 'pattern="a b"  count=3'),
        ('{"text": "zwei\\nZeilen ☾"}', 'text="zwei\\nZeilen ☾"'),
        ("{}", ""),
        ("not\nJSON \x1b[2J", "not JSON "),
        ("[1, 2]", "[1, 2]"),
        ("[" * 100_000, "[" * MAX_ARGUMENTS_CHARS + "… (100,000 characters)"),
        (f'"{"x" * (MAX_ARGUMENTS_CHARS - 2)}"', f'"{"x" * (MAX_ARGUMENTS_CHARS - 2)}"'),
    ],
    ids=["keywords", "one line", "none", "no JSON", "a list", "nested", "the longest"],
)
def test_arguments_are_shown_in_one_line(arguments: str, expected: str) -> None:
    (row,) = tool_rows(use(arguments), 10_000, PALETTE)
    assert row.text == f"⚒ look  {expected}"


def test_a_very_long_name_of_a_tool_is_cut() -> None:
    call = ToolUse(author="demo", name="n" * 100_000, arguments="{}", state="ok")
    (row,) = tool_rows(call, 10_000, PALETTE)
    assert row.text == f"⚒ {'n' * MAX_ARGUMENTS_CHARS}  "


def test_result_appears_below_and_wrapped_lines_copy_as_one() -> None:
    rows = tool_rows(use("{}", "a\n\tb\n" + "x" * 30 + "\n"), 20, PALETTE)
    assert [row.text for row in rows[1:]] == ["  a", "      b", "  " + "x" * 18, "x" * 12]
    assert [row.soft for row in rows[1:]] == [False, False, False, True]


@dataclass(kw_only=True, eq=False)
class Postcard(Entry):
    """A kind of entry that the transcript does not know."""

    words: str

    @property
    def plain_text(self) -> str:
        return self.words


def test_height_of_another_kind_of_entry_is_that_of_its_text() -> None:
    assert estimate_rows(Postcard(words="a\nb\nc", gap=False), 40) == 3


@pytest.mark.parametrize("text", ["a", "a\nb\nc"])
def test_height_is_known_before_drawing_if_nothing_wraps(text: str) -> None:
    rows = EntryRows(entry := use("{}", text), 40, PALETTE)
    rows.update()
    assert estimate_rows(entry, 40) == len(rows)
