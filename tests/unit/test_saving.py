"""Saved variables: groups, earlier versions, and saving on quit."""

from __future__ import annotations

import logging
import pickle
import threading
from collections.abc import Sequence
from typing import Any, cast

import pytest

from mahtab_tui.kernel.base import KeepResult, Kernel, SavedNamespace
from mahtab_tui.session.namespace_store import NamespaceStore
from mahtab_tui.worker import search_log
from mahtab_tui.worker.saving import pickling


def grouped(code: str) -> set[frozenset[str]]:
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


def test_frames_are_separate_although_they_share_columns_and_types() -> None:
    pytest.importorskip("pandas")
    code = "import pandas as pd\na = pd.DataFrame({'x': [1.0, 2.0], 'y': ['a', 'b']}); b = a[a.x > 1]; c = a.copy()\ndel pd"
    assert grouped(code) == sets("a", "b", "c")


def test_possible_sharers_form_one_group_when_time_runs_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pickling, "_SECONDS", -1.0)
    assert grouped("a = [[n] for n in range(1000)]; b = [2]; c = 1") == sets("ab", "c")


def loaded(value: str) -> Any:
    """Unpickle a global of the worker, or what follows from it."""
    package = pickling.__name__.removesuffix(".saving.pickling")
    data = pickle.dumps(({}, [])) + f"(dVfound\nc{package}.{value}s.".encode()
    return pickling.unpickle_variables(bytearray(data), [], lambda *_: None, {})["found"]


def test_spans_saved_by_an_earlier_version_are_found() -> None:
    found = loaded("spans\nSpan\n(I3\nI9\nVmails\ntR")
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
    module, _, name = function.rpartition(".")
    found = loaded(f"{module}\n{name}\n")
    assert callable(found)
    assert found.__name__ == name


class SavingKernel:
    def __init__(self) -> None:
        self.written: list[float] = []

    def saved_namespace(self) -> SavedNamespace:
        return SavedNamespace((), ())

    def keep(self, carried: Sequence[str], lost: Sequence[str], seconds: float) -> KeepResult:
        self.written.append(seconds)
        return KeepResult(names=1)


@pytest.fixture
def kernel() -> SavingKernel:
    return SavingKernel()


@pytest.fixture
def saving(kernel: SavingKernel) -> NamespaceStore:
    made = NamespaceStore(logging.getLogger("saving"), cast(Kernel, kernel), {})
    made.start_restore()
    return made


def test_changes_of_the_last_cell_are_written_on_quit(
    saving: NamespaceStore, kernel: SavingKernel
) -> None:
    saving.before_cell("n = 1")
    saving.after_cell()
    saving.close(5.0)
    assert kernel.written == [5.0]
    assert not saving.has_unwritten_changes


def test_quit_during_the_end_of_a_cell_waits_for_it(
    saving: NamespaceStore, kernel: SavingKernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    ending = threading.Thread(target=saving.close, args=(5.0,))
    counted: Any = saving._schedule_write

    def meanwhile() -> None:
        ending.start()
        ending.join(0.2)
        counted()

    monkeypatch.setattr(saving, "_schedule_write", meanwhile)
    saving.before_cell("n = 1")
    saving.after_cell()
    ending.join(60)
    assert kernel.written == [5.0]


def test_quit_does_not_wait_for_a_running_cell(
    saving: NamespaceStore, kernel: SavingKernel
) -> None:
    saving.before_cell("n = 1")
    saving.after_cell()
    saving.before_cell("while True: pass")
    saving.close(5.0)
    saving._writer.join(60)
    assert kernel.written == [0.0]
