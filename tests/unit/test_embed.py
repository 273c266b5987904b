"""A screen over a caller's namespace that cannot open says why."""

from __future__ import annotations

import pytest

from mahtab_tui import run_repl
from mahtab_tui.llm.base import ModelError


async def test_running_loop_is_refused_with_alternatives() -> None:
    with pytest.raises(RuntimeError, match="event loop is running") as refusal:
        run_repl(ns={})
    assert "create_repl_agent" in str(refusal.value)


def test_unknown_model_is_reported_before_the_screen_opens() -> None:
    with pytest.raises(ModelError, match="There is no model 'nope'"):
        run_repl(ns={}, model="nope")


def test_missing_terminal_is_reported() -> None:
    with pytest.raises(RuntimeError, match="needs a terminal"):
        run_repl(ns={})
