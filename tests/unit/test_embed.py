"""A screen over a caller's namespace that cannot open says why."""

from __future__ import annotations

import pytest

from mahtab_tui import run_repl
from mahtab_tui.llm.base import ModelError


async def test_in_a_running_loop_it_refuses_and_names_the_alternatives() -> None:
    with pytest.raises(RuntimeError, match="event loop is running") as refusal:
        run_repl(ns={})
    assert "create_repl_agent" in str(refusal.value)


def test_a_model_that_there_is_not_is_said_before_the_screen_opens() -> None:
    with pytest.raises(ModelError, match="There is no model 'nope'"):
        run_repl(ns={}, model="nope")


def test_without_a_terminal_it_says_so() -> None:
    with pytest.raises(RuntimeError, match="needs a terminal"):
        run_repl(ns={})
