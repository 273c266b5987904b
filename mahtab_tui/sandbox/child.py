"""One running sandbox process: its connection, its turns, its end. Hostile code may have made up
what comes from it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from typing import Any

from mahtab_tui.kernel.endings import describe_end
from mahtab_tui.kernel.worker.frames import Frame, FrameError, FrameReader, encode
from mahtab_tui.kernel.worker.sandbox import libc
from mahtab_tui.kernel.worker.sandbox.connection import MAX_FRAME
from mahtab_tui.kernel.worker.sandbox.rlimits import THREADS
from mahtab_tui.sandbox.base import (
    CallRefusedError,
    SandboxError,
    SandboxHost,
    TurnResult,
    TurnStatus,
)
from mahtab_tui.sandbox.characters import without_surrogates
from mahtab_tui.sandbox.fork_server import ForkedProcess
from mahtab_tui.sandbox.turn import RunningTime, RunningTurn, usage

INTERRUPT_GRACE = 0.3
"""Seconds between an interrupt and the kill."""

LIMIT_GRACE = 1.0
"""Seconds between the end of a turn's time and the kill."""

_AGAIN = 0.1
"""Seconds before a second interrupt, since the first may have come before the code started."""

_FINAL_GRACE = 0.5
_ENDING = 0.05
_CHECK_EVERY = 0.1
"""Seconds between two checks of what a turn uses."""

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
    """The engine's side of a process that the fork server has made."""

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
        """Whether it was killed or has ended."""
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
        """Run a turn (`Sandbox.run`)."""
        self._turns += 1
        clock = RunningTime(self._loop.time(), usage(self._forked.pid))
        turn = self._turn = RunningTurn(self._turns, seconds, self._loop.create_future(), clock)
        # Between its turns the process is stopped, so that threads of the code use nothing.
        self._signal(signal.SIGCONT)
        self.send({"op": "run", "turn": turn.number, "code": code})
        watching = self._loop.create_task(self._watch(turn))
        try:
            frame = None if self._reaped else await turn.done
        finally:
            watching.cancel()
            self._end_turn()
        return self._result(turn, frame)

    def interrupt(self) -> None:
        """Interrupt the turn's code, and kill the process if that does not help."""
        if self._turn is not None:
            self._stop("interrupted", INTERRUPT_GRACE)

    def kill(self, why: str = "") -> None:
        """Kill the process at once. why: for the turn's result."""
        if self._turn is not None and not self._reaped:
            self._turn.killed = self._turn.killed or why
        self.over = True
        self._signal(signal.SIGKILL)

    async def closed(self) -> None:
        """Wait until the process is reaped."""
        await asyncio.shield(self._forked.ended)

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        # A process that ends also closes its connection; how it ended says more, so wait a moment
        # for that.
        self._loop.call_later(_ENDING, self.kill, "it closed its connection")

    def data_received(self, data: bytes) -> None:
        try:
            self._count_bytes(len(data))
            for frame in self._frames.feed(data):
                self._take(without_surrogates(frame))
        except FrameError as error:
            self.kill(f"it sent something that is not allowed ({error})")
            if self._transport is not None:
                self._transport.abort()

    # Frames

    def _count_bytes(self, size: int) -> None:
        if self._turn is not None:
            self._turn.received += size
            if self._turn.received > MAX_RECEIVED:
                raise FrameError(f"more than {MAX_RECEIVED // 2**20} MiB in one turn")

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
            self._refuse(
                f"Sandboxing is not supported on this system: {str(frame.get('why'))[:500]}."
            )
        elif op == "call":
            self._call(*_checked(frame, id=int, name=str, args=dict))
        elif op == "cancelled":
            if (call := self._calls.get(*_checked(frame, id=int))) is not None:
                call.cancel()
        elif op == "tell":
            self._tell(*_checked(frame, name=str, args=dict))
        elif op == "done":
            self._done(frame)
        else:
            raise FrameError("an unknown op")

    def _call(self, number: int, name: str, args: dict[str, Any]) -> None:
        if number in self._calls:
            raise FrameError("a call's number was used twice")
        if self._turn is None or self._turn.final:
            self.send({"op": "reply", "id": number, "error": "the turn is over"})
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
        self.send({"op": "reply", "id": number, **reply})

    def _tell(self, name: str, args: dict[str, Any]) -> None:
        turn = self._turn
        if turn is None or turn.final:
            return
        self._host.tell(name, args)
        if name == "final":
            turn.final = True
            self._cancel_calls()
            self._kill_after(_FINAL_GRACE)

    def _done(self, frame: Frame) -> None:
        number, _, _, _ = _checked(frame, turn=int, status=str, output=str, chars=int)
        if self._turn is not None and number == self._turn.number and not self._turn.done.done():
            self._turn.done.set_result(frame)

    # The turn's limits and end

    async def _watch(self, turn: RunningTurn) -> None:
        """Enforce the turn's limits."""
        while True:
            await asyncio.sleep(
                min(_CHECK_EVERY, max(0.0, turn.seconds - turn.clock.seconds)) or _CHECK_EVERY
            )
            self._account(turn)
            if turn.clock.seconds >= turn.seconds and turn.stopped is None:
                self._stop("timed out", LIMIT_GRACE)

    def _account(self, turn: RunningTurn) -> None:
        used = usage(self._forked.pid)
        turn.clock.pass_to(self._loop.time(), used, waits=bool(self._calls))
        if used is not None and used.threads > THREADS:
            self.kill(f"it had more than {THREADS} threads")

    def _stop(self, how: TurnStatus, grace: float) -> None:
        assert self._turn is not None
        self._turn.stopped = how
        self._signal(signal.SIGINT)
        self._loop.call_later(_AGAIN, self._interrupt_again, self._turn)
        self._kill_after(grace)

    def _interrupt_again(self, turn: RunningTurn) -> None:
        if self._turn is turn and not turn.done.done():
            self._signal(signal.SIGINT)

    def _kill_after(self, seconds: float) -> None:
        if self._killer is not None:
            self._killer.cancel()
        self._killer = self._loop.call_later(
            seconds, self.kill, "its code did not stop when it was interrupted"
        )

    def _end_turn(self) -> None:
        self._turn = None
        if self._killer is not None:
            self._killer.cancel()
        self._cancel_calls()
        self._signal(signal.SIGSTOP)

    def _cancel_calls(self) -> None:
        for call in list(self._calls.values()):
            call.cancel()

    def _result(self, turn: RunningTurn, frame: Frame | None) -> TurnResult:
        if frame is None:
            if turn.final:
                return TurnResult("final", "", 0, turn.duration)
            how = (
                f"was killed: {turn.killed}"
                if turn.killed
                else f"died: {describe_end(self._forked.ended.result())}"
            )
            output = f"The sandbox {how}. Its variables are gone."
            return TurnResult(
                "killed" if turn.killed else "died", output, len(output), turn.duration
            )
        status: TurnStatus = (
            "final"
            if turn.final
            else turn.stopped or ("error" if frame["status"] in ("error", "interrupted") else "ok")
        )
        return TurnResult(
            status, frame["output"][:_MAX_OUTPUT], max(0, frame["chars"]), turn.duration
        )

    # The process

    def _signal(self, number: int) -> None:
        if not self._reaped:
            with contextlib.suppress(ProcessLookupError):
                libc.signal_process(self._forked.handle, number)

    def _ended(self, _: asyncio.Future[int]) -> None:
        """Called when the process has been reaped."""
        self.over = self._reaped = True
        os.close(self._forked.handle)
        if self._transport is not None:
            self._transport.abort()
        self._cancel_calls()
        self._refuse(
            f"A sandbox ended before it was ready: {describe_end(self._forked.ended.result())}."
        )
        if self._turn is not None and not self._turn.done.done():
            self._turn.done.set_result(None)

    def _refuse(self, why: str) -> None:
        if not self.ready.done():
            self.ready.set_exception(SandboxError(why))
            self.ready.exception()  # retrieved, since nobody may be waiting for it


def _checked(frame: Frame, **kinds: type) -> list[Any]:
    """Return the fields of a frame. Raises `FrameError` if one is missing or has another type."""
    for name, kind in kinds.items():
        if type(frame.get(name)) is not kind:
            raise FrameError(f"{frame['op']} without a proper {name}")
    return [frame[name] for name in kinds]
