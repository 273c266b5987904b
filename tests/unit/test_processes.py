"""Programs on the PATH, tracing variables, results of threads, and missing folders."""

from __future__ import annotations

import os
from concurrent.futures import CancelledError, Future
from pathlib import Path
from typing import Any

import pytest
from langsmith.utils import get_env_var

from mahtab_tui.llm.claude_login import login_environment
from mahtab_tui.system import (
    disable_langsmith,
    existing_folder,
    find_program,
    langsmith_variable,
    wait_for_result,
)
from tests.integration.kernels import executable

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


def test_folder_is_itself_or_its_nearest_existing_parent(tmp_path: Path, home: Path) -> None:
    inner = tmp_path / "a" / "b"
    assert existing_folder(str(inner)) == str(tmp_path)
    inner.mkdir(parents=True)
    assert existing_folder(str(inner)) == str(inner)
    (tmp_path / "file").touch()
    assert existing_folder(str(tmp_path / "file" / "below")) == str(tmp_path)
    assert existing_folder("") == existing_folder("relative") == str(home)
