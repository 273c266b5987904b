"""The kernel inside the program, kernels of every Python, and completion."""

from __future__ import annotations

import builtins
import contextlib
import io
import pydoc
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from mahtab_tui.bus.values import Status
from mahtab_tui.kernel import inprocess_runner, running_cell
from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.host import HostFunction
from mahtab_tui.kernel.inprocess import InProcessKernel
from mahtab_tui.kernel.process import ProcessKernel
from mahtab_tui.kernel.values import CellResult, Completion, Completions, KernelState
from mahtab_tui.worker.cells.executor import Executor
from mahtab_tui.worker.cells.outcomes import interrupted_outcome
from tests.integration.kernels import PATIENCE, WAITS, Cells, RecordingHost, interpreters, running
from tests.waiting import wait_for


@pytest.fixture
def namespace() -> dict[str, Any]:
    return {"given": [1, 2]}


@pytest.fixture
def embedded(namespace: dict[str, Any]) -> Iterator[Cells]:
    with running(InProcessKernel(namespace)) as cells:
        yield cells


class HostWithoutFunctions(RecordingHost):
    def functions(self) -> Sequence[HostFunction]:
        raise RuntimeError("no functions")


def test_start_reports_what_its_thread_cannot_prepare(namespace: dict[str, Any]) -> None:
    with pytest.raises(RuntimeError, match="no functions"):
        InProcessKernel(namespace).start(HostWithoutFunctions())


def test_cells_use_the_callers_namespace(embedded: Cells, namespace: dict[str, Any]) -> None:
    given_object = namespace["given"]
    embedded.expect("given.append(3)\nmade = len(given)\nmade", "3\n")
    assert namespace["made"] == 3
    assert namespace["given"] is given_object
    embedded.run("given = 2")
    embedded.kernel.reset()
    assert "made" not in namespace
    assert namespace["given"] == 2


def test_embedded_output_matches_a_kernel_process(embedded: Cells) -> None:
    result = embedded.run("import sys\nprint('out')\nprint('err', file=sys.stderr)\n1 / 0")
    assert result.kinds[0] == ("stdout", len("out\nerr\n"))
    assert result.status is Status.ERROR
    assert result.output.count("File ") == 1
    embedded.expect("await __import__('asyncio').sleep(0, 'slept')", "'slept'\n")
    assert embedded.run("import sys; sys.exit(3)").output == "SystemExit: 3\n"
    markdown = "class Words:\n    def _repr_markdown_(self): return 'm'\n"
    result = embedded.run(f"{markdown}print('a')\ndisplay(Words())\nprint('b')")
    assert [kind for kind, _ in result.kinds] == ["stdout", "display", "stdout"]


def test_host_prints_are_no_cell_output(embedded: Cells, monkeypatch: pytest.MonkeyPatch) -> None:
    screen = io.StringIO()
    monkeypatch.setattr(sys, "stdout", screen)
    result = embedded.run_until(
        "go", lambda: print("of the host"), "import time\nprint('go', flush=True)\ntime.sleep(0.1)"
    )
    assert result.output == "go\n"
    assert screen.getvalue() == "of the host\n"
    assert sys.stdout is screen


def test_closed_kernel_restores_the_process(namespace: dict[str, Any]) -> None:
    def state() -> tuple[object, ...]:
        names = set(dir(builtins)) - {"_"}
        return (sys.stdout, sys.stderr, sys.stdin, input, help, pydoc.pager, names)

    # The first kernel of a process leaves names of IPython, such as In, in `builtins`.
    with running(InProcessKernel({})) as cells:
        cells.expect("1 + 1", "2\n")
        cells.run("help(len)")
    state_before = state()
    threads_before = set(threading.enumerate())
    with running(InProcessKernel(namespace)) as cells:
        cells.expect("1 + 1", "2\n")
        (display,) = cells.run("help(len)").displays
        assert display.text.startswith("Help on built-in function len")
    assert state() == state_before
    wait_for(lambda: set(threading.enumerate()) <= threads_before)


def test_closed_kernel_refuses_a_reset_and_stays_closed(namespace: dict[str, Any]) -> None:
    with running(InProcessKernel(namespace)) as cells:
        cells.run("made = 1")
    with pytest.raises(KernelError, match="The session was closed"):
        cells.kernel.reset()
    assert cells.kernel.info().state is KernelState.DEAD
    assert namespace["made"] == 1


@pytest.mark.parametrize(
    "code", ["while True: pass", "await __import__('asyncio').sleep(1000)", "input('?')"]
)
def test_interrupt_stops_embedded_code(embedded: Cells, code: str) -> None:
    release = threading.Event()

    def answer(name: str, args: Mapping[str, Any]) -> None:
        embedded.kernel.interrupt()
        release.wait()

    embedded.host.answer = answer
    embedded.run("await __import__('asyncio').sleep(0)")
    signal_code = "" if code.startswith("input") else "print('go')\n"
    result = embedded.interrupt_after("go", signal_code + code)
    release.set()
    assert result.status is Status.INTERRUPTED
    embedded.expect("1 + 1", "2\n")
    assert embedded.kernel.interrupt() is False


def test_interrupts_stop_embedded_code_that_calls_the_host_all_the_time(embedded: Cells) -> None:
    has_called = threading.Event()
    is_interrupted = threading.Event()
    late_calls: list[str] = []

    def answer(name: str, args: Mapping[str, Any]) -> str:
        has_called.set()
        if is_interrupted.is_set():
            late_calls.append(name)
        return "too late" if len(late_calls) > 10 else ""

    def interrupt_later() -> None:
        has_called.wait()
        while not embedded.kernel.interrupt():
            time.sleep(0.001)
        is_interrupted.set()

    embedded.host.answer = answer
    for _ in range(20):
        has_called.clear()
        is_interrupted.clear()
        late_calls.clear()
        thread = threading.Thread(target=interrupt_later)
        thread.start()
        result = embedded.run("while not usage(): pass")
        thread.join()
        assert result.status is Status.INTERRUPTED
    embedded.expect("1 + 1", "2\n")


def test_embedded_cells_nest(embedded: Cells) -> None:
    def answer(name: str, args: Mapping[str, Any]) -> str:
        return embedded.run("y = x + 1\nprint(y)", nested=True).output

    embedded.host.answer = answer
    embedded.expect("x = 1\na = input()\na, y", "2\n\n('2\\n', 2)\n")


def test_an_interrupt_of_an_embedded_cell_stops_the_one_nested_in_it(embedded: Cells) -> None:
    nested_results: list[CellResult] = []
    answers: list[bool] = []

    def interrupt() -> None:
        answers.append(embedded.kernel.interrupt(3))
        answers.append(embedded.kernel.interrupt(1))

    def answer(name: str, args: Mapping[str, Any]) -> str:
        code = "import time\nprint('on', flush=True)\nfor _ in range(1_000): time.sleep(0.01)"
        nested_results.append(embedded.run_until("on", interrupt, code, nested=True))
        return ""

    embedded.host.answer = answer
    embedded.expect("usage()\n'went on'", "'went on'\n")
    assert [result.status for result in nested_results] == [Status.INTERRUPTED]
    assert answers == [False, True]


def test_an_interrupt_at_the_end_of_a_nested_embedded_cell_spares_the_outer_one(
    embedded: Cells, monkeypatch: pytest.MonkeyPatch
) -> None:
    has_nested_begun = threading.Event()
    is_ending = threading.Event()
    is_interrupted = threading.Event()
    track_reachable = Executor._track_reachable

    def track_after_interrupt(executor: Executor, undo: Any = None) -> None:
        if has_nested_begun.is_set() and executor.depth == 1 and not is_ending.is_set():
            is_ending.set()
            is_interrupted.wait(PATIENCE)
        track_reachable(executor, undo)

    monkeypatch.setattr(Executor, "_track_reachable", track_after_interrupt)

    def answer(name: str, args: Mapping[str, Any]) -> str:
        has_nested_begun.set()
        embedded.run("y = 1", nested=True)
        return ""

    def interrupt() -> None:
        is_ending.wait(PATIENCE)
        assert embedded.kernel.interrupt(2)
        is_interrupted.set()

    embedded.host.answer = answer
    interrupting = threading.Thread(target=interrupt)
    interrupting.start()
    embedded.expect("usage()\n'went on'", "'went on'\n")
    interrupting.join()


@pytest.mark.timeout(60)
def test_an_embedded_cell_that_is_interrupted_after_its_end_has_a_result(
    embedded: Cells, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupts: list[bool] = []

    class InterruptingFuture(Future[CellResult]):
        def done(self) -> bool:
            is_cells_thread = threading.current_thread().name == "mahtab-kernel"
            if is_cells_thread and not interrupts:
                interrupts.append(embedded.kernel.interrupt())
            return super().done()

    monkeypatch.setattr(running_cell, "Future", InterruptingFuture)
    embedded.expect("1 + 1", "2\n")
    embedded.expect("1 + 2", "3\n")


@pytest.mark.timeout(60)
def test_an_embedded_cell_that_is_interrupted_twice_at_its_end_has_a_result(
    embedded: Cells, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupts: list[str] = []
    run = Executor.run

    def interrupt_once(place: str) -> None:
        if place not in interrupts:
            interrupts.append(place)
            embedded.kernel.interrupt()

    def run_and_interrupt(executor: Executor, *args: Any) -> Any:
        outcome = run(executor, *args)
        interrupt_once("end")
        return outcome

    def interrupt_again(changes: list[dict[str, Any]]) -> Any:
        interrupt_once("after the end")
        return interrupted_outcome(changes)

    monkeypatch.setattr(Executor, "run", run_and_interrupt)
    monkeypatch.setattr(inprocess_runner, "interrupted_outcome", interrupt_again)
    assert embedded.run("1 + 1").status is Status.INTERRUPTED
    assert interrupts == ["end", "after the end"]
    embedded.expect("1 + 2", "3\n")


def test_details_come_from_the_callers_namespace(embedded: Cells) -> None:
    assert "given" in embedded.names()
    assert embedded.kernel.inspect("given").text == "[1, 2]"
    assert embedded.complete("giv")[0].label == "given"
    assert embedded.kernel.describe(["given", "nothing"], 100) == {
        "given": "given: list, 2 items of int: 1, 2"
    }
    with pytest.raises(KernelError, match="no variable named nothing"):
        embedded.kernel.inspect("nothing")


@pytest.fixture(params=interpreters())
def any_python(request: pytest.FixtureRequest, project: Path) -> Iterator[Cells]:
    with running(ProcessKernel(python=request.param)) as cells:
        yield cells


def test_cells_on_all_interpreters(any_python: Cells) -> None:
    any_python.expect("print('a')\n6 * 7", "a\n42\n")
    any_python.expect("import asyncio\nawait asyncio.sleep(0, 'slept')", "'slept'\n")
    any_python.expect("asyncio.run(asyncio.sleep(0, 'ran'))", "'ran'\n")
    any_python.expect("import os; os.system('echo child'); print('after')", "child\nafter\n")
    assert any_python.run("return").status is Status.ERROR
    result = any_python.run("def f(n): return g(n)\ndef g(n): return f(n)\nf(1)")
    assert result.output.rstrip().splitlines()[-1].startswith("RecursionError")
    assert "frames left out" in result.output
    failed = any_python.run("try:\n    {}['a']\nexcept KeyError:\n    1 / 0")
    assert "worker" not in failed.output
    assert [frame.line for frame in failed.frames] == [2, 4]
    assert all(
        failed.output.split("\n")[-1 - frame.row].startswith(f'  File "{frame.file}", line')
        for frame in failed.frames
    )
    assert any_python.run("d = {'Fare': 1}\nd['fare']").output.endswith(
        "\nHint: there is no key 'fare'. Did you mean 'Fare'? Keys of d: Fare\n"
    )
    assert "  … 3 frames in json\n" in any_python.run("import json\njson.loads('{')").output
    any_python.expect(
        "if os.fork() == 0: print('forked')\nelse: print('parent' * bool(os.wait()))",
        "forked\nparent\n",
    )
    assert any_python.run("import os; os._exit(3)").status is Status.DIED
    any_python.expect("1 + 1", "2\n")


@pytest.mark.sample(4)
@pytest.mark.parametrize("code", list(WAITS.values())[:5])
def test_interrupts_on_all_interpreters(any_python: Cells, code: str) -> None:
    assert any_python.interrupt_after("go", "print('go')\n" + code).status is Status.INTERRUPTED
    any_python.expect("1 + 1", "2\n")


def test_details_on_all_interpreters(any_python: Cells) -> None:
    any_python.run("x = {'a': [1, 2]}\nimport math\ndef f(): pass")
    assert {"x", "math", "f"} <= any_python.names()
    assert any_python.kernel.inspect("x").text == "{'a': [1, 2]}"
    assert any_python.kernel.describe(["x", "f"], 100) == {
        "x": "x: dict, 1 item: {'a': [1, 2]}",
        "f": "def f()",
    }


def while_it_runs(cells: Cells, code: str, look: Callable[[], None]) -> None:
    cell_started = threading.Event()

    def looker() -> None:
        assert cell_started.wait(PATIENCE)
        try:
            look()
        finally:
            cells.kernel.kill()

    thread = threading.Thread(target=looker)
    thread.start()
    cells.run_until("begun", cell_started.set, code)
    thread.join()


def test_completion_works_while_a_cell_runs(cells: Cells) -> None:
    cells.kernel.complete("pri", 3)
    completions: list[Completions] = []

    def look() -> None:
        while not completions:
            with contextlib.suppress(KernelError):
                completions.append(cells.kernel.complete("x = pri", 7))

    while_it_runs(cells, "price = 3\nprint('begun', flush=True)\nwhile True: pass", look)
    expected_item = Completion("price", "price", "data", "int  3")
    assert (completions[0].start, completions[0].items[0]) == (4, expected_item)


def test_completion_fails_quickly_in_a_busy_kernel(cells: Cells) -> None:
    cells.kernel.complete("pri", 3)
    messages: list[str] = []

    def look() -> None:
        while not messages:  # the cell may not have got as far as its long sum yet
            try:
                cells.kernel.complete("pri", 3)
            except KernelError as error:
                messages.append(str(error))

    while_it_runs(cells, "print('begun', flush=True)\nsum(range(10**12))", look)
    assert "busy" in messages[0]
