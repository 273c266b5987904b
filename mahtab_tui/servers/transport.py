"""Transports to servers. The SDK's own transport for pipes takes quadratic time for long lines, and
its program may outlive a killed parent."""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import re
import signal
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import httpx2
from anyio.streams.memory import MemoryObjectSendStream
from mcp.client.stdio import get_default_environment
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage
from mcp_types import (
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCRequest,
    JSONRPCResponse,
    RequestId,
    jsonrpc_message_adapter,
)
from mcp_types.methods import validate_server_result
from pydantic import ValidationError

from mahtab_tui.servers.schema import MOST_OUTSIDE_TEXTS
from mahtab_tui.servers.servers import ServerMessages
from mahtab_tui.settings.sources import McpServer
from mahtab_tui.system import signal_group, tie_to_parent
from mahtab_tui.worker.frames import FrameError, check_bare

_ANSWER = re.compile(rb"""["'](?:jsonrpc|result)["']\s*:|\A\s*\{\s*\Z""")
"""Matches answers, even broken ones, but not a line that a server prints by mistake."""
_VERSION = "2025-11-25"
_ANY = {"type": "object"}

ReceivedStream = anyio.abc.ObjectReceiveStream[SessionMessage | Exception]


class ToolRepairStream(ReceivedStream):
    """Keeps a tool with an odd description from making the others unusable."""

    def __init__(self, received: ReceivedStream, note: Callable[[str], object]) -> None:
        self._received = received
        self._note = note

    async def receive(self) -> SessionMessage | Exception:
        item = await self._received.receive()
        if isinstance(item, SessionMessage) and isinstance(item.message, JSONRPCResponse):
            result = item.message.result
            if isinstance(tools := result.get("tools"), list):
                result["tools"] = list(self._usable(tools))
        return item

    async def aclose(self) -> None:
        await self._received.aclose()

    def _usable(self, tools: list[Any]) -> Iterator[dict[str, Any]]:
        for tool in tools:
            if (fault := _fault(tool)) is None:
                yield tool
                continue
            definition = tool if isinstance(tool, dict) else {}
            name = repr(definition.get("name", tool))[:100]
            usable = _simpler(definition)
            if _fault(usable) is not None:
                self._note(f"[the tool {name} was left out: {fault}]")
            else:
                self._note(f"[the tool {name} does not follow the protocol: {fault}]")
                yield usable


def _simpler(tool: Mapping[str, Any]) -> dict[str, Any]:
    names = ("name", "title", "description")
    plain = {key: tool[key] for key in names if isinstance(tool.get(key), str)}
    schema = tool.get("inputSchema")
    return {**plain, "inputSchema": {**(schema if isinstance(schema, dict) else {}), **_ANY}}


def _fault(tool: Any) -> str | None:
    try:
        validate_server_result("tools/list", _VERSION, {"tools": [tool]})
    except ValidationError as error:
        first = error.errors()[0]
        return f"{'.'.join(map(str, first['loc'][2:])) or 'it'}: {first['msg']}"[:300]
    return None


LONGEST = 32 * 1024 * 1024
"""Bytes of one message; a longer one would keep other threads waiting."""

TOO_LONG = f"it sent a message of more than {LONGEST // 2**20} MB"
TOO_MUCH = f"it sent a message with more than {MOST_OUTSIDE_TEXTS // 2**20} MB outside its texts"
GRACE = 0.5
_LOOK_AGAIN = 0.01
# A tool may take as long as it likes; the user can stop it.
_HTTP_TIMEOUT = httpx2.Timeout(30.0, read=None)

Streams = tuple[ReceivedStream, anyio.abc.ObjectSendStream[SessionMessage]]


class Closed:
    def __init__(self) -> None:
        self.event = asyncio.Event()
        self.why = ""
        self.code: int | None = None

    def set(self, why: str = "") -> None:
        self.why = self.why or why
        self.event.set()


class PipeTransport:
    """A program's stdin and stdout, as the SDK's `Transport`. Its thread must live as long."""

    def __init__(
        self, server: McpServer, folder: Path, messages: ServerMessages, closed: Closed
    ) -> None:
        self._command = [server.command or "", *server.args]
        self._env: Mapping[str, str] = get_default_environment() | server.env
        self._folder = folder / Path(server.cwd or ".").expanduser()
        self._messages = messages
        self._closed = closed
        self._tasks: list[asyncio.Task[None]] = []
        self._waiting: dict[str, RequestId] = {}
        self._process: asyncio.subprocess.Process
        self._ends = False

    async def __aenter__(self) -> Streams:
        self._process = await asyncio.create_subprocess_exec(
            *tie_to_parent(self._command),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=self._env,
            cwd=self._folder,
            start_new_session=True,
            limit=LONGEST,
        )
        incoming, received = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        sent, outgoing = anyio.create_memory_object_stream[SessionMessage](0)
        self._streams = (incoming, received, sent, outgoing)
        self._tasks = [
            asyncio.create_task(work)
            for work in (self._read(incoming), self._write(outgoing), self._read_errors())
        ]
        return ToolRepairStream(received, self._messages.add_line), sent

    async def __aexit__(self, *error: object) -> None:
        self._ends = True
        with anyio.CancelScope(shield=True):
            await self._end()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for stream in self._streams:
            stream.close()
        transport = getattr(self._process, "_transport", None)
        if transport is not None:  # it stays open while a child of the server has its pipes
            transport.close()
            await asyncio.sleep(0)

    async def _read(self, incoming: MemoryObjectSendStream[SessionMessage | Exception]) -> None:
        assert self._process.stdout is not None
        why = ""
        try:
            while line := await self._process.stdout.readline():
                check_bare(line, MOST_OUTSIDE_TEXTS)
                for message in self._messages_in(line) if line.strip() else ():
                    await incoming.send(SessionMessage(message))
        except FrameError:
            why = TOO_MUCH
        except ValueError:
            why = TOO_LONG
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, ConnectionError):
            pass
        finally:
            if not self._ends:
                if not why:
                    self._closed.code = await self._exit_code()
                self._closed.set(why)
            incoming.close()

    def _messages_in(self, line: bytes) -> Sequence[JSONRPCMessage]:
        try:
            message = jsonrpc_message_adapter.validate_json(line, by_name=False)
        except ValidationError as error:
            shown = line[:200].decode(errors="replace").rstrip()
            self._messages.add_line(f"[not a message: {shown}]")
            text = f"its answer cannot be read ({error.errors()[0]['msg']})"
            is_answer = _ANSWER.search(line) is not None
            return self._fail_all(ErrorData(code=PARSE_ERROR, message=text)) if is_answer else []
        if isinstance(message, JSONRPCError) and message.id is None:  # it could not read a request
            return self._fail_all(message.error)
        if isinstance(message, JSONRPCResponse | JSONRPCError):
            self._waiting.pop(str(message.id), None)
        return [message]

    def _fail_all(self, why: ErrorData) -> list[JSONRPCMessage]:
        """Return an error for each request, since it is not known whose answer came."""
        waiting, self._waiting = self._waiting, {}
        return [JSONRPCError(jsonrpc="2.0", id=each, error=why) for each in waiting.values()]

    async def _write(self, outgoing: anyio.abc.ObjectReceiveStream[SessionMessage]) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(ConnectionError, anyio.ClosedResourceError):
            async for message in outgoing:
                if isinstance(message.message, JSONRPCRequest):
                    self._waiting[str(message.message.id)] = message.message.id
                line = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                self._process.stdin.write(f"{line}\n".encode())
                await self._process.stdin.drain()

    async def _read_errors(self) -> None:
        assert self._process.stderr is not None
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        with contextlib.suppress(ConnectionError):
            while data := await self._process.stderr.read(65536):
                self._messages.add(decoder.decode(data))

    async def _end(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        for number in (signal.SIGTERM, signal.SIGKILL):
            if await self._exit_code() is not None:
                break
            signal_group(self._process.pid, number)
        await self._exit_code()
        signal_group(self._process.pid, signal.SIGKILL)  # its children

    async def _exit_code(self) -> int | None:
        loop = asyncio.get_running_loop()
        until = loop.time() + GRACE
        # `Process.wait` would also wait for children of the program that have its pipes.
        while self._process.returncode is None and loop.time() < until:
            await asyncio.sleep(_LOOK_AGAIN)
        return self._process.returncode


@contextlib.asynccontextmanager
async def http_transport(
    server: McpServer, login: httpx2.Auth | None, messages: ServerMessages
) -> AsyncIterator[Streams]:
    headers = {"accept-encoding": "identity", **server.headers}  # so that their size is known

    async def limit(response: httpx2.Response) -> None:
        if "text/event-stream" not in response.headers.get("content-type", ""):  # the SDK does
            response.stream = _LimitedBody(response.stream)  # type: ignore[arg-type]

    async with (
        httpx2.AsyncClient(
            headers=headers, auth=login, timeout=_HTTP_TIMEOUT, event_hooks={"response": [limit]}
        ) as client,
        streamable_http_client(
            server.url or "", http_client=client, max_sse_event_size=LONGEST
        ) as (received, sent),
    ):
        yield ToolRepairStream(received, messages.add_line), sent  # type: ignore[arg-type, misc]


class _LimitedBody(httpx2.AsyncByteStream):
    def __init__(self, stream: httpx2.AsyncByteStream) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        body = bytearray()
        async for piece in self._stream:
            body += piece
            if len(body) > LONGEST:
                raise httpx2.ReadError(TOO_LONG)
        try:
            check_bare(bytes(body), MOST_OUTSIDE_TEXTS)
        except FrameError:
            raise httpx2.ReadError(TOO_MUCH) from None
        yield bytes(body)

    async def aclose(self) -> None:
        await self._stream.aclose()
