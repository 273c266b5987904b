"""MCP servers as they are configured: in ``[mcp.NAME]``, and in the project's ``.mcp.json``, whose
format is that of Claude Code."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

_VARIABLE = re.compile(r"\$\{(\w++)(?::-((?:[^}$]|\$(?!\{))*+))?\}")
_SECRET = re.compile("token|secret|key|pass|auth|credential|cookie", re.IGNORECASE)
MASK = "••••••••"
WITHIN_URL = re.compile(r"(?<=://)[^/@\s]+(?=@)")
"""A name and a password in an address."""
_SCHEMES = ("Bearer ", "Basic ", "Token ")


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
    def _no_text(cls, value: Any) -> Any:
        if isinstance(value, str):
            raise ValueError(
                "a server is a table: write [mcp.NAME] with command or url into the file"
            )
        return value

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if (self.command is None) == (self.url is None):
            raise ValueError("give either a command or a url")
        return self

    def __str__(self) -> str:
        return WITHIN_URL.sub(MASK, self.url or " ".join((self.command or "", *self.args)))

    def expanded(self) -> McpServer:
        """Replace ``${VARIABLE}`` and ``${VARIABLE:-default}``. Raises `LookupError` with a
        sentence."""
        return McpServer.model_validate(_expanded(self.model_dump()))

    def secrets(self) -> Iterator[str]:
        """Yield the values of headers and variables whose names look like those of secrets."""
        for name, value in (*self.env.items(), *self.headers.items()):
            if _SECRET.search(name):
                try:
                    value = _expand(value)
                except LookupError:
                    continue
                yield value
                for scheme in _SCHEMES:
                    if value.startswith(scheme):
                        yield value.removeprefix(scheme).strip()


def _expanded(value: Any) -> Any:
    if isinstance(value, str):
        return _expand(value)
    if isinstance(value, Mapping):
        return {name: _expanded(each) for name, each in value.items()}
    return [_expanded(each) for each in value] if isinstance(value, list | tuple) else value


def _expand(text: str) -> str:
    def replace(found: re.Match[str]) -> str:
        value = os.environ.get(found[1]) or found[2]
        if value is None:
            raise LookupError(f"The variable {found[1]} is not set in the environment.")
        return value

    return _VARIABLE.sub(replace, text)


def starts_this_program(server: Mapping[str, Any]) -> bool:
    """Tell whether a server is our own, as `mahtab-tui mcp install` writes it for other clients."""
    words = [str(server.get("command") or ""), *map(str, server.get("args") or ())]
    if os.path.basename(words[0]) == "mahtab-tui":
        return words[1:2] == ["mcp"]
    return words[-3:] == ["-m", "mahtab_tui", "mcp"]
