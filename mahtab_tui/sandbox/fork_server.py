"""The engine's side of the process that forks sandboxes."""

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
from typing import Any

from mahtab_tui.kernel import worker
from mahtab_tui.kernel.worker.sandbox import libc
from mahtab_tui.sandbox.base import SandboxError

# As `kernel.launch.BOOTSTRAP`, for an interpreter that has no environment and no site-packages.
_BOOTSTRAP = """\
import gc, sys
gc.disable()
package = type(sys)("mahtab_worker"); package.__path__ = [sys.argv[2]]; sys.modules["mahtab_worker"] = package
from mahtab_worker.sandbox.server import main
main(int(sys.argv[1]))
"""
_WORKER = Path(worker.__file__).parent

_MESSAGE = 4096
"""Bytes of the server's longest message."""

_KILLED = -signal.SIGKILL


@dataclass(frozen=True)
class ForkedProcess:
    """A process that the fork server has made."""

    pid: int
    handle: int
    """A descriptor of the process (`pidfd`), so that signals cannot hit another. Its owner closes
    it."""
    ended: asyncio.Future[int]
    """Set to its exit code, negative for a signal, when it has been reaped. Wait for it by
    `asyncio.shield`."""


class ForkServer:
    """One server process; belongs to one event loop. It ends with its connection, and its sandboxes
    with it."""

    def __init__(self, process: subprocess.Popen[bytes], channel: socket.socket) -> None:
        self._process = process
        self._channel = channel
        self._loop = asyncio.get_running_loop()
        self._hello: asyncio.Future[dict[str, Any]] = self._loop.create_future()
        self._requests: dict[int, asyncio.Future[ForkedProcess]] = {}
        self._running: dict[int, asyncio.Future[int]] = {}
        self._turn = asyncio.Lock()
        self._count = 0
        self.alive = True
        self._loop.add_reader(channel, self._receive)

    @classmethod
    async def start(cls) -> ForkServer:
        """Start a server and wait until it has loaded everything. Raises `SandboxError`."""
        try:
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        except OSError as error:
            raise SandboxError(f"A sandbox cannot be started: {error.strerror}.") from error
        ours.setblocking(False)
        command = [
            sys.executable,
            "-I",
            "-S",
            "-B",
            "-c",
            _BOOTSTRAP,
            str(theirs.fileno()),
            str(_WORKER),
        ]
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                pass_fds=[theirs.fileno()],
                env={},
                start_new_session=True,
            )
        except OSError as error:
            ours.close()
            raise SandboxError(
                f"{sys.executable} cannot be started as a sandbox: {error.strerror or error}."
            ) from error
        finally:
            theirs.close()
        server = cls(process, ours)
        try:
            if missing := (await server._hello)["missing"]:
                raise SandboxError(f"Sandboxing is not supported on this system: {missing}.")
        except BaseException:
            server.close()
            raise
        return server

    async def fork(self, channel: socket.socket, text: int) -> ForkedProcess:
        """Make a sandbox at the other end of a socket. text: the descriptor of its text. Raises
        `SandboxError`."""
        async with self._turn:
            if not self.alive:
                raise SandboxError("The process that makes sandboxes has ended.")
            self._count += 1
            answer: asyncio.Future[ForkedProcess] = self._loop.create_future()
            self._requests[self._count] = answer
            try:
                socket.send_fds(
                    self._channel,
                    [json.dumps({"id": self._count}).encode()],
                    [channel.fileno(), text],
                )
            except OSError as error:
                del self._requests[self._count]
                if isinstance(
                    error, ConnectionError
                ):  # it has just ended, and the loop does not know yet
                    self._lost()
                raise SandboxError(f"A sandbox cannot be started: {error.strerror}.") from error
            try:
                return await answer
            except asyncio.CancelledError:
                if answer.done() and not answer.cancelled():
                    _discard(answer.result())
                raise

    def close(self) -> None:
        """End the server and its sandboxes."""
        self._lost()
        self._process.kill()
        self._process.wait()
        if self._process.stderr is not None:
            self._process.stderr.close()

    def _receive(self) -> None:
        """Called by the loop when a message has arrived."""
        try:
            data, fds = _take_message(self._channel)
        except BlockingIOError:
            return
        except OSError:
            data, fds = b"", []
        if not data:
            self._lost()
            return
        message = json.loads(data)
        number = message.get("id")
        if message["op"] == "hello":
            self._hello.set_result(message)
        elif message["op"] == "forked":
            self._forked(number, message["pid"], fds)
        elif message["op"] == "failed":
            _fail(self._requests.pop(number), f"A sandbox cannot be started: {message['why']}.")
        elif message["op"] == "ended" and (ended := self._running.pop(number, None)) is not None:
            ended.set_result(message["code"])

    def _forked(self, number: int, pid: int, fds: list[int]) -> None:
        answer = self._requests.pop(number)
        if (
            not fds
        ):  # this process has no descriptors left; the sandbox ends when its socket is closed
            _fail(answer, f"A sandbox cannot be started: {os.strerror(errno.EMFILE)}.")
            return
        self._running[number] = ended = self._loop.create_future()
        forked = ForkedProcess(pid, fds[0], ended)
        if answer.cancelled():
            _discard(forked)
        else:
            answer.set_result(forked)

    def _lost(self) -> None:
        """Note that the server, and so all sandboxes, have ended."""
        if not self.alive:
            return
        self.alive = False
        self._loop.remove_reader(self._channel)
        self._channel.close()
        if not self._hello.done():
            self._hello.set_exception(SandboxError(self._why_not()))
        for answer in self._requests.values():
            _fail(answer, "The process that makes sandboxes has ended.")
        for ended in self._running.values():
            ended.set_result(_KILLED)
        self._running.clear()

    def _why_not(self) -> str:
        """Say why the process could not start, from its stderr."""
        self._process.kill()
        said = self._process.communicate()[1].decode("utf-8", "replace").strip().splitlines()
        return f"{sys.executable} does not work as a sandbox" + (
            f": {said[-1][:200]}" if said else "."
        )


def _fail(answer: asyncio.Future[ForkedProcess], why: str) -> None:
    if not answer.done():
        answer.set_exception(SandboxError(why))


def _discard(forked: ForkedProcess) -> None:
    """Kill a process that nobody waits for."""
    with contextlib.suppress(OSError):
        libc.signal_process(forked.handle, signal.SIGKILL)
    os.close(forked.handle)


def _take_message(channel: socket.socket) -> tuple[bytes, list[int]]:
    """Receive a message and its descriptors, which are not inherited by programs."""
    fds = array.array("i")
    data, ancillary, _, _ = channel.recvmsg(
        _MESSAGE, socket.CMSG_SPACE(fds.itemsize), socket.MSG_CMSG_CLOEXEC
    )
    for level, kind, block in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            fds.frombytes(block[: len(block) - len(block) % fds.itemsize])
    return data, list(fds)
