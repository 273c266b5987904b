"""Which variables are kept together."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from mahtab_tui.worker import search_log
from mahtab_tui.worker.saving import pickling


def grouped(code: str) -> set[frozenset[str]]:
    """The groups of what code makes."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    exec(code, namespace)
    variables = {name: value for name, value in namespace.items() if not name.startswith("__")}
    return {frozenset(group.names) for group in pickling.group_variables(variables, namespace)}


def sets(*words: str) -> set[frozenset[str]]:
    return {frozenset(word) for word in words}


@pytest.mark.parametrize(
    ("code", "together"),
    [
        ("a = 1; b = 1; c = 'x'", sets("a", "b", "c")),
        ("a = [1]; b = {'a': a}; c = [1]", sets("ab", "c")),
        ("a = [1]; b = (a,); c = (1, 2); d = c", sets("ab", "cd")),
        ("c = (1, 2); a = [c]; b = [c]", sets("a", "b", "c")),
        ("class C: pass\na, b = C(), C()", sets("a", "b", "C")),
        ("class C: seen = []\na, b = C(), C()", sets("abC")),
        ("def f(): pass\na = {'f': f}; b = 1", sets("fa", "b")),
        (
            "def m():\n    n = 0\n    def u():\n        nonlocal n\n        n += 1\n    return u, lambda: n\na, b = m()",
            sets("ab", "m"),
        ),
        ("a = []; a.append(a); b = [a]", sets("ab")),
    ],
)
def test_variables_sharing_mutable_state_form_one_group(
    code: str, together: set[frozenset[str]]
) -> None:
    assert grouped(code) == together


def test_frames_are_separate_although_they_share_columns_and_types(project: object) -> None:
    pytest.importorskip("pandas")
    code = "import pandas as pd\na = pd.DataFrame({'x': [1.0, 2.0], 'y': ['a', 'b']}); b = a[a.x > 1]; c = a.copy()\ndel pd"
    assert grouped(code) == sets("a", "b", "c")


def test_possible_sharers_form_one_group_when_time_runs_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pickling, "_SECONDS", -1.0)
    assert grouped("a = [[n] for n in range(1000)]; b = [2]; c = 1") == sets("ab", "c")


def test_spans_saved_by_an_earlier_version_are_found() -> None:
    package = pickling.__name__.removesuffix(".saving.pickling")
    head = pickle.dumps(({}, []))
    body = f"(dVfound\nc{package}.spans\nSpan\n(I3\nI9\nVmails\ntRs.".encode()
    found = pickling.unpickle_variables(bytearray(head + body), [], lambda *_: None, {})["found"]
    assert (repr(found), type(found)) == ("Span(3, 9, 'mails')", search_log.Span)


@pytest.mark.parametrize(
    "function",
    [
        *("keeping.pickling._array", "keeping.pickling._cached", "logged._failed"),
        *("habits.capturing.CapturedOutput", "files.edit", "claude_sessions.load_claude_sessions"),
        *(
            f"undo.reducing.{name}"
            for name in "_code _function _set_function _refs _set_cell _read_only _view".split()
        ),
    ],
)
def test_functions_named_by_saved_variables_of_earlier_versions_are_found(function: str) -> None:
    package = pickling.__name__.removesuffix(".saving.pickling")
    module, _, name = function.rpartition(".")
    head = pickle.dumps(({}, []))
    body = f"(dVfound\nc{package}.{module}\n{name}\ns.".encode()
    found = pickling.unpickle_variables(bytearray(head + body), [], lambda *_: None, {})["found"]
    assert callable(found)
    assert found.__name__ == name
