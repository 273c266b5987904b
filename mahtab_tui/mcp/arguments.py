"""The arguments of the tools of the MCP server.

What agents get are the descriptions of the fields. The classes have no docstrings, because pydantic
would also send these.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from mahtab_tui.mcp.packages import Action
from mahtab_tui.mcp.tools import Arguments

MAX_OUTPUT_CHARS = 20_000
"""Characters of output in an answer, by default."""

Mode = Literal["private", "shared"]
"""Whether an agent runs code in a session of its own, or in the one on the user's screen."""


class EvalArguments(Arguments):
    code: str = Field(
        description="Python. The last expression's value is shown; top-level await, !command and %magic work"
    )
    timeout_s: float | None = Field(
        None,
        gt=0,
        description="Seconds after which the code is interrupted, counted from its start. Without it: no limit",
    )
    max_output: int = Field(
        MAX_OUTPUT_CHARS,
        ge=0,
        description="Characters of output that the answer holds at most: its head and its tail",
    )


class NoArguments(Arguments):
    """No arguments."""


class UndoArguments(Arguments):
    cell: int | None = Field(
        None,
        ge=1,
        description="The first cell to undo, as info numbers them; without it, what was run last",
    )


class RewindArguments(Arguments):
    point: str = Field(
        description='The point before which to go back, as rewind_points names it: "cell 4" or "question 2"'
    )
    dry_run: bool = Field(
        True, description="Only describe what would go back and what cannot; false does it"
    )


class ActivateArguments(Arguments):
    path: str = Field(
        description="A project's folder, a virtual environment, a conda prefix, an interpreter's file, or . for the working directory"
    )


class PackageArguments(Arguments):
    action: Action = Field(
        description="add, rm, status, update; install: all requirements of the project; resolve: write the lock file; test: run pytest; "
        "develop: install a folder as editable; free: return from editable to the released package"
    )
    packages: list[str] = Field(
        [], description="Names (numpy, 'httpx>=0.27'), folders for develop, arguments for test"
    )


class LogArguments(Arguments):
    mode: Literal["auto", "file", "off"] = Field(
        description="auto: in colour, for tail -f; file: as plain text; off"
    )


class ModeArguments(Arguments):
    mode: Mode = Field(
        description="private: your own session; shared: the session on the user's screen"
    )
    session: str | None = Field(
        None, description="The session's name or process id, if several run"
    )
