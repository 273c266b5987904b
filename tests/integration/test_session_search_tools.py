"""Functions of a cell that its search calls: they run in the kernel."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from typing import Any

import pytest

from mahtab_tui.session.searches import KernelTools, parse_tools
from tests import tags
from tests.integration.sessions import Opened
from tests.integration.test_session_search import LOG
from tests.waiting import wait_for

DEFINED = """
import os, time
found = []
def note(line: str) -> int:
    "Keep a line, and return how many there are."
    found.append(line)
    print("noted", line[:7])
    return len(found)
def kernel() -> int:
    return os.getpid()
def hang() -> None:
    print("hangs", flush=True)
    while True:
        time.sleep(0.01)
"""


OVER = "while any({!r} in thread.name for thread in __import__('threading').enumerate()): time.sleep(0.01)"
"""Code that waits until no thread of such a name runs."""


def run(it: Opened, code: str, cell: int = 3) -> str:
    it.session.submit("python", code)
    return it.store.wait(tags.USER_REPL_OUT, cell=cell).text


def opened(open_session: Callable[..., Opened], code: str) -> Opened:
    it = open_session({"text": f"```python\n{code}\n```"})
    it.session.submit("python", LOG)
    it.session.submit("python", DEFINED)
    return it


def test_tools_run_in_the_kernel_and_change_its_variables(
    open_session: Callable[..., Opened],
) -> None:
    it = opened(open_session, "FINAL([*(note(hit) for hit in grep('needle')), kernel()])")
    output = run(
        it,
        "answer = rlm('Note the needles', log, tools=[note, kernel], returns=list[int])\nanswer.value == [1, 2, 3, 4, 5, 6, os.getpid()]",
    )
    assert output.endswith("True\n")
    assert output.count("noted line") == 6
    assert run(it, f"{OVER.format('tool')}\nfound[1]", 4) == "'line 1007 needle'\n", (
        "no thread is left"
    )


def test_tool_errors_are_text_and_unusable_tools_give_a_sentence(
    open_session: Callable[..., Opened],
) -> None:
    it = opened(open_session, "try:\n    note()\nexcept Exception as error:\n    FINAL(error)")
    assert "note failed: TypeError: note() missing 1 required positional argument: 'line'" in run(
        it, "rlm('Note', log, tools=[note])"
    )
    assert "a tool cannot be named '<lambda>'" in run(it, "rlm('Note', log, tools=[lambda: 1])", 4)


def test_interrupting_the_cell_ends_a_hanging_tool(
    open_session: Callable[..., Opened],
) -> None:
    it = opened(open_session, "hang()")
    it.session.submit("python", "rlm('Hang', log, tools=[hang])")
    it.store.wait(tags.RLM_REPL_IN)
    assert it.session.stop() == "cell"
    it.store.wait(tags.USER_REPL_OUT, cell=3, status="interrupted")
    assert it.store.wait(tags.RLM_FINAL).attrs["state"] == "stopped"
    assert run(it, f"{OVER.format('hang')}\n'over'", 4) == "'over'\n"


def test_kernel_killed_meanwhile_leaves_no_waiting_calls(
    open_session: Callable[..., Opened],
) -> None:
    it = opened(open_session, "while True:\n    pass")
    before = set(threading.enumerate())

    def calls() -> int:
        return sum(thread.name == "mahtab-call" for thread in set(threading.enumerate()) - before)

    it.session.submit("python", "rlm('Wait', log, tools=[kernel])")
    it.store.wait(tags.RLM_REPL_IN)
    wait_for(lambda: calls() == 2)
    pid = it.session.kernel.info().pid
    assert pid
    os.kill(pid, signal.SIGKILL)
    assert it.store.wait(tags.RLM_FINAL).attrs["state"] == "stopped"
    wait_for(lambda: not calls())


def test_messages_of_a_kernel_are_not_trusted() -> None:
    got: list[Any] = []
    tools = KernelTools()
    tools.start(1, "note", ["x"], {}, got.append)
    assert tools.next() == {"call": 1, "name": "note", "args": ["x"], "kwargs": {}}
    tools.done(2, {"value": 1})
    tools.done("1", {"value": 1})
    tools.done([], None)
    assert got == []
    tools.done(1, "no mapping")
    tools.done(1, {"value": 1})
    assert got == [{"error": "The kernel did not answer."}]
    tools.start(2, "note", [], {}, got.append)
    tools.end()
    tools.start(3, "note", [], {}, got.append)
    assert [result["error"] for result in got[1:]] == [
        "The cell that has the function has ended."
    ] * 2
    assert [tools.next() for _ in range(3)][-1] is None
    with pytest.raises(ValueError, match="a search has that name already"):
        parse_tools([("grep", "", "")])
