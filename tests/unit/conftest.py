"""Searches by script, and a `claude` by script, for the unit tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from mahtab_tui.llm.claude_cli import ChatClaudeCLI
    from tests.agents import Desk
    from tests.recursion_scripts import Bench
    from tests.unit.notebook_bench import Bench as NotebookBench

MakeClaude = Callable[..., "ChatClaudeCLI"]
"""Takes the fields of `ChatClaudeCLI`."""


@pytest.fixture
def desk(project: Path) -> Iterator[Desk]:
    """A session without a screen, whose agent is made by the test."""
    from tests.agents import Desk  # it loads the models' libraries, which most tests do without

    desk = Desk(project)
    yield desk
    desk.session.close()


@pytest.fixture
def bench() -> Iterator[Bench]:
    """A bench for searches; when it is closed, their events must make whole trees."""
    from tests.recursion_scripts import (
        Bench,
    )  # it loads the models' libraries, which most tests do without

    bench = Bench()
    yield bench
    bench.close()


@pytest.fixture
def claude_model() -> Iterator[MakeClaude]:
    """Make a model that is closed with the test."""
    from mahtab_tui.llm.claude_cli import ChatClaudeCLI

    made: list[ChatClaudeCLI] = []

    def make(**fields: Any) -> ChatClaudeCLI:
        made.append(ChatClaudeCLI(**{"timeout": 20.0, **fields}))
        return made[-1]

    yield make
    for llm in made:
        llm.close()


@pytest.fixture
def open_bench() -> Iterator[Callable[..., NotebookBench]]:
    """Opens a notebook over a bus."""
    from tests.unit.notebook_bench import Bench  # it loads nbformat, which most tests do without

    opened: list[Bench] = []

    def make(*arguments: Any, **options: Any) -> Bench:
        opened.append(Bench(*arguments, **options))
        return opened[-1]

    yield make
    for each in opened:
        each.close()
