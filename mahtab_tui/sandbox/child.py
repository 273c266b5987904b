"""One running sandbox process: its connection, its turns, its end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from typing import Any

from mahtab_tui.kernel.process_end import describe_end
from mahtab_tui.sandbox.base import (
    CallRefusedError,
    SandboxError,
    SandboxHost,
    TurnResult,
    TurnStatus,
)
from mahtab_tui.sandbox.fork_server import ForkedProcess
from mahtab_tui.sandbox.running_turn import RunningTurn, read_usage
from mahtab_tui.sandbox.searched_text import without_surrogates
from mahtab_tui.worker.link.frames import Frame, FrameError, FrameReader, encode
from mahtab_tui.worker.sandbox import system_calls
from mahtab_tui.worker.sandbox.confinement import MAX_THREADS
from mahtab_tui.worker.sandbox.turns import MAX_MESSAGE_BYTES

_LIMIT_GRACE_S = 1.0
"""Seconds between the end of a turn's time and the kill."""
_SECOND_INTERRUPT_S = 0.1
"""Seconds before a second interrupt: the first may have come before the code started."""
_FINAL_GRACE_S = 0.5
"""Seconds between the answer and the kill."""
_EXIT_GRACE_S = 0.05
"""Seconds between the end of the connection and the kill."""
_CHECK_INTERVAL_S = 0.1
"""Seconds between two measurements of a turn's time."""

# Limits of a turn; beyond them the process is killed.
_MAX_RECEIVED_BYTES = 256 * 2**20
_MAX_MESSAGES = 50_000
_MAX_OPEN_CALLS = 256
_MAX_UNREAD_BYTES = 16 * 2**20
"""Bytes sent to it that it has not read, apart from the last message."""

_MAX_STRUCTURE_BYTES = 4 * 2**20
"""Maximum JSON bytes outside string literals in a frame."""
_MAX_OUTPUT_CHARS = 20_000
"""An honest sandbox sends fewer."""
_MAX_REASON_CHARS = 500
"""Characters of the reason why it could not be locked down."""


class ChildProcess(asyncio.Protocol):
    """The connection to a sandbox, whose messages may be forged."""

    def __init__(self, forked: ForkedProcess, host: SandboxHost) -> None:
        self._loop = asyncio.get_running_loop()
        self._forked = forked
        self._host = host
        self._frames = FrameReader(MAX_MESSAGE_BYTES, _MAX_STRUCTURE_BYTES)
        self._transport: asyncio.Transport | None = None
        self._turn_count = 0
        self._turn: RunningTurn | None = None
        """None between turns."""
        self._calls: dict[int, asyncio.Task[None]] = {}
        """Calls of its code that are being answered, by number."""
        self._killer: asyncio.TimerHandle | None = None
        """Kills it if it does not stop in time."""
        self.ready: asyncio.Future[None] = self._loop.create_future()
        """Set when the process is locked down. Raises `SandboxError`."""
        self.over = False
        """Whether it has been killed or has ended."""
        self._reaped = False
        """Whether its exit code is known, so that its handle is closed."""
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
        """Run the code of a turn until it ends or is killed.

        Args:
            code: What to run.
            seconds: How long it may run, without the time in which it waits for its calls.
        """
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
        watcher = self._loop.create_task(self._watch(turn))
        report: Frame | None = None
        try:
            if not self._reaped:
                report = await turn.done
        finally:
            watcher.cancel()
            self._turn = None
            if self._killer is not None:
                self._killer.cancel()
            self._cancel_calls()
            self._signal(signal.SIGSTOP)

        return self._result(turn, report)

    def kill(self, reason: str = "") -> None:
        """Kill the process at once.

        Args:
            reason: For the turn's result.
        """
        if self._turn is not None and not self._reaped:
            self._turn.kill_reason = self._turn.kill_reason or reason
        self.over = True
        self._signal(signal.SIGKILL)

    async def wait_for_end(self) -> None:
        """Wait until the process has ended."""
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
        """Act on a frame, which may be forged. Raises `FrameError`."""
        if self._turn is not None:
            self._turn.message_count += 1
            if self._turn.message_count > _MAX_MESSAGES:
                raise FrameError(f"more than {_MAX_MESSAGES:,} messages in one turn")
        match frame["op"]:
            case "ready":
                if not self.ready.done():
                    self.ready.set_result(None)
            case "refused":
                self._refuse(f"{str(frame.get('reason'))[:_MAX_REASON_CHARS]}.")
            case "call":
                self._start_call(*_checked_fields(frame, id=int, name=str, args=dict))
            case "cancelled":
                (number,) = _checked_fields(frame, id=int)
                call = self._calls.get(number)
                if call is not None:
                    call.cancel()
            case "tell":
                self._on_event(*_checked_fields(frame, name=str, args=dict))
            case "done":
                self._take_report(frame)
            case _:
                raise FrameError("an unknown op")

    def _start_call(self, number: int, name: str, args: dict[str, Any]) -> None:
        """Begin to answer a call of its code. Raises `FrameError`."""
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
        """Have the host answer a call, and send the answer."""
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
        """Pass on what needs no answer, such as the final answer of a turn's code."""
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
            # After its time, a turn is still watched: interrupted code may start threads.
            remaining_s = turn.max_seconds - turn.run_seconds
            if remaining_s <= 0:
                remaining_s = _CHECK_INTERVAL_S
            await asyncio.sleep(min(_CHECK_INTERVAL_S, remaining_s))

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
        """Interrupt code whose time is up, and kill the process if it does not stop."""

        def interrupt_again() -> None:
            if self._turn is turn and not turn.done.done():
                self._signal(signal.SIGINT)

        turn.timed_out = True
        self._signal(signal.SIGINT)
        self._loop.call_later(_SECOND_INTERRUPT_S, interrupt_again)
        self._kill_after(_LIMIT_GRACE_S)

    def _kill_after(self, seconds: float) -> None:
        """Kill the process later, unless its turn ends before."""
        if self._killer is not None:
            self._killer.cancel()
        reason = "its code did not stop when it was interrupted"
        self._killer = self._loop.call_later(seconds, self.kill, reason)

    def _cancel_calls(self) -> None:
        for call in list(self._calls.values()):
            call.cancel()

    def _result(self, turn: RunningTurn, report: Frame | None) -> TurnResult:
        """Return how a turn ended.

        Args:
            report: The sandbox's; None if the process ended instead.
        """
        duration = time.monotonic() - turn.start_time
        if report is None:
            return self._result_without_report(turn, duration)

        # The report may be forged: only what the host knows itself outweighs it.
        status: TurnStatus = "ok"
        if turn.final:
            status = "final"
        elif turn.timed_out:
            status = "timed out"
        elif report["status"] == "error":
            status = "error"
        return TurnResult(
            status=status,
            output=report["output"][:_MAX_OUTPUT_CHARS],
            chars=max(0, report["chars"]),
            duration=duration,
        )

    def _result_without_report(self, turn: RunningTurn, duration: float) -> TurnResult:
        """Return how a turn ended during which the process ended.

        Args:
            duration: In seconds.
        """
        # It was killed because it had answered.
        if turn.final:
            return TurnResult("final", output="", chars=0, duration=duration)

        status: TurnStatus
        if turn.kill_reason:
            status = "killed"
            event = f"was killed: {turn.kill_reason}"
        else:
            status = "died"
            event = f"died: {describe_end(self._forked.exit_code.result())}"
        output = f"The sandbox {event}. Its variables are gone."
        return TurnResult(status, output, chars=len(output), duration=duration)

    # The process

    def _signal(self, number: int) -> None:
        """Send the process a signal, unless it has ended."""
        if not self._reaped:
            with contextlib.suppress(ProcessLookupError):
                system_calls.signal_process(self._forked.handle, number)

    def _on_process_end(self, _: asyncio.Future[int]) -> None:
        """End the turn, the calls and the connection of a process that has ended."""
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
            # asyncio logs an exception that nobody has asked for.
            self.ready.exception()


def _checked_fields(frame: Frame, **kinds: type) -> list[Any]:
    """Return the fields of a frame. Raises `FrameError` if one is missing or has another type."""
    for name, kind in kinds.items():
        if type(frame.get(name)) is not kind:
            raise FrameError(f"{frame['op']} without a proper {name}")
    return [frame[name] for name in kinds]
