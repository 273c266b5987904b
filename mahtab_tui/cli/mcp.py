"""``mahtab-tui mcp``: serve MCP, and register the server with a client."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from mahtab_tui.cli.options import Python
from mahtab_tui.cli.printing import fail, fail_on, need_folder, say

mcp_app = typer.Typer(help="Serve MCP over stdin and stdout: a persistent Python for any agent.")


@mcp_app.callback(invoke_without_command=True)
def mcp(
    context: typer.Context,
    python: Python = None,
    project: Annotated[
        Path | None, typer.Option(help="The project to activate: its folder, or an environment")
    ] = None,
    attach: Annotated[
        str | None,
        typer.Option(
            metavar="[NAME]",
            help="Join the session on a screen: this project's, or the one with this name or process id",
        ),
    ] = None,
    private: Annotated[bool, typer.Option("--private", help="Never join a session")] = False,
) -> None:
    """Serve MCP over stdin and stdout: a persistent Python for any agent."""
    if context.invoked_subcommand is not None:
        return
    if attach and private:
        fail("Give --attach or --private, not both.")
    from mahtab_tui.mcp.server import ServerError, attachment, serve

    need_folder()
    with fail_on(ServerError):
        serve(python, project, attachment(attach, private))


@mcp_app.command("install")
def mcp_install(
    client: Annotated[
        Literal["claude-code", "codex"],
        typer.Option(help="claude-code: this folder's .mcp.json; codex: ~/.codex/config.toml"),
    ] = "claude-code",
    only_print: Annotated[
        bool, typer.Option("--print", help="Print what would be written")
    ] = False,
) -> None:
    """Register the server with a client."""
    from mahtab_tui.mcp.install import InstallError, command, configuration, install

    if only_print:
        typer.echo(configuration(client, command()), nl=False)
        return
    with fail_on(InstallError):
        say(f"Written to {install(client, Path.cwd())}.")


@mcp_app.command("plugin")
def mcp_plugin() -> None:
    """Write the plug-in for Claude Code and print its folder: claude --plugin-dir "$(mahtab-tui mcp
    plugin)"."""
    from mahtab_tui.mcp.install import InstallError, write_plugin

    with fail_on(InstallError):
        typer.echo(write_plugin())
