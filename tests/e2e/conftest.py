"""The installed program on a pty."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.terminal import Terminal

Start = Callable[..., Terminal]
PROGRAM = [str(Path(sys.executable).with_name("mahtab-tui"))]


@pytest.fixture
def start(project: Path) -> Iterator[Start]:
    """Start the program with arguments (by default the demo model) in an empty folder, quickly; all
    are ended with the test."""
    with starting(project, warm=True) as start:
        yield start


@pytest.fixture
def cold_start(project: Path) -> Iterator[Start]:
    """As `start`, by the program's own file: for what is about the start, and for those who wait
    for their child."""
    with starting(project, warm=False) as start:
        yield start


@contextmanager
def starting(project: Path, *, warm: bool) -> Iterator[Start]:
    with ExitStack() as stack:

        def start(
            *arguments: str, columns: int = 120, lines: int = 40, env: dict[str, str] | None = None
        ) -> Terminal:
            argv = [*([] if warm else PROGRAM), *(arguments or ("--model", "demo"))]
            return stack.enter_context(
                Terminal(argv, columns=columns, lines=lines, cwd=project, env=env, warm=warm)
            )

        yield start


@pytest.fixture
def replay(project: Path) -> Callable[..., str]:
    """Write a replay file of lines (texts, or dicts with more than a text); returns the model's
    name."""

    def write(*lines: str | dict[str, Any]) -> str:
        path = project / "replay.jsonl"
        values = [{"text": line} if isinstance(line, str) else line for line in lines]
        path.write_text("".join(json.dumps(value) + "\n" for value in values), "utf-8")
        return f"replay:{path}"

    return write
