"""How agents are told of the MCP server: one table, with each client's file and format."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

from mahtab_tui.cli.client_files import (
    SERVER_NAME,
    Client,
    as_json,
    server_entry,
)

ClientName = Literal["claude", "codex", "gemini", "cursor", "zed"]

CALL_TIMEOUT_S = 86_400
"""A day: clients' defaults are too short for a long cell, or for a user to answer."""
CODEX_STARTUP_TIMEOUT_S = 120
"""Codex's default of 10 is too short for a slow disk or a busy machine."""


CLIENTS: Mapping[ClientName, Client] = MappingProxyType(
    {
        # It hides tools that are not always loaded.
        "claude": Client(".mcp.json", "mcpServers", {"alwaysLoad": True}, is_in_project=True),
        # It ignores a server that fails to start, unless the server is required.
        "codex": Client(
            ".codex/config.toml",
            "mcp_servers",
            {
                "required": True,
                "startup_timeout_sec": CODEX_STARTUP_TIMEOUT_S,
                "tool_timeout_sec": CALL_TIMEOUT_S,
            },
            is_toml=True,
            folder_variable="CODEX_HOME",
        ),
        # Its limit is in milliseconds.
        "gemini": Client(".gemini/settings.json", "mcpServers", {"timeout": CALL_TIMEOUT_S * 1000}),
        "cursor": Client(".cursor/mcp.json", "mcpServers", is_in_project=True),
        # Older versions take an entry without a source for an extension's.
        "zed": Client(".config/zed/settings.json", "context_servers", {"source": "custom"}),
    }
)


def render_plugin_servers() -> str:
    """Return the file ``.mcp.json`` of the plug-in, which Claude Code and Codex read."""
    entry = {**server_entry(CLIENTS["codex"]), **server_entry(CLIENTS["claude"])}
    return as_json({CLIENTS["claude"].servers_key: {SERVER_NAME: entry}})
