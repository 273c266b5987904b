"""The tools and their descriptions for agents."""

from __future__ import annotations

from typing import Any

from mahtab_tui.mcp.evaluation import EvalArguments
from mahtab_tui.mcp.handlers import ActivateArguments, LogArguments, ModeArguments, NoArguments, PackageArguments, ToolHandlers, UndoArguments
from mahtab_tui.mcp.tools import McpTool


def toolbox(handlers: ToolHandlers) -> dict[str, McpTool[Any]]:
    tools: list[McpTool[Any]] = [
        McpTool(
            "eval",
            "Run Python",
            "Run Python in a session that keeps its state from call to call: variables, imports, functions. The answer holds the last "
            "expression's value, then what was printed, then the error, then what changed in the namespace: [+added, ~rebound or changed, "
            "?perhaps changed in place, −deleted]. Show the user the code readably before you call this.",
            EvalArguments,
            handlers.eval,
            destructive=True,
        ),
        McpTool(
            "reset",
            "Start over",
            "End the worker, a running cell included, and start a fresh one in the same environment. All variables are lost. Needed only "
            "if a module must be imported again, or the namespace is beyond repair.",
            NoArguments,
            handlers.reset,
            destructive=True,
        ),
        McpTool(
            "undo",
            "Undo cells",
            "Restore the variables, also those changed in place, to what they were before a cell ran; later cells are undone too. Files "
            "that were written stay. The answer names what could not be restored.",
            UndoArguments,
            handlers.undo,
            destructive=True,
        ),
        McpTool(
            "info",
            "Look at the session",
            "The Python, its environment and project, the variables with type and size, the modules, the worker's id, and what others have "
            "run since you last asked.",
            NoArguments,
            handlers.info,
            read_only=True,
        ),
        McpTool(
            "pkg",
            "Manage packages",
            "Manage the packages of the active environment, with uv if it is installed, otherwise with pip; in a project with a "
            "pyproject.toml, uv keeps that and the lock file up to date. Modules that are already imported stay as they are until reset.",
            PackageArguments,
            handlers.pkg,
            destructive=True,
        ),
        McpTool(
            "activate",
            "Change the environment",
            "Switch to another environment. If it has its own interpreter, a new worker starts there and all variables are lost.",
            ActivateArguments,
            handlers.activate,
            destructive=True,
            idempotent=True,
        ),
        McpTool(
            "log_viewer",
            "Log for the user",
            "Write all evaluated code and its output to a file that the user can follow live, or stop writing.",
            LogArguments,
            handlers.log_viewer,
            idempotent=True,
        ),
        McpTool(
            "mode",
            "Private or shared",
            "Run code in your own worker (private, the default) or in the user's live session (shared): the same variables, visible to "
            "them, and only after their approval if they want that. There undo, reset, pkg and activate always wait for the user. A time limit "
            "counts from the start of the execution, not from the queue.",
            ModeArguments,
            handlers.set_mode,
            idempotent=True,
        ),
    ]
    return {tool.name: tool for tool in tools}
