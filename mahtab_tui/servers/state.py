"""What is known about the servers of a session: their state, messages and logins."""

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

_MAX_LOG_CHARS = 200_000
_LAST_LINE_CHARS = 10_000
"""End of the log in which the last line is looked for."""
_MAX_LAST_LINE_CHARS = 300
_MAX_LISTED_TOOLS = 8
_MAX_TOOL_LINE_CHARS = 200


class ServerError(Exception):
    """A server or its tool has failed. The message is a sentence, or the tool's own words."""


class SavedLogins:
    """Logins by the server's address. Any thread may call it."""

    def __init__(self, path: Path | None, add_secret: Callable[[str], None]) -> None:
        """Use a file, which need not exist.

        Args:
            path: file of the logins; None keeps them for this session only.
            add_secret: masks a text from now on.
        """
        self._path = path
        self._add_secret = add_secret
        self._lock = threading.Lock()
        self._logins: dict[str, Any] = {}

    def get(self, url: str) -> dict[str, Any]:
        with self._lock:
            login = self._read().get(url)
        self._mask(login)
        return login if isinstance(login, dict) else {}

    def update(self, url: str, **changes: Any) -> None:
        """Change a login. Raises `SettingsError`."""
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
    """Newest output on stderr and in the log. Any thread may call it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.text = ""

    def add(self, text: str) -> None:
        with self._lock:
            self.text = (self.text + text)[-_MAX_LOG_CHARS:]

    def add_line(self, line: str) -> None:
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
    """Written on the servers' loop, read by any thread."""

    def __init__(self, name: str, python: str, where: str) -> None:
        """Describe a server that has not been started.

        Args:
            name: as in the settings.
            python: its name in the namespace.
            where: its command or address.
        """
        self.name = name
        self.python = python
        self.where = where
        self.phase: Literal["not started", "starting", "running", "ended"] = "not started"
        self.end_reason = ""
        """A sentence saying why it ended."""
        self.login = ""
        """Address at which the user can log in, while the server waits for that."""
        self.ran = False
        """Whether it has been ready at least once."""
        self.about = ""
        """What the server says about itself, in one line."""
        self.stale = False
        """Whether its tools have changed since they were listed."""
        self.tools: Mapping[str, ToolSignature] = {}
        """The tools by their names on the server."""
        self.revision = 0
        """Grows when its tools change; 0 until they have been listed."""
        self.used: dict[str, None] = {}
        """Called tools; a model's prompt changes seldom, so in the order of their first call."""
        self.messages = ServerMessages()

    @property
    def sentence(self) -> str:
        if self.revision:
            return f"{self.about or self.name} ({len(self.tools):,} tools)"
        return "" if self.name == self.python else self.name

    def used_tools(self) -> list[str]:
        """Return one line for each of the tools that were called last."""
        lines: list[str] = []
        for wire_name in list(self.used)[-_MAX_LISTED_TOOLS:]:
            tool = self.tools.get(wire_name)
            if tool is not None:
                line = f"{tool.name}{tool.written}: {tool.summary}"
                lines.append(line[:_MAX_TOOL_LINE_CHARS])
        return lines

    def set_tools(self, tools: Mapping[str, ToolSignature]) -> None:
        if tools != self.tools:
            self.tools = tools
            self.revision += 1


@dataclass(frozen=True)
class ServerSurroundings:
    """What all servers of a session share."""

    folder: Path
    """Where programs run."""
    logins: SavedLogins
    report: Callable[[str], None]
    """Shows a sentence to the user."""
    start_seconds: float
    """Time limit of a start."""
