"""Writes or prints client configurations that name the server."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tomllib
from pathlib import Path
from typing import Any, Literal

from mahtab_tui.settings.model import PACKAGE
from mahtab_tui.settings.sources import SettingsError, home_folder, read_config, read_text
from mahtab_tui.settings.values import write_text
from mahtab_tui.system.processes import find_program

ClientName = Literal["claude-code", "codex"]

NAME = "mahtab"
_CODEX_SECONDS = 86_400
"""Seconds that Codex waits for a call. Its default of 60 is too short for a long cell, or for a
user to answer."""


class InstallError(Exception):
    """The configuration cannot be written; the message is a sentence."""


def write_plugin() -> Path:
    """Write the plug-in for Claude Code and return its folder. Raises `InstallError`.

    Its ``.mcp.json`` is generated instead of shipped, because it names the program by its full
    path: a client whose PATH lacks the program shows no error and has no tools.
    """
    folder = home_folder() / "claude-plugin"
    try:
        folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if folder.exists():
            shutil.rmtree(folder)
        shutil.copytree(PACKAGE / "mcp" / "plugin", folder)
        write_text(folder / ".mcp.json", render_configuration("claude-code", server_command()))
    except SettingsError as error:
        raise InstallError(str(error)) from None
    except OSError as error:
        raise InstallError(f"{folder} cannot be written: {error.strerror or error}.") from None
    return folder


def server_command() -> list[str]:
    """Return the command that starts the server, with full paths: the installed program, or else
    this interpreter."""
    if program := find_program("mahtab-tui"):
        return [os.path.abspath(program), "mcp"]
    return [sys.executable, "-P", "-m", "mahtab_tui", "mcp"]


def render_configuration(client: ClientName, words: list[str]) -> str:
    """Return the entry for a client's configuration file.

    Codex queries its model before an optional server has listed its tools, so the server is marked
    as required; it also abandons a call after a minute by default. Claude Code hides tools behind a
    search unless they are always loaded.
    """
    if client == "codex":
        # TOML basic strings have the syntax of JSON strings.
        quoted = [json.dumps(word, ensure_ascii=False) for word in words]
        start = f"command = {quoted[0]}\nargs = [{', '.join(quoted[1:])}]\n"
        return (
            f"[mcp_servers.{NAME}]\n{start}required = true\ntool_timeout_sec = {_CODEX_SECONDS}\n"
        )
    return json.dumps({"mcpServers": {NAME: _entry(words)}}, indent=2, ensure_ascii=False) + "\n"


def configuration_file(client: ClientName, project: Path) -> Path:
    """Return a client's configuration file: the project's for Claude Code, the user's for Codex."""
    if client == "codex":
        return Path(os.environ.get("CODEX_HOME") or Path.home() / ".codex", "config.toml")
    return project / ".mcp.json"


def install(client: ClientName, project: Path) -> Path:
    """Add the server to a client's configuration; returns the file. Raises `InstallError`."""
    path = configuration_file(client, project)
    add = _add_section if client == "codex" else _add_server
    try:
        write_text(path, add(path, read_text(path)))
    except SettingsError as error:
        raise InstallError(f"{error} It was left as it is.") from None
    return path


def _entry(words: list[str]) -> dict[str, Any]:
    return {"command": words[0], "args": words[1:], "alwaysLoad": True}


def _add_server(path: Path, before: str) -> str:
    try:
        known = json.loads(before or "{}")
    except (ValueError, RecursionError) as error:
        raise InstallError(f"{path} is not JSON ({error}), and was left as it is.") from None
    if not isinstance(known, dict) or not isinstance(known.setdefault("mcpServers", {}), dict):
        raise InstallError(
            f"{path} does not hold a list of servers (mcpServers), and was left as it is."
        )
    if NAME in known["mcpServers"]:
        raise InstallError(_read_existing(path))
    known["mcpServers"][NAME] = _entry(server_command())
    return json.dumps(known, indent=2, ensure_ascii=False) + "\n"


def _add_section(path: Path, before: str) -> str:
    servers = read_config(path).get("mcp_servers")
    if isinstance(servers, dict) and NAME in servers:
        raise InstallError(_read_existing(path))
    gap = "" if not before else "\n" if before.endswith("\n") else "\n\n"
    after = before + gap + render_configuration("codex", server_command())
    try:
        tomllib.loads(after)
    except tomllib.TOMLDecodeError:
        raise InstallError(
            f"{path} lists its servers in a form to which no section can be added, and was left as it is."
        ) from None
    return after


def _read_existing(path: Path) -> str:
    return f"{path} already has a server named {NAME}, and was left as it is. Remove that entry, or edit it to match the output of --print."
