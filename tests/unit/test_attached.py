"""Mentions in a question, and the variables described with it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mahtab_tui.bus.file_sizes import format_size
from mahtab_tui.bus.values import Variable, VariableKind
from mahtab_tui.llm.variable_texts import describe_variables, join_variables
from mahtab_tui.session.descriptions import MAX_DESCRIPTION_CHARS, _fit
from mahtab_tui.session.mentions import (
    MAX_SMALL_CHARS,
    MIN_LARGE_LINES,
    Mention,
    PartialMention,
    find_mentions,
    is_large,
    partial_mention,
)
from mahtab_tui.session.variable_choice import choose_for_question


@pytest.mark.parametrize(
    ("question", "mentions"),
    [
        ("look at @notes.txt, please", [Mention("path", "notes.txt")]),
        ("(@a/b.py:)", [Mention("path", "a/b.py")]),
        ('@"my notes.txt" and @"b c"', [Mention("path", "my notes.txt"), Mention("path", "b c")]),
        ("is @src/ it? @src/.", [Mention("path", "src/")]),
        ("compare $df with $größe.", [Mention("variable", "df"), Mention("variable", "größe")]),
        ("$df $df", [Mention("variable", "df")]),
        ("mail me at a@b.de for $100 or ca$h", []),
        ("@ $ ", []),
    ],
)
def test_mentions_are_found(question: str, mentions: list[Mention]) -> None:
    assert find_mentions(question) == mentions


@given(st.text())
def test_any_text_can_be_scanned(question: str) -> None:
    for mention in find_mentions(question):
        assert mention.name
    partial_mention(question)


@given(
    st.lists(
        st.sampled_from(
            [
                Mention("path", "a.py"),
                Mention("path", "c d"),
                Mention("path", "it's"),
                Mention("path", "what?"),
                Mention("path", "a.py:3"),
                Mention("variable", "x"),
            ]
        )
    )
)
def test_label_is_spelled_as_the_user_would_type_it(pointed_at: list[Mention]) -> None:
    assert find_mentions(" ".join(mention.label for mention in pointed_at)) == list(
        dict.fromkeys(pointed_at)
    )


@pytest.mark.parametrize(
    ("text", "stem"),
    [
        ("see @", PartialMention("path", "", quoted=False)),
        ("see @src/ma", PartialMention("path", "src/ma", quoted=False)),
        ('see @"my no', PartialMention("path", "my no", quoted=True)),
        ('see @"my no"', None),
        ('see @"my', PartialMention("path", "my", quoted=True)),
        ("and $d", PartialMention("variable", "d", quoted=False)),
        ("$", PartialMention("variable", "", quoted=False)),
        ("a@b", None),
        ("@a.py ", None),
        ("word", None),
        (f"@{'x' * 10_000}", None),
        ("", None),
    ],
)
def test_partial_mention_before_the_cursor_is_found(text: str, stem: PartialMention | None) -> None:
    assert partial_mention(text) == stem


def test_text_is_large_above_a_number_of_lines_or_characters() -> None:
    assert not is_large("\n" * (MIN_LARGE_LINES - 1))
    assert is_large("\n" * MIN_LARGE_LINES)
    assert not is_large("x" * MAX_SMALL_CHARS)
    assert is_large("x" * (MAX_SMALL_CHARS + 1))


# Which variables are described to the model with a question, and how they are listed.


def variable(
    name: str, type: str = "list", summary: str = "3 items", kind: VariableKind = "data"
) -> Variable:
    return Variable(name, type, summary, kind)


NAMESPACE = [
    variable("pd", "module", "3.1", "module"),
    variable("cars", "DataFrame", "406 × 9"),
    variable("n", "int", "5"),
    variable("city_prices", "dict"),
    variable("penguins", "DataFrame", "344 × 7"),
    variable("x"),
    variable("hidden", "private", ""),
    variable("_inner"),
    variable("area", "function", "(w)", "function"),
    variable("note", "str", "'short'"),
    variable("story", "str", "18.4 M chars"),
    variable("a"),
]


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("How heavy is a Car?", ["cars"]),
        ("compare PENGUINS with cars", ["penguins", "cars"]),
        ("what do the city prices say?", ["city_prices"]),
        ("use $story and `x`", ["story", "x"]),
        ("use a", []),
        ("what does area do for hidden, n, note, pd and _inner?", ["area"]),
        ("carsten scares the cities", []),
    ],
)
def test_names_in_the_question_come_first(question: str, expected: list[str]) -> None:
    tables = [name for name in ("penguins", "cars") if name not in expected]
    assert choose_for_question(NAMESPACE, question, []) == [*expected, *tables]


def test_names_in_recent_code_come_next_then_tables() -> None:
    codes = ["x = [1, 2, 3]", "story = open('story.txt').read()\nlen(story)", "print(n"]
    assert choose_for_question(NAMESPACE, "cars?", codes) == ["cars", "story", "x", "penguins"]


def test_long_question_with_many_names_is_fast() -> None:
    names = [variable(f"name_{number}") for number in range(2_000)]
    assert choose_for_question(names, "name_7 " * 100_000, [])[0] == "name_7"


def test_described_variables_are_followed_by_one_line_for_each_other() -> None:
    described = {
        "cars": "cars: DataFrame, 406 rows x 9 columns\nName    object",
        "hidden": "secret",
        "_inner": "secret",
    }
    text = join_variables(describe_variables(NAMESPACE, described))
    assert text.split("\n")[:4] == [*described["cars"].split("\n"), "", "n: int = 5"]
    assert "secret" not in text
    assert "hidden: private" in text
    assert "_inner" not in text
    assert text.count("cars:") == 1
    assert describe_variables(NAMESPACE[1:2], described) == {"cars": described["cars"]}
    assert describe_variables(NAMESPACE[1:2], {"cars": "a\x1b[2J"}) == {"cars": "a␛[2J"}


def test_descriptions_are_cut_after_a_line_when_space_runs_out() -> None:
    text = "\n".join(["x" * 99] * 22)
    fitted = _fit({"a": text, "b": text, "c": text, "d": text})
    assert list(fitted) == ["a", "b"]
    assert sum(map(len, fitted.values())) <= MAX_DESCRIPTION_CHARS
    fitted = _fit({"a": text, "b": text[:1_799], "c": text})
    assert fitted["c"] == "\n".join(["x" * 99] * 4 + ["..."])


@pytest.mark.parametrize(
    ("byte_count", "size"),
    [
        (999, "999 B"),
        (1_000, "1.0 kB"),
        (999_949, "999.9 kB"),
        (999_950, "1.0 MB"),
        (12_345_678, "12.3 MB"),
        (10**12, "1.0 TB"),
        (10**16, "10000.0 TB"),
    ],
)
def test_size_of_a_file_has_the_unit_in_which_it_is_short(byte_count: int, size: str) -> None:
    assert format_size(byte_count) == size
