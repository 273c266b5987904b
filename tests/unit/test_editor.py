"""The editor's text: prose and Python, complete inputs, indentation, and the input history."""

from __future__ import annotations

import sqlite3
import stat
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mahtab_tui.bus.typed_text import (
    MAX_CLASSIFIED_CHARS,
    clean,
    is_code,
    is_complete,
    is_prose,
    next_indent,
    prepare_pasted_python,
    strip_literals,
)
from mahtab_tui.store.input_history import History
from mahtab_tui.tui.editor.prompt_area import InputHistory

OpenHistory = Callable[..., History]

PROSE = [
    "what is the mean of df?",
    "plot revenue by city, please",
    "میانگین فروش هر شهر چیست؟",
    "don't drop the rows with 3 items",
]
PYTHON = [
    "df.head()",
    "x = 1",
    "import pandas as pd",
    "df[df.a > 1]",
    "a + b",
    "for x in y:\n    print(x)",
]
AMBIGUOUS = ["", "yes", "not now", "def f(a, b", "for x in df.columns:", "print('a' 'b'"]
AMBIGUOUS += ["%timeit f()", "(" * MAX_CLASSIFIED_CHARS, "word " * MAX_CLASSIFIED_CHARS]

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
WRONG = [  # it runs, so that its error shows
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


@pytest.mark.parametrize("text", [*PROSE, *PYTHON, *AMBIGUOUS])
def test_prose_and_code_are_recognized_and_ambiguous_text_is_neither(text: str) -> None:
    assert is_prose(text) == (text in PROSE)
    assert is_code(text) == (text in PYTHON)


def test_up_and_down_walk_inputs_starting_with_the_draft(tmp_path: Path) -> None:
    history = InputHistory(History(tmp_path / "history.db", "p"))
    for text in ("df.head()", "x = 2", "df", "df.tail()", "x = 3"):
        history.add(text, "python")
    assert history.step(1, "python", "df") == "df.tail()"
    assert history.step(1, "python", "df.tail()  # mine") == "df.head()"
    assert history.step(1, "python", "df.head()") is None
    assert history.step(-1, "python", "df.head()") == "df.tail()"
    assert history.step(-1, "python", "df.tail()") == "df"
    assert history.step(1, "python", "") == "x = 3"


def test_a_problem_with_a_history_in_memory_names_no_file(tmp_path: Path) -> None:
    history = History(tmp_path / "history.db", "p", no_trace=True)
    history.close()
    history.add("x = 1", "python")
    reason = "Cannot operate on a closed database."
    assert history.problem == f"The input history cannot be used: {reason}"


@pytest.mark.parametrize(
    ("text_before", "indent"),
    [
        ("x = 1", 0),
        ("if x:", 4),
        ("if x:  # why", 4),
        ("    while y:", 8),
        ("x = [", 4),
        ("f(a, {", 4),
        ("    x = 1", 4),
        ("    return x", 0),
        ("        raise ValueError(x)", 4),
        ("    pass", 0),
        ("return", 0),
        ("    returned = 1", 4),
        ("    return {", 8),
        ("# remark:", 0),
        ("print('a: # b')", 0),
        ("print('if x:')", 0),
        ("def f(\n    a,\n):", 4),
        ("    if (a and\n            b):", 8),
        ("x = [1,", 4),
        ("x = [1,\n     2,", 5),
        ("x = [{\n    'a': (1,", 8),
        ("    x = [1,\n         2]", 4),
        ("    return f(a,\n             b)", 0),
        ("x = '''[(", 0),
        ("x = '''[(\n  text", 2),
        ("x = '''[('''", 0),
        ("", 0),
    ],
)
def test_a_new_line_is_indented_as_python_wants_it(text_before: str, indent: int) -> None:
    assert next_indent(text_before) == " " * indent


def test_literals_and_comments_are_stripped() -> None:
    assert strip_literals('f(\'a\', """b\nc""")  # d') == 'f("", "")  '


@pytest.mark.parametrize(
    ("text", "python"),
    [
        ("x = 1\r\ny = 2\r", "x = 1\ny = 2\n"),
        ("\tif x:\n\t\ty", "if x:\n    y"),
        ("    if x:\n        y\n\n    z", "if x:\n    y\n\nz"),
        ("x = 'a\tb'", "x = 'a\tb'"),
        (">>> x = 1\n>>> for y in z:\n...     y\n...\n1\n", "x = 1\nfor y in z:\n    y\n\n# 1"),
        ("    >>> x\n    1", "x\n# 1"),
        ("In [3]: x = [\n   ...:     1]\nOut[3]: 5", "x = [\n    1]\n# Out[3]: 5"),
        ("x = 1 \x1b]52;c;aGk=\x07+ 1\x00", "x = 1 + 1"),
        ("x = 'a\u202eb'", "x = 'ab'"),
        ("...", "..."),
        ("... and so on", "... and so on"),
        ("```python\nx = 1\n\ny = 2\n```\n", "x = 1\n\ny = 2"),
        ("\n  ~~~ py\n  x = 1\n  ~~~", "x = 1"),
        ("```\n>>> x\n1\n```", "x\n# 1"),
        ("````\ns = '''\n```\nx\n```\n'''\n````", "s = '''\n```\nx\n```\n'''"),
        ('```python title="a.py" hl_lines="1"\nx = 1\n```', "x = 1"),
        ("```{python}\nx = 1\n```", "x = 1"),
        ("      ```py\n      x = 1\n      ```", "x = 1"),
        ("```python\nx = 1", "x = 1"),
        ("s = '''\n```py\nx\n```\n'''", "s = '''\n```py\nx\n```\n'''"),
        ("s = '''\n```py\nx\n```", "s = '''\n```py\nx\n```"),
    ],
)
def test_pasted_python_is_made_runnable(text: str, python: str) -> None:
    assert prepare_pasted_python(text, into_empty=True) == python


@given(st.text())
def test_clean_text_holds_no_control_characters(text: str) -> None:
    assert not any(ord(character) < 32 and character not in "\n\t" for character in clean(text))


@pytest.mark.timeout(60)
def test_blanks_behind_a_fence_take_linear_time() -> None:
    text = f"```{' ' * 1_000_000}!"
    assert prepare_pasted_python(text, into_empty=True) == text


@pytest.mark.parametrize("source", [*OPEN, *COMPLETE, *WRONG])
def test_code_is_complete_unless_it_continues(source: str) -> None:
    assert is_complete(source) == (source not in OPEN)


def test_check_emits_no_warnings() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert is_complete("1 is 1; '\\d'")


@given(st.text(alphabet=st.sampled_from("ab=()[]{}'\"\\:#!\n \t\0@é;")))
def test_any_text_gets_an_answer(source: str) -> None:
    assert is_complete(source) in (True, False)


# The input history.


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "home" / "history.db"


@pytest.fixture
def open_history(path: Path) -> Iterator[OpenHistory]:
    """Open the history of a project; all are closed after the test."""
    with ExitStack() as stack:

        def open_history(project: str = "p", **options: Any) -> History:
            history = History(path, project, **options)
            stack.callback(history.close)
            return history

        yield open_history


def texts(history: History, mode: str | None = None) -> list[str]:
    return [entry.text for entry in history.entries(mode)]


def add(history: History, *texts: str) -> None:
    for text in texts:
        history.add(text, "python")


def test_entries_are_newest_first_with_this_projects_before_others(
    open_history: OpenHistory, path: Path
) -> None:
    history_here = open_history("/here")
    history_there = open_history("/there")
    add(history_here, "a = 1")
    history_here.add("why?", "ask")
    add(history_there, "b = 2")
    add(history_here, "c\nd")
    assert texts(history_here) == ["c\nd", "why?", "a = 1", "b = 2"]
    assert texts(history_here, "python") == ["c\nd", "a = 1", "b = 2"]
    assert texts(history_there) == ["b = 2", "c\nd", "why?", "a = 1"]
    assert history_here.problem == history_there.problem == ""
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_repeated_input_is_stored_once(open_history: OpenHistory, path: Path) -> None:
    history = open_history()
    add(history, "a", "a", "b", "a", "a")
    assert texts(history) == ["a", "b"]
    rows = sqlite3.connect(path).execute("select text from input").fetchall()
    assert rows == [("a",), ("b",), ("a",)]


def test_history_survives_a_restart_with_any_text(open_history: OpenHistory) -> None:
    hostile = ["nul \x00", "lone \ud800", "'; drop table input; --", "ש" * 100_000]
    first_history = open_history()
    add(first_history, *hostile)
    first_history.close()
    assert texts(open_history()) == hostile[::-1]


def test_search_finds_all_words_in_any_order(open_history: OpenHistory) -> None:
    history = open_history()
    add(history, "df.describe()", "d = fetch()", "print(df)\nmore", "nothing", "DF")
    texts = [entry.text for entry in history.search("df")]
    assert texts == ["DF", "print(df)\nmore", "df.describe()"]
    assert [entry.text for entry in history.search("more print")] == ["print(df)\nmore"]
    assert [entry.text for entry in history.search("df", limit=1)] == ["DF"]
    assert history.search("zzz") == []


@pytest.mark.parametrize(
    "damage",
    [b"this is no database, it only says so" * 100, b"SQLite format 3\x00" + b"\xff" * 5000],
)
def test_damaged_file_is_moved_away(open_history: OpenHistory, path: Path, damage: bytes) -> None:
    path.parent.mkdir()
    path.write_bytes(damage)
    history = open_history()
    assert "damaged" in history.problem
    add(history, "x")
    history.close()
    assert texts(open_history()) == ["x"]
    damaged = next(path.parent.glob("history.db.damaged-*"))
    assert damaged.read_bytes() == damage


def test_folder_at_the_file_path_leaves_history_in_memory(
    open_history: OpenHistory, path: Path
) -> None:
    path.mkdir(parents=True)
    history = open_history()
    add(history, "x")
    assert "keeps it in memory" in history.problem
    assert texts(history) == ["x"]


def test_locked_file_is_reported_and_not_moved_away(open_history: OpenHistory, path: Path) -> None:
    history = open_history()
    history._database._connection.execute("pragma busy_timeout = 1")
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("begin immediate")
    add(history, "x")
    assert "locked" in history.problem
    connection.execute("rollback")
    add(history, "y")
    assert texts(history) == ["y"]
    assert list(path.parent.glob("*damaged*")) == []


def test_several_programs_write_at_once(open_history: OpenHistory) -> None:
    def work(name: str) -> str:
        history = open_history(name)
        add(history, *(f"{name} {number}" for number in range(20)))
        return history.problem

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(work, "abcd")) == [""] * 4
    assert len(texts(open_history("a"))) == 80


def test_no_trace_session_writes_no_inputs(open_history: OpenHistory, path: Path) -> None:
    open_history(no_trace=True)
    assert not path.exists()
    first_history = open_history()
    add(first_history, "earlier")
    hidden = open_history(no_trace=True)
    add(hidden, "hidden")
    assert texts(hidden) == ["hidden", "earlier"]
    assert texts(first_history) == ["earlier"]
