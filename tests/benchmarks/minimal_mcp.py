"""The SDK's own smallest server with a tool, to measure ours against."""

from __future__ import annotations

from mcp.server.mcpserver import MCPServer

server = MCPServer("minimal")


@server.tool(name="eval")
def add(code: str) -> str:
    """Answers at once."""
    return "2"


if __name__ == "__main__":
    server.run()
