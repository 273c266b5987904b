"""State of a server as far as it is known without asking it. Loads nothing of the SDK."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping
from typing import Literal

from mahtab_tui.servers.signatures import ToolSignature

_USED = 8
"""Tools that the model is told of, because it has used them."""
_LONGEST_LINE = 200
_KEPT = 200_000
"""Characters of its messages that are kept, at least."""


class ServerError(Exception):
    """A server or its tool cannot do this; the message is a sentence, or the tool's own words."""


class ServerMessages:
    """Newest output of a server on stderr and in its log. Any thread may call it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pieces: deque[str] = deque()
        self._size = 0

    def add(self, text: str) -> None:
        with self._lock:
            self._pieces.append(text[-_KEPT:])
            self._size += len(self._pieces[-1])
            while self._size - len(self._pieces[0]) >= _KEPT:
                self._size -= len(self._pieces.popleft())

    def add_line(self, line: str) -> None:
        """Add a line of our own."""
        self.add(
            f"{line}\n" if not self._pieces or self._pieces[-1].endswith("\n") else f"\n{line}\n"
        )

    @property
    def text(self) -> str:
        with self._lock:
            return "".join(self._pieces)

    @property
    def last_line(self) -> str:
        return next(
            (
                line.strip()[:300]
                for line in reversed(self.text[-10_000:].splitlines())
                if line.strip()
            ),
            "",
        )


class ServerState:
    """A server as cells, the model and the user see it. Written on the loop, read by any thread."""

    def __init__(self, name: str, python: str, where: str) -> None:
        """python: its name in the namespace. where: its command or address."""
        self.name = name
        self.python = python
        self.where = where
        self.phase: Literal["not started", "starting", "running", "ended"] = "not started"
        self.why = ""
        """Why it has ended: a sentence."""
        self.login = ""
        """The address at which the user has to log in now; empty if it is not waited for that."""
        self.ran = False
        """Whether it was ready since the user has last started it."""
        self.about = ""
        """Its own words, one line."""
        self.stale = False
        """Whether the server says that its tools have changed."""
        self.tools: Mapping[str, ToolSignature] = {}
        """By the server's own names."""
        self.revision = 0
        """Counts the changes of the tools."""
        self.used: dict[str, None] = {}
        """The tools that were called, in the order of their first call: what the model is told
        changes seldom."""
        self.messages = ServerMessages()

    @property
    def told(self) -> str:
        """Return its line for the model."""
        return (
            f"{self.about or self.name} ({len(self.tools):,} tools)"
            if self.revision
            else ("" if self.name == self.python else self.name)
        )

    def used_tools(self) -> list[str]:
        """Return how the tools that were called are called, and what they do; of many, those that
        came last."""
        tools = (self.tools.get(wire) for wire in list(self.used)[-_USED:])
        return [
            f"{tool.name}{tool.written}: {tool.summary}"[:_LONGEST_LINE]
            for tool in tools
            if tool is not None
        ]

    def change(self, tools: Mapping[str, ToolSignature]) -> None:
        if tools != self.tools:
            self.tools = tools
            self.revision += 1
