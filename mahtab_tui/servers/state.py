"""What is known of a server without speaking to it. Loads nothing of the SDK."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from mahtab_tui.servers.messages import ServerMessages
from mahtab_tui.servers.signatures import ToolSignature


class ServerError(Exception):
    """A server or its tool cannot do this; the message is a sentence, or the tool's own words."""


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
        """The tools that were called, the newest last."""
        self.messages = ServerMessages()

    def change(self, tools: Mapping[str, ToolSignature]) -> None:
        """Replace the tools."""
        if tools != self.tools:
            self.tools = tools
            self.revision += 1
