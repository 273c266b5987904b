"""An MCP server over STDIO: a persistent Python for any agent."""

from __future__ import annotations

from pathlib import Path


def start_server(*, python: str | None = None, project: Path | str | None = None) -> None:
    """Serve MCP over this process's stdin and stdout until the client closes them.

    Args:
        python: The worker's interpreter, as a file or the folder of a virtual environment.
        project: The folder to work in; its ``.venv`` is used if it has one.

    Raises:
        McpServerError: The package mcp is not installed, or a setting is wrong.
    """
    from mahtab_tui.mcp.handlers import AttachOptions
    from mahtab_tui.mcp.server import serve

    serve(python, None if project is None else Path(project), AttachOptions())
