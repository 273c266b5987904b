"""Prose and Python are told apart, and the history is walked through by what was typed."""

from __future__ import annotations

import pytest

from mahtab_tui.tui.editor.pane import LONGEST, is_code, is_prose
from mahtab_tui.tui.editor.prompt_area import HistoryCursor


@pytest.mark.parametrize(
    "text",
    [
        "what is the mean of df?",
        "plot revenue by city, please",
        "میانگین فروش هر شهر چیست؟",
        "don't drop the rows with 3 items",
    ],
)
def test_a_sentence_is_prose(text: str) -> None:
    assert is_prose(text)
    assert not is_code(text)


@pytest.mark.parametrize(
    "text",
    [
        "df.head()",
        "x = 1",
        "import pandas as pd",
        "df[df.a > 1]",
        "a + b",
        "for x in y:\n    print(x)",
    ],
)
def test_effective_python_is_code(text: str) -> None:
    assert is_code(text)
    assert not is_prose(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "yes",
        "not now",
        "def f(a, b",
        "for x in df.columns:",
        "print('a' 'b'",
        "%timeit f()",
        "(" * LONGEST,
        "word " * LONGEST,
    ],
)
def test_ambiguous_text_is_neither_prose_nor_code(text: str) -> None:
    assert not is_prose(text)
    assert not is_code(text)


def test_up_and_down_walk_inputs_starting_with_the_draft() -> None:
    inputs = ["x = 3", "df.tail()", "df", "x = 2", "df.head()"]
    cursor = HistoryCursor()
    assert cursor.step(1, inputs, "df") == "df.tail()"
    assert cursor.step(1, inputs, "df.tail()  # mine") == "df.head()"
    assert cursor.step(1, inputs, "df.head()") is None
    assert cursor.step(-1, inputs, "df.head()") == "df.tail()  # mine"
    assert cursor.step(-1, inputs, "df.tail()  # mine") == "df"
    assert cursor.step(1, inputs, "") == "x = 3"
