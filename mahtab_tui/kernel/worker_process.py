"""A kernel's process, from its start to its end, or until another host attaches to it.

`process.ProcessKernel` has one process after the other; `launch.Launcher` starts it, here or
elsewhere.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import selectors
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple, cast

from mahtab_tui.bus.values import Status
from mahtab_tui.kernel.backlog import Backlog
from mahtab_tui.kernel.base import KernelError, OnDisplay, OnOutput
from mahtab_tui.kernel.call_answers import CallAnswers
from mahtab_tui.kernel.chunks import Chunks
from mahtab_tui.kernel.host import KernelHost
from mahtab_tui.kernel.local_process import LocalProcess
from mahtab_tui.kernel.messages import CallMessage, CellEnd, KernelReady, checked
from mahtab_tui.kernel.operations import Operations
from mahtab_tui.kernel.outbox import Outbox, OutgoingFullError
from mahtab_tui.kernel.process_end import describe_end, describe_failed_start
from mahtab_tui.kernel.process_parts import DetachHandle, Output, Process, SeekableOutput
from mahtab_tui.kernel.requests import NO_ANSWER, ControlRequests
from mahtab_tui.kernel.running_cell import RunningCell, RunningCells
from mahtab_tui.kernel.values import CellResult, FileWatching, Lock, RestoredFile, SaveRequest
from mahtab_tui.system import start_thread, wait_for_result
from mahtab_tui.worker.link.descriptors import is_readable
from mahtab_tui.worker.link.frames import Frame, FrameError, FrameReader, encode

START_TIMEOUT_S = 20.0
"""Seconds until the worker is ready; the disk may be cold, or site-packages large."""
END_TIMEOUT_S = 1.0
"""Seconds for the process to end after its connection has ended."""
BACKLOG_TIMEOUT_S = 5.0
"""Seconds for what the kernel kept while it had no host."""
RECEIVE_BYTES = 65_536
"""Bytes that are read from the connection at once."""
SEAL_BYTES = 16
"""Random bytes by which the end of a cell proves that the worker has sent it, and not the cell."""

CLAIMED = "The other terminal now has the kernel and its variables."


class ProcessEnd(NamedTuple):
    """How cells end with their process."""

    status: Status
    sentence: str
    """How they have ended, for the user."""


class WorkerProcess:
    """A kernel's process: it runs cells, answers requests, and calls the host.

    A thread of its own starts the process and reads from it: output goes to the cell that runs
    (`running_cell.py`), a message to whom it concerns. Any thread may call the methods.
    """

    def __init__(
        self,
        executable: str,
        program: str,
        cwd: str,
        start: Callable[[], Process],
        host: KernelHost,
        on_end: Callable[[WorkerProcess, str], None],
    ) -> None:
        """Create a process that is not started.

        Args:
            executable: The interpreter; empty for any on another machine.
            program: What sentences call it.
            cwd: The working directory.
            start: Starts the process, on the reader thread.
            host: Serves the calls of its code.
            on_end: Called on the reader thread with a sentence, when the process is over or another
                host has attached to it, and its cells have their results.
        """
        self.hello = KernelReady("", executable, cwd, 0)
        """The worker's first message, once it has come."""
        self.cwd = cwd
        self._program = program
        self._start = start
        self._host = host
        self._on_end = on_end
        self._started: Future[None] = Future()
        """Done when there is a process."""
        self._ready: Future[None] = Future()
        """Done when its worker has sent its first message."""
        self._lock = threading.RLock()
        self._printing = threading.Lock()
        """Held while output that belongs to no cell is reported."""
        self._outbox = Outbox(lambda: self._break("it does not read the answers to its requests"))
        self._process: Process | None = None
        self._detach_handle: DetachHandle | None = None
        self.over = False
        """Whether the process has ended."""
        self.claimed = False
        """Whether another host has attached to the process."""
        self._intended_end: ProcessEnd | None = None
        """What cells are told if we end the process."""
        self._cells = RunningCells()
        self._last_seal = ""
        """The seal of the cell that has ended last."""
        self._restoring: RunningCell | None = None
        """The file that is being restored, as if it were a cell."""
        self._restore_numbers = itertools.count(-1, -1)
        """The numbers by which restoring files is interrupted. Each is used once, because an interrupt
        may come too late."""
        self._has_lost_holder = False
        """Whether what would keep the process without this host has ended."""
        self._is_detaching = False
        """Whether this host detaches the process."""
        self._is_released = False
        """Whether the process has no host any more, or another one, so that it gets no signals from us."""
        self._seekable: SeekableOutput | None = None
        """The output, if the kernel can outlive this host."""
        self._output_ends: dict[int, int] = {}
        """Offset of the end of each unstored cell's output."""
        self._requests = ControlRequests(lambda frame: self._outbox.send(encode(frame)))
        self.ask = self._requests.ask
        self._answers = CallAnswers(host, self._outbox.answer)
        self._chunks = Chunks(self._on_printed)
        self._backlog = Backlog(self._cells, self._chunks, self._on_display, self._on_cell_end)
        self._early_output: list[str] = []
        """What was printed before the worker was ready."""
        # The thread lives as long as the process, which it also starts (see `spawn`).
        self._thread = threading.Thread(target=self._run, name="mahtab-kernel", daemon=True)

    def start(self) -> None:
        """Start the process, and wait until it is ready. Raises `KernelError`."""
        self._thread.start()
        try:
            self._started.result()
            self._ready.result(START_TIMEOUT_S)
        except TimeoutError:
            self._signal(signal.SIGKILL)
            raise KernelError(
                f"{self._program} was not ready within {START_TIMEOUT_S:.0f} s."
            ) from None

    def execute(
        self, code: str, running: RunningCell, nested: bool = False, lock: Lock | None = None
    ) -> CellResult:
        """Run a cell, and wait for its end.

        Args:
            code: The code.
            running: Gets its output.
            nested: Whether it runs while another cell waits for the host.
            lock: How a fork confines it.

        Raises:
            KernelError: The code is too large to send, or the kernel does not know the lock.
            Exception: Any exception of the cell's listener.
        """
        if lock is not None and lock not in self.hello.locks:
            raise KernelError(
                "The cell did not run: the kernel was started by another version of mahtab-tui, which"
                " cannot confine the cell in this way. /reset starts a new kernel."
            )
        running.seal = os.urandom(SEAL_BYTES).hex()
        frame = {
            "op": "execute",
            "cell": running.cell,
            "code": code,
            "nested": nested,
            "lock": lock,
            "seal": running.seal,
        }
        try:
            data = encode(frame)
            # Whoever notes the end gives a result to the cells that are in the list by then.
            with self._lock:
                if self.over:
                    died = ProcessEnd(Status.DIED, "The kernel had ended before the cell began.")
                    running.fail(*(self._intended_end or died))
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
        """Wait for the end of a cell that began under an earlier host.

        None if the kernel does not know it.
        """
        # An error means that the kernel has ended; its cells have their results then.
        with contextlib.suppress(KernelError):
            wait_for_result(self._backlog.recorded)
        running = self._backlog.pop_cell(cell)
        if running is None:
            return None
        running.listen(on_output, on_display)
        return wait_for_result(running.result)

    def last_save_request(self) -> SaveRequest:
        """Return the last request of an earlier host to save variables. Raises `KernelError`."""
        try:
            return self._backlog.recorded.result(BACKLOG_TIMEOUT_S).saved
        except TimeoutError:
            raise KernelError(NO_ANSWER) from None

    def acknowledge(self, cell: int) -> None:
        """Note that a cell's result is stored, so that no other host needs it."""
        if self._seekable is not None:
            self._seekable.release(self._output_ends.pop(cell, 0))
            self._send("stored", stored=(cell,), heard=0)

    @property
    def can_detach(self) -> bool:
        """Whether the process can go on without this host."""
        return self._detach_handle is not None and not (self.over or self._has_lost_holder)

    @property
    def was_reattached(self) -> bool:
        """Whether the process began under an earlier host."""
        return self._detach_handle is not None and self._detach_handle.was_reattached

    # Messages without a reply. They are lost if the kernel does not read.

    def set_size(self, columns: int, lines: int) -> None:
        """Set the size of the screen."""
        self._send("size", columns=columns, lines=lines)

    def set_reload(self, on: bool) -> None:
        """Set whether changed modules of the project are reloaded before a cell."""
        self._send("reload", on=on)

    def set_remote(self) -> None:
        """Note that the kernel and the host exchange no files."""
        self._send("elsewhere")

    def set_undo_limits(self, steps: int, megabytes: int) -> None:
        """Set how many cells can be undone, and the memory for that."""
        self._send("undo_limits", steps=steps, megabytes=megabytes)

    def watch_files(self, watching: FileWatching) -> None:
        """Watch what cells do to files, from now on."""
        self._send("watch_files", settings=watching._asdict())

    def set_save_settings(self, settings: Mapping[str, Any], *, wait: bool) -> None:
        """Set where and how variables are saved.

        Args:
            settings: See `Launcher.keep_settings`.
            wait: Whether to wait for what an earlier kernel saves that died in a cell. Otherwise
                it is dropped.
        """
        self._send("keep_in", wait=wait, **settings)

    def add_functions(self, functions: Sequence[Mapping[str, Any]]) -> None:
        """Define the functions of the host in the namespace."""
        self._send("functions", functions=functions)

    def add_servers(self, servers: Sequence[Mapping[str, Any]]) -> None:
        """Define the host's MCP servers in the namespace."""
        self._send("servers", servers=servers)

    def _send(self, op: str, **fields: Any) -> None:
        """Send a message that has no reply."""
        with contextlib.suppress(OutgoingFullError):
            self._outbox.send(encode({"op": op, **fields}))

    def interrupt(self, cell: int | None = None) -> bool:
        """Interrupt the innermost cell on a thread; see `Kernel.interrupt`."""
        running = self._cells.innermost() or self._restoring
        if running is None:
            return False
        if cell is not None and all(cell != open_cell.cell for open_cell in self._cells):
            return False
        if not running.interrupting:
            running.interrupting = True
            start_thread("mahtab-interrupt", self._interrupt, running, time.monotonic())
        return True

    def _interrupt(self, cell: RunningCell, asked_at: float) -> None:
        """Interrupt a cell.

        Args:
            cell: The cell.
            asked_at: Monotonic time, so that code that has begun since is not interrupted.
        """
        has_our_clock = self._process is not None and self._process.shares_clock
        try:
            self.ask(
                Operations.interrupt_cell,
                cell=cell.cell,
                asked=asked_at if has_our_clock else None,
            )
        except KernelError:
            # The code blocks the control thread, but C code may check for signals.
            with self._lock:
                if cell in self._cells:
                    self._signal(signal.SIGINT)
        cell.interrupting = False

    def restore(self, file: str, timeout: float) -> RestoredFile:
        """Restore the variables in a file; `interrupt` stops it. Raises `KernelError`."""
        number = next(self._restore_numbers)
        self._restoring = RunningCell(number, lambda kind, text: None)
        try:
            return self.ask(Operations.restore, timeout, file=file, cell=number)
        except KernelError:
            # It may still be reading, which must not delay the next cell.
            self.interrupt()
            raise
        finally:
            self._restoring = None

    def end(self, status: Status, sentence: str) -> None:
        """End the process: at once if a cell runs, else after its exit handlers.

        Args:
            status: The status of its cells.
            sentence: How they have ended.
        """
        with self._lock:
            self._intended_end = ProcessEnd(status, sentence)
            is_busy = any(self._cells)
        if not is_busy and self._process is not None:
            self._send("end")
            with contextlib.suppress(OSError):
                self._process.channel.shutdown(socket.SHUT_WR)
            self._thread.join(END_TIMEOUT_S)
        self._signal(signal.SIGKILL)
        self._thread.join()

    def leave(self, on_purpose: bool) -> None:
        """Detach the process; its cells get no results. End it if it cannot run without a host.

        Args:
            on_purpose: Whether the user asked for that, so its cell has no time limit.
        """
        process = self._process
        if process is None or self._detach_handle is None:
            self.end(Status.KILLED, "The screen was closed.")
            return
        if on_purpose:
            self._send("stay")
        with self._printing, self._lock:
            self._is_detaching = True
            self._is_released = True
        with contextlib.suppress(OSError):
            process.channel.shutdown(socket.SHUT_RDWR)
        self._thread.join(END_TIMEOUT_S)

    def kill(self, sentence: str) -> None:
        """Kill the process.

        Args:
            sentence: How its cells have ended.
        """
        with self._lock:
            self._intended_end = ProcessEnd(Status.KILLED, sentence)
        self._signal(signal.SIGKILL)

    def _break(self, reason: str) -> None:
        """Kill the process because it does not work any more.

        Args:
            reason: A clause.
        """
        with self._lock:
            if self._intended_end is None:
                self._intended_end = ProcessEnd(Status.DIED, f"The kernel died: {reason}.")
        self._signal(signal.SIGKILL)

    def _signal(self, number: int) -> None:
        """Send a signal, unless the process has ended or is left."""
        with self._lock:
            if self._process is not None and not self.over and not self._is_released:
                self._process.signal(number)

    # The reader thread

    def _run(self) -> None:
        """Start the process, read from it until it ends or is left, and report its end."""
        try:
            process = self._start()
        except KernelError as error:
            self._started.set_exception(error)
            return
        except Exception as error:  # whoever starts the kernel waits for this thread
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
            self._started.set_exception(
                KernelError(f"{self._program} cannot be started: {reason}.")
            )
            return
        self._process = process
        self._started.set_result(None)
        self._connect(process)

        output = process.reader
        is_claimed = False
        try:
            is_claimed = self._read(process, output)
        except Exception as error:  # code in the kernel may have written anything there
            reason = str(error) or type(error).__name__
            self._break(f"something outside the session wrote to its connection ({reason})")
        handle = process.detach_handle
        if handle is not None and (is_claimed or self._is_released):
            self._finish_left(process, handle)
        else:
            self._finish_ended(process, output)

    def _connect(self, process: Process) -> None:
        """Send to a process that has started. One that began under an earlier host is ready."""
        handle = process.detach_handle
        self._detach_handle = handle
        if handle is not None:
            self._seekable = cast("SeekableOutput", process.reader)
        self._outbox.channel = process.channel
        if handle is not None and handle.ready is not None:
            self._on_ready(handle.ready)

    def _finish_left(self, process: Process, handle: DetachHandle) -> None:
        """Close the connection to a process that continues, without a host or with another one."""
        with self._lock:
            self._is_released = True
        self.claimed = not self._is_detaching
        self._outbox.close()
        os.close(process.output)
        handle.leave()
        self._report_end(Status.KILLED, CLAIMED)

    def _finish_ended(self, process: Process, output: Output) -> None:
        """Wait for the process, read the end of its output, and report its end."""
        exit_code = self._reap(process)
        try:
            self._chunks.feed_all(output.available())
            self._chunks.end()
        finally:
            self._outbox.close()
            os.close(process.output)
            if process.detach_handle is not None:
                process.detach_handle.ended()
            if self._ready.done():
                died = ProcessEnd(Status.DIED, f"The kernel died: {describe_end(exit_code)}.")
                self._report_end(*(self._intended_end or died))
            else:
                early_output = "".join(self._early_output)
                sentence = describe_failed_start(self._program, exit_code, early_output)
                self._ready.set_exception(KernelError(sentence))

    def _report_end(self, status: Status, sentence: str) -> None:
        """Give cells and requests their results, and report the end."""
        self._requests.end(sentence)
        if not self._backlog.recorded.done():
            self._backlog.recorded.set_exception(KernelError(sentence))
        if self._is_detaching:
            return
        with self._lock:
            cells = self._cells.pop_all()
        # The innermost cell ends first.
        for cell in reversed(cells):
            cell.fail(status, sentence)
        try:
            self._answers.cancel_all()
        finally:
            self._on_end(self, sentence)

    def _read(self, process: Process, output: Output) -> bool:
        """Read output and messages until the connection ends.

        Returns:
            Whether another host has attached to the process.
        """
        frames = FrameReader(token=process.token)
        lifeline: socket.socket | None = None
        if self._detach_handle is not None:
            lifeline = self._detach_handle.lifeline
        with selectors.DefaultSelector() as selector:
            selector.register(process.channel, selectors.EVENT_READ)
            if lifeline is not None:
                selector.register(lifeline, selectors.EVENT_READ)
            reads_output = not self.was_reattached
            if reads_output:
                selector.register(process.output, selectors.EVENT_READ)
            while True:
                ready = {key.fileobj for key, _events in selector.select(self._chunks.wait())}
                if lifeline is not None and lifeline in ready:
                    if _is_claimed(lifeline):
                        return True
                    selector.unregister(lifeline)
                    lifeline = None
                    self._has_lost_holder = True

                if process.output in ready:
                    if not self._read_output(output):
                        selector.unregister(process.output)
                elif self._chunks.wait() == 0:
                    self._chunks.flush()

                if process.channel not in ready:
                    continue
                data = _receive(process.channel)
                if not data:
                    # The other host's byte may come together with the end.
                    if lifeline is None or not is_readable(lifeline):
                        return False
                    return _is_claimed(lifeline)
                for frame in frames.feed(data):
                    self._handle(output, frame)
                # Earlier output is read with the backlog.
                if not reads_output and self._backlog.recorded.done():
                    reads_output = True
                    selector.register(process.output, selectors.EVENT_READ)

    def _read_output(self, output: Output) -> bool:
        """Read what was printed; return False at its end."""
        data = output.read()
        if data:
            self._chunks.feed(data)
        has_nothing_now = data is None
        return has_nothing_now or bool(data)

    def _reap(self, process: Process) -> int:
        """Return the exit code.

        A process that closed its connection but lives on is killed, together with its children.
        """
        try:
            exit_code = process.wait(END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._signal(signal.SIGKILL)
            exit_code = process.wait()
        self._signal(signal.SIGKILL)
        with self._lock:
            self.over = True
        return exit_code

    def _on_printed(self, text: str) -> None:
        """Pass output on to the innermost cell, or report that it belongs to none."""
        cell = self._cells.innermost()
        if cell is not None:
            cell.add_output(text)
        elif not self._ready.done():
            self._early_output.append(text)
        else:
            with self._printing:
                self._host.background_output(text)
                if self._seekable is not None:
                    self._send("stored", stored=(), heard=self._seekable.position)

    def _on_ready(self, hello: KernelReady) -> None:
        """Take the worker's first message, with which the process is ready."""
        self.hello = hello
        self.cwd = hello.cwd or self.cwd
        if isinstance(self._process, LocalProcess) and self._process.has_witness:
            self._process.kernel_pid = hello.pid
        self._ready.set_result(None)

    def _handle(self, output: Output, frame: Frame) -> None:
        """Handle a message of the kernel, after the output that was printed before it."""
        op = frame["op"]
        if not self._ready.done():
            self._on_ready(checked(KernelReady, frame))
        elif op == "done":
            self._chunks.feed_all(output.available())
            self._chunks.end()
            self._on_cell_end(checked(CellEnd, frame))
        elif op == "call" and frame["name"] == "display":
            self._chunks.feed_all(output.available())
            self._chunks.flush()
            self._on_display(frame["args"])
            self._outbox.answer({"op": "answer", "id": frame["id"], "value": None})
        elif op == "ready" and self.was_reattached and not self._backlog.recorded.done():
            calls = self._backlog.replay(frame["story"], cast("SeekableOutput", output))
            for call in calls:
                self._answers.begin(call)
        elif op == "reply":
            self._requests.on_reply(frame)
        elif op == "call":
            self._answers.begin(checked(CallMessage, frame))
        elif op == "cancelled":
            self._answers.cancel(frame["id"])
        else:
            raise FrameError(f"a message {op!r}")

    def _on_cell_end(self, cell_end: CellEnd) -> None:
        """Give a cell its result. Raises `FrameError` if the message was forged."""
        # It is sent twice if code of the user's raised an exception while it was sent.
        if cell_end.seal and cell_end.seal == self._last_seal:
            return
        self._last_seal = cell_end.seal
        cell = next(cell for cell in self._cells if cell.cell == cell_end.cell)
        if cell.seal and cell.seal != cell_end.seal:
            raise FrameError("the end of a cell that has not ended")
        self._cells.remove(cell)
        if self._seekable is not None:
            self._output_ends[cell_end.cell] = self._seekable.position
        self.cwd = cell_end.cwd or self.cwd
        cell.done(cell_end)

    def _on_display(self, display: Mapping[str, Any]) -> None:
        """Pass a displayed value on to the innermost cell; without one, report its text."""
        cell = self._cells.innermost()
        if cell is None:
            self._host.background_output(display["text"])
        else:
            cell.add_display(display)


def _is_claimed(lifeline: socket.socket) -> bool:
    """Return whether another host has attached: then the holder sends a byte. Otherwise the lifeline
    only ends, with the holder."""
    return bool(lifeline.recv(1))


def _receive(channel: socket.socket) -> bytes:
    """Return what the kernel has sent; nothing if the connection has ended."""
    try:
        return channel.recv(RECEIVE_BYTES)
    except ConnectionError:
        return b""
