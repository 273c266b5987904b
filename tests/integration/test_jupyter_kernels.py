"""Jupyter kernels of this machine, with a real ipykernel."""

from __future__ import annotations

import contextlib
import os
import queue
import re
import signal
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import CodeType, SimpleNamespace
from typing import Any, cast

import pytest

from mahtab_tui.bus.values import Status
from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.host import HostFunction
from mahtab_tui.kernel.jupyter.conversation import JupyterConversation
from mahtab_tui.kernel.jupyter.kernel import JupyterKernel, jupyter_kernel
from mahtab_tui.kernel.jupyter.local import ZmqConnection
from mahtab_tui.kernel.process import CLOSED
from mahtab_tui.kernel.values import CellResult, KernelState
from tests.integration.jupyter import start
from tests.integration.kernels import Cells, RecordingHost, running
from tests.waiting import wait_for


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cells]:
    kernel = jupyter_kernel("jupyter:python3", str(tmp_path_factory.mktemp("there")), "")
    host = RecordingHost()
    host.given = (HostFunction("shout", "shout", (("text", "str", None),), "Say it loudly."),)
    kernel.start(host)
    yield Cells(kernel, host)
    kernel.close()


@pytest.fixture
def cells(shared: Cells) -> Cells:
    shared.host.answer = lambda name, args: None
    for events in (shared.host.states, shared.host.calls, shared.host.cancelled):
        while not events.empty():
            events.get()
    return shared


def changed(result: CellResult) -> list[tuple[str, str]]:
    return [(change.name, change.change) for change in result.changes]


def test_prints_values_and_changes_are_reported(cells: Cells) -> None:
    result = cells.run("print('hi'); rows = [1]\nrows")
    assert (result.status, result.output) == (Status.OK, "hi\n[1]\n")
    assert result.kinds == (("stdout", 3), ("value", 4))
    assert changed(result) == [("rows", "added")]
    assert changed(cells.run("rows.append(2)")) == [("rows", "changed")]
    assert changed(cells.run("del rows")) == [("rows", "deleted")]


def test_only_user_names_are_variables(cells: Cells) -> None:
    cells.run("mine = 1; _hidden = 2\nmine")
    names = {variable.name for variable in cells.kernel.variables()}
    assert {"mine", "_hidden"} <= names
    hidden = "In Out exit quit get_ipython _ _1 _i _ih _oh _dh open"
    assert not names & set(hidden.split())
    assert not [name for name in names if "mahtab" in name or name.lstrip("_i").isdigit()]


def test_error_has_its_traceback_changes_and_hint(cells: Cells) -> None:
    result = cells.run("made = 1\n1 / 0")
    assert result.status is Status.ERROR
    assert "ZeroDivisionError: division by zero" in re.sub(r"\x1b\[3[19]m", "", result.output)
    assert changed(result) == [("made", "added")]
    result = cells.run("import pandas\npandas.DataFrame({'Fare': [1]})['fare']")
    assert result.output.endswith(
        "\nHint: there is no column 'fare'. Did you mean 'Fare'? Columns: Fare\n"
    )


@pytest.mark.parametrize(
    ("code", "mime"),
    [
        ("import pandas\npandas.DataFrame({'a': [1]})", "text/html"),
        ("from PIL import Image\nImage.new('RGB', (2, 2))", "image/png"),
    ],
)
def test_tables_and_pictures_are_displayed(cells: Cells, code: str, mime: str) -> None:
    assert [display.mime for display in cells.run(code).displays] == [mime]


def test_everything_can_be_inspected_between_cells(cells: Cells) -> None:
    cells.run("table = {'a': 1}")
    assert cells.kernel.inspect("table").text == "{'a': 1}"
    assert cells.kernel.describe(["table"], 100) == {"table": "table: dict, 1 item: {'a': 1}"}
    assert cells.complete("tabl")[0].label == "table"
    explanation = cells.kernel.explain("len(", 4)
    assert explanation is not None
    assert explanation.signature.startswith("len(")
    assert cells.kernel.private_use(["table"], ["print(table)"]).used == (("table",),)
    result = cells.interrupt_after("go", "print('go')\nwhile True: pass")
    assert result.status is Status.INTERRUPTED


def test_unsendable_code_is_an_error(cells: Cells) -> None:
    result = cells.run("x = '\ud800'")
    assert result.status is Status.ERROR
    assert result.output == "SyntaxError: the cell has a character that UTF-8 cannot encode\n"
    cells.host.answer = lambda name, args: "\ud800"
    assert cells.run("input()").status is Status.OK
    assert cells.text("1 + 1") == "2\n"


def test_input_is_requested_and_shown(cells: Cells) -> None:
    cells.host.answer = lambda name, args: "blue"
    assert cells.run("colour = input('colour? ')\ncolour").output == "colour? blue\n'blue'\n"
    assert cells.host.calls.get() == ("input", {"prompt": "colour? ", "password": False})
    assert cells.run("import getpass\nlen(getpass.getpass('key: '))").output == "key: \n4\n"
    assert cells.host.calls.get() == ("input", {"prompt": "key: ", "password": True})
    cells.host.answer = lambda name, args: None
    assert "EOFError" in cells.run("input('more? ')").output


def test_code_can_call_the_host(cells: Cells) -> None:
    cells.host.answer = lambda name, args: f"{name}: {args}"
    assert cells.run("shout('hé')").output == "shout: {'text': 'hé'}\n"
    assert cells.run("usage()").output == "usage: {}\n"


def test_search_receives_its_text_by_calls(cells: Cells) -> None:
    def answer(name: str, args: object) -> None:
        if name == "rlm":
            raise RuntimeError("no search today")

    cells.host.answer = answer
    assert "no search today" in cells.run("rlm('how many?', 'a' * 100_000)").output
    assert cells.host.calls.get()[0] == "rlm_text"


def test_thread_calling_the_host_gets_an_explanation(cells: Cells) -> None:
    code = "from concurrent.futures import ThreadPoolExecutor\nwith ThreadPoolExecutor() as pool: print(pool.submit(usage).exception())"
    sentence = "In a Jupyter kernel usage() can only be called by the cell itself, not by a thread or a task.\n"
    assert cells.text(code) == sentence


def test_host_call_can_be_interrupted(cells: Cells) -> None:
    def is_cancelled() -> bool:
        with contextlib.suppress(queue.Empty):
            return cells.host.cancelled.get(timeout=2) == "shout"
        return False

    def answer(name: str, args: object) -> None:
        cells.kernel.interrupt()
        while not is_cancelled():  # Python loses an interrupt in a finalizer
            cells.kernel.interrupt()

    cells.host.answer = answer
    assert cells.run("shout('x')").status is Status.INTERRUPTED


def test_working_folder_follows_the_cells(cells: Cells, tmp_path: Path) -> None:
    cells.run(f"import os; os.chdir({str(tmp_path)!r})")
    assert cells.kernel.info().cwd == str(tmp_path)
    assert cells.kernel.change_directory("/") == "/"


def test_missing_capabilities_are_reported(cells: Cells) -> None:
    assert cells.kernel.undo_unavailable_reason
    assert cells.kernel.lock_unavailable_reason
    assert cells.kernel.saved_namespace() is None
    with pytest.raises(KernelError, match="There is no variable named nothing_here"):
        cells.kernel.inspect("nothing_here")
    with pytest.raises(KernelError, match="cannot be undone"):
        cells.kernel.undo(1)
    with pytest.raises(KernelError, match="own interpreter"):
        cells.kernel.activate("python3")


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Cells]:
    with running(jupyter_kernel("jupyter:python3", str(tmp_path), "begun = 1")) as cells:
        yield cells


def test_reset_that_waits_for_a_close_starts_no_process(tmp_path: Path) -> None:
    kernel = jupyter_kernel("jupyter:python3", str(tmp_path), "")
    assert isinstance(kernel, JupyterKernel)
    kernel.start(RecordingHost())
    pid = kernel.info().pid
    with ThreadPoolExecutor() as pool:
        with kernel._process_lock:
            reset = pool.submit(kernel.reset)
            wait_for(lambda: _is_running(JupyterKernel._replace.__code__))
            closed = pool.submit(kernel.close)
            wait_for(kernel._closed.is_set)
        with pytest.raises(KernelError, match=CLOSED):
            reset.result()
        closed.result()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    with pytest.raises(KernelError, match=CLOSED):
        kernel.start(RecordingHost())


def _is_running(code: CodeType) -> bool:
    """Return whether a thread's innermost function has this code."""
    return any(frame.f_code is code for frame in sys._current_frames().values())


def test_dead_kernel_is_reported_and_replaced(own: Cells) -> None:
    result = own.run("print('last words', flush=True)\nimport os; os._exit(3)")
    assert result.status is Status.DIED
    died = "The kernel died: it exited with code 3"
    assert result.detail.startswith(died)
    assert own.host.wait_for_state(KernelState.DEAD).startswith(died)
    assert "new kernel" in own.host.wait_for_state(KernelState.IDLE)
    assert own.text("begun") == "1\n"
    assert own.kernel.variables()
    os.kill(own.kernel.info().pid, signal.SIGKILL)  # while it is idle
    assert "(SIGKILL)" in own.host.wait_for_state(KernelState.DEAD)
    assert "new kernel" in own.host.wait_for_state(KernelState.IDLE)
    assert own.text("begun") == "1\n"


@pytest.mark.parametrize(
    ("info", "sentence"),
    [
        (
            {"implementation": "xeus-python", "language_info": {"name": "python"}},
            "^jupyter:x is Python, but not ipykernel",
        ),
        ({"implementation": "IRkernel", "language_info": {"name": "R"}}, "does not run Python"),
        ({"implementation": "odd", "language_info": 7}, "does not run Python"),
    ],
)
def test_kernels_other_than_ipykernel_are_refused_by_what_they_are(
    info: dict[str, Any], sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(JupyterConversation, "_wait_for_info", lambda self: info)
    wire = cast("ZmqConnection", SimpleNamespace(label="jupyter:x"))
    with pytest.raises(KernelError, match=sentence):
        JupyterConversation(wire, RecordingHost()).begin()


@pytest.mark.thorough
def test_kill_and_reset_start_a_new_kernel(own: Cells) -> None:
    own.run("x = 1")
    code = "from signal import *\nsignal(SIGINT, SIG_IGN)\nprint('go')\nwhile True: pass"
    result = own.run_until("go", threading.Thread(target=own.kernel.kill).start, code)
    assert result.status is Status.KILLED
    assert "NameError" in own.run("x").output
    own.run("x = 1")
    own.kernel.reset()
    assert "NameError" in own.run("x").output


def test_exit_notifies_the_host_and_closing_ends_the_kernel(own: Cells) -> None:
    own.run("exit()")
    assert own.host.calls.get(timeout=30) == ("quit", {})
    pid = own.kernel.info().pid
    own.kernel.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert own.run("1").detail == "The session was closed."


def test_missing_kernelspec_gives_one_sentence() -> None:
    sentence = r"^Jupyter has no kernel named nothing; it has .*python3.*\.$"
    with pytest.raises(KernelError, match=sentence):
        start("jupyter:nothing")


def test_internal_requests_leave_the_history_alone(cells: Cells) -> None:
    cells.run("1 + 1")
    cells.kernel.variables()
    cells.kernel.complete("le", 2)
    assert cells.run("In[-2:]").output == "['1 + 1', 'In[-2:]']\n"
    assert cells.run("Out[max(Out)]").status is Status.OK


def test_cleared_output_is_replaced(cells: Cells) -> None:
    code = "from IPython.display import clear_output\nfor n in range(3):\n    print('step')\n    print(n)\n    clear_output(wait=True)\nprint('end')"
    assert cells.run(code).output == "end\n"
