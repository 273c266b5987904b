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
from mahtab_tui.worker.link.frames import Frame, FrameError, FrameReader, encode
from mahtab_tui.worker.sandbox import system_calls
from mahtab_tui.worker.sandbox.confinement import MAX_THREADS
from mahtab_tui.worker.sandbox.turns import MAX_MESSAGE_BYTES

# As `kernel.launch.BOOTSTRAP`, for an interpreter that has no environment and no site-packages.
_BOOTSTRAP = """\
import gc, sys
gc.disable()
package = type(sys)("mahtab_worker"); package.__path__ = [sys.argv[2]]; sys.modules["mahtab_worker"] = package
from mahtab_worker.sandbox.server import main
main(int(sys.argv[1]))
"""

_CLOCK_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_SERVER_MESSAGE_BYTES = 4096
_TEXT_IDLE_S = 60.0
"""Seconds that a text without a sandbox is kept for the next search."""

_LIMIT_GRACE_S = 1.0
"""Seconds between the end of a turn's time and the kill."""
_SECOND_INTERRUPT_S = 0.1
"""Seconds before a second interrupt: the first may have come before the code started."""
_FINAL_GRACE_S = 0.5
"""Seconds between the answer and the kill."""
_EXIT_GRACE_S = 0.05
"""Seconds between the end of the connection and the kill."""
_CHECK_INTERVAL_S = 0.1

# Limits of a turn; beyond them the process is killed.
_MAX_RECEIVED_BYTES = 256 * 2**20
_MAX_MESSAGES = 50_000
_MAX_OPEN_CALLS = 256
_MAX_UNREAD_BYTES = 16 * 2**20
"""Bytes sent to it that it has not read, apart from the last message."""

_MAX_BARE_BYTES = 4 * 2**20
"""Largest frame without a payload."""
_MAX_OUTPUT_CHARS = 20_000
"""An honest sandbox sends fewer."""

_SERVER_ENDED = "The process that makes sandboxes has ended."


class ProcessUsage(NamedTuple):
    cpu_seconds: float
    threads: int


def read_usage(pid: int) -> ProcessUsage | None:
    """Read what a process has used so far; None if that is unknown."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    # The fields after the name start with the third; 14 and 15 are the times, 20 the threads.
    ticks = int(fields[11]) + int(fields[12])
    return ProcessUsage(ticks / _CLOCK_TICKS_PER_S, threads=int(fields[17]))


@dataclass
class RunningTurn:
    """A turn whose code runs. Times are in seconds, on the monotonic clock."""

    number: int
    max_seconds: float
    """Limit of its run time."""
    done: asyncio.Future[Frame | None]
    """The sandbox's report of the end; None if the process ended instead."""
    cpu_seconds: float
    """CPU time of the process when `advance` was last called."""
    start_time: float = field(default_factory=time.monotonic)
    last_time: float = field(default_factory=time.monotonic)
    """When `advance` was last called."""
    run_seconds: float = 0.0
    """How long it has run: elapsed time, but only CPU time while it waits for a call."""
    final: bool = False
    """Whether the answer has come; later messages are ignored."""
    timed_out: bool = False
    kill_reason: str = ""
    """Why it was killed; empty if it was not."""
    message_count: int = 0
    received_bytes: int = 0

    def advance(self, usage: ProcessUsage | None, waits: bool) -> None:
        """Add the time since the last call of this method.

        Args:
            usage: what its process has used so far; None if that is unknown.
            waits: whether a call was open.
        """
        now = time.monotonic()
        if usage:
            cpu_seconds = usage.cpu_seconds
        else:
            cpu_seconds = self.cpu_seconds
        if waits:
            self.run_seconds += max(0.0, cpu_seconds - self.cpu_seconds)
        else:
            self.run_seconds += now - self.last_time
        self.last_time = now
        self.cpu_seconds = cpu_seconds


@dataclass(frozen=True)
class ForkedProcess:
    pid: int
    handle: int
    """A `pidfd`, so that signals cannot hit another process. Its owner closes it."""
    exit_code: asyncio.Future[int]
    """Its exit code, negative for a signal, once it has been reaped. Await it with
    `asyncio.shield`."""


class NewProcess(NamedTuple):
    """A process without a text."""

    channel: socket.socket
    """The socket to it."""
    forked: ForkedProcess


class SandboxServer:
    """The connection to a process that makes sandboxes; belongs to one event loop. The process ends
    with its connection, and its sandboxes with it."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._loop = asyncio.get_running_loop()
        self._hello: asyncio.Future[dict[str, Any]] = self._loop.create_future()
        self._requests: dict[int, asyncio.Future[ForkedProcess]] = {}
        self._running: dict[int, asyncio.Future[int]] = {}
        self._forking = asyncio.Lock()
        self._request_count = 0
        self.alive = True
        self._loop.add_reader(channel, self._receive)

    async def fork(self, *, load: bool = False) -> NewProcess:
        """Make a sandbox, which gets its text over its socket (`send_text`) if the server has none.

        Args:
            load: make a server for a text instead.

        Raises:
            SandboxError: The sandbox cannot be started.
        """
        if load:
            socket_type = socket.SOCK_SEQPACKET
        else:
            socket_type = socket.SOCK_STREAM
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
                if isinstance(error, ConnectionError):  # it has ended, which the loop learns later
                    self.close()
                raise _not_started(error.strerror) from error

            try:
                return await forked
            except asyncio.CancelledError:
                if forked.done() and not forked.cancelled():
                    _end(forked.result())
                raise

    def _receive(self) -> None:
        try:
            data, descriptors = _take_message(self._channel)
        except BlockingIOError:
            return
        except OSError:
            data = b""
            descriptors = []
        if not data:
            SandboxServer.close(self)
            return

        message = json.loads(data)
        op = message["op"]
        number = message.get("id")
        if op == "hello":
            self._hello.set_result(message)
        elif op == "forked":
            self._take_forked(number, message["pid"], descriptors)
        elif op == "failed":
            _fail(self._requests.pop(number), _not_started(message["reason"]))
        elif op == "ended":
            exit_code = self._running.pop(number, None)
            if exit_code is not None:
                exit_code.set_result(message["code"])
                self._on_end()

    def _on_end(self) -> None:
        """Called when a sandbox has ended."""

    def _take_forked(self, number: int, pid: int, descriptors: list[int]) -> None:
        request = self._requests.pop(number)
        if not descriptors:  # we have none left; the sandbox ends when its socket is closed
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
        worker_folder = str(Path(worker.__file__).parent)
        arguments = [_BOOTSTRAP, str(child_channel.fileno()), worker_folder]
        try:
            process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-B", "-c", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                pass_fds=[child_channel.fileno()],
                env={},
                start_new_session=True,
            )
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
        _, stderr = self._process.communicate()
        error_lines = stderr.decode("utf-8", "replace").strip().splitlines()
        reason = f": {error_lines[-1][:200]}" if error_lines else "."
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
        socket.send_fds(process.channel, [b"t"], [file])
    except ConnectionError:
        pass
    except OSError as error:
        discard(process)
        raise _not_started(error.strerror) from error


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
    with contextlib.suppress(OSError):
        system_calls.signal_process(forked.handle, signal.SIGKILL)
    os.close(forked.handle)


def _take_message(channel: socket.socket) -> tuple[bytes, list[int]]:
    """Receive a message and its descriptors, which are not inherited by programs."""
    descriptors = array.array("i")
    data, ancillary, _, _ = channel.recvmsg(
        _SERVER_MESSAGE_BYTES,
        socket.CMSG_SPACE(descriptors.itemsize),
        socket.MSG_CMSG_CLOEXEC,
    )
    for level, kind, block in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            # A block that was cut may end within a descriptor.
            usable_bytes = len(block) - len(block) % descriptors.itemsize
            descriptors.frombytes(block[:usable_bytes])
    return data, list(descriptors)


class ChildProcess(asyncio.Protocol):
    """The connection to a sandbox, whose messages may be forged."""

    def __init__(self, forked: ForkedProcess, host: SandboxHost) -> None:
        self._loop = asyncio.get_running_loop()
        self._forked = forked
        self._host = host
        self._frames = FrameReader(MAX_MESSAGE_BYTES, _MAX_BARE_BYTES)
        self._transport: asyncio.Transport | None = None
        self._turn_count = 0
        self._turn: RunningTurn | None = None
        self._calls: dict[int, asyncio.Task[None]] = {}
        self._killer: asyncio.TimerHandle | None = None
        self.ready: asyncio.Future[None] = self._loop.create_future()
        """Set when the process is locked down. Raises `SandboxError`."""
        self.over = False
        """Whether it has been killed or has ended."""
        self._reaped = False
        forked.exit_code.add_done_callback(self._on_process_end)

    # For `ProcessSandbox`

    def send(self, frame: Frame) -> None:
        """Send a frame. Raises `TypeError` or `FrameError` if it cannot be encoded."""
        data = encode(frame)
        if self._transport is not None and not self._transport.is_closing():
            if self._transport.get_write_buffer_size() > _MAX_UNREAD_BYTES:
                self.kill("it did not read its answers")
            else:
                self._transport.write(data)

    async def run(self, code: str, seconds: float) -> TurnResult:
        """Run the code of a turn until it ends or is killed. seconds: limit of its run time."""
        self._turn_count += 1
        usage = read_usage(self._forked.pid)
        turn = RunningTurn(
            self._turn_count,
            seconds,
            done=self._loop.create_future(),
            cpu_seconds=usage.cpu_seconds if usage else 0.0,
        )
        self._turn = turn

        # Between its turns the process is stopped, so that threads of the code use nothing.
        self._signal(signal.SIGCONT)
        self.send({"op": "run", "turn": turn.number, "code": code})
        watching = self._loop.create_task(self._watch(turn))
        try:
            report = None if self._reaped else await turn.done
        finally:
            watching.cancel()
            self._turn = None
            if self._killer is not None:
                self._killer.cancel()
            self._cancel_calls()
            self._signal(signal.SIGSTOP)
        return self._result(turn, report)

    def kill(self, reason: str = "") -> None:
        """Kill the process at once. reason: for the turn's result."""
        if self._turn is not None and not self._reaped:
            self._turn.kill_reason = self._turn.kill_reason or reason
        self.over = True
        self._signal(signal.SIGKILL)

    async def wait_for_end(self) -> None:
        await asyncio.shield(self._forked.exit_code)

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        # A process that ends also closes its connection; wait a moment for its exit code.
        self._loop.call_later(_EXIT_GRACE_S, self.kill, "it closed its connection")

    def data_received(self, data: bytes) -> None:
        try:
            if self._turn is not None:
                self._turn.received_bytes += len(data)
                if self._turn.received_bytes > _MAX_RECEIVED_BYTES:
                    raise FrameError(f"more than {_MAX_RECEIVED_BYTES // 2**20} MiB in one turn")
            for frame in self._frames.feed(data):
                self._take_frame(without_surrogates(frame))
        except FrameError as error:
            self.kill(f"it sent something that is not allowed ({error})")
            if self._transport is not None:
                self._transport.abort()

    # Frames

    def _take_frame(self, frame: Frame) -> None:
        if self._turn is not None:
            self._turn.message_count += 1
            if self._turn.message_count > _MAX_MESSAGES:
                raise FrameError(f"more than {_MAX_MESSAGES:,} messages in one turn")
        op = frame["op"]
        if op == "ready":
            if not self.ready.done():
                self.ready.set_result(None)
        elif op == "refused":
            self._refuse(f"{str(frame.get('reason'))[:500]}.")
        elif op == "call":
            self._start_call(*_checked_fields(frame, id=int, name=str, args=dict))
        elif op == "cancelled":
            (number,) = _checked_fields(frame, id=int)
            call = self._calls.get(number)
            if call is not None:
                call.cancel()
        elif op == "tell":
            self._on_event(*_checked_fields(frame, name=str, args=dict))
        elif op == "done":
            self._take_report(frame)
        else:
            raise FrameError("an unknown op")

    def _start_call(self, number: int, name: str, args: dict[str, Any]) -> None:
        if number in self._calls:
            raise FrameError("a call's number was used twice")
        if self._turn is None or self._turn.final:
            self._reply(number, error="the turn is over")
            return
        if len(self._calls) == _MAX_OPEN_CALLS:
            raise FrameError(f"more than {_MAX_OPEN_CALLS} calls at once")
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
            self._kill_after(_FINAL_GRACE_S)

    def _take_report(self, frame: Frame) -> None:
        """Take the sandbox's report that a turn has ended."""
        number, *_ = _checked_fields(frame, turn=int, status=str, output=str, chars=int)
        turn = self._turn
        if turn is not None and number == turn.number and not turn.done.done():
            turn.done.set_result(frame)

    # The turn's limits and end

    async def _watch(self, turn: RunningTurn) -> None:
        """Measure a turn's time, and interrupt it when that is used up."""
        while True:
            seconds_left = max(0.0, turn.max_seconds - turn.run_seconds)
            await asyncio.sleep(min(_CHECK_INTERVAL_S, seconds_left) or _CHECK_INTERVAL_S)
            self._account(turn)
            if turn.run_seconds >= turn.max_seconds and not turn.timed_out:
                self._interrupt(turn)

    def _account(self, turn: RunningTurn) -> None:
        """Add the time since the last call of this method to a turn."""
        usage = read_usage(self._forked.pid)
        turn.advance(usage, waits=bool(self._calls))
        if usage is not None and usage.threads > MAX_THREADS:
            self.kill(f"it had more than {MAX_THREADS} threads")

    def _interrupt(self, turn: RunningTurn) -> None:
        def interrupt_again() -> None:
            if self._turn is turn and not turn.done.done():
                self._signal(signal.SIGINT)

        turn.timed_out = True
        self._signal(signal.SIGINT)
        self._loop.call_later(_SECOND_INTERRUPT_S, interrupt_again)
        self._kill_after(_LIMIT_GRACE_S)

    def _kill_after(self, seconds: float) -> None:
        if self._killer is not None:
            self._killer.cancel()
        reason = "its code did not stop when it was interrupted"
        self._killer = self._loop.call_later(seconds, self.kill, reason)

    def _cancel_calls(self) -> None:
        for call in list(self._calls.values()):
            call.cancel()

    def _result(self, turn: RunningTurn, report: Frame | None) -> TurnResult:
        """Return how a turn ended. report: the sandbox's; None if the process ended instead."""
        status: TurnStatus = "killed" if turn.kill_reason else "died"
        output = ""
        chars = 0
        if report is not None:
            status = "error" if report["status"] == "error" else "ok"
            if turn.timed_out:
                status = "timed out"
            output = report["output"][:_MAX_OUTPUT_CHARS]
            chars = max(0, report["chars"])
        elif not turn.final:
            reason = turn.kill_reason or describe_end(self._forked.exit_code.result())
            verb = "was killed" if turn.kill_reason else "died"
            output = f"The sandbox {verb}: {reason}. Its variables are gone."
            chars = len(output)
        if turn.final:
            status = "final"
        return TurnResult(status, output, chars, duration=time.monotonic() - turn.start_time)

    # The process

    def _signal(self, number: int) -> None:
        if not self._reaped:
            with contextlib.suppress(ProcessLookupError):
                system_calls.signal_process(self._forked.handle, number)

    def _on_process_end(self, _: asyncio.Future[int]) -> None:
        self.over = True
        self._reaped = True
        os.close(self._forked.handle)
        if self._transport is not None:
            self._transport.abort()
        self._cancel_calls()
        reason = describe_end(self._forked.exit_code.result())
        self._refuse(f"A sandbox ended before it was ready: {reason}.")
        if self._turn is not None and not self._turn.done.done():
            self._turn.done.set_result(None)

    def _refuse(self, reason: str) -> None:
        """Report that the process cannot be used, unless it is ready."""
        if not self.ready.done():
            self.ready.set_exception(SandboxError(reason))
            self.ready.exception()  # or asyncio would log it if nobody waits for it


def _checked_fields(frame: Frame, **kinds: type) -> list[Any]:
    """Return the fields of a frame. Raises `FrameError` if one is missing or has another type."""
    for name, kind in kinds.items():
        if type(frame.get(name)) is not kind:
            raise FrameError(f"{frame['op']} without a proper {name}")
    return [frame[name] for name in kinds]
