"""What is known about the MCP servers of a session: their states, messages and logins.

The loop of the servers writes it; the screen, the model's prompt and the kernel read it from other threads.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from mahtab_tui.servers.tool_signature import ToolSignature
from mahtab_tui.settings.values import write_text

_MAX_LOGINS_BYTES = 1_000_000
_SECRET_FIELDS = ("access_token", "refresh_token", "client_secret")
"""Fields of a login that are masked wherever they occur."""

_MAX_LOG_CHARS = 200_000
_LAST_LINE_CHARS = 10_000
"""How much of the log's end is searched for the last line."""
_MAX_LAST_LINE_CHARS = 300
_MAX_LISTED_TOOLS = 8
_MAX_TOOL_LINE_CHARS = 200


class ServerError(Exception):
    """A server or its tool has failed. The message is a sentence, or the tool's own words."""


class SavedLogins:
    """The logins of servers, by their addresses. Any thread may call it."""

    def __init__(self, path: Path | None, add_secret: Callable[[str], None]) -> None:
        """Use a file, which need not exist.

        Args:
            path: The file of the logins; None keeps them for this session only.
            add_secret: Masks a text from now on.
        """
        self._path = path
        self._add_secret = add_secret
        self._lock = threading.Lock()
        self._logins: dict[str, Any] = {}

    def get(self, url: str) -> dict[str, Any]:
        """Return the login at an address; empty if there is none."""
        with self._lock:
            login = self._read().get(url)
        self._mask(login)
        return login if isinstance(login, dict) else {}

    def update(self, url: str, **changes: Any) -> None:
        """Change fields of a login, and save it. Raises `SettingsError` if it cannot be written."""
        self._mask(changes)
        with self._lock:
            logins = self._read()
            login = logins.get(url)
            if not isinstance(login, dict):
                login = {}
            logins[url] = {**login, **changes}
            if self._path is not None:
                write_text(self._path, json.dumps(logins))

    def _read(self) -> dict[str, Any]:
        if self._path is None:
            return self._logins
        # Whatever the file contains: without a login, the user logs in again.
        try:
            with self._path.open("rb") as file:
                logins = json.loads(file.read(_MAX_LOGINS_BYTES))
        except (OSError, ValueError, RecursionError):
            return {}
        return logins if isinstance(logins, dict) else {}

    def _mask(self, value: object) -> None:
        """Mask the secrets in a part of a login from now on."""
        if not isinstance(value, dict):
            return
        for name, item in value.items():
            if name in _SECRET_FIELDS and isinstance(item, str):
                self._add_secret(item)
            self._mask(item)


class ServerMessages:
    """What a server has written to stderr, and its log messages: the newest. Any thread may call it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.text = ""

    def add(self, text: str) -> None:
        """Add output, which need not end a line."""
        with self._lock:
            self.text = (self.text + text)[-_MAX_LOG_CHARS:]

    def add_line(self, line: str) -> None:
        """Add a line of its own."""
        line_break = "" if self.text[-1:] in ("", "\n") else "\n"
        self.add(f"{line_break}{line}\n")

    @property
    def last_line(self) -> str:
        """The last line that is not empty, shortened."""
        for line in reversed(self.text[-_LAST_LINE_CHARS:].splitlines()):
            line = line.strip()
            if line:
                return line[:_MAX_LAST_LINE_CHARS]
        return ""


class ServerState:
    """What is known about one server. Written on the servers' loop, read by any thread."""

    def __init__(self, name: str, variable: str, command_or_address: str) -> None:
        """Describe a server that has not been started.

        Args:
            name: Its name in the settings.
            variable: Its name in the namespace.
            command_or_address: How it is started or reached.
        """
        self.name = name
        self.variable = variable
        self.command_or_address = command_or_address
        self.phase: Literal["not started", "starting", "running", "ended"] = "not started"
        self.end_reason = ""
        """A sentence saying why it ended."""
        self.login = ""
        """The address at which the user can log in, while the server waits for that; else empty."""
        self.has_run = False
        """Whether it has been ready at least once."""
        self.self_description = ""
        """What the server says about itself, in one line."""
        self.tools_changed = False
        """Whether its tools have changed since they were listed."""
        self.tools: Mapping[str, ToolSignature] = {}
        """The tools by their names on the server."""
        self.revision = 0
        """Grows when its tools change; 0 until they have been listed."""
        self.called_tool_names: dict[str, None] = {}
        """Tools that were called, as the keys, in the order of their first calls: in this order, the
        model's prompt seldom changes."""
        self.messages = ServerMessages()

    @property
    def summary(self) -> str:
        """What the model's prompt says about the server; empty if its variable says it all."""
        if self.revision:
            return f"{self.self_description or self.name} ({len(self.tools):,} tools)"
        return "" if self.name == self.variable else self.name

    def called_tool_lines(self) -> list[str]:
        """Return a line for each of the tools that were first called last, for the model's prompt."""
        lines: list[str] = []
        for wire_name in list(self.called_tool_names)[-_MAX_LISTED_TOOLS:]:
            tool = self.tools.get(wire_name)
            if tool is not None:
                line = f"{tool.name}{tool.written}: {tool.summary}"
                lines.append(line[:_MAX_TOOL_LINE_CHARS])
        return lines

    def set_tools(self, tools: Mapping[str, ToolSignature]) -> None:
        """Take the tools that the server has listed, by their names on the server."""
        if tools != self.tools:
            self.tools = tools
            self.revision += 1


@dataclass(frozen=True)
class ServerSurroundings:
    """What all servers of a session share."""

    folder: Path
    """The folder in which programs run."""
    logins: SavedLogins
    report: Callable[[str], None]
    """Shows a sentence to the user."""
    start_seconds: float
    """The time limit of a start."""
