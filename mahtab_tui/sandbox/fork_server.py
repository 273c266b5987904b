"""The processes that make sandboxes by forking, because a fork starts in a few milliseconds.

The first process (`ForkServer`) has loaded everything that sandboxes need. Each text that several
sandboxes share has a fork of it (`TextServer`), which has read the text and makes these sandboxes.
"""

from __future__ import annotations

import array
import asyncio
import contextlib
import errno
import json
import os
import signal
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from mahtab_tui import worker
from mahtab_tui.sandbox.base import SandboxError
from mahtab_tui.worker.sandbox import system_calls

# As `kernel.local_process.BOOTSTRAP`, for an interpreter that has no environment and no site-packages.
_BOOTSTRAP = """\
import gc, sys
gc.disable()
package = type(sys)("mahtab_worker"); package.__path__ = [sys.argv[2]]; sys.modules["mahtab_worker"] = package
from mahtab_worker.sandbox.server import main
main(int(sys.argv[1]))
"""

_SERVER_MESSAGE_BYTES = 4096
_TEXT_IDLE_S = 60.0
"""Seconds that a text without a sandbox is kept for the next search."""
_MAX_REASON_CHARS = 200
"""Characters of an error that are part of a sentence."""
_SERVER_ENDED = "The process that makes sandboxes has ended."


@dataclass(frozen=True)
class ForkedProcess:
    """A process that a fork server has made."""

    pid: int
    handle: int
    """A `pidfd`, so that signals cannot hit another process. Whoever has this object closes it."""
    exit_code: asyncio.Future[int]
    """Its exit code, negative for a signal, once it has been reaped. Await it with
    `asyncio.shield`."""


class NewProcess(NamedTuple):
    """A process that has not got a text yet."""

    channel: socket.socket
    """The socket to it."""
    forked: ForkedProcess


class SandboxServer:
    """The connection to a process that makes sandboxes; belongs to one event loop.

    The process ends with its connection, and its sandboxes with it.
    """

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._loop = asyncio.get_running_loop()
        self._hello: asyncio.Future[dict[str, Any]] = self._loop.create_future()
        """The server's first message, with what it lacks."""
        self._requests: dict[int, asyncio.Future[ForkedProcess]] = {}
        """Requests that were not answered yet, by number."""
        self._running: dict[int, asyncio.Future[int]] = {}
        """The exit codes of running processes, by the numbers of their requests."""
        self._forking = asyncio.Lock()
        """Held while a process is made: the server makes one at a time."""
        self._request_count = 0
        self.alive = True
        """Whether the connection is open."""
        self._loop.add_reader(channel, self._receive)

    async def fork(self, *, load: bool = False) -> NewProcess:
        """Make a sandbox, which gets its text over its socket (`send_text`) if the server has none.

        Args:
            load: Whether to make a server for a text instead.

        Raises:
            SandboxError: The sandbox cannot be started.
        """
        # A server's messages stay whole by themselves; a sandbox sends frames.
        socket_type = socket.SOCK_SEQPACKET if load else socket.SOCK_STREAM
        try:
            channel, child_channel = socket.socketpair(socket.AF_UNIX, socket_type)
        except OSError as error:
            raise _not_started(error.strerror) from error
        channel.setblocking(False)
        try:
            return NewProcess(channel, await self._fork(child_channel, load))
        except BaseException:
            channel.close()
            raise
        finally:
            child_channel.close()

    async def _fork(self, channel: socket.socket, load: bool) -> ForkedProcess:
        """Request a process, and wait for it.

        Args:
            channel: The process's end of its connection.
            load: See `fork`.

        Raises:
            SandboxError: The process cannot be made.
        """
        async with self._forking:
            if not self.alive:
                raise SandboxError(_SERVER_ENDED)
            self._request_count += 1
            number = self._request_count
            forked: asyncio.Future[ForkedProcess] = self._loop.create_future()
            self._requests[number] = forked
            try:
                request = json.dumps({"id": number, "load": load}).encode()
                socket.send_fds(self._channel, [request], [channel.fileno()])
            except OSError as error:
                del self._requests[number]
                # The server has ended. The loop would learn this only later.
                if isinstance(error, ConnectionError):
                    self.close()
                raise _not_started(error.strerror) from error

            try:
                return await forked
            except asyncio.CancelledError:
                if forked.done() and not forked.cancelled():
                    _end(forked.result())
                raise

    def _receive(self) -> None:
        """Take the next message of the server."""
        try:
            message = _take_message(self._channel)
        except BlockingIOError:
            return
        except OSError:
            message = _ServerMessage(b"", [])
        # The server has ended. An overridden `close` would wait for the process, and hold up the loop.
        if not message.data:
            SandboxServer.close(self)
            return

        fields = json.loads(message.data)
        number = fields.get("id")
        match fields["op"]:
            case "hello":
                self._hello.set_result(fields)
            case "forked":
                self._take_forked(number, fields["pid"], message.descriptors)
            case "failed":
                _fail(self._requests.pop(number), _not_started(fields["reason"]))
            case "ended":
                exit_code = self._running.pop(number, None)
                if exit_code is not None:
                    exit_code.set_result(fields["code"])
                    self._on_end()

    def _on_end(self) -> None:
        """Do what is due when a sandbox has ended; for subclasses."""

    def _take_forked(self, number: int, pid: int, descriptors: list[int]) -> None:
        """Take a process that the server has made.

        Args:
            number: The number of the request.
            pid: The process's id.
            descriptors: Its `pidfd`; empty if this program has no descriptor left for it.
        """
        request = self._requests.pop(number)
        if not descriptors:
            # The sandbox ends when its socket is closed.
            _fail(request, _not_started(os.strerror(errno.EMFILE)))
            return

        exit_code: asyncio.Future[int] = self._loop.create_future()
        self._running[number] = exit_code
        forked = ForkedProcess(pid, descriptors[0], exit_code)
        if request.cancelled():
            _end(forked)
        else:
            request.set_result(forked)

    def close(self) -> None:
        """End the server and its sandboxes, or note that they have ended."""
        if not self.alive:
            return
        self.alive = False
        self._loop.remove_reader(self._channel)
        self._channel.close()
        if not self._hello.done():
            self._hello.set_exception(SandboxError(self._start_failure()))
        for request in self._requests.values():
            _fail(request, SandboxError(_SERVER_ENDED))
        for exit_code in self._running.values():
            exit_code.set_result(-signal.SIGKILL)
        self._running.clear()

    def _start_failure(self) -> str:
        """Return a sentence saying why the server did not start."""
        return "There is not enough memory for a sandbox's text."


class ForkServer(SandboxServer):
    """The first process, which has loaded everything."""

    def __init__(self, process: subprocess.Popen[bytes], channel: socket.socket) -> None:
        super().__init__(channel)
        self._process = process

    @classmethod
    async def start(cls) -> ForkServer:
        """Start a server and wait until it has loaded everything. Raises `SandboxError`."""
        channel, child_channel = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        channel.setblocking(False)
        try:
            process = _start_process(child_channel)
        except OSError as error:
            channel.close()
            raise SandboxError(
                f"{sys.executable} cannot be started as a sandbox: {error.strerror or error}."
            ) from error
        finally:
            child_channel.close()

        server = cls(process, channel)
        try:
            hello = await server._hello
            missing = hello["missing"]
            if missing:
                raise SandboxError(f"Sandboxing is not supported on this system: {missing}.")
        except BaseException:
            server.close()
            raise
        return server

    async def load(self, text: str, file: int) -> TextServer:
        """Make a server whose sandboxes share a text. Wait for its `loaded` before you use it.

        Args:
            text: The text.
            file: The descriptor of a file with the text.

        Raises:
            SandboxError: The server cannot be made.
        """
        process = await self.fork(load=True)
        send_text(process, file)
        return TextServer(process, text)

    def close(self) -> None:
        """End the server and its sandboxes."""
        super().close()
        self._process.kill()
        self._process.wait()
        if self._process.stderr is not None:
            self._process.stderr.close()

    def _start_failure(self) -> str:
        self._process.kill()
        stderr = self._process.communicate()[1]
        error_lines = stderr.decode("utf-8", "replace").strip().splitlines()
        reason = f": {error_lines[-1][:_MAX_REASON_CHARS]}" if error_lines else "."
        return f"{sys.executable} does not work as a sandbox{reason}"


class TextServer(SandboxServer):
    """A fork of the first process, whose sandboxes share a text. It ends after a while without use."""

    def __init__(self, process: NewProcess, text: str) -> None:
        super().__init__(process.channel)
        self.text = text
        self._forked_process: ForkedProcess | None = process.forked
        self._idle_seconds = _TEXT_IDLE_S
        self._on_end()

    async def loaded(self) -> None:
        """Wait until it has read its text. Raises `SandboxError`."""
        try:
            hello = await self._hello
            missing = hello["missing"]
            if missing:
                raise _not_started(missing)
        except BaseException:
            self.close()
            raise

    def release(self) -> None:
        """End it as soon as it has no sandboxes."""
        self._idle_seconds = 0.0
        self._on_end()

    def close(self) -> None:
        """End the server and its sandboxes, and let the text go."""
        super().close()
        self.text = ""
        if self._forked_process is not None:
            _end(self._forked_process)
            self._forked_process = None

    def _on_end(self) -> None:
        """End the server after a while, if it is not used until then."""
        self._loop.call_later(self._idle_seconds, self._close_if_idle)

    def _close_if_idle(self) -> None:
        """End it, unless it has sandboxes."""
        if not self._running and not self._requests:
            self.close()


def send_text(process: NewProcess, file: int) -> None:
    """Send a process the file of its text, unless it has ended. Raises `SandboxError`."""
    try:
        socket.send_fds(process.channel, [b"t"], [file])
    except ConnectionError:
        pass
    except OSError as error:
        discard(process)
        raise _not_started(error.strerror) from error


def _start_process(channel: socket.socket) -> subprocess.Popen[bytes]:
    """Start the first process.

    Args:
        channel: The process's end of the connection.

    Raises:
        OSError: It cannot be started.
    """
    worker_folder = str(Path(worker.__file__).parent)
    arguments = [_BOOTSTRAP, str(channel.fileno()), worker_folder]
    return subprocess.Popen(
        [sys.executable, "-I", "-S", "-B", "-c", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        pass_fds=[channel.fileno()],
        env={},
        start_new_session=True,
    )


def _not_started(reason: object) -> SandboxError:
    return SandboxError(f"A sandbox cannot be started: {reason}.")


def _fail(request: asyncio.Future[ForkedProcess], error: SandboxError) -> None:
    if not request.done():
        request.set_exception(error)


def discard(process: NewProcess) -> None:
    """End a process that nobody uses."""
    process.channel.close()
    _end(process.forked)


def _end(forked: ForkedProcess) -> None:
    """Kill a process, and close its handle."""
    with contextlib.suppress(OSError):
        system_calls.signal_process(forked.handle, signal.SIGKILL)
    os.close(forked.handle)


class _ServerMessage(NamedTuple):
    """A message of a fork server."""

    data: bytes
    """JSON; empty if the server has ended."""
    descriptors: list[int]
    """They are not inherited by programs."""


def _take_message(channel: socket.socket) -> _ServerMessage:
    """Receive a message. Raises `OSError`."""
    descriptors = array.array("i")
    data, ancillary, *_ = channel.recvmsg(
        _SERVER_MESSAGE_BYTES,
        socket.CMSG_SPACE(descriptors.itemsize),
        socket.MSG_CMSG_CLOEXEC,
    )
    for level, kind, block in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            # A block that was cut may end within a descriptor.
            usable_bytes = len(block) - len(block) % descriptors.itemsize
            descriptors.frombytes(block[:usable_bytes])
    return _ServerMessage(data, list(descriptors))
