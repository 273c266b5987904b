"""One running sandbox process: its connection, its turns, its end."""

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
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from mahtab_tui import worker
from mahtab_tui.kernel.launch import describe_end
from mahtab_tui.sandbox.base import (
    CallRefusedError,
    SandboxError,
    SandboxHost,
    TurnResult,
    TurnStatus,
    without_surrogates,
)
from mahtab_tui.worker.frames import Frame, FrameError, FrameReader, encode
from mahtab_tui.worker.sandbox import confinement
from mahtab_tui.worker.sandbox.confinement import THREADS
from mahtab_tui.worker.sandbox.turns import MAX_FRAME

_TICKS = os.sysconf("SC_CLK_TCK")


class ProcessUsage(NamedTuple):
    cpu: float
    """Seconds."""
    threads: int


def usage(pid: int) -> ProcessUsage | None:
    """Read what a process has used so far; None if that is unknown."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    # The fields after the name start with the third; 14 and 15 are the times, 20 the threads.
    return ProcessUsage((int(fields[11]) + int(fields[12])) / _TICKS, int(fields[17]))


@dataclass
class RunningTurn:
    number: int
    seconds: float
    """Limit of its run time."""
    done: asyncio.Future[Frame | None]
    """The sandbox's report of the end; None if the process ended instead."""
    cpu: float
    """CPU time of the process when `advance` was last called."""
    begun: float = field(default_factory=time.monotonic)
    now: float = field(default_factory=time.monotonic)
    ran: float = 0.0
    """Seconds that it has run: elapsed time, but only CPU time while it waits for a call."""
    final: bool = False
    """Whether the answer has come; later messages are ignored."""
    timed_out: bool = False
    killed: str = ""
    """The reason, if it was."""
    messages: int = 0
    received: int = 0
    """Bytes."""

    def advance(self, used: ProcessUsage | None, waits: bool) -> None:
        """Add the time since the last call of this method. waits: whether a call was open."""
        now, cpu = time.monotonic(), used.cpu if used else self.cpu
        self.ran += max(0.0, cpu - self.cpu) if waits else now - self.now
        self.now, self.cpu = now, cpu


# As `kernel.launch.BOOTSTRAP`, for an interpreter that has no environment and no site-packages.
_BOOTSTRAP = """\
import gc, sys
gc.disable()
package = type(sys)("mahtab_worker"); package.__path__ = [sys.argv[2]]; sys.modules["mahtab_worker"] = package
from mahtab_worker.sandbox.server import main
main(int(sys.argv[1]))
"""

_MESSAGE = 4096


@dataclass(frozen=True)
class ForkedProcess:
    pid: int
    handle: int
    """A `pidfd`, so that signals cannot hit another process. Its owner closes it."""
    ended: asyncio.Future[int]
    """Its exit code, negative for a signal, once it has been reaped. Await it with
    `asyncio.shield`."""


NewProcess = tuple[socket.socket, ForkedProcess]
"""A process without a text, and the socket to it."""


class SandboxServer:
    """The connection to a process that makes sandboxes; belongs to one event loop. The process ends
    with its connection, and its sandboxes with it."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._loop = asyncio.get_running_loop()
        self._hello: asyncio.Future[dict[str, Any]] = self._loop.create_future()
        self._requests: dict[int, asyncio.Future[ForkedProcess]] = {}
        self._running: dict[int, asyncio.Future[int]] = {}
        self._turn = asyncio.Lock()
        self._count = 0
        self.alive = True
        self._loop.add_reader(channel, self._receive)

    async def fork(self, *, load: bool = False) -> NewProcess:
        """Make a sandbox, and return the socket to it, over which it gets its text (`send_text`) if
        the server has none. load: make a server for a text instead. Raises `SandboxError`."""
        try:
            ours, theirs = socket.socketpair(
                socket.AF_UNIX, socket.SOCK_SEQPACKET if load else socket.SOCK_STREAM
            )
        except OSError as error:
            raise _not_started(error.strerror) from error
        ours.setblocking(False)
        try:
            return ours, await self._fork(theirs, load)
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()

    async def _fork(self, channel: socket.socket, load: bool) -> ForkedProcess:
        async with self._turn:
            if not self.alive:
                raise SandboxError(_SERVER_ENDED)
            self._count += 1
            answer: asyncio.Future[ForkedProcess] = self._loop.create_future()
            self._requests[self._count] = answer
            try:
                request = json.dumps({"id": self._count, "load": load}).encode()
                socket.send_fds(self._channel, [request], [channel.fileno()])
            except OSError as error:
                del self._requests[self._count]
                if isinstance(error, ConnectionError):  # it has ended, which the loop learns later
                    self.close()
                raise _not_started(error.strerror) from error
            try:
                return await answer
            except asyncio.CancelledError:
                if answer.done() and not answer.cancelled():
                    _end(answer.result())
                raise

    def _receive(self) -> None:
        try:
            data, fds = _take_message(self._channel)
        except BlockingIOError:
            return
        except OSError:
            data, fds = b"", []
        if not data:
            SandboxServer.close(self)
            return
        message = json.loads(data)
        op, number = message["op"], message.get("id")
        if op == "hello":
            self._hello.set_result(message)
        elif op == "forked":
            self._forked(number, message["pid"], fds)
        elif op == "failed":
            _fail(self._requests.pop(number), _not_started(message["why"]))
        elif op == "ended" and (ended := self._running.pop(number, None)) is not None:
            ended.set_result(message["code"])
            self._on_end()

    def _on_end(self) -> None: ...

    def _forked(self, number: int, pid: int, fds: list[int]) -> None:
        answer = self._requests.pop(number)
        if not fds:  # we have no descriptors left; the sandbox ends when its socket is closed
            _fail(answer, _not_started(os.strerror(errno.EMFILE)))
            return
        self._running[number] = ended = self._loop.create_future()
        forked = ForkedProcess(pid, fds[0], ended)
        if answer.cancelled():
            _end(forked)
        else:
            answer.set_result(forked)

    def close(self) -> None:
        """End the server and its sandboxes, or note that they have ended."""
        if not self.alive:
            return
        self.alive = False
        self._loop.remove_reader(self._channel)
        self._channel.close()
        if not self._hello.done():
            self._hello.set_exception(SandboxError(self._start_failure()))
        for answer in self._requests.values():
            _fail(answer, SandboxError(_SERVER_ENDED))
        for ended in self._running.values():
            ended.set_result(-signal.SIGKILL)
        self._running.clear()

    def _start_failure(self) -> str:
        return "There is not enough memory for a sandbox's text."


class ForkServer(SandboxServer):
    """The first process, which has loaded everything."""

    def __init__(self, process: subprocess.Popen[bytes], channel: socket.socket) -> None:
        super().__init__(channel)
        self._process = process

    @classmethod
    async def start(cls) -> ForkServer:
        """Start a server and wait until it has loaded everything. Raises `SandboxError`."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        arguments = [_BOOTSTRAP, str(theirs.fileno()), str(Path(worker.__file__).parent)]
        try:
            process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-B", "-c", *arguments],
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

    async def load(self, text: str, file: int) -> TextServer:
        """Make a server whose sandboxes share a text; wait for its `loaded`. file: the descriptor
        of the text. Raises `SandboxError`."""
        process = await self.fork(load=True)
        send_text(process, file)
        return TextServer(process, text)

    def close(self) -> None:
        super().close()
        self._process.kill()
        self._process.wait()
        if self._process.stderr is not None:
            self._process.stderr.close()

    def _start_failure(self) -> str:
        self._process.kill()
        errors = self._process.communicate()[1].decode("utf-8", "replace").strip().splitlines()
        why = f": {errors[-1][:200]}" if errors else "."
        return f"{sys.executable} does not work as a sandbox{why}"


_IDLE = 60.0
"""Seconds that a text without a sandbox is kept for the next search."""


class TextServer(SandboxServer):
    """A fork of the first process, whose sandboxes share a text. It ends after a while without use."""

    def __init__(self, process: NewProcess, text: str) -> None:
        channel, forked = process
        super().__init__(channel)
        self.text = text
        self._forked_process: ForkedProcess | None = forked
        self._idle_seconds = _IDLE
        self._on_end()

    async def loaded(self) -> None:
        """Wait until it has read its text. Raises `SandboxError`."""
        try:
            await self._hello
        except BaseException:
            self.close()
            raise

    def release(self) -> None:
        self._idle_seconds = 0.0
        self._on_end()

    def close(self) -> None:
        super().close()
        self.text = ""
        if self._forked_process is not None:
            _end(self._forked_process)
            self._forked_process = None

    def _on_end(self) -> None:
        self._loop.call_later(self._idle_seconds, self._close_if_idle)

    def _close_if_idle(self) -> None:
        if not self._running and not self._requests:
            self.close()


def send_text(process: NewProcess, file: int) -> None:
    """Send a process the file of its text, unless it has ended. Raises `SandboxError`."""
    try:
        socket.send_fds(process[0], [b"t"], [file])
    except ConnectionError:
        pass
    except OSError as error:
        discard(process)
        raise _not_started(error.strerror) from error


_SERVER_ENDED = "The process that makes sandboxes has ended."


def _not_started(why: object) -> SandboxError:
    return SandboxError(f"A sandbox cannot be started: {why}.")


def _fail(answer: asyncio.Future[ForkedProcess], error: SandboxError) -> None:
    if not answer.done():
        answer.set_exception(error)


def discard(process: NewProcess) -> None:
    """End a process that nobody uses."""
    channel, forked = process
    channel.close()
    _end(forked)


def _end(forked: ForkedProcess) -> None:
    with contextlib.suppress(OSError):
        confinement.signal_process(forked.handle, signal.SIGKILL)
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


LIMIT_GRACE = 1.0
"""Seconds between the end of a turn's time and the kill."""

_AGAIN = 0.1
"""Seconds before a second interrupt: the first may have come before the code started."""

_FINAL_GRACE = 0.5
_ENDING = 0.05
_CHECK_EVERY = 0.1

# Limits of a turn; beyond them the process is killed.
MAX_RECEIVED = 256 * 2**20
MAX_MESSAGES = 50_000
MAX_CALLS = 256
"""Open at the same time."""

MAX_UNREAD = 16 * 2**20
"""Bytes sent to it that it has not read, apart from the last message."""

_MAX_BARE = 4 * 2**20
_MAX_OUTPUT = 20_000
"""Characters; an honest sandbox sends fewer."""


class ChildProcess(asyncio.Protocol):
    def __init__(self, forked: ForkedProcess, host: SandboxHost) -> None:
        self._loop = asyncio.get_running_loop()
        self._forked = forked
        self._host = host
        self._frames = FrameReader(MAX_FRAME, _MAX_BARE)
        self._transport: asyncio.Transport | None = None
        self._turns = 0
        self._turn: RunningTurn | None = None
        self._calls: dict[int, asyncio.Task[None]] = {}
        self._killer: asyncio.TimerHandle | None = None
        self.ready: asyncio.Future[None] = self._loop.create_future()
        """Set when the process is locked down. Raises `SandboxError`."""
        self.over = False
        self._reaped = False
        forked.ended.add_done_callback(self._ended)

    # For `ProcessSandbox`

    def send(self, frame: Frame) -> None:
        """Send a frame. Raises `TypeError` or `FrameError` if it cannot be encoded."""
        data = encode(frame)
        if self._transport is not None and not self._transport.is_closing():
            if self._transport.get_write_buffer_size() > MAX_UNREAD:
                self.kill("it did not read its answers")
            else:
                self._transport.write(data)

    async def run(self, code: str, seconds: float) -> TurnResult:
        self._turns += 1
        used, done = usage(self._forked.pid), self._loop.create_future()
        turn = self._turn = RunningTurn(self._turns, seconds, done, used.cpu if used else 0.0)
        # Between its turns the process is stopped, so that threads of the code use nothing.
        self._signal(signal.SIGCONT)
        self.send({"op": "run", "turn": turn.number, "code": code})
        watching = self._loop.create_task(self._watch(turn))
        try:
            frame = None if self._reaped else await turn.done
        finally:
            watching.cancel()
            self._turn = None
            if self._killer is not None:
                self._killer.cancel()
            self._cancel_calls()
            self._signal(signal.SIGSTOP)
        return self._result(turn, frame)

    def kill(self, why: str = "") -> None:
        """Kill the process at once. why: for the turn's result."""
        if self._turn is not None and not self._reaped:
            self._turn.killed = self._turn.killed or why
        self.over = True
        self._signal(signal.SIGKILL)

    async def closed(self) -> None:
        await asyncio.shield(self._forked.ended)

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        # A process that ends also closes its connection; wait a moment for its exit code.
        self._loop.call_later(_ENDING, self.kill, "it closed its connection")

    def data_received(self, data: bytes) -> None:
        try:
            if self._turn is not None:
                self._turn.received += len(data)
                if self._turn.received > MAX_RECEIVED:
                    raise FrameError(f"more than {MAX_RECEIVED // 2**20} MiB in one turn")
            for frame in self._frames.feed(data):
                self._take(without_surrogates(frame))
        except FrameError as error:
            self.kill(f"it sent something that is not allowed ({error})")
            if self._transport is not None:
                self._transport.abort()

    # Frames

    def _take(self, frame: Frame) -> None:
        if self._turn is not None:
            self._turn.messages += 1
            if self._turn.messages > MAX_MESSAGES:
                raise FrameError(f"more than {MAX_MESSAGES:,} messages in one turn")
        op = frame["op"]
        if op == "ready":
            if not self.ready.done():
                self.ready.set_result(None)
        elif op == "refused":
            self._refuse(f"{str(frame.get('why'))[:500]}.")
        elif op == "call":
            self._call(*_checked(frame, id=int, name=str, args=dict))
        elif op == "cancelled":
            if (call := self._calls.get(*_checked(frame, id=int))) is not None:
                call.cancel()
        elif op == "tell":
            self._on_event(*_checked(frame, name=str, args=dict))
        elif op == "done":
            self._done(frame)
        else:
            raise FrameError("an unknown op")

    def _call(self, number: int, name: str, args: dict[str, Any]) -> None:
        if number in self._calls:
            raise FrameError("a call's number was used twice")
        if self._turn is None or self._turn.final:
            self._reply(number, error="the turn is over")
            return
        if len(self._calls) == MAX_CALLS:
            raise FrameError(f"more than {MAX_CALLS} calls at once")
        self._account(self._turn)
        self._calls[number] = self._loop.create_task(self._answer(number, name, args))

    async def _answer(self, number: int, name: str, args: dict[str, Any]) -> None:
        try:
            self._reply(number, value=await self._host.call(name, args))
        except CallRefusedError as error:
            self._reply(number, error=str(error))
        except asyncio.CancelledError:
            self._reply(number, error="the turn is over")
            raise
        except Exception as error:
            self._reply(number, error=f"the call failed: {error}")
            raise
        finally:
            if self._turn is not None:
                self._account(self._turn)
            del self._calls[number]

    def _reply(self, number: int, **reply: Any) -> None:
        self.send({"op": "answer", "id": number, **reply})

    def _on_event(self, name: str, args: dict[str, Any]) -> None:
        turn = self._turn
        if turn is None or turn.final:
            return
        self._host.send(name, args)
        if name == "final":
            turn.final = True
            self._cancel_calls()
            self._kill_after(_FINAL_GRACE)

    def _done(self, frame: Frame) -> None:
        number = _checked(frame, turn=int, status=str, output=str, chars=int)[0]
        if self._turn is not None and number == self._turn.number and not self._turn.done.done():
            self._turn.done.set_result(frame)

    # The turn's limits and end

    async def _watch(self, turn: RunningTurn) -> None:
        while True:
            left = max(0.0, turn.seconds - turn.ran)
            await asyncio.sleep(min(_CHECK_EVERY, left) or _CHECK_EVERY)
            self._account(turn)
            if turn.ran >= turn.seconds and not turn.timed_out:
                self._interrupt(turn)

    def _account(self, turn: RunningTurn) -> None:
        used = usage(self._forked.pid)
        turn.advance(used, waits=bool(self._calls))
        if used is not None and used.threads > THREADS:
            self.kill(f"it had more than {THREADS} threads")

    def _interrupt(self, turn: RunningTurn) -> None:
        def interrupt_again() -> None:
            if self._turn is turn and not turn.done.done():
                self._signal(signal.SIGINT)

        turn.timed_out = True
        self._signal(signal.SIGINT)
        self._loop.call_later(_AGAIN, interrupt_again)
        self._kill_after(LIMIT_GRACE)

    def _kill_after(self, seconds: float) -> None:
        if self._killer is not None:
            self._killer.cancel()
        why = "its code did not stop when it was interrupted"
        self._killer = self._loop.call_later(seconds, self.kill, why)

    def _cancel_calls(self) -> None:
        for call in list(self._calls.values()):
            call.cancel()

    def _result(self, turn: RunningTurn, frame: Frame | None) -> TurnResult:
        status: TurnStatus = "killed" if turn.killed else "died"
        if frame is not None:
            failed = frame["status"] == "error"
            status = "timed out" if turn.timed_out else "error" if failed else "ok"
            output, chars = frame["output"][:_MAX_OUTPUT], max(0, frame["chars"])
        elif turn.final:
            output, chars = "", 0
        else:
            end = turn.killed or describe_end(self._forked.ended.result())
            how = "was killed" if turn.killed else "died"
            output = f"The sandbox {how}: {end}. Its variables are gone."
            chars = len(output)
        duration = time.monotonic() - turn.begun
        return TurnResult("final" if turn.final else status, output, chars, duration)

    # The process

    def _signal(self, number: int) -> None:
        if not self._reaped:
            with contextlib.suppress(ProcessLookupError):
                confinement.signal_process(self._forked.handle, number)

    def _ended(self, _: asyncio.Future[int]) -> None:
        self.over = self._reaped = True
        os.close(self._forked.handle)
        if self._transport is not None:
            self._transport.abort()
        self._cancel_calls()
        end = describe_end(self._forked.ended.result())
        self._refuse(f"A sandbox ended before it was ready: {end}.")
        if self._turn is not None and not self._turn.done.done():
            self._turn.done.set_result(None)

    def _refuse(self, why: str) -> None:
        if not self.ready.done():
            self.ready.set_exception(SandboxError(why))
            self.ready.exception()  # or asyncio would log it if nobody waits for it


def _checked(frame: Frame, **kinds: type) -> list[Any]:
    """Return the fields of a frame. Raises `FrameError` if one is missing or has another type."""
    for name, kind in kinds.items():
        if type(frame.get(name)) is not kind:
            raise FrameError(f"{frame['op']} without a proper {name}")
    return [frame[name] for name in kinds]
