"""Saved variables: groups, earlier versions, and saving on quit."""

from __future__ import annotations

import base64
import json
import logging
import pickle
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from mahtab_tui.kernel.base import Kernel
from mahtab_tui.kernel.process import ProcessKernel
from mahtab_tui.kernel.values import KeepResult, SavedNamespace
from mahtab_tui.session.namespace_store import NamespaceStore
from mahtab_tui.system import Lazy
from mahtab_tui.worker.rlm import search_log
from mahtab_tui.worker.saving import pickling, variable_groups
from tests.integration.kernels import running


def grouped(code: str) -> set[frozenset[str]]:
    namespace: dict[str, Any] = {"__name__": "__main__"}
    exec(code, namespace)
    variables = {name: value for name, value in namespace.items() if not name.startswith("__")}
    return {
        frozenset(group.names) for group in variable_groups.group_variables(variables, namespace)
    }


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
    monkeypatch.setattr(variable_groups, "_WALK_TIMEOUT_S", -1.0)
    assert grouped("a = [[n] for n in range(1000)]; b = [2]; c = 1") == sets("ab", "c")


def loaded(value: str) -> Any:
    """Unpickle a global of the worker, or what follows from it."""
    package = pickling.__name__.removesuffix(".saving.pickling")
    data = pickle.dumps(({}, [])) + f"(dVfound\nc{package}.{value}s.".encode()
    return pickling.unpickle_variables(bytearray(data), [], lambda *_: None, {})["found"]


def test_spans_saved_by_an_earlier_version_are_found() -> None:
    span = loaded("spans\nSpan\n(I3\nI9\nVmails\ntR")
    assert (repr(span), type(span)) == ("Span(3, 9, 'mails')", search_log.Span)


@pytest.mark.parametrize(
    "function",
    [
        *("keeping.pickling._array", "keeping.pickling._cached", "logged._failed"),
        *("habits.capturing.CapturedOutput", "files.edit", "claude_sessions.load_claude_sessions"),
        "sandbox.names.NotPlainError",
        *(
            f"{module}.{name}"
            for module in ("undo.checkpoint", "undo.reducing")
            for name in "_code _function _set_function _refs _set_cell _read_only _view".split()
        ),
    ],
)
def test_functions_named_by_saved_variables_of_earlier_versions_are_found(function: str) -> None:
    module, _, name = function.rpartition(".")
    value = loaded(f"{module}\n{name}\n")
    assert callable(value)
    assert value.__name__ == name


PICKLES = json.loads(
    (Path(__file__).parent.parent / "data" / "pickles_by_former_names.json").read_text()
)
"""Pickles that an earlier version wrote, in Base64, by the name of the worker's package: the values
that cells and scripts get from us."""

TEXTS = {
    "answer": "5",
    "captured": "out",
    "context_error": "no",
    "failed": "no",
    "html": "x",
    "image": "<Image: 2 bytes>",
    "json": '{\n "a": 1\n}',
    "latex": "x",
    "macro": "a = 1",
    "markdown": "*x*",
    "span": "Span(3, 9)",
    "svg": "<svg/>",
    "tool_failed": "no",
    "tree": "1 done: How many? -> 5",
    "wrong_form": "no",
}
"""What some of them print."""


@pytest.fixture
def without_former_modules() -> Iterator[None]:
    """Forget the modules that were loaded by their former names."""
    loaded_before = set(sys.modules)
    yield
    for name in set(sys.modules) - loaded_before:
        if name.startswith("mahtab_tui.worker."):
            del sys.modules[name]


@pytest.mark.usefixtures("without_former_modules")
@pytest.mark.parametrize("function", ["habits.capturing.CapturedOutput", "keeping.pickling._array"])
def test_pickle_finds_modules_of_folders_that_are_gone(function: str) -> None:
    module, _, name = f"mahtab_tui.worker.{function}".rpartition(".")
    assert pickle.loads(f"c{module}\n{name}\n.".encode()).__name__ == name


def check_old_values(values: dict[str, Any]) -> None:
    assert {name: str(values[name]) for name in TEXTS} == TEXTS
    assert values["answer"].spans == (search_log.Span(0, 4, "mails"),)
    assert values["answer"].tree.answer == "5"
    assert values["answer"].usage == values["usage"]
    assert values["result"].usage == values["usage"]
    assert values["failed"].tree.state == "done"
    assert values["captured"].outputs == [values["display"]]
    assert values["timeit"].average == 1.0
    assert repr(values["picture"]) == "<picture image/png, 4 bytes>"
    assert values["text"].text == "abc"
    assert all(map(callable, values["functions"]))


@pytest.mark.usefixtures("without_former_modules")
def test_pickle_of_a_script_of_an_earlier_version_is_loaded() -> None:
    data = base64.b64decode(PICKLES["mahtab_tui.worker"])
    values = pickle.loads(data)
    check_old_values(values)
    # They are values of today's classes, not of copies.
    assert type(values["span"]) is search_log.Span
    assert type(pickle.loads(pickle.dumps(values["span"]))) is search_log.Span


def test_saved_variables_of_an_earlier_version_are_loaded() -> None:
    data = base64.b64decode(PICKLES["mahtab_tui.worker"])
    stream = bytearray(pickle.dumps(({}, [])) + data)
    check_old_values(pickling.unpickle_variables(stream, [], lambda *_: None, {}))


def test_pickle_of_a_cell_of_an_earlier_version_is_loaded() -> None:
    data = base64.b64decode(PICKLES["mahtab_worker"])
    with running(ProcessKernel()) as cells:
        cells.run(f"import pickle; values = pickle.loads({data!r})")
        assert cells.text("str(values['answer']), values['answer'].tree") == (
            "('5', <SearchCall 1 done: How many? (0 calls)>)\n"
        )
        assert cells.text("values['macro'], values['functions'][0] is rlm") == (
            "(<macro of 1 lines: type its name to run it>, True)\n"
        )


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
    store = NamespaceStore(logging.getLogger("saving"), cast(Kernel, kernel), Lazy.of({}))
    store.start_restore()
    return store


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
    counted: Any = saving._writer.schedule

    def meanwhile() -> None:
        ending.start()
        ending.join(0.2)
        counted()

    monkeypatch.setattr(saving._writer, "schedule", meanwhile)
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
    saving._writer._thread.join(60)
    assert kernel.written == [0.0]
