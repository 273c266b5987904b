"""Searches by script, and a `claude` by script, for the unit tests."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.fake_claude import FakeClaude, install_fake_claude

if TYPE_CHECKING:
    from mahtab_tui.llm.claude_cli import ChatClaudeCLI
    from tests.recursion_scripts import Bench
    from tests.unit.notebook_bench import Bench as NotebookBench

InstallClaude = Callable[..., FakeClaude]
"""Takes what `install_fake_claude` takes after the folder."""
MakeClaude = Callable[..., "ChatClaudeCLI"]
"""Takes the fields of `ChatClaudeCLI`."""


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
def install_claude(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> InstallClaude:
    """Put a fake `claude` on the PATH."""

    def install(behaviour: str, **options: Any) -> FakeClaude:
        fake = install_fake_claude(tmp_path / "bin", behaviour, **options)
        monkeypatch.setenv("PATH", f"{fake.folder}{os.pathsep}{os.environ['PATH']}")
        return fake

    return install


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
