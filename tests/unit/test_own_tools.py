"""The calls of our own server that an agent makes are known by exact names."""

from __future__ import annotations

from pathlib import Path

from mahtab_tui.acp_client.turn import OWN_TOOLS
from mahtab_tui.mcp.handlers import AttachOptions, ToolHandlers
from mahtab_tui.settings.model import load_settings


def test_all_tools_of_an_agent_that_answers_are_known_as_ours() -> None:
    attach = AttachOptions(at_once=True, socket=Path("/run/other.sock"))
    tools = ToolHandlers(load_settings(), attach).tools()
    assert {tool.name for tool in tools} == set(OWN_TOOLS)
