"""The process of an agent, and the messages that come through its pipes."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import signal
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from mahtab_tui.bus.escaping import shorten_line
from mahtab_tui.llm.base import ModelError
from mahtab_tui.system import signal_group, tie_to_parent
from mahtab_tui.worker.link.json_structure import exceeds_structure_limit

Message = dict[str, Any]

UPDATES = "session/update"
"""The method of what an agent tells without being asked."""
MAX_MESSAGE_BYTES = 16 * 1024 * 1024
MAX_STRUCTURE_BYTES = 500_000
"""Bytes of a message outside its strings. Each could become an object, and while the library looks
at these, nothing else runs."""
MAX_HEAD_BYTES = 200
"""Bytes of the beginning of a message, in which its method is."""
MAX_REQUEST_STRUCTURE_BYTES = 100_000
"""As `MAX_STRUCTURE_BYTES`, for a request: the library makes an error message for each of its values."""
MAX_OPEN_REQUESTS = 100
"""Requests of an agent that are not answered; further messages are read once there are fewer."""
MAX_OPEN_REQUEST_BYTES = 2 * MAX_MESSAGE_BYTES
"""Bytes of these requests beyond which no further message is read."""
READ_TIMEOUT_S = 60.0
"""Seconds that an agent may take to read a message."""
MAX_MESSAGES = 100_000
"""The most messages of an agent for one question."""
MAX_ERROR_BYTES = 20_000
"""Bytes of the last lines that an agent has printed, as errors or among its messages."""
MAX_ERROR_CHARS = 300
"""Characters of these in a sentence for the user."""
EXIT_GRACE_S = 0.5
"""Seconds that an agent has to end by itself, and again after each signal."""
EXIT_CHECK_S = 1.0
"""Seconds without a message after which it is checked whether the agent still runs, and for which
the messages of one that has ended are read."""
ENDING_TASK = "end of an agent"
"""The name of each task that ends a process, which must not be cancelled."""
_TOO_LONG = "has sent a message that is too long"
_POLL_INTERVAL_S = 0.01
_READ_BYTES = 65_536


class _UnreadableAgent(Exception):
    """Nothing more of an agent can be read; the message is the end of a sentence about it."""


class _OpenRequest(NamedTuple):
    """A request of an agent that is not answered."""

    id: int | str
    """The agent's own id. Another of its requests may have the same."""
    byte_count: int


class _StreamProtocol(asyncio.subprocess.SubprocessStreamProtocol):
    """Kills what an agent has left running as soon as its own end is noticed.

    Later, the number of its group may belong to others.
    """

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.SubprocessTransport)
        self._group = transport.get_pid()
        super().connection_made(transport)

    def process_exited(self) -> None:
        signal_group(self._group, signal.SIGKILL)
        super().process_exited()


class AgentProcess:
    """A running agent, as a transport of the protocol's library.

    The thread that starts it must live as long. What is not a message is never passed on, because the
    library would fail at it.
    """

    def __init__(
        self,
        name: str,
        transport: asyncio.SubprocessTransport,
        protocol: asyncio.subprocess.SubprocessStreamProtocol,
        on_update: Callable[[object], None],
    ) -> None:
        """
        Args:
            name: The agent's name.
            transport: Its process.
            protocol: The pipes of its process.
            on_update: Called with the parameters of each update, in order.
        """
        assert protocol.stdin is not None
        assert protocol.stdout is not None
        assert protocol.stderr is not None
        self._name = name
        self._transport = transport
        self._stdin = protocol.stdin
        self._stdout = protocol.stdout
        self._stderr = protocol.stderr
        self._on_update = on_update
        self._problem = ""
        """Why nothing more is read, as the end of a sentence; empty if the agent has ended."""
        self._is_read = True
        """Whether its messages are still read."""
        self._errors = b""
        """The end of what it has printed, as errors or among its messages."""
        self.message_count = 0
        """Messages since the question began."""
        self._open_requests: dict[int, _OpenRequest] = {}
        """The agent's requests by the ids under which the library gets them."""
        self._request_ids = itertools.count(1)
        self._reply_sent = asyncio.Event()
        """Set when a request was answered."""
        self._sending = asyncio.Lock()
        """Held until the agent has read nearly all that was sent."""
        self._reading_errors = asyncio.create_task(self._read_errors())
        self._ending: asyncio.Task[None] | None = None

    @classmethod
    async def start(
        cls,
        name: str,
        command: Sequence[str],
        environment: Mapping[str, str],
        folder: Path,
        on_update: Callable[[object], None],
    ) -> AgentProcess:
        """Start an agent in a folder. Raises `ModelError`."""
        loop = asyncio.get_running_loop()
        try:
            transport, protocol = await loop.subprocess_exec(
                lambda: _StreamProtocol(limit=MAX_MESSAGE_BYTES, loop=loop),
                *tie_to_parent(command),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env=environment,
                cwd=folder,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise ModelError(f"{name} could not be started: {reason}.") from None
        return cls(name, transport, protocol, on_update)

    @property
    def is_usable(self) -> bool:
        """Whether it still runs, and its messages are read."""
        return self._exit_code is None and self._is_read

    @property
    def _exit_code(self) -> int | None:
        return self._transport.get_returncode()

    async def send(self, message: Message) -> None:
        """Send a message once the agent has read those before it.

        Does nothing if the agent has ended, as `receive` tells.
        """
        if "error" in message:
            # The library repeats the agent's words there.
            message["error"].pop("data", None)
        async with self._sending:
            if self._stdin.is_closing() or self._problem:
                return
            if "method" not in message:
                request = self._open_requests.pop(message["id"])
                message["id"] = request.id
            with contextlib.suppress(ConnectionError):
                await self._write(json.dumps(message).encode() + b"\n")
            self._reply_sent.set()

    async def _write(self, line: bytes) -> None:
        self._stdin.write(line)
        try:
            async with asyncio.timeout(READ_TIMEOUT_S):
                await self._stdin.drain()
        except TimeoutError:
            self._problem = "does not read what it is sent"

    async def receive(self) -> Message | None:
        """Return the next request or answer; None if there will be none."""
        message: Message | None = None
        try:
            message = await self._next_message()
        except _UnreadableAgent as error:
            self._problem = str(error)
        self._is_read = message is not None
        return message

    async def _next_message(self) -> Message | None:
        """Return the next request or answer, after passing on the updates before it.

        Returns:
            None if the agent has ended, or does not read what it is sent.

        Raises:
            _UnreadableAgent: The agent has sent too much.
        """
        loop = asyncio.get_running_loop()
        reading_ends_at: float | None = None
        """In seconds of the loop's clock; None while the agent runs."""
        while not self._problem:
            # A child of the agent may keep its pipes open, and go on talking.
            if self._exit_code is not None:
                reading_ends_at = reading_ends_at or loop.time() + EXIT_CHECK_S
                if loop.time() > reading_ends_at:
                    return None
            # A flood in one piece would let nothing else run.
            await asyncio.sleep(0)
            try:
                async with asyncio.timeout(EXIT_CHECK_S):
                    line = await self._read_line()
            except TimeoutError:
                continue
            if not line:
                return None
            message = self._take_message(line)
            if message is not None:
                return message
        return None

    async def _read_line(self) -> bytes:
        """Return the next message as it was sent; empty if the agent has closed its pipe.

        Raises `_UnreadableAgent`.
        """
        await self._wait_for_replies()
        try:
            return await self._stdout.readline()
        except (ValueError, ConnectionError):
            raise _UnreadableAgent(_TOO_LONG) from None

    def _take_message(self, line: bytes) -> Message | None:
        """Read a message. Return a request or an answer; an update is passed on.

        Raises `_UnreadableAgent`.
        """
        self.message_count += 1
        if self.message_count > MAX_MESSAGES:
            raise _UnreadableAgent(f"has sent more than {MAX_MESSAGES:,} messages")
        if exceeds_structure_limit(line, MAX_STRUCTURE_BYTES):
            # Nobody waits for an update, so only this one is lost.
            if UPDATES.encode() in line[:MAX_HEAD_BYTES]:
                return None
            raise _UnreadableAgent(_TOO_LONG)

        message = _read_message(line)
        if message is None:
            self._note_error(line)
            return None
        if message.get("method") == UPDATES:
            self._on_update(message.get("params"))
            return None
        if "id" not in message:
            return None
        return self._open_request(message, line) if "method" in message else message

    async def _wait_for_replies(self) -> None:
        """Wait until there may be a further request."""
        while self._has_many_requests():
            self._reply_sent.clear()
            await self._reply_sent.wait()

    def _has_many_requests(self) -> bool:
        byte_count = sum(request.byte_count for request in self._open_requests.values())
        return len(self._open_requests) >= MAX_OPEN_REQUESTS or byte_count > MAX_OPEN_REQUEST_BYTES

    def _open_request(self, message: Message, line: bytes) -> Message:
        """Return a request of the agent as the library gets it.

        Args:
            line: The message as it was sent.
        """
        request_id = next(self._request_ids)
        self._open_requests[request_id] = _OpenRequest(message["id"], len(line))
        message["id"] = request_id
        params = message.get("params")
        if exceeds_structure_limit(line, MAX_REQUEST_STRUCTURE_BYTES):
            message["params"] = None  # the library refuses it
        elif isinstance(params, dict):
            # The library would let what is in there replace the request's own parameters.
            for name in ("_meta", "field_meta"):
                params.pop(name, None)
        return message

    async def close(self) -> None:
        """End the agent and its children. That goes on if whoever waits for it is cancelled."""
        if self._ending is None:
            self._ending = asyncio.create_task(self._end(), name=ENDING_TASK)
        await asyncio.shield(self._ending)

    async def _end(self) -> None:
        self._stdin.close()
        for number in (signal.SIGTERM, signal.SIGKILL):
            if await self._has_ended():
                break
            signal_group(self._transport.get_pid(), number)
        await self._has_ended()
        self._reading_errors.cancel()
        # By itself, it would stay open while a child of the agent has its pipes.
        self._transport.close()

    async def describe_end(self) -> str:
        """Return why the agent cannot be used any more, as a sentence. Waits a moment for its end."""
        if self._problem:
            return f"{self._name} {self._problem}, and was ended."
        if not await self._has_ended():
            return f"{self._name} has closed its connection, and was ended."
        exit_code = self._exit_code or 0
        manner = f"by signal {-exit_code}" if exit_code < 0 else f"with exit code {exit_code}"
        errors = " ".join(self._errors.decode("utf-8", "replace").split())
        if not errors:
            return f"{self._name} has ended {manner}."
        ending = shorten_line(errors[-MAX_ERROR_CHARS:], MAX_ERROR_CHARS).rstrip(".")
        return f"{self._name} has ended {manner}: {ending}."

    async def _has_ended(self) -> bool:
        """Wait a moment for its end, and return whether it has come."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + EXIT_GRACE_S
        while self._exit_code is None and loop.time() < deadline:
            await asyncio.sleep(_POLL_INTERVAL_S)
        return self._exit_code is not None

    async def _read_errors(self) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await self._stderr.read(_READ_BYTES):
                self._note_error(data)

    def _note_error(self, data: bytes) -> None:
        self._errors = (self._errors + data)[-MAX_ERROR_BYTES:]


def _read_message(line: bytes) -> Message | None:
    """Return a message with the types that the protocol's library relies on.

    None if the line is not a message.
    """
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(message, dict) or not isinstance(message.get("method", ""), str):
        return None
    if "id" in message and type(message["id"]) not in (int, str):
        return None
    error = message.get("error", {})
    if not isinstance(error, dict):
        message["error"] = {"message": str(error)}
    return message
