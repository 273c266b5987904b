"""How editors are told of the program: one table, with each editor's file and format."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

from mahtab_tui.cli.client_files import Client

EditorName = Literal["zed", "jetbrains"]

EDITORS: Mapping[EditorName, Client] = MappingProxyType(
    {
        "zed": Client(
            ".config/zed/settings.json", "agent_servers", {"type": "custom"}, command="acp"
        ),
        # All of JetBrains' editors read it.
        "jetbrains": Client(".jetbrains/acp.json", "agent_servers", {"env": {}}, command="acp"),
    }
)
