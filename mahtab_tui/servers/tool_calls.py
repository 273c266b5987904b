"""Calls of tools, which a server may ask to repeat."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import cache
from typing import Any

import mcp_types as types
from mcp.client.session import ClientSession
from pydantic import TypeAdapter

from mahtab_tui.servers.state import ServerError

MAX_CALL_ROUNDS = 10
"""How often a server may ask to repeat a call."""
MAX_REQUEST_STATE_CHARS = 1_000_000
_ROUND_PAUSE_S = 0.1


@cache
def _call_result() -> TypeAdapter[types.CallToolResult | types.InputRequiredResult]:
    return TypeAdapter(types.CallToolResult | types.InputRequiredResult)


async def call_tool(
    session: ClientSession, name: str, arguments: Mapping[str, Any]
) -> types.CallToolResult:
    """Call a tool. As long as the server asks for it, repeat the call with the state that it sent.

    Raises:
        ServerError: the server asks for something that this client does not offer, or too often.
        Exception: what the SDK raises.
    """
    # Not `Client.call_tool`, which would check the result against the server's own patterns without
    # a time limit.
    request_state: str | None = None
    for _ in range(MAX_CALL_ROUNDS):
        params = types.CallToolRequestParams(
            name=name, arguments=dict(arguments), request_state=request_state
        )
        request = types.CallToolRequest(params=params)
        result = await session.send_request(request, _call_result())
        if isinstance(result, types.CallToolResult):
            return result
        if result.input_requests:
            kinds = sorted({request.method for request in result.input_requests.values()})
            raise ServerError(
                f"{name} was not finished: it asks for more input ({', '.join(kinds)}), which mahtab-tui does not offer to servers."
            )
        request_state = result.request_state or ""
        if len(request_state) > MAX_REQUEST_STATE_CHARS:
            raise ServerError(f"{name} was not finished: its state is too large to be sent back.")
        await asyncio.sleep(_ROUND_PAUSE_S)
    raise ServerError(
        f"{name} was not finished: it asked {MAX_CALL_ROUNDS} times to repeat the call."
    )
