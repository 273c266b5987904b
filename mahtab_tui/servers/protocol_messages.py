"""Messages of the protocol: their limits, and repairs of what servers get wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, cast

import anyio
import anyio.abc
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCResponse
from mcp_types.methods import validate_server_result
from pydantic import ValidationError

from mahtab_tui.servers.tool_results import MAX_STRUCTURE_BYTES

MAX_MESSAGE_BYTES = 32 * 1024 * 1024
"""A longer message would keep other threads waiting."""
TOO_LONG = f"it sent a message of more than {MAX_MESSAGE_BYTES // 2**20} MB"
TOO_MUCH = f"it sent a message with more than {MAX_STRUCTURE_BYTES // 2**20} MB outside its texts"
_PROTOCOL_VERSION = "2025-11-25"
_ANY_OBJECT = {"type": "object"}
ReceivedStream = anyio.abc.ObjectReceiveStream[SessionMessage | Exception]
Streams = tuple[ReceivedStream, anyio.abc.ObjectSendStream[SessionMessage]]


class ToolRepairStream(ReceivedStream):
    """Keeps a tool with an odd description from making the others unusable."""

    def __init__(self, received: ReceivedStream, note: Callable[[str], object]) -> None:
        self._received = received
        self._note = note

    async def receive(self) -> SessionMessage | Exception:
        item = await self._received.receive()
        if isinstance(item, SessionMessage) and isinstance(item.message, JSONRPCResponse):
            result = item.message.result
            tools = result.get("tools")
            if isinstance(tools, list):
                result["tools"] = list(self._usable_tools(tools))
        return item

    async def aclose(self) -> None:
        await self._received.aclose()

    def _usable_tools(self, tools: list[object]) -> Iterator[dict[str, Any]]:
        """Yield the tools, without what makes some of them invalid."""
        for tool in tools:
            problem = _find_problem(tool)
            if problem is None:
                yield cast("dict[str, Any]", tool)
                continue

            definition = tool if isinstance(tool, dict) else {}
            name = repr(definition.get("name", tool))[:100]
            simple_tool = _simplify(definition)
            if _find_problem(simple_tool) is not None:
                self._note(f"[the tool {name} was left out: {problem}]")
            else:
                self._note(f"[the tool {name} does not follow the protocol: {problem}]")
                yield simple_tool


def _simplify(tool: Mapping[str, Any]) -> dict[str, Any]:
    """Return a tool with its texts and its input schema only."""
    simple_tool: dict[str, Any] = {}
    for name in ("name", "title", "description"):
        if isinstance(tool.get(name), str):
            simple_tool[name] = tool[name]
    schema = tool.get("inputSchema")
    properties = schema if isinstance(schema, dict) else {}
    return {**simple_tool, "inputSchema": {**properties, **_ANY_OBJECT}}


def _find_problem(tool: object) -> str | None:
    """Return what is wrong with a tool's definition; None if it is valid."""
    try:
        validate_server_result("tools/list", _PROTOCOL_VERSION, {"tools": [tool]})
    except ValidationError as error:
        problem = error.errors()[0]
        place = ".".join(map(str, problem["loc"][2:])) or "it"
        return f"{place}: {problem['msg']}"[:300]
    return None
