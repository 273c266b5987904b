"""Calls from cells to the host, and interrupts."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from mahtab_tui.bus.values import Status
from mahtab_tui.kernel.host import HostFunction
from mahtab_tui.kernel.values import CellResult
from tests.integration.kernels import FIND_CHANNEL, PATIENCE, WAITS, Cells
from tests.waiting import wait_for


def answers(cells: Cells, *lines: str | None) -> None:
    remaining_answers = list(lines)
    cells.host.answer = lambda name, args: remaining_answers.pop(0) if remaining_answers else None


def nest(cells: Cells, code: str) -> list[CellResult]:
    """Run code during each call to the host. Returns the list that its results are added to."""
    inner: list[CellResult] = []

    def answer(name: str, args: Mapping[str, Any]) -> str:
        inner.append(cells.run(code, nested=True))
        return "answered"

    cells.host.answer = answer
    return inner


def test_input_asks_the_host_and_hides_passwords(cells: Cells) -> None:
    answers(cells, "Ada", "secret")
    code = "print('hello', end=' ')\nname = input('Name? ')\nname"
    cells.expect(code, "hello Name? Ada\n'Ada'\n")
    assert cells.host.calls.get_nowait() == ("input", {"prompt": "Name? ", "password": False})
    cells.expect("import getpass\np = getpass.getpass('Key: ')\nlen(p)", "Key: \n6\n")
    assert cells.host.calls.get_nowait() == ("input", {"prompt": "Key: ", "password": True})
    assert cells.run("input()").output.endswith("EOFError: no more input\n")


def test_only_the_cell_reads_stdin(cells: Cells) -> None:
    answers(cells, "one", "two", "three")
    cells.expect("import subprocess; subprocess.run(['cat']).returncode", "0\n")
    cells.expect(
        "import sys\nline = sys.stdin.readline(); rest = sys.stdin.read()\nline, rest",
        "one\ntwo\nthree\n('one\\n', 'two\\nthree\\n')\n",
    )


@pytest.mark.parametrize(
    "stop",
    [
        "breakpoint()",
        "import pdb; pdb.set_trace()",
        "from pdb import set_trace as stop; stop(header='here')",
    ],
)
def test_debugger_starts_in_the_cell(cells: Cells, stop: str) -> None:
    answers(cells, *"p x,w,n,n,n,n,c".split(","))
    result = cells.run(f"def f(x):\n    {stop}\n    y = x + 1\n    return y\nf(41)\n'end'")
    assert result.output.startswith("here\n") == ("header" in stop)
    context = f"      2      {stop}\n->    3      y = x + 1\n      4      return y\n"
    assert f"{context}      5  f(41)\n(Pdb) p x\n41\n" in result.output
    assert "-> y = x + 1\n(Pdb) n" in result.output, "the list of frames is short"
    assert "worker" not in result.output
    assert "<string>" not in result.output
    assert result.output.endswith("'end'\n")


def test_quitting_the_debugger_ends_the_cell(cells: Cells) -> None:
    answers(cells, "q", "y")
    result = cells.run("breakpoint()\nx = 1\nprint('not ' + 'reached')")
    assert result.status is Status.OK
    assert "not reached" not in result.output
    assert "Traceback" not in result.output
    cells.expect("1 + 1", "2\n")


@pytest.mark.parametrize("code", ["exit()", "quit()", "exit(3)", "exit", " quit\n"])
def test_exit_ends_the_cell(cells: Cells, code: str) -> None:
    result = cells.run(code)
    assert (result.status, result.output) == (Status.OK, "")
    assert cells.host.calls.get_nowait()[0] == "quit"


def test_exit_skips_the_rest_of_the_cell(cells: Cells) -> None:
    assert cells.run("exit()\nprint('not reached')").output == ""


def test_exit_is_a_value_among_others(cells: Cells) -> None:
    cells.expect("[exit]", "[Use exit() to leave.]\n")
    cells.expect("exit = 5\nexit", "5\n")
    cells.expect("exit", "5\n")
    assert cells.host.calls.empty()


def test_interrupt_cancels_a_host_call(cells: Cells) -> None:
    release = threading.Event()

    def answer(name: str, args: Mapping[str, Any]) -> str:
        cells.kernel.interrupt()
        assert release.wait(PATIENCE)
        return "too late"

    cells.host.answer = answer
    assert cells.run("input('?')").status is Status.INTERRUPTED
    assert cells.host.cancelled.get(timeout=PATIENCE) == "input"
    release.set()
    cells.expect("1 + 1", "2\n")


@pytest.mark.timeout(30)
@pytest.mark.parametrize("raised", [ValueError, SystemExit, KeyboardInterrupt])
def test_failed_call_is_an_error(cells: Cells, raised: type[BaseException]) -> None:
    def answer(name: str, args: Mapping[str, Any]) -> str:
        raise raised("no line today")

    cells.host.answer = answer
    assert cells.run("input()").output.endswith("RuntimeError: no line today\n")
    cells.host.answer = lambda name, args: object()
    assert "RuntimeError" in cells.run("input()").output


def test_nested_cell_uses_the_same_namespace(cells: Cells) -> None:
    inner = nest(cells, "print('inner sees', x)\ny = x + 1")
    outer = cells.run("x = 1\nprint('before')\nz = input()\nprint('after', y)")
    assert inner[0].output == "inner sees 1\n"
    assert [change.name for change in inner[0].changes] == ["y"]
    assert outer.output == "before\nanswered\nafter 2\n"
    assert {change.name for change in outer.changes} == {"x", "z"}


def test_nested_cell_ignores_the_outer_redirection(cells: Cells) -> None:
    inner = nest(cells, "print('inner')")
    code = "import contextlib, io\nwith contextlib.redirect_stdout(io.StringIO()) as s:\n    print('kept'); a = input()\ns.getvalue(), a"
    cells.expect(code, "('kept\\nanswered\\n', 'answered')\n")
    assert inner[0].output == "inner\n"


def test_cells_nest_two_levels_deep_at_most(cells: Cells) -> None:
    inner = nest(cells, "input()")
    assert cells.run("input()").status is Status.OK
    assert [result.status for result in inner] == [Status.ERROR, Status.OK, Status.OK]
    assert "two levels deep" in inner[0].output


def test_nested_await_is_a_clear_error(cells: Cells) -> None:
    inner = nest(cells, "import asyncio; await asyncio.sleep(0)")
    cells.run("async def f():\n    return input()\nawait f()")
    assert inner[0].status is Status.ERROR
    assert "event loop" in inner[0].output


def test_threads_of_a_cell_may_call_the_host_too(cells: Cells) -> None:
    answers(cells, "a", "b")
    code = "from concurrent.futures import ThreadPoolExecutor\nsorted(ThreadPoolExecutor(2).map(input, ['', '']))"
    assert cells.text(code).endswith("['a', 'b']\n")


def offer(cells: Cells, *parameters: tuple[str, str, str | None]) -> None:
    cells.host.given = [HostFunction("find", "search", parameters, "Find something.")]
    cells.kernel.reset()


def test_host_functions_survive_lost_builtins(cells: Cells) -> None:
    offer(cells, ("what", "str", None), ("limit", "int", "5"))
    cells.host.answer = lambda name, args: f"{name} {dict(args)}"
    cells.expect("print(find('x'))", "search {'what': 'x', 'limit': 5}\n")
    cells.run("import builtins; builtins.__dict__.clear()")
    cells.expect("find('y', limit=2)", "search {'what': 'y', 'limit': 2}\n")
    cells.expect("find.__doc__", "'Find something.'\n")

    def fail(name: str, args: Mapping[str, Any]) -> str:
        raise ValueError("nothing there")

    cells.host.answer = fail
    output = cells.run("find('z')").output
    assert output.endswith("RuntimeError: nothing there\n")
    assert output.count("File ") == 1


def test_host_function_receives_json_values(cells: Cells) -> None:
    offer(cells, ("what", "Any", None))
    cells.run(
        "import pathlib\nclass Seven:\n    def __index__(self): return 7\nclass Bad:\n    def __index__(self): raise KeyError\n    def __str__(self): return 'bad'"
    )
    values = {
        "True": True,
        "2.5": 2.5,
        "[1, None]": [1, None],
        "Seven()": 7,
        "pathlib.Path('a')": "a",
        "Bad()": "bad",
    }
    for code, value in values.items():
        assert cells.run(f"find({code})").status is Status.OK
        assert cells.host.calls.get_nowait()[1]["what"] == value


@pytest.mark.parametrize("code", WAITS.values(), ids=WAITS)
def test_interrupt_stops_the_cell(cells: Cells, code: str) -> None:
    result = cells.interrupt_after("go", "before = 5\nprint('go')\n" + code)
    assert result.status is Status.INTERRUPTED
    assert result.output.startswith("go\n")
    assert result.output.endswith("KeyboardInterrupt\n")
    assert "before" in [change.name for change in result.changes]
    cells.expect("before", "5\n")


def test_interrupt_stops_a_cell_in_which_a_nested_one_cannot_begin(cells: Cells) -> None:
    """The call is another thread's, for which the cell waits, so that no nested cell begins in it."""
    inner = nest(cells, "1 + 1")
    interrupting = threading.Thread(target=wait_for, args=(lambda: cells.kernel.interrupt(2),))
    interrupting.start()
    code = "import threading\nt = threading.Thread(target=usage)\nt.start()\nt.join(10)"
    assert cells.run(code).status is Status.INTERRUPTED
    interrupting.join()
    wait_for(lambda: inner)
    cells.expect("1 + 1", "2\n")


INTERRUPTS_AFTER_ITS_END = (
    FIND_CHANNEL
    + """\
import signal
send = channel.send
def send_and_interrupt(frame):
    send(frame)
    if frame['op'] == 'done':
        channel.send = send
        signal.raise_signal(signal.SIGINT)
channel.send = send_and_interrupt"""
)
"""Code that sends the signal as soon as the host knows its end."""


def test_an_interrupt_after_the_end_of_a_nested_cell_stops_the_cell_around_it(
    cells: Cells,
) -> None:
    inner = nest(cells, INTERRUPTS_AFTER_ITS_END)
    assert cells.run("usage()").status is Status.INTERRUPTED
    assert [result.status for result in inner] == [Status.OK]
    cells.expect("1 + 1", "2\n")


@pytest.mark.timeout(60)
def test_code_may_call_the_host_while_a_message_to_it_is_encoded(cells: Cells) -> None:
    """As a finalizer may, which the garbage collector runs then."""
    answers(cells, "inner", "outer")
    code = """\
from mahtab_worker.link.host import Host
class Arguments(dict):
    def items(self):
        words.append(Host.call("usage", {}))
        return super().items()
words = []
words.append(Host.call("usage", Arguments(x=1)))
words"""
    cells.expect(code, "['inner', 'outer']\n")


@pytest.mark.timeout(60)
def test_a_signal_handler_may_send_at_the_edges_of_a_message(cells: Cells) -> None:
    """As a finalizer may: its thread has the lock, and writes nothing yet."""
    answers(cells, "inner", "outer")
    code = """\
from mahtab_worker.link.host import Host
class Lock:
    def __enter__(self):
        lock.__enter__()
        channel._lock = lock
        words.append(Host.call("usage", {}))
    def __exit__(self, *error):
        lock.__exit__(*error)
lock = channel._lock
words = []
channel._lock = Lock()
words.append(Host.call("usage", {}))
words"""
    cells.expect(FIND_CHANNEL + code, "['inner', 'outer']\n")


CALLS_ON_CONTROL_THREAD = """\
import ctypes, sys, time
class Call(Exception):
    def __init__(self):
        called.append(1)
        usage()
def find_control_thread():
    while True:
        for thread_id, frame in sys._current_frames().items():
            while frame is not None:
                if frame.f_code.co_name == '_wait_for_input':
                    return ctypes.c_ulong(thread_id)
                frame = frame.f_back
called = []
ctypes.pythonapi.PyThreadState_SetAsyncExc(find_control_thread(), ctypes.py_object(Call))
while not called: time.sleep(0.01)"""
"""Code that calls the host from the thread that reads its answers, as a finalizer may."""


@pytest.mark.timeout(60)
def test_the_kernel_answers_after_code_on_its_control_thread_has_called_the_host(
    cells: Cells,
) -> None:
    assert cells.run(CALLS_ON_CONTROL_THREAD).status is Status.OK
    assert "called" in cells.names()
    assert cells.host.calls.empty()


def test_interrupts_while_no_cell_runs_do_nothing(cells: Cells) -> None:
    assert cells.kernel.interrupt() is False
    for _ in range(5):
        os.kill(cells.kernel.info().pid, signal.SIGINT)
        cells.expect("1 + 1", "2\n")


def test_children_of_a_cell_receive_the_interrupt(cells: Cells) -> None:
    child = "import time\ntry:\n    print('go', flush=True); time.sleep(1000)\nexcept KeyboardInterrupt: print('child caught')"
    result = cells.interrupt_after(
        "go", f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {child!r}])"
    )
    assert "child caught" in result.output
    assert result.status is Status.INTERRUPTED


def test_interrupt_stops_a_task_between_cells(cells: Cells) -> None:
    code = """
import asyncio, os
async def spin():
    while not os.path.exists('go'): await asyncio.sleep(0.01)
    print('spinning', flush=True)
    while True: pass
async def begin():
    global task
    task = asyncio.create_task(spin())
await begin()
"""
    cells.run(code)
    Path("go").touch()
    cells.host.wait_for_late("spinning")
    # The next cell begins once an interrupt has ended the task; a later one may end the cell.
    stop = threading.Event()

    def interrupt() -> None:
        while not stop.wait(0.05):
            cells.kernel.interrupt()

    thread = threading.Thread(target=interrupt)
    thread.start()
    cells.run("pass")
    stop.set()
    thread.join()
    cells.expect("1 + 1", "2\n")


def test_interrupt_stops_a_task_while_a_cell_awaits(cells: Cells) -> None:
    code = """
import asyncio
async def spin():
    print('go', flush=True)
    while True: pass
async def begin():
    asyncio.create_task(spin())
    await asyncio.sleep(1000)
await begin()
"""
    assert cells.interrupt_after("go", code).status is Status.INTERRUPTED
    cells.expect("1 + 1", "2\n")


def test_interrupted_import_can_be_repeated(cells: Cells) -> None:
    cells.run(
        "import sys, types\nsys.modules['asyncio.base_events'] = types.ModuleType('asyncio.base_events')"
    )
    cells.expect("import asyncio\nawait asyncio.sleep(0, 5)", "5\n")


def test_code_may_catch_the_interrupt_and_continue(cells: Cells) -> None:
    code = "try:\n    print('go')\n    while True: pass\nexcept KeyboardInterrupt:\n    print('caught')\n'done'"
    result = cells.interrupt_after("go", code)
    assert (result.status, result.output) == (Status.OK, "go\ncaught\n'done'\n")
