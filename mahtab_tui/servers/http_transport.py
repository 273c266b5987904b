"""A server over HTTP, as a transport of the SDK."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

import httpx2
from mcp.client.streamable_http import streamable_http_client

from mahtab_tui.servers.protocol_messages import (
    MAX_MESSAGE_BYTES,
    TOO_LONG,
    TOO_MUCH,
    Streams,
    ToolRepairStream,
)
from mahtab_tui.servers.state import ServerMessages
from mahtab_tui.servers.tool_results import MAX_STRUCTURE_BYTES
from mahtab_tui.settings.mcp_servers import McpServer
from mahtab_tui.worker.link.json_structure import exceeds_structure_limit

# A tool may take as long as it likes; the user can stop it.
_HTTP_TIMEOUT = httpx2.Timeout(30.0, read=None)


@contextlib.asynccontextmanager
async def http_transport(
    server: McpServer, login: httpx2.Auth | None, messages: ServerMessages
) -> AsyncIterator[Streams]:
    """Connect to a server over HTTP, and limit the size of its answers."""
    headers = {"accept-encoding": "identity", **server.headers}  # so that their size is known

    async def limit(response: httpx2.Response) -> None:
        if "text/event-stream" not in response.headers.get("content-type", ""):  # the SDK does
            response.stream = _LimitedBody(response.stream)  # type: ignore[arg-type]

    async with (
        httpx2.AsyncClient(
            headers=headers, auth=login, timeout=_HTTP_TIMEOUT, event_hooks={"response": [limit]}
        ) as client,
        streamable_http_client(
            server.url or "", http_client=client, max_sse_event_size=MAX_MESSAGE_BYTES
        ) as (received, sent),
    ):
        yield ToolRepairStream(received, messages.add_line), sent  # type: ignore[arg-type, misc]


class _LimitedBody(httpx2.AsyncByteStream):
    """The body of an answer, which fails if it is too large."""

    def __init__(self, stream: httpx2.AsyncByteStream) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        body = bytearray()
        async for piece in self._stream:
            body += piece
            if len(body) > MAX_MESSAGE_BYTES:
                raise httpx2.ReadError(TOO_LONG)
        if exceeds_structure_limit(bytes(body), MAX_STRUCTURE_BYTES):
            raise httpx2.ReadError(TOO_MUCH)
        yield bytes(body)

    async def aclose(self) -> None:
        await self._stream.aclose()
