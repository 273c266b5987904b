"""A kernel process, from its start to its end, or until another host attaches to it."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

from mahtab_tui.kernel.base import (
    CellResult,
    KernelError,
    KernelHost,
    Lock,
    OnDisplay,
    OnOutput,
    Operations,
    RestoredFile,
    Status,
)
from mahtab_tui.kernel.cells import Chunks, RunningCell, RunningCells
from mahtab_tui.kernel.launch import (
    DetachHandle,
    Output,
    Process,
    SeekableOutput,
    describe_end,
    describe_failed_start,
)
from mahtab_tui.kernel.requests import (
    NO_ANSWER,
    CallAnswers,
    CellEnd,
    ControlRequests,
    HostCall,
    KernelReady,
    Outbox,
    OutgoingFullError,
    checked,
)
from mahtab_tui.system import start_thread, wait_for_result
from mahtab_tui.worker.descriptors import is_readable
from mahtab_tui.worker.frames import Frame, FrameError, FrameReader, encode

START_TIMEOUT = 20.0
"""Seconds; the disk may be cold, or site-packages large."""

END_TIMEOUT = 1.0

_RESTORING = -1


class SavedBefore(NamedTuple):
    carried: tuple[str, ...] | None
    lost: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class EventBacklog:
    """Events to replay on attach. `at` is the offset of the output up to an event."""

    acknowledged: int
    events: tuple[dict[str, Any], ...]
    calls: tuple[HostCall, ...]
    saved: SavedBefore


CLAIMED = "The other terminal now has the kernel and its variables."


class WorkerProcess:
    def __init__(
        self,
        executable: str,
        cwd: str,
        start: Callable[[], Process],
        host: KernelHost,
        on_end: Callable[[WorkerProcess, str], None],
    ) -> None:
        """start: starts the process, on the reader thread. on_end: called there when the process is
        over or another host has attached to it, and its cells have their results."""
        self.hello = KernelReady("", executable, cwd, 0)
        self.cwd = cwd
        self._executable = executable
        self._start = start
        self._host = host
        self._on_end = on_end
        self._started: Future[None] = Future()
        self._ready: Future[None] = Future()
        self._lock = threading.RLock()
        self._printing = threading.Lock()
        self._outbox = Outbox(lambda: self._break("it does not read the answers to its requests"))
        self._process: Process | None = None
        self._detach_handle: DetachHandle | None = None
        self.over = False
        self.claimed = False
        self._intent: tuple[Status, str] | None = None
        self._cells = RunningCells()
        self._last_seal = ""
        self._restoring: RunningCell | None = None
        self._leaving = self._left = False
        self._seekable: SeekableOutput | None = None
        """The output, if the kernel can outlive this host."""
        self._backlog: Future[EventBacklog] = Future()
        self._resumed: dict[int, RunningCell] = {}
        self._ends: dict[int, int] = {}
        """Offset of the end of each unstored cell's output."""
        self._requests = ControlRequests(lambda frame: self._outbox.send(encode(frame)))
        self.ask = self._requests.ask
        self._answers = CallAnswers(host, self._outbox.answer)
        self._chunks = Chunks(self._printed)
        self._early: list[str] = []
        # The thread lives as long as the process, which it also starts (see `spawn`).
        self._thread = threading.Thread(target=self._run, name="mahtab-kernel", daemon=True)

    def start(self) -> None:
        self._thread.start()
        try:
            self._started.result()
            self._ready.result(START_TIMEOUT)
        except TimeoutError:
            self._signal(signal.SIGKILL)
            raise KernelError(
                f"{self._executable} was not ready within {START_TIMEOUT:.0f} s."
            ) from None

    def execute(
        self, code: str, running: RunningCell, nested: bool = False, lock: Lock | None = None
    ) -> CellResult:
        """Raises any exception of the cell's listener, and `KernelError` for code too large to
        send."""
        running.seal = os.urandom(16).hex()
        frame = {"op": "execute", "cell": running.cell, "code": code}
        over = (Status.DIED, "The kernel had ended before the cell began.")
        try:
            data = encode({**frame, "nested": nested, "lock": lock, "seal": running.seal})
            with self._lock:
                if self.over:
                    running.lost(*(self._intent or over))
                else:
                    self._cells.add(running)
            self._outbox.send(data)
        except (FrameError, OutgoingFullError) as error:
            self._cells.remove(running)
            raise KernelError(f"The cell cannot be sent to the kernel: {error}.") from None
        return wait_for_result(running.result)

    def resume_cell(
        self, cell: int, on_output: OnOutput, on_display: OnDisplay
    ) -> CellResult | None:
        """Wait for the end of a cell that began under an earlier host; None if the kernel does not
        know it."""
        with contextlib.suppress(KernelError):
            wait_for_result(self._backlog)
        running = self._resumed.pop(cell, None)
        if running is None:
            return None
        running.listen(on_output, on_display)
        return wait_for_result(running.result)

    def saved_before(self) -> SavedBefore:
        try:
            return self._backlog.result(Operations.saved_before.timeout).saved
        except TimeoutError:
            raise KernelError(NO_ANSWER) from None

    def acknowledge(self, cell: int) -> None:
        if self._seekable is not None:
            self._seekable.release(self._ends.pop(cell, 0))
            self.send("stored", stored=(cell,), heard=0)

    @property
    def can_detach(self) -> bool:
        return self._detach_handle is not None and not self.over

    @property
    def was_reattached(self) -> bool:
        return self._detach_handle is not None and self._detach_handle.was_reattached

    def send(self, op: str, **fields: Any) -> None:
        with contextlib.suppress(OutgoingFullError):
            self._outbox.send(encode({"op": op, **fields}))

    def interrupt(self) -> bool:
        cell = self._cells.innermost() or self._restoring
        if cell is not None and not cell.interrupting:
            cell.interrupting = True
            start_thread("mahtab-interrupt", self._interrupt, cell, time.monotonic())
        return cell is not None

    def _interrupt(self, cell: RunningCell, asked: float) -> None:
        has_our_clock = self._process is not None and self._process.shares_clock
        try:
            self.ask(
                Operations.interrupt_cell, cell=cell.cell, asked=asked if has_our_clock else None
            )
        except KernelError:  # the code blocks the control thread, but C code may check for signals
            with self._lock:
                if cell in self._cells:
                    self._signal(signal.SIGINT)
        cell.interrupting = False

    def restore(self, file: str, seconds: float) -> RestoredFile:
        self._restoring = RunningCell(_RESTORING, lambda kind, text: None)
        try:
            return self.ask(Operations.restore, seconds, file=file, cell=_RESTORING)
        finally:
            self._restoring = None

    def end(self, status: Status, how: str) -> None:
        """End the process: at once if a cell runs, else after its exit handlers."""
        with self._lock:
            self._intent = (status, how)
            busy = any(self._cells)
        if not busy and self._process is not None:
            self.send("end")
            with contextlib.suppress(OSError):
                self._process.channel.shutdown(socket.SHUT_WR)
            self._thread.join(END_TIMEOUT)
        self._signal(signal.SIGKILL)
        self._thread.join()

    def leave(self, on_purpose: bool) -> None:
        """Detach the process; its cells get no results. End it if it cannot run without a host."""
        process = self._process
        if process is None or self._detach_handle is None:
            self.end(Status.KILLED, "The screen was closed.")
            return
        if on_purpose:
            self.send("stay")
        with self._printing, self._lock:
            self._leaving = self._left = True
        with contextlib.suppress(OSError):
            process.channel.shutdown(socket.SHUT_RDWR)
        self._thread.join(END_TIMEOUT)

    def kill(self, how: str) -> None:
        with self._lock:
            self._intent = (Status.KILLED, how)
        self._signal(signal.SIGKILL)

    def _break(self, why: str) -> None:
        with self._lock:
            self._intent = self._intent or (Status.DIED, f"The kernel died: {why}.")
        self._signal(signal.SIGKILL)

    def _signal(self, number: int) -> None:
        with self._lock:
            if self._process is not None and not self.over and not self._left:
                self._process.signal(number)

    # The reader thread

    def _run(self) -> None:
        try:
            process = self._process = self._start()
        except KernelError as error:
            self._started.set_exception(error)
            return
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or error
            self._started.set_exception(
                KernelError(f"{self._executable} cannot be started: {why}.")
            )
            return
        self._started.set_result(None)
        handle, output = process.detach_handle, process.reader
        self._detach_handle = handle
        if handle is not None:
            self._seekable = cast("SeekableOutput", output)
        self._outbox.channel = process.channel
        if handle is not None and handle.ready is not None:
            self._on_ready(handle.ready)
        claimed = False
        try:
            claimed = self._read(process, output)
        except Exception as error:  # code in the kernel may have written anything there
            why = str(error) or type(error).__name__
            self._break(f"something outside the session wrote to its connection ({why})")
        if handle is not None and (claimed or self._left):
            with self._lock:
                self._left = True
            self.claimed = not self._leaving
            self._outbox.close()
            os.close(process.output)
            handle.leave()
            self._over(Status.KILLED, CLAIMED)
            return
        code = self._reap(process)
        try:
            self._feed(output.available())
            self._chunks.end()
        finally:
            self._outbox.close()
            os.close(process.output)
            if handle is not None:
                handle.ended()
            if self._ready.done():
                died = Status.DIED, f"The kernel died: {describe_end(code)}."
                self._over(*(self._intent or died))
            else:
                why = describe_failed_start(self._executable, code, "".join(self._early))
                self._ready.set_exception(KernelError(why))

    def _over(self, status: Status, how: str) -> None:
        self._requests.end(how)
        if not self._backlog.done():
            self._backlog.set_exception(KernelError(how))
        if self._leaving:
            return
        with self._lock:
            cells, self._cells = list(self._cells), RunningCells()
        for cell in reversed(cells):
            cell.lost(status, how)
        try:
            self._answers.cancel_all()
        finally:
            self._on_end(self, how)

    def _read(self, process: Process, output: Output) -> bool:
        frames = FrameReader(token=process.token)
        lifeline = None if self._detach_handle is None else self._detach_handle.lifeline
        with selectors.DefaultSelector() as selector:
            selector.register(process.channel, selectors.EVENT_READ)
            if lifeline is not None:
                selector.register(lifeline, selectors.EVENT_READ)
            reads = not self.was_reattached
            if reads:
                selector.register(process.output, selectors.EVENT_READ)
            while True:
                ready = {key.fileobj for key, _ in selector.select(self._chunks.wait())}
                if lifeline is not None and lifeline in ready:
                    if lifeline.recv(1):
                        return True
                    selector.unregister(lifeline)
                    lifeline = None
                if process.output in ready:
                    data = output.read()
                    if data:
                        self._chunks.feed(data)
                    elif data is not None:
                        selector.unregister(process.output)
                elif self._chunks.wait() == 0:
                    self._chunks.flush()
                if process.channel in ready:
                    try:
                        data = process.channel.recv(65536)
                    except ConnectionError:
                        data = b""
                    if not data:
                        return (
                            lifeline is not None
                            and is_readable(lifeline)
                            and bool(lifeline.recv(1))
                        )
                    for frame in frames.feed(data):
                        self._handle(output, frame)
                    # Earlier output is read with the backlog.
                    if not reads and self._backlog.done():
                        reads = True
                        selector.register(process.output, selectors.EVENT_READ)

    def _feed(self, output: Iterable[bytes]) -> None:
        for data in output:
            self._chunks.feed(data)

    def _reap(self, process: Process) -> int:
        """Return the exit code. A process that closed its connection but lives on is killed,
        together with its children."""
        try:
            code = process.wait(END_TIMEOUT)
        except subprocess.TimeoutExpired:
            self._signal(signal.SIGKILL)
            code = process.wait()
        self._signal(signal.SIGKILL)
        with self._lock:
            self.over = True
        return code

    def _printed(self, text: str) -> None:
        cell = self._cells.innermost()
        if cell is not None:
            cell.add_output(text)
        elif not self._ready.done():
            self._early.append(text)
        else:
            with self._printing:
                self._host.background_output(text)
                if self._seekable is not None:
                    self.send("stored", stored=(), heard=self._seekable.position)

    def _on_ready(self, hello: KernelReady) -> None:
        self.hello = hello
        self.cwd = hello.cwd or self.cwd
        self._ready.set_result(None)

    def _receive(self, message: object, output: SeekableOutput) -> None:
        """Replay the events from before this host attached, with the output of that time."""
        backlog = checked(EventBacklog, message)
        cells = {
            event["begin"]: RunningCell(event["begin"], None)
            for event in backlog.events
            if "begin" in event
        }
        self._resumed = dict(cells)
        self._cells.replaying = True
        self._backlog.set_result(backlog)
        output.go_to(backlog.events[0]["at"] if backlog.events else backlog.acknowledged)
        depth = 0
        for event in backlog.events:
            if not depth:
                output.go_to(min(backlog.acknowledged, event["at"]))
            self._feed(output.until(event["at"]))
            if "begin" in event:
                self._chunks.flush()
                self._cells.add(cells[event["begin"]])
                depth += 1
            elif "shown" in event:
                self._chunks.flush()
                self._shown(event["shown"])
            else:
                self._chunks.end()
                self._done(checked(CellEnd, event["done"]))
                depth -= 1
        if not depth:
            output.go_to(backlog.acknowledged)
        self._feed(output.available())
        self._cells.replaying = False
        for call in backlog.calls:
            self._answers.begin(call)

    def _handle(self, output: Output, frame: Frame) -> None:
        op = frame["op"]
        if not self._ready.done():
            self._on_ready(checked(KernelReady, frame))
        elif op == "done":
            self._feed(output.available())
            self._chunks.end()
            self._done(checked(CellEnd, frame))
        elif op == "call" and frame["name"] == "display":
            self._feed(output.available())
            self._chunks.flush()
            self._shown(frame["args"])
            self._outbox.answer({"op": "answer", "id": frame["id"], "value": None})
        elif op == "ready" and self.was_reattached and not self._backlog.done():
            self._receive(frame["story"], cast("SeekableOutput", output))
        elif op == "reply":
            self._requests.on_reply(frame)
        elif op == "call":
            self._answers.begin(checked(HostCall, frame))
        elif op == "cancelled":
            self._answers.cancel(frame["id"])
        else:
            raise FrameError(f"a message {op!r}")

    def _done(self, done: CellEnd) -> None:
        if done.seal and done.seal == self._last_seal:
            return  # sent twice, because code of the user's raised while it was sent
        self._last_seal = done.seal
        cell = next(cell for cell in self._cells if cell.cell == done.cell)
        if cell.seal and cell.seal != done.seal:
            raise FrameError("the end of a cell that has not ended")
        self._cells.remove(cell)
        if self._seekable is not None:
            self._ends[done.cell] = self._seekable.position
        self.cwd = done.cwd or self.cwd
        cell.done(done)

    def _shown(self, shown: Mapping[str, Any]) -> None:
        cell = self._cells.innermost()
        if cell is None:
            self._host.background_output(shown["text"])
        else:
            cell.add_display(shown)
