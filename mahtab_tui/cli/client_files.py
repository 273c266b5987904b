"""The files in which other programs list what they start: our entry is added to them, and removed."""

from __future__ import annotations

import json
import os
import re
import sys
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import typer

from mahtab_tui.cli.options import echo
from mahtab_tui.settings import values
from mahtab_tui.settings.files import project_folder, read_text
from mahtab_tui.settings.model import SettingsError
from mahtab_tui.system import find_program

SERVER_NAME = "mahtab"


@dataclass(frozen=True)
class Client:
    """A program that reads our server's entry from a file."""

    file: str
    """Where, below its folder."""
    servers_key: str
    """The key of the servers in the file."""
    fields: Mapping[str, Any] = field(default_factory=dict)
    """What the entry has beside command and arguments."""
    is_toml: bool = False
    is_in_project: bool = False
    """Whether the file is in the project's folder; else it is in the user's."""
    command: str = "mcp"
    """The program's command that it starts."""
    folder_variable: str = ""
    """The environment variable that names another folder for the file."""

    def path(self, project: Path) -> Path:
        """Return the file."""
        if self.folder_variable and (folder := os.environ.get(self.folder_variable)):
            return Path(folder, Path(self.file).name)
        return (project if self.is_in_project else Path.home()) / self.file


def render_entry(client: Client) -> str:
    """Return what stands in a client's file about the program."""
    if client.is_toml:
        return _render_section(client)
    return as_json({client.servers_key: {SERVER_NAME: server_entry(client)}})


def install(client: Client, project: Path) -> Path:
    """Add the program to a client's file; return the file. Raises `SettingsError`."""
    return _change_file(client, project, _add_section if client.is_toml else _add_server)


def uninstall(client: Client, project: Path) -> Path:
    """Remove the program from a client's file; return the file. Raises `SettingsError`."""
    return _change_file(client, project, _remove_section if client.is_toml else _remove_server)


def install_interactively(client: Client, name: str, *, only_print: bool) -> None:
    """Show a client's entry, ask at a terminal, and write it. Raises `SettingsError`.

    Args:
        client: The client.
        name: Its name on the command line.
        only_print: Whether nothing is written.
    """
    entry = render_entry(client)
    if only_print:
        typer.echo(entry, nl=False)
        return
    project = project_folder()
    echo(f"{client.path(project)} gets this entry:\n\n{entry}")
    if sys.stdin.isatty():
        typer.confirm("Write it?", abort=True)
    file = install(client, project)
    echo(f"Written to {file}. To remove it: mahtab-tui {client.command} uninstall {name}")


def _change_file(
    client: Client, project: Path, change_text: Callable[[Client, Path, str], str]
) -> Path:
    """Change the text of a client's file, or leave it as it is. Raises `SettingsError`."""
    path = client.path(project)
    try:
        values.write_text(path, change_text(client, path, read_text(path)))
    except SettingsError as error:
        raise SettingsError(f"{error} It was left as it is.") from None
    return path


def program_command(command: str) -> list[str]:
    """Return the words with which a client starts a command of the program."""
    if program := find_program("mahtab-tui"):
        return [os.path.abspath(program), command]
    return [sys.executable, "-P", "-m", "mahtab_tui", command]


def server_entry(client: Client) -> dict[str, Any]:
    """Return the client's entry."""
    program, *arguments = program_command(client.command)
    return {"command": program, "args": arguments, **client.fields}


def as_json(configuration: dict[str, Any]) -> str:
    return json.dumps(configuration, indent=2, ensure_ascii=False) + "\n"


def _duplicate_error(client: Client, path: Path) -> SettingsError:
    return SettingsError(
        f"{path} already has a server named {SERVER_NAME}. Remove that entry (mahtab-tui {client.command} uninstall NAME), or edit it to match the output of --print."
    )


def _missing_error(path: Path) -> SettingsError:
    return SettingsError(f"{path} has no server named {SERVER_NAME}.")


def _read_json(client: Client, path: Path, text: str) -> dict[str, Any]:
    """Return a JSON configuration, which has a table of servers. Raises `SettingsError`."""
    try:
        configuration: dict[str, Any] = json.loads(text or "{}")
    except (ValueError, RecursionError) as error:
        raise SettingsError(
            f"{path} is not JSON without comments ({error}). Edit it yourself: install --print shows the entry."
        ) from None
    servers = None
    if isinstance(configuration, dict):
        servers = configuration.setdefault(client.servers_key, {})
    if not isinstance(servers, dict):
        raise SettingsError(f"{path} does not hold a list of servers ({client.servers_key}).")
    return configuration


def _add_server(client: Client, path: Path, text: str) -> str:
    """Return a JSON configuration with our server. Raises `SettingsError`."""
    configuration = _read_json(client, path, text)
    servers = configuration[client.servers_key]
    if SERVER_NAME in servers:
        raise _duplicate_error(client, path)
    servers[SERVER_NAME] = server_entry(client)
    return as_json(configuration)


def _remove_server(client: Client, path: Path, text: str) -> str:
    """Return a JSON configuration without our server. Raises `SettingsError`."""
    configuration = _read_json(client, path, text)
    servers = configuration[client.servers_key]
    if SERVER_NAME not in servers:
        raise _missing_error(path)
    del servers[SERVER_NAME]
    if not servers:
        del configuration[client.servers_key]
    return as_json(configuration)


def _render_section(client: Client) -> str:
    # TOML basic strings, lists, numbers and booleans have the syntax of JSON.
    lines = [f"[{client.servers_key}.{SERVER_NAME}]"]
    lines += (
        f"{key} = {json.dumps(value, ensure_ascii=False)}"
        for key, value in server_entry(client).items()
    )
    return "\n".join(lines) + "\n"


def _read_toml_servers(client: Client, path: Path, text: str) -> Any:
    """Return the servers of a TOML configuration. Raises `SettingsError`."""
    try:
        return tomllib.loads(text).get(client.servers_key)
    except (ValueError, RecursionError) as error:
        raise SettingsError(f"{path}: not valid TOML: {error}.") from None


def _add_section(client: Client, path: Path, text: str) -> str:
    """Return a TOML configuration with a section for our server. Raises `SettingsError`."""
    servers = _read_toml_servers(client, path, text)
    if isinstance(servers, dict) and SERVER_NAME in servers:
        raise _duplicate_error(client, path)

    # One empty line above the section, none at the start of the file.
    if text and not text.endswith("\n"):
        text += "\n"
    if text:
        text += "\n"
    new_text = text + _render_section(client)
    try:
        tomllib.loads(new_text)
    except tomllib.TOMLDecodeError:
        raise SettingsError(
            f"{path} lists its servers in a form to which no section can be added."
        ) from None
    return new_text


def _remove_section(client: Client, path: Path, text: str) -> str:
    """Return a TOML configuration without our server. Raises `SettingsError`."""
    servers = _read_toml_servers(client, path, text)
    if not isinstance(servers, dict) or SERVER_NAME not in servers:
        raise _missing_error(path)
    new_text = _without_section(client, text)
    if not _lacks_only_server(client, text, new_text):
        new_text = _without_server(client, text)
    new_text = new_text.rstrip("\n")
    return f"{new_text}\n" if new_text else ""


def _without_section(client: Client, text: str) -> str:
    """Return a text without the lines of our section.

    Comments at its end stay: they are about the next section.
    """
    header = re.compile(rf"\[\s*{client.servers_key}\s*\.\s*{SERVER_NAME}\s*[.\]]")
    lines: list[str] = []
    end_comments: list[str] = []
    is_in_section = False
    for line in text.splitlines(keepends=True):
        words = line.strip()
        if words.startswith("["):
            is_in_section = header.match(words) is not None
            lines += end_comments
            end_comments = []
        if not is_in_section:
            lines.append(line)
        elif words.startswith("#"):
            end_comments.append(line)
        elif words:
            end_comments = []
    return "".join([*lines, *end_comments])


def _without_server(client: Client, text: str) -> str:
    """Return a TOML configuration without our server, in whatever form it has the server."""
    import tomlkit

    configuration = tomlkit.parse(text)
    servers: Any = configuration[client.servers_key]
    del servers[SERVER_NAME]
    return tomlkit.dumps(configuration)


def _lacks_only_server(client: Client, text: str, new_text: str) -> bool:
    """Return whether a TOML configuration is another one without our server."""
    expected = tomllib.loads(text)
    del expected[client.servers_key][SERVER_NAME]
    try:
        configuration = tomllib.loads(new_text)
    except tomllib.TOMLDecodeError:
        return False
    # A list of servers in which there is none may be gone.
    configuration.setdefault(client.servers_key, {})
    return configuration == expected
