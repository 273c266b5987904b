"""``mahtab-tui mcp``: the MCP server, and how clients are told of it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Annotated, Literal

import typer

from mahtab_tui.cli.client_files import install_interactively, uninstall
from mahtab_tui.cli.mcp_clients import CLIENTS, ClientName, render_plugin_servers
from mahtab_tui.cli.options import Python, echo, fail, fail_on, parse_path, require_working_folder
from mahtab_tui.settings import values
from mahtab_tui.settings.files import project_folder
from mahtab_tui.settings.model import PACKAGE, SettingsError, home_folder


def write_plugin() -> Path:
    """Write the plug-in for Claude Code and Codex, and return its folder.

    Its ``.mcp.json`` names the program by its full path: a client whose PATH lacks it would show no
    error and have no tools. Raises `SettingsError`.
    """
    folder = home_folder() / "claude-plugin"
    try:
        folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if folder.exists():
            shutil.rmtree(folder)
        shutil.copytree(PACKAGE / "mcp" / "plugin", folder)
        values.write_text(folder / ".mcp.json", render_plugin_servers())
    except OSError as error:
        raise SettingsError(f"{folder} cannot be written: {error.strerror or error}.") from None
    return folder


mcp_app = typer.Typer(help="Serve MCP over stdin and stdout: a persistent Python for any agent.")


@mcp_app.callback(invoke_without_command=True)
def mcp(
    context: typer.Context,
    python: Python = None,
    project: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH",
            parser=parse_path,
            help="The project to activate: its folder, or an environment",
        ),
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
    from mahtab_tui.mcp.handlers import AttachOptions
    from mahtab_tui.mcp.server import McpServerError, serve

    require_working_folder()
    session = None if attach == "." else attach  # "." is this project's
    options = AttachOptions(attach is not None, session, private)
    if attach is not None and attach.startswith("/"):
        options = AttachOptions(at_once=True, socket=Path(attach))
    with fail_on(McpServerError):
        serve(python, project, options)


# Claude Code was called by its longer name before.
ClientOrFormerName = Literal[ClientName, "claude-code"]
Client = Annotated[
    ClientOrFormerName | None,
    typer.Argument(help="The client  [default: claude]"),
]
ClientOption = Annotated[
    ClientOrFormerName | None, typer.Option("--client", help="The same as the argument")
]


def _client_name(
    client: ClientOrFormerName | None, client_option: ClientOrFormerName | None
) -> ClientName:
    """Return the present name of a client; Claude Code, if none is given.

    Ends the command if the argument and the option name two.
    """
    if client is not None and client_option is not None:
        fail("The client is given twice: leave out --client.")
    name = client or client_option
    if name is None or name == "claude-code":
        return "claude"
    return name


@mcp_app.command("install")
def mcp_install(
    client: Client = None,
    client_option: ClientOption = None,
    only_print: Annotated[
        bool, typer.Option("--print", help="Print what would be written")
    ] = False,
) -> None:
    """Register the server with a client: show the entry, ask at a terminal, and write it. Claude
    Code and Cursor read it in this folder, the others in yours."""
    name = _client_name(client, client_option)
    with fail_on(SettingsError):
        install_interactively(CLIENTS[name], name, only_print=only_print)


@mcp_app.command("uninstall")
def mcp_uninstall(client: Client = None, client_option: ClientOption = None) -> None:
    """Remove the server from a client's configuration, and leave the rest."""
    name = _client_name(client, client_option)
    with fail_on(SettingsError):
        echo(f"Removed from {uninstall(CLIENTS[name], project_folder())}.")


@mcp_app.command("plugin")
def mcp_plugin() -> None:
    """Write the plug-in for Claude Code and Codex, and print its folder: claude --plugin-dir
    "$(mahtab-tui mcp plugin)", or codex plugin marketplace add with it."""
    with fail_on(SettingsError):
        typer.echo(write_plugin())
