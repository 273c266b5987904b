"""Where the files with settings are, how they are read, and the error for what is wrong in them."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from pydantic import ValidationError

ENV_FILE = ".env"
"""The project's file of environment variables."""
MCP_JSON = ".mcp.json"
"""The project's file of MCP servers. Other programs also use it."""


Values = dict[str, Any]
"""Values of settings by key, as a source has them: not checked."""


class SettingsError(Exception):
    """A setting that cannot be used; the message is a sentence."""


def home_folder() -> Path:
    """Return the folder of the user's configuration and of all sessions."""
    return Path.home() / ".mahtab"


def file_copies_folder(session: str) -> Path:
    """Return the folder for the copies of files that a kernel changes, for undo.

    Args:
        session: The id of its session; empty if that is not saved.
    """
    name = f"session-{quote(session, safe='')}" if session else "unsaved"
    return home_folder() / "file-copies" / name


def project_folder() -> Path:
    """Return the working directory. Raises `SettingsError` if it has been deleted since."""
    try:
        return Path.cwd()
    except FileNotFoundError:
        raise SettingsError(
            "The folder in which the program was started no longer exists."
        ) from None


class ConfigFiles(NamedTuple):
    """The configuration files, the strongest first. They need not exist."""

    project_file: Path
    user_file: Path


def config_files(project: Path) -> ConfigFiles:
    """Return the configuration files for a project's folder."""
    return ConfigFiles(
        project_file=project / ".mahtab" / "config.toml",
        user_file=home_folder() / "config.toml",
    )


def read_config(path: Path) -> Values:
    """Return the unchecked values of a configuration file. Raises `SettingsError`."""
    try:
        return tomllib.loads(read_text(path))
    except (ValueError, RecursionError) as error:
        raise SettingsError(f"{path}: not valid TOML: {error}.") from None


def read_text(path: Path) -> str:
    """Return the text of a configuration file; empty if there is none. Raises `SettingsError`."""
    try:
        if path.exists() and not path.is_file():
            raise SettingsError(f"{path}: not a file.")
        return path.read_bytes().decode("utf-8-sig")
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except UnicodeDecodeError:
        raise SettingsError(f"{path}: the file is not UTF-8 text.") from None
    except OSError as error:
        raise SettingsError(f"{path}: the file cannot be read: {error.strerror}.") from None


def mcp_json_file() -> Path:
    """Return the project's file of MCP servers. Raises `SettingsError`."""
    return project_folder() / MCP_JSON


def first_problem(error: ValidationError) -> str:
    """Return the first problem, as the end of a sentence without its full stop."""
    text = str(error.errors()[0]["msg"]).removeprefix("Value error, ")
    return text[0].lower() + text[1:]
