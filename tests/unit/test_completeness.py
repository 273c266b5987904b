"""Inputs that Enter runs, and inputs that it continues."""

from __future__ import annotations

import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mahtab_tui.tui.editor import code_area
from mahtab_tui.tui.editor.pasting import STEP, is_complete

OPEN = [
    "f(1,",
    "x = [",
    "{'a': 1,\n 'b':",
    "'''text",
    'f"""{x}',
    "x = 1 + \\",
    "if x:",
    "if x:  # why",
    "if x: y",
    "for a in b:\n    print(a)",
    "def f():\n    # nothing yet",
    "def f():\n    # nothing yet\n",
    "def f():\n\n    x = 1",
    "@cached",
    "@cached\ndef f():",
    "class A:\n    def f(self):\n        return 1",
    "try:\n    x\n",
    "if x:\n    y\nelse:",
    "async def f():\n    await g()",
    "match x:\n    case 1:\n        y",
    "with a as b:\n    c",
    "def first[T](items: list[T]) -> T:",
    "class Box[T]:\n    item: T",
]
COMPLETE = [
    "",
    "   \n",
    "x",
    "x = 1",
    "x;",
    "f(\n    1,\n    2)",
    "x = [\n    1,\n]",
    '"""one\n    two"""',
    "if x:\n    y\n",
    "if x:\n    y\n    ",
    "def f():\n    return 1\nf()",
    "# a remark",
    "await fetch()",
    "async with a as b:\n    c\n",
    "!ls -l",
    "!echo '''x",
    "!for a in b:",
    "  !git commit -m 'one",
    "return 1",
]
WRONG = [
    "x = = 1",
    "if x = 3:",
    "for",
    "'text",
    "f(1]]",
    "else:",
    "    x = 1",
    "def f(:\n",
    "if 1:\n  x\n y",
    "\0",
    "x = 1 1",
    "import",
    "(" * 500 + ")" * 499 + "]",
]


@pytest.mark.parametrize("source", OPEN)
def test_unfinished_code_is_incomplete(source: str) -> None:
    assert not is_complete(source)


@pytest.mark.parametrize("source", COMPLETE)
def test_runnable_code_is_complete(source: str) -> None:
    assert is_complete(source)


@pytest.mark.parametrize("source", WRONG)
def test_wrong_code_is_complete_so_that_its_error_shows(source: str) -> None:
    assert is_complete(source)


def test_check_emits_no_warnings() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert is_complete("1 is 1; '\\d'")


@given(st.text(alphabet=st.sampled_from("ab=()[]{}'\"\\:#!\n \t\0@é;")))
def test_any_text_gets_an_answer(source: str) -> None:
    assert is_complete(source) in (True, False)


def test_check_is_the_same_for_text_and_lines() -> None:
    assert code_area.STEP == STEP
