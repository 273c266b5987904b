"""Calls by code in the kernel that a session's host serves."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from mahtab_tui.kernel.cancellation import Cancellation
from mahtab_tui.kernel.host import OWN_CALLS, HostCall
from mahtab_tui.session.kernel_host import SessionKernelHost
from mahtab_tui.settings.model import load_settings
from mahtab_tui.system import start_thread
from mahtab_tui.tools import Tool, ToolContext
from tests.integration.sessions import DEADLINE, Opened
from tests.waiting import wait_for


class Lingering(BaseModel):
    word: str


def linger(at: ToolContext, arguments: Lingering) -> str:
    """Wait until the call is cancelled."""
    assert at.cancelled.wait(DEADLINE)
    return arguments.word


lingering = Tool(linger, Lingering)


@pytest.fixture
def host(project: Path) -> Iterator[SessionKernelHost]:
    """The host of a session whose kernel is not started."""
    it = Opened.make(load_settings(model="demo"))
    yield it.session.host
    it.session.close()


def call(
    host: SessionKernelHost, name: str, cancellation: Cancellation, **args: Any
) -> Future[Any]:
    """Make a call on a thread."""
    result: Future[Any] = Future()

    def serve() -> None:
        try:
            result.set_result(host.call(HostCall(name, args, cancellation)))
        except BaseException as error:
            result.set_exception(error)

    start_thread("call", serve)
    return result


def test_names_of_the_programs_calls_are_reserved(host: SessionKernelHost) -> None:
    # A display is served before it reaches the session.
    assert {*host.handlers, "display"} == OWN_CALLS


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("ask", {}),
        ("ask", {"prompt": 3}),
        ("cell_output", {}),
        ("cell_output", {"cell": True}),
        ("private", {"name": "x"}),
        ("private", {"on": True}),
        ("rlm", {}),
        ("rlm", {"tree": "0123abcd"}),
        ("rlm", {"tree": "0123abcd", "options": 3}),
        ("rlm_text", {"tree": "0123abcd", "text": "x", "start": "one"}),
        ("rlm_text", {"tree": "0123abcd"}),
        ("rlm_tool", {}),
        ("rlm_tools", {}),
        ("terminal", {}),
        ("terminal", {"argv": [], "cwd": "/"}),
        ("terminal", {"argv": "ls", "cwd": "/"}),
        ("mcp_call", {}),
        ("read_file", {}),
        ("no_such_call", {}),
    ],
)
def test_bad_arguments_are_refused_with_a_sentence(
    host: SessionKernelHost, name: str, args: dict[str, Any]
) -> None:
    with pytest.raises(RuntimeError, match=r"^[A-Z_a-z].* .*\.$"):
        host.call(HostCall(name, args, Cancellation()))


def test_call_of_a_server_says_that_there_are_none(host: SessionKernelHost) -> None:
    with pytest.raises(RuntimeError, match=r"^This session has no MCP servers\.$"):
        host.call(HostCall("mcp_tools", {"server": "files"}, Cancellation()))


def test_cancelling_an_input_leaves_the_others(host: SessionKernelHost) -> None:
    cancellations = [Cancellation(), Cancellation()]
    answers = [call(host, "input", cancellation, prompt="?") for cancellation in cancellations]
    wait_for(lambda: len(host.inputs.waiting) == 2)
    cancellations[0].cancel()
    assert answers[0].result(DEADLINE) is None
    (request,) = host.inputs.waiting
    assert host.inputs.answer(request, "Ada")
    assert answers[1].result(DEADLINE) == "Ada"


def test_cancelling_a_tool_leaves_other_calls_of_the_tool(
    host: SessionKernelHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = EntryPoint("lingering", f"{__name__}:lingering", "mahtab_tui.tools")
    monkeypatch.setattr("mahtab_tui.tools.loading.entry_points", lambda group: EntryPoints([entry]))
    cancellations = [Cancellation(), Cancellation()]
    results = [call(host, "linger", cancellations[i], word=str(i)) for i in (0, 1)]
    cancellations[0].cancel()
    assert results[0].result(DEADLINE) == "0"
    assert not results[1].done()
    cancellations[1].cancel()
    assert results[1].result(DEADLINE) == "1"


@pytest.mark.parametrize("name", ["input", "linger"])
def test_call_that_was_cancelled_before_it_begins_does_not_wait(
    host: SessionKernelHost, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    entry = EntryPoint("lingering", f"{__name__}:lingering", "mahtab_tui.tools")
    monkeypatch.setattr("mahtab_tui.tools.loading.entry_points", lambda group: EntryPoints([entry]))
    cancellation = Cancellation()
    cancellation.cancel()
    args = {"input": {"prompt": "?"}, "linger": {"word": "ended"}}[name]
    result = call(host, name, cancellation, **args)
    assert result.result(DEADLINE) == {"input": None, "linger": "ended"}[name]
