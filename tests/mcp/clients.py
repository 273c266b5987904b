"""The official client over stdin and stdout."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
from mcp import Client, StdioServerParameters
from mcp_types import CallToolResult, Implementation, TextContent

from tests.warm import command

CLIENT = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "plain", "version": "1"},
}


def requests(code: str) -> str:
    """Lines with which a client starts the protocol and evaluates code."""
    messages: list[dict[str, object]] = [
        {"id": 1, "method": "initialize", "params": CLIENT},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": {"name": "eval", "arguments": {"code": code}}},
    ]
    return "".join(json.dumps({"jsonrpc": "2.0", **message}) + "\n" for message in messages)


def parameters(
    *args: str, cwd: Path | None = None, env: Mapping[str, str] | None = None, **environment: str
) -> StdioServerParameters:
    python, *client = command()
    return StdioServerParameters(
        command=python,
        args=[*client, "mcp", *args],
        cwd=cwd,
        env={**os.environ, **(env or {}), **environment},
    )


class Agent:
    def __init__(self, client: Client) -> None:
        self.client = client
        self.reports: list[str] = []
        """Sentences on the progress of its calls."""
        self.answers: list[str] = []

    async def call(self, tool: str, /, **arguments: Any) -> CallToolResult:
        """Return a tool's result. If it had structured output, clients would pass only that to
        their models."""

        async def on_progress(progress: float, total: float | None, message: str | None) -> None:
            self.reports.append(message or "")

        result = await self.client.call_tool(tool, arguments, progress_callback=on_progress)
        assert isinstance(result, CallToolResult)
        assert result.structured_content is None
        return result

    async def text(self, tool: str, /, **arguments: Any) -> str:
        return text_of(await self.call(tool, **arguments))

    async def eval(self, code: str, **arguments: Any) -> str:
        return await self.text("eval", code=code, **arguments)

    async def answer(self, code: str, **arguments: Any) -> None:
        """Evaluate code, and add the result to `answers`."""
        self.answers.append(await self.eval(code, **arguments))

    async def value(self, code: str) -> str:
        return (await self.eval(code)).partition("\n")[0]


@asynccontextmanager
async def agent(
    *args: str,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    name: str = "mcp",
    **environment: str,
) -> AsyncIterator[Agent]:
    async with Client(
        parameters(*args, cwd=cwd, env=env, **environment),
        client_info=Implementation(name=name, version="1"),
    ) as client:
        yield Agent(client)


async def until(condition: Callable[[], object]) -> None:
    with anyio.fail_after(60):
        while not condition():
            await anyio.sleep(0.01)


def text_of(result: CallToolResult) -> str:
    return "\n".join(block.text for block in result.content if isinstance(block, TextContent))
