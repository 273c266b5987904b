"""Mentions in a question."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mahtab_tui.session.attached import (
    CHARACTERS,
    LINES,
    Mention,
    PartialMention,
    find_mentions,
    is_large,
    partial_mention,
)


@pytest.mark.parametrize(
    ("question", "found"),
    [
        ("look at @notes.txt, please", [Mention("path", "notes.txt")]),
        ("(@a/b.py:10-40)", [Mention("path", "a/b.py", 10, 40)]),
        ("@a.py:7 and @a.py:7-", [Mention("path", "a.py", 7, 7), Mention("path", "a.py", 7)]),
        (
            '@"my notes.txt":2-3 and @"b c"',
            [Mention("path", "my notes.txt", 2, 3), Mention("path", "b c")],
        ),
        ("is @src/ it? @src/.", [Mention("path", "src/")]),
        ("@a.py:0-0", [Mention("path", "a.py", 1, 0)]),
        ("compare $df with $größe.", [Mention("variable", "df"), Mention("variable", "größe")]),
        ("$df $df", [Mention("variable", "df")]),
        ("what does !`git status --short` say", [Mention("command", "git status --short")]),
        ("mail me at a@b.de for $100, ca$h, x!`y` or !``", []),
        ("@ $ !` `", []),
        ("!`  `", []),
        (f"@a.py:{'9' * 5_000}", [Mention("path", f"a.py:{'9' * 5_000}")]),
        ('@"a b":1234567890', [Mention("path", "a b")]),
        ("@a.py:٣", [Mention("path", "a.py:٣")]),
        ("@:5", [Mention("path", ":5")]),
    ],
)
def test_mentions_are_found(question: str, found: list[Mention]) -> None:
    assert find_mentions(question) == found


@given(st.text())
def test_any_text_can_be_scanned(question: str) -> None:
    for mention in find_mentions(question):
        assert mention.name
    partial_mention(question)


@given(
    st.lists(
        st.sampled_from(
            [
                Mention("path", "a.py", 3, 9),
                Mention("path", "b", 2),
                Mention("path", "c d", 1, 1),
                Mention("path", "it's"),
                Mention("path", "what?"),
                Mention("path", "a.py:3"),
                Mention("variable", "x"),
                Mention("command", "ls -l"),
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
    assert not is_large("\n" * (LINES - 1))
    assert is_large("\n" * LINES)
    assert not is_large("x" * CHARACTERS)
    assert is_large("x" * (CHARACTERS + 1))
