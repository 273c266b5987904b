"""Lines of a cell that are no Python, and how far a cell with them is complete."""

from __future__ import annotations

import ast
import builtins

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mahtab_tui.tui.editor.pasting import is_complete
from mahtab_tui.worker import magics
from mahtab_tui.worker.magic_commands import duration
from mahtab_tui.worker.magics import transform


@pytest.mark.parametrize(
    ("source", "becomes"),
    [
        ("!ls -l", "__mahtab_shell__('ls -l')"),
        ("s = '''\n!no\n'''\n!yes", "s = '''\n!no\n'''\n__mahtab_shell__('yes')"),
        ("x = !ls", "x = __mahtab_lines__('ls')"),
        ("a.b, c = !ls", "a.b, c = __mahtab_lines__('ls')"),
        ("%time f(1)", "__mahtab_magic__('time', 'f(1)')"),
        ("%cd", "__mahtab_magic__('cd', '')"),
        ("x = 1\n%cd 'a b'\ny = 2", "x = 1\n__mahtab_magic__('cd', \"'a b'\")\ny = 2"),
        ("for x in y:\n    %time f(x)", "for x in y:\n    __mahtab_magic__('time', 'f(x)')"),
        ("obj?", "__mahtab_help__('obj', 1)"),
        ("df.head??", "__mahtab_help__('df.head', 2)"),
        ("?df['a']", "__mahtab_help__(\"df['a']\", 1)"),
        ("%%time\nx = 1\nx", "__mahtab_magic__('%time', '\\nx = 1\\nx')\n\n"),
    ],
)
def test_shortcut_lines_become_calls(source: str, becomes: str) -> None:
    assert transform(source) == becomes
    assert becomes.count("\n") == source.count("\n")
    ast.parse(becomes)


@pytest.mark.parametrize(
    "source",
    [
        "x = 7\n%3\n",
        "x = (7\n%y)",
        "a != b",
        "print('''\n%cd x\n!ls\nx?\n''')",
        "x = (7\n%time)\nf(",
        "'''\n!ls",
        "x = 7 \\\n%time",
        "what is this?",
        "f(x)?",
    ],
)
def test_python_and_nested_lines_are_unchanged(source: str) -> None:
    assert transform(source) == source


@given(
    st.lists(
        st.sampled_from(["%time", "!", "?", "x", "(", ")", "'''", "\n", "    ", "=", "\\", "%%"]),
        max_size=12,
    )
)
def test_number_of_lines_is_unchanged(pieces: list[str]) -> None:
    source = "".join(pieces)
    assert transform(source).count("\n") == source.count("\n")


@pytest.mark.parametrize(
    "source",
    [
        "!ls",
        "x = !ls",
        "%time x",
        "df?",
        "df.head??",
        "%%time\nx",
        "for x in y:\n    !ls\n",
        "%nonsense",
    ],
)
def test_shortcut_lines_are_complete(source: str) -> None:
    assert is_complete(source)


@pytest.mark.parametrize(
    "source", ["for x in y:\n    !ls", "if x:\n    %cd", "x = !ls\nif x:", "!ls\nf("]
)
def test_block_with_shortcut_lines_stays_open(source: str) -> None:
    assert not is_complete(source)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(2e-9, "2 ns"), (1.5e-6, "1.5 µs"), (0.25, "250 ms"), (3, "3 s"), (75, "1 min 15 s")],
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_out_contains_the_newest_values(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_", "__", "___"):
        monkeypatch.setitem(builtins.__dict__, name, None)
    monkeypatch.setattr(magics, "HISTORY", 2)
    history = magics.CellHistory()
    for cell, value in enumerate("abc", 1):
        history.add_result(cell, value)
    assert history.outputs == {2: "b", 3: "c"}
    history.add_result(4, history.outputs)
    assert history.outputs == {2: "b", 3: "c"}


@pytest.mark.parametrize(
    ("source", "complete"),
    [
        ("%%bash", False),
        ("%%writefile x.txt", False),
        ("%%writefile x.txt\n", False),
        ("%%time", False),
        ("%%bash\necho", False),
        ("%%bash\necho\n", True),
        ("%time f()", True),
        ("%matplotlib inline", True),
    ],
)
def test_lines_below_a_cell_magic_belong_to_it(source: str, complete: bool) -> None:
    assert is_complete(source) == complete
