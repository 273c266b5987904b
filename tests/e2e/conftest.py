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
Replay = Callable[..., str]
in_two_sizes = pytest.mark.parametrize(
    "size", [(80, 24), (200, 50)], ids=lambda size: f"{size[0]}x{size[1]}"
)
PROGRAM = [str(Path(sys.executable).with_name("mahtab-tui"))]


@pytest.fixture
def start(project: Path) -> Iterator[Start]:
    """Start the loaded program in an empty folder, with the demo model unless the arguments name a
    command, a file or a model; the test's end kills it."""
    with starting(project, warm=True) as start:
        yield start


@pytest.fixture
def cold_start(project: Path) -> Iterator[Start]:
    """Start the installed command: for tests of the start, and of signals to a child process."""
    with starting(project, warm=False) as start:
        yield start


@contextmanager
def starting(project: Path, *, warm: bool) -> Iterator[Start]:
    with ExitStack() as stack:

        def start(
            *arguments: str, size: tuple[int, int] = (120, 40), env: dict[str, str] | None = None
        ) -> Terminal:
            named = "--model" in arguments or (arguments and not arguments[0].startswith("-"))
            argv = [*([] if warm else PROGRAM), *arguments, *([] if named else ["--model", "demo"])]
            columns, lines = size
            return stack.enter_context(
                Terminal(argv, columns=columns, lines=lines, cwd=project, env=env, warm=warm)
            )

        yield start


@pytest.fixture
def replay(project: Path) -> Replay:
    """Write a replay file of answers (texts, or dicts with more fields); return its model name."""

    def write(*lines: str | dict[str, Any]) -> str:
        path = project / "replay.jsonl"
        values = [{"text": line} if isinstance(line, str) else line for line in lines]
        path.write_text("".join(json.dumps(value) + "\n" for value in values), "utf-8")
        return f"replay:{path}"

    return write
