"""The tools that a server offers, and how it describes itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import mcp_types as types
from mcp.client.client import Client

from mahtab_tui.servers.tool_signature import (
    ToolSignature,
    build_signature,
    identifier,
    with_required,
)

MAX_TOOLS = 2_000
"""Tools of a server that are used."""
_MAX_LIST_PAGES = 100
"""Pages of its list that are asked for; a server may go on for ever."""
_MAX_ABOUT_CHARS = 80


class ToolList(NamedTuple):
    """The tools of a server."""

    tools: dict[str, types.Tool]
    """By their names on the server, at most `MAX_TOOLS`."""
    is_cut: bool
    """Whether the server has more."""


async def list_tools(client: Client) -> ToolList:
    """Ask a server for its tools."""
    tools: dict[str, types.Tool] = {}
    cursor: str | None = None
    for _ in range(_MAX_LIST_PAGES):
        page = await client.list_tools(cursor=cursor)
        tools.update((tool.name, tool) for tool in page.tools)
        cursor = page.next_cursor
        if cursor is None or len(tools) > MAX_TOOLS:
            break
    used_tools = dict(list(tools.items())[:MAX_TOOLS])
    for tool in used_tools.values():
        tool.input_schema = dict(with_required(tool.input_schema))
    return ToolList(used_tools, is_cut=len(tools) > MAX_TOOLS)


def make_signatures(tools: Mapping[str, types.Tool]) -> dict[str, ToolSignature]:
    """Return the signatures of tools.

    Args:
        tools: By their names on the server, as the result.
    """
    signatures: dict[str, ToolSignature] = {}
    names: set[str] = set()
    for wire_name, tool in tools.items():
        name = identifier(wire_name, names)
        names.add(name)
        is_read_only = tool.annotations is not None and tool.annotations.read_only_hint is True
        description = tool.description or tool.title or ""
        signatures[wire_name] = build_signature(
            wire_name, tool.input_schema, description, read_only=is_read_only, name=name
        )
    return signatures


def describe_server(client: Client) -> str:
    """Return what a server says about itself, in one line."""
    description = client.instructions
    if not description and client.server_info is not None:
        description = client.server_info.title or client.server_info.name
    return " ".join((description or "").split())[:_MAX_ABOUT_CHARS]
