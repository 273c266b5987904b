"""Variables that have prompts sent are read as the package that sends them reads them."""

from __future__ import annotations

import os
from typing import Any

import pytest
from langsmith.utils import get_env_var

from mahtab_tui.system.processes import disable_langsmith, langsmith_variable

NAMES = ("LANGSMITH_TRACING_V2", "LANGCHAIN_TRACING_V2", "LANGSMITH_TRACING", "LANGCHAIN_TRACING")


def is_tracing() -> bool:
    remembered: Any = get_env_var
    remembered.cache_clear()
    return get_env_var("TRACING_V2", default=get_env_var("TRACING", default="")) == "true"


@pytest.mark.parametrize(
    ("variables", "found"),
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
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], found: str
) -> None:
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert langsmith_variable() == found
    assert is_tracing() is bool(found)
    disable_langsmith()
    assert not is_tracing()
    assert not langsmith_variable()
    assert os.environ.keys() & set(NAMES) == variables.keys()
