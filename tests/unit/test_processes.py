"""Programs on the PATH, tracing variables, results of threads, and missing folders."""

from __future__ import annotations

import os
import threading
import weakref
from concurrent.futures import CancelledError, Future
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from langsmith.utils import get_env_var

from mahtab_tui.kernel.reused_threads import ReusedThreads
from mahtab_tui.llm.claude_login import login_environment
from mahtab_tui.system import (
    disable_langsmith,
    existing_folder,
    find_program,
    langsmith_variable,
    wait_for_result,
)
from tests.integration.kernels import executable
from tests.waiting import wait_for

NAMES = ("LANGSMITH_TRACING_V2", "LANGCHAIN_TRACING_V2", "LANGSMITH_TRACING", "LANGCHAIN_TRACING")


@pytest.mark.parametrize("path", ["", ".", ":{}", "{}:", ".:{}", "bin:{}"])
def test_program_in_the_project_is_not_found_by_its_name(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, path: str
) -> None:
    for folder in (tmp_path / "project", tmp_path / "project" / "bin", tmp_path / "bin"):
        folder.mkdir(parents=True)
        executable(folder / "claude", "#!/bin/sh\n")
    monkeypatch.chdir(tmp_path / "project")
    monkeypatch.setenv("PATH", path.format(tmp_path / "bin"))
    expected_path = str(tmp_path / "bin") if "{}" in path else ""
    assert find_program("claude") == (f"{expected_path}/claude" if expected_path else None)
    assert login_environment(use_api_key=False)["PATH"] == expected_path


# The variables that make LangSmith send prompts are read as its package reads them.


def is_tracing() -> bool:
    remembered: Any = get_env_var
    remembered.cache_clear()
    return get_env_var("TRACING_V2", default=get_env_var("TRACING", default="")) == "true"


@pytest.mark.parametrize(
    ("variables", "expected_variable"),
    [
        ({}, ""),
        ({"LANGSMITH_TRACING": "true"}, "LANGSMITH_TRACING"),
        ({"LANGCHAIN_TRACING_V2": "true"}, "LANGCHAIN_TRACING_V2"),
        ({"LANGSMITH_TRACING": "false"}, ""),
        ({"LANGSMITH_TRACING": "True"}, ""),
        ({"LANGSMITH_TRACING_V2": "false", "LANGSMITH_TRACING": "true"}, ""),
        ({"LANGSMITH_TRACING_V2": " ", "LANGCHAIN_TRACING": "true"}, "LANGCHAIN_TRACING"),
        ({"LANGCHAIN_TRACING_V2": "false", "LANGSMITH_TRACING_V2": "true"}, "LANGSMITH_TRACING_V2"),
    ],
)
def test_tracing_by_environment_variables_is_detected(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], expected_variable: str
) -> None:
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert langsmith_variable() == expected_variable
    assert is_tracing() is bool(expected_variable)
    disable_langsmith()
    assert not is_tracing()
    assert not langsmith_variable()
    assert os.environ.keys() & set(NAMES) == variables.keys()


def test_own_error_and_cancelled_future_are_raised() -> None:
    failed: Future[str] = Future()
    failed.set_exception(TimeoutError("its own"))
    with pytest.raises(TimeoutError, match="its own"):
        wait_for_result(failed)
    cancelled: Future[str] = Future()
    cancelled.cancel()
    with pytest.raises(CancelledError):
        wait_for_result(cancelled)


def test_calls_one_after_the_other_share_a_thread() -> None:
    threads = ReusedThreads("call")
    workers: list[threading.Thread] = []

    def are_idle(count: int) -> bool:
        return sum(worker.name == "call-idle" for worker in workers) == count

    for call_count in (1, 2, 3):
        threads.run(lambda: workers.append(threading.current_thread()))
        wait_for(partial(are_idle, call_count))
    assert len(set(workers)) == 1


def test_calls_at_the_same_time_have_a_thread_each() -> None:
    threads = ReusedThreads("call")
    barrier = threading.Barrier(4, timeout=30)
    workers: list[threading.Thread] = []

    def meet() -> None:
        barrier.wait()
        workers.append(threading.current_thread())

    def are_idle(count: int) -> bool:
        return sum(worker.name == "call-idle" for worker in workers) == count

    for call_count in (3, 6):
        for _ in range(3):
            threads.run(meet)
        barrier.wait()
        wait_for(partial(are_idle, call_count))
    assert len(set(workers)) == 3


def test_call_on_a_used_thread_has_a_new_context() -> None:
    threads = ReusedThreads("used")
    caller: ContextVar[str] = ContextVar("caller", default="")
    callers: list[str] = []

    def note(name: str) -> None:
        callers.append(caller.get())
        caller.set(name)
        workers.append(threading.current_thread())

    workers: list[threading.Thread] = []
    for name in ("first", "second"):
        workers.clear()
        threads.run(note, name)
        wait_for(lambda: [worker.name for worker in workers] == ["used-idle"])
    assert callers == ["", ""]


def test_idle_thread_keeps_no_arguments_alive() -> None:
    class Argument: ...

    threads = ReusedThreads("call")
    workers: list[threading.Thread] = []

    def note(argument: Argument) -> None:
        workers.append(threading.current_thread())

    def are_idle(count: int) -> bool:
        return [worker.name for worker in workers] == ["call-idle"] * count

    for call_count in (1, 2):
        argument = Argument()
        reference = weakref.ref(argument)
        threads.run(note, argument)
        del argument
        wait_for(partial(are_idle, call_count))
        assert reference() is None


def test_idle_thread_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mahtab_tui.kernel.reused_threads.IDLE_THREAD_S", 0.01)
    threads = ReusedThreads("call")
    result: Future[threading.Thread] = Future()
    threads.run(lambda: result.set_result(threading.current_thread()))
    result.result(30).join(10)
    assert not result.result().is_alive()


def test_folder_is_itself_or_its_nearest_existing_parent(tmp_path: Path, home: Path) -> None:
    inner = tmp_path / "a" / "b"
    assert existing_folder(str(inner)) == str(tmp_path)
    inner.mkdir(parents=True)
    assert existing_folder(str(inner)) == str(inner)
    (tmp_path / "file").touch()
    assert existing_folder(str(tmp_path / "file" / "below")) == str(tmp_path)
    assert existing_folder("") == existing_folder("relative") == str(home)
