"""The tools: their names, what they take, and how they are described to an agent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from mahtab_tui.mcp.evaluation import EvalArguments
from mahtab_tui.mcp.journal import ViewerMode
from mahtab_tui.mcp.packages import Action
from mahtab_tui.mcp.tools import Arguments, Tool

if TYPE_CHECKING:
    from mahtab_tui.mcp.desk import Desk


class NoArguments(Arguments):
    """Nothing."""


class ActivateArguments(Arguments):
    path: str = Field(description="A project's folder, a virtual environment, a conda prefix, an interpreter's file, or . for the working directory")


class PackageArguments(Arguments):
    action: Action = Field(
        description="add, rm, status, update; install: everything the project wants; resolve: write the lock file; test: run pytest; "
        "develop: install a folder as editable; free: go back from editable to the released package"
    )
    packages: list[str] = Field([], description="Names (numpy, 'httpx>=0.27'), folders for develop, arguments for test")


class LogArguments(Arguments):
    mode: ViewerMode = Field(description="auto: written in colour, for tail -f; file: written as plain text; off")


class ModeArguments(Arguments):
    mode: Literal["private", "shared"] = Field(description="private: a worker of your own; shared: the session that the person is looking at")
    session: str | None = Field(None, description="The session's name or process id, where several run")


def toolbox(desk: Desk) -> list[Tool[Any]]:
    """All tools of a desk."""
    return [
        Tool(
            "eval",
            "Run Python",
            "Run Python in a session that keeps its state from call to call: variables, imports, functions. The answer holds the last "
            "expression's value, then what was printed, then the error, then what changed in the namespace: [+added, ~rebound or changed, "
            "?perhaps changed in place, −deleted]. Show the person the code readably before you call this.",
            EvalArguments,
            desk.eval,
            destructive=True,
        ),
        Tool(
            "reset",
            "Start over",
            "End the worker, a running cell included, and start a fresh one in the same environment. All variables are lost. Needed only "
            "where a module has to be imported anew, or the namespace is beyond repair.",
            NoArguments,
            desk.reset,
            destructive=True,
        ),
        Tool(
            "info",
            "Look at the session",
            "The Python, its environment and project, the variables with type and size, the modules, the worker's id, and what others have "
            "run since you last asked.",
            NoArguments,
            desk.info,
            read_only=True,
        ),
        Tool(
            "pkg",
            "Manage packages",
            "Manage the packages of the active environment, with uv where it is installed, else with pip; in a project with a "
            "pyproject.toml, uv keeps that and the lock file up to date. Modules that are already imported stay as they are until reset.",
            PackageArguments,
            desk.pkg,
            destructive=True,
        ),
        Tool(
            "activate",
            "Change the environment",
            "Go on in another environment. Where that has an interpreter of its own, a new worker starts there and all variables are lost.",
            ActivateArguments,
            desk.activate,
            destructive=True,
            idempotent=True,
        ),
        Tool(
            "log_viewer",
            "Log for the person",
            "Write everything that is evaluated to a file that the person can follow live, or stop doing so.",
            LogArguments,
            desk.log_viewer,
            idempotent=True,
        ),
        Tool(
            "mode",
            "Private or shared",
            "Run code in a worker of your own (private, the default) or in the person's live session (shared): the same variables, in their "
            "view, and where they want it only after their approval. There reset, pkg and activate always wait for the person. A time limit "
            "counts from the start of the execution, not from the queue.",
            ModeArguments,
            desk.set_mode,
            idempotent=True,
        ),
    ]
