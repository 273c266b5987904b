"""``mahtab-tui mcp``: the MCP server, and how clients are told of it."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from mahtab_tui.cli.options import Python, echo, ensure_folder, fail, fail_on, parse_path
from mahtab_tui.settings import values
from mahtab_tui.settings.model import PACKAGE, SettingsError, home_folder
from mahtab_tui.settings.sources import project_folder, read_config, read_text
from mahtab_tui.system import find_program

SERVER_NAME = "mahtab"
DUPLICATE_SERVER = f"{{}} already has a server named {SERVER_NAME}. Remove that entry, or edit it to match the output of --print."
CODEX_TOOL_TIMEOUT_S = 86_400
"""Codex's default of 60 is too short for a long cell, or for a user to answer."""
CODEX_STARTUP_TIMEOUT_S = 120
"""Codex's default of 10 is too short for a slow disk or a busy machine."""

ClientName = Literal["claude-code", "codex"]


def write_plugin() -> Path:
    """Write the plug-in for Claude Code and return its folder. Its ``.mcp.json`` names the program
    by its full path: a client whose PATH lacks it would show no error and have no tools. Raises
    `SettingsError`."""
    folder = home_folder() / "claude-plugin"
    try:
        folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if folder.exists():
            shutil.rmtree(folder)
        shutil.copytree(PACKAGE / "mcp" / "plugin", folder)
        values.write_text(folder / ".mcp.json", render_configuration("claude-code"))
    except OSError as error:
        raise SettingsError(f"{folder} cannot be written: {error.strerror or error}.") from None
    return folder


def server_command() -> list[str]:
    """Return the command with which a client starts the MCP server."""
    if program := find_program("mahtab-tui"):
        return [os.path.abspath(program), "mcp"]
    return [sys.executable, "-P", "-m", "mahtab_tui", "mcp"]


def render_configuration(client: ClientName) -> str:
    """Return the entry for a client's configuration file. Codex needs a required server and a
    longer time limit; Claude Code hides tools that are not always loaded."""
    if client == "claude-code":
        return _as_json({"mcpServers": {SERVER_NAME: _server_entry()}})

    # TOML basic strings have the syntax of JSON strings.
    program, *arguments = (json.dumps(word, ensure_ascii=False) for word in server_command())
    lines = [
        f"[mcp_servers.{SERVER_NAME}]",
        f"command = {program}",
        f"args = [{', '.join(arguments)}]",
        "required = true",
        f"startup_timeout_sec = {CODEX_STARTUP_TIMEOUT_S}",
        f"tool_timeout_sec = {CODEX_TOOL_TIMEOUT_S}",
    ]
    return "\n".join(lines) + "\n"


def configuration_file(client: ClientName, project: Path) -> Path:
    """Return the file that a client reads: Claude Code's in a project's folder, Codex's own."""
    if client == "codex":
        return Path(os.environ.get("CODEX_HOME") or Path.home() / ".codex", "config.toml")
    return project / ".mcp.json"


def install(client: ClientName, project: Path) -> Path:
    """Add the server to a client's configuration; return the file. Raises `SettingsError`."""
    path = configuration_file(client, project)
    try:
        text = read_text(path)
        new_text = _add_section(path, text) if client == "codex" else _add_server(path, text)
        values.write_text(path, new_text)
    except SettingsError as error:
        raise SettingsError(f"{error} It was left as it is.") from None
    return path


def _server_entry() -> dict[str, Any]:
    """Return our server as Claude Code's configuration describes one."""
    program, *arguments = server_command()
    return {"command": program, "args": arguments, "alwaysLoad": True}


def _as_json(configuration: dict[str, Any]) -> str:
    return json.dumps(configuration, indent=2, ensure_ascii=False) + "\n"


def _add_server(path: Path, text: str) -> str:
    """Return a JSON configuration with our server. Raises `SettingsError`."""
    try:
        configuration = json.loads(text or "{}")
    except (ValueError, RecursionError) as error:
        raise SettingsError(f"{path} is not JSON ({error}).") from None
    servers = None
    if isinstance(configuration, dict):
        servers = configuration.setdefault("mcpServers", {})
    if not isinstance(servers, dict):
        raise SettingsError(f"{path} does not hold a list of servers (mcpServers).")
    if SERVER_NAME in servers:
        raise SettingsError(DUPLICATE_SERVER.format(path))

    servers[SERVER_NAME] = _server_entry()
    return _as_json(configuration)


def _add_section(path: Path, text: str) -> str:
    """Return a TOML configuration with a section for our server. Raises `SettingsError`."""
    servers = read_config(path).get("mcp_servers")
    if isinstance(servers, dict) and SERVER_NAME in servers:
        raise SettingsError(DUPLICATE_SERVER.format(path))

    # One empty line above the section, none at the start of the file.
    if text and not text.endswith("\n"):
        text += "\n"
    if text:
        text += "\n"
    new_text = text + render_configuration("codex")
    try:
        tomllib.loads(new_text)
    except tomllib.TOMLDecodeError:
        raise SettingsError(
            f"{path} lists its servers in a form to which no section can be added."
        ) from None
    return new_text


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

    ensure_folder()
    session = None if attach == "." else attach  # "." is this project's
    with fail_on(McpServerError):
        serve(python, project, AttachOptions(attach is not None, session, private))


@mcp_app.command("install")
def mcp_install(
    client: Annotated[
        ClientName,
        typer.Option(help="claude-code: this folder's .mcp.json; codex: ~/.codex/config.toml"),
    ] = "claude-code",
    only_print: Annotated[
        bool, typer.Option("--print", help="Print what would be written")
    ] = False,
) -> None:
    """Register the server with a client."""
    if only_print:
        typer.echo(render_configuration(client), nl=False)
        return
    with fail_on(SettingsError):
        echo(f"Written to {install(client, project_folder())}.")


@mcp_app.command("plugin")
def mcp_plugin() -> None:
    """Write the plug-in for Claude Code and print its folder: claude --plugin-dir "$(mahtab-tui mcp
    plugin)"."""
    with fail_on(SettingsError):
        typer.echo(write_plugin())
