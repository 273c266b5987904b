"""MCP servers that tests start, and configurations that name them."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


def plain(behaviour: str = "", tools: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    """A server that starts quickly. tools: instead of its own."""
    return {
        "command": sys.executable,
        "args": ["-I", str(HERE / "plain.py"), behaviour, json.dumps(tools)],
    }


def friendly() -> dict[str, Any]:
    """A server built with the SDK."""
    return {"command": sys.executable, "args": [str(HERE / "friendly.py")]}


def configure(home: Path, **servers: dict[str, Any]) -> None:
    lines = []
    for name, server in servers.items():
        lines.append(f"[mcp.{json.dumps(name)}]")
        for key, value in server.items():
            table = isinstance(value, dict)
            written = (
                "{"
                + ", ".join(
                    f"{json.dumps(each)} = {json.dumps(text)}" for each, text in value.items()
                )
                + "}"
                if table
                else json.dumps(value)
            )
            lines.append(f"{key} = {written}")
    file = home / ".mahtab" / "config.toml"
    file.parent.mkdir(exist_ok=True)
    file.write_text("\n".join(lines) + "\n")
