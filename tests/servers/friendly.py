"""An MCP server that is built with the SDK: over stdin and stdout, or over HTTP on a given port."""

from __future__ import annotations

import base64
import sys
from typing import Any

from mcp.server.mcpserver import Image, MCPServer
from mcp_types import ToolAnnotations

from tests.servers.plain import PIXEL

server = MCPServer("friendly", instructions="Friendly tools.")
READS = ToolAnnotations(read_only_hint=True)


@server.tool(annotations=READS)
def add(a: int, b: int = 2) -> int:
    """Add two whole numbers."""
    return a + b


@server.tool(annotations=READS)
def cities(country: str) -> list[dict[str, Any]]:
    """List the cities of a country."""
    return [{"name": "Oslo", "country": country, "people": 700_000}]


@server.tool(annotations=READS)
def dot() -> Image:
    """Draw a dot."""
    return Image(data=base64.b64decode(PIXEL), format="png")


@server.tool()
def remove(name: str) -> str:
    """Remove something."""
    return f"{name} was removed"


if __name__ == "__main__":
    if len(sys.argv) > 1:
        server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[1]))
    else:
        server.run()
