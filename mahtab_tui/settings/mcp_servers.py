"""MCP servers: what a definition may hold, and the project's file that defines them."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from mahtab_tui.settings.files import SettingsError, Values, first_problem, read_text

MASK = "••••••••"
"""Shown instead of a secret."""
URL_CREDENTIALS = re.compile(r"(?<=://)[^/@\s]+(?=@)")
"""A name and a password in an address."""
AUTHENTICATION_SCHEMES = ("Bearer ", "Basic ", "Token ")
"""What may stand before the secret in a header."""
_VARIABLE = re.compile(
    r"""
    \$\{
        (\w++)                                      # its name
        (?: :- ( (?: [^}$] | \$ (?!\{) )*+ ) )?     # a default, which has no variables in it
    \}
    """,
    re.VERBOSE,
)
"""A variable of the environment in a text: ``${NAME}`` or ``${NAME:-default}``."""
_USABLE_TYPES = ("stdio", "http", "streamable-http")
"""Types of servers in an ``.mcp.json`` that this program can use."""
_MAX_SHOWN_CHARS = 100
"""A message cuts longer names that come from a file."""
_SECRET_NAME = re.compile("token|secret|key|pass|auth|credential|cookie", re.IGNORECASE)
"""A part of the name of a header or a variable whose value is likely a secret."""


class McpServer(BaseModel):
    """An MCP server: a program that is started, or an address."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    command: str | None = Field(default=None, min_length=1)
    args: tuple[str, ...] = ()
    env: dict[str, str] = Field(default_factory=dict)
    """Variables of the program, beside PATH, HOME and the like; it gets no others."""
    cwd: str | None = None
    url: str | None = Field(default=None, pattern=r"^(https?://|\$\{)")
    headers: dict[str, str] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _refuse_text(cls, value: object) -> object:
        if isinstance(value, str):
            raise ValueError(
                "a server is a table: write [mcp.NAME] with command or url into the file"
            )
        return value

    @model_validator(mode="after")
    def _check_transport(self) -> Self:
        if (self.command is None) == (self.url is None):
            raise ValueError("give either a command or a url")
        return self

    def __str__(self) -> str:
        """Return the address or the command line, without passwords in addresses."""
        text = self.url or " ".join((self.command or "", *self.args))
        return URL_CREDENTIALS.sub(MASK, text)

    def expanded(self) -> McpServer:
        """Return the server with the values of variables: ``${NAME}``, ``${NAME:-default}``.

        Raises:
            LookupError: A variable is not set; the message is a sentence.
        """
        return McpServer.model_validate(expand_variables(self.model_dump()))

    def secrets(self) -> Iterator[str]:
        """Yield the values of headers and variables whose names look like those of secrets."""
        yield from find_secrets(self.env)
        yield from find_secrets(self.headers)


def find_secrets(values: Mapping[str, str]) -> Iterator[str]:
    """Yield the values of headers or variables whose names look like those of secrets."""
    for name, value in values.items():
        if not _SECRET_NAME.search(name):
            continue
        try:
            secret = _expand_text(value)
        except LookupError:
            continue
        yield secret
        # A server may also repeat the secret without its scheme.
        for scheme in AUTHENTICATION_SCHEMES:
            if secret.startswith(scheme):
                yield secret.removeprefix(scheme).strip()


def expand_variables(value: Any) -> Any:
    """Replace variables in all texts of a JSON value. Raises `LookupError`."""
    if isinstance(value, str):
        return _expand_text(value)
    if isinstance(value, Mapping):
        return {name: expand_variables(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [expand_variables(item) for item in value]
    return value


def _expand_text(text: str) -> str:
    """Replace the variables of a text. Raises `LookupError`."""

    def replace(match: re.Match[str]) -> str:
        name: str = match[1]
        default: str | None = match[2]
        value = os.environ.get(name)
        # As in a shell, a default also stands for a variable that is set to nothing.
        if not value and default is not None:
            return default
        if value is None:
            raise LookupError(f"The variable {name} is not set in the environment.")
        return value

    return _VARIABLE.sub(replace, text)


def starts_this_program(server: Mapping[str, Any]) -> bool:
    """Return whether a server is our own, which `mahtab-tui mcp install` writes for other
    clients."""
    command = str(server.get("command") or "")
    args = [str(argument) for argument in server.get("args") or ()]
    if os.path.basename(command) == "mahtab-tui":
        return args[:1] == ["mcp"]
    return args[-3:] == ["-m", "mahtab_tui", "mcp"]


class McpJson(NamedTuple):
    """The servers of an ``.mcp.json``."""

    servers: dict[str, Values]
    problems: tuple[str, ...] = ()
    """Sentences; other programs use the file too, so nothing in it keeps this program from
    starting."""


def read_mcp_json(path: Path) -> McpJson:
    """Read the servers that this program can use; other programs may define more."""
    try:
        content = json.loads(read_text(path) or '{"mcpServers": {}}')
    except SettingsError as error:
        return McpJson({}, (str(error),))
    except (ValueError, RecursionError) as error:
        reason = f": {error}" if isinstance(error, json.JSONDecodeError) else ""
        return McpJson({}, (f"{path}: not valid JSON{reason}. Its servers are not used.",))

    definitions = None
    if isinstance(content, dict):
        definitions = content.get("mcpServers")
    if not isinstance(definitions, dict):
        return McpJson({}, (f'{path}: there is no table "mcpServers", so no server is used.',))

    servers: dict[str, Values] = {}
    problems: list[str] = []
    for name, definition in definitions.items():
        try:
            servers[name] = _usable_part(definition)
        except SettingsError as error:
            visible_name = name[:_MAX_SHOWN_CHARS]
            problems.append(f"{path}: the server {visible_name!r} is not used: {error}.")
    return McpJson(servers, tuple(problems))


def _usable_part(definition: object) -> Values:
    """Return the part of a server's definition that this program uses.

    Raises:
        SettingsError: It cannot be used; the message is the end of a sentence.
    """
    if not isinstance(definition, dict):
        raise SettingsError("it is not a table")
    kind = str(definition.get("type", "stdio"))[:_MAX_SHOWN_CHARS]
    if kind not in _USABLE_TYPES:
        raise SettingsError(
            f"its type {kind!r} is not supported; use http (streamable HTTP) or stdio"
        )

    usable = {key: value for key, value in definition.items() if key in McpServer.model_fields}
    try:
        McpServer.model_validate(usable)
    except ValidationError as error:
        problem = first_problem(error)
        field = ".".join(map(str, error.errors()[0]["loc"]))
        if field:
            problem = f"{field}: {problem}"
        raise SettingsError(problem) from None
    return usable
