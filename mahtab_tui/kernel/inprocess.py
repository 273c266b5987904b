"""The kernel inside the caller's own process. An interrupt is an asynchronous exception, which a
blocking call in C does not notice until it returns, and output of other threads, child processes
and C code does not belong to the cell."""

from __future__ import annotations

import builtins
import ctypes
import io
import os
import queue
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import nullcontext
from typing import Any, NoReturn, TextIO

from mahtab_tui.kernel.base import (
    CellListener,
    CellResult,
    Kernel,
    KernelError,
    KernelHost,
    KernelInfo,
    KernelState,
    Lock,
    Operation,
    Status,
    T,
    host_definitions,
)
from mahtab_tui.kernel.cells import Chunks, RunningCell
from mahtab_tui.kernel.requests import CallAnswers, CellEnd, ControlRequests, HostCall, checked
from mahtab_tui.system import start_thread, wait_for_result
from mahtab_tui.worker import toolbox
from mahtab_tui.worker.awaiting import EventLoop
from mahtab_tui.worker.control import (
    HostCalls,
    Interrupts,
    Responder,
    python_version,
    working_directory,
)
from mahtab_tui.worker.environment import Console, Replacement
from mahtab_tui.worker.executor import Executor
from mahtab_tui.worker.frames import Frame
from mahtab_tui.worker.jobs import JobQueue
from mahtab_tui.worker.undo.history import UndoHistory


class ThreadOutput(io.TextIOBase):
    """A stream that captures the writes of one thread, and passes on those of others."""

    def __init__(self, thread: int, mine: TextIO, others: TextIO) -> None:
        super().__init__()
        self._thread = thread
        self._mine = mine
        self._others = others

    def write(self, text: str) -> int:
        return self._stream().write(text)

    def flush(self) -> None:
        self._stream().flush()

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._others.fileno()

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return "utf-8"

    def _stream(self) -> TextIO:
        return self._mine if threading.get_ident() == self._thread else self._others


class CellOutput(io.TextIOBase):
    """Joins output and passes it on from a thread of its own, so that output of the listener is not
    mistaken for the cell's."""

    def __init__(self, on_text: Callable[[str], None]) -> None:
        super().__init__()
        self._on_text = on_text
        self._pieces: queue.SimpleQueue[str | threading.Event | None] = queue.SimpleQueue()
        self._thread = start_thread("mahtab-kernel-output", self._pass_on)

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        self._pieces.put(text)
        return len(text)

    def drain(self) -> None:
        done = threading.Event()
        self._pieces.put(done)
        done.wait()

    def end(self) -> None:
        self._pieces.put(None)
        self._thread.join()

    def _pass_on(self) -> None:
        chunks = Chunks(self._on_text)
        piece: str | threading.Event | None = ""
        while piece is not None:
            try:
                piece = self._pieces.get(timeout=chunks.wait())
            except queue.Empty:
                piece = ""
            if isinstance(piece, str):
                chunks.add(piece)
                continue
            chunks.flush()
            if piece is not None:
                piece.set()


class InProcessEnvironment:
    def __init__(self, output: CellOutput, replacements: list[Replacement]) -> None:
        self._output: Any = output
        self._replacements = replacements
        self._thread = threading.get_ident()

    def enter(self) -> list[Replacement]:
        streams = [
            Replacement(sys, name, ThreadOutput(self._thread, self._output, getattr(sys, name)))
            for name in ("stdout", "stderr")
        ]
        before = []
        for module, name, value in (*self._replacements, *streams):
            if hasattr(module, name):
                before.append(Replacement(module, name, getattr(module, name)))
            setattr(module, name, value)
        return before

    def leave(self, streams_before: list[Replacement], nested: bool) -> None:
        for replacement in streams_before:
            setattr(*replacement)
        self._output.drain()

    def leave_child(self, error: BaseException | None) -> None: ...


CANNOT_FORK = "it runs inside the program that opened this session"
UNDO_STEPS = 20
CLOSE_TIMEOUT = 1.0


class InProcessKernel(Kernel):
    """A `Kernel` over `namespace` itself: what cells bind remains there after the session."""

    cannot_lock = "the namespace is inside another program"
    cannot_undo = f"the kernel cannot be forked, because {CANNOT_FORK}"
    _cannot_save = (
        "The namespace belongs to the program that opened this session, so it is not saved."
    )

    def __init__(self, namespace: dict[str, Any]) -> None:
        self._namespace = namespace
        self._turn = threading.Lock()
        self._lock = threading.Lock()
        self._jobs = JobQueue()
        self._interrupts = Interrupts()
        self._loop = EventLoop()
        self._cells: list[RunningCell] = []
        self._made: set[str] = set()
        self._tools: dict[str, Any] = {}
        self._values_added: set[str] = set()
        self._ready: Future[None] = Future()
        self._calls: HostCalls
        self._executor: Executor
        self._output: CellOutput
        self._undo_history = UndoHistory(namespace, UNDO_STEPS, no_fork=CANNOT_FORK)
        self._requests = ControlRequests(lambda frame: responder.handle(frame))
        answers: dict[str, Callable[[Frame], Any]] = {
            "variables": lambda frame: self._executor.tracker.listing(),
            "undo_steps": lambda frame: self._undo_history.steps(),
            **dict.fromkeys(("preview_undo", "undo", "redo"), self._undo_cells),
        }
        responder = Responder(self._requests.on_reply, namespace, answers, {})
        self._answers: CallAnswers
        self._thread = threading.Thread(target=self._run, name="mahtab-kernel", daemon=True)

    def start(self, host: KernelHost) -> None:
        self._host = host
        self._thread.start()
        self._ready.result()
        self._report(KernelState.IDLE, "")

    def _run_cell(
        self, code: str, listener: CellListener, nested: bool, lock: Lock | None
    ) -> CellResult:
        self._refuse_lock(lock)
        running = RunningCell(*listener)
        frame = {"op": "execute", "code": code, "running": running}
        with nullcontext() if nested else self._turn:
            if self._state is KernelState.DEAD:
                running.lost(Status.DIED, "The session was closed.")
                return running.result.result()
            with self._busy(nested):
                if not nested or not self._calls.deliver(frame):
                    self._jobs.put(frame)
                    self._loop.wake()
                return wait_for_result(running.result)

    def interrupt(self) -> bool:
        with self._lock:
            if not self._cells:
                return False
            if self._calls.waiting >= self._executor.depth:
                self._calls.interrupt()
            elif not self._loop.cancel():
                self._raise_in_thread(ctypes.py_object(KeyboardInterrupt))
            return True

    def kill(self) -> NoReturn:
        raise KernelError(
            "The code runs inside the program that opened this session, so it cannot be killed without it."
        )

    def reset(self) -> None:
        if not self._turn.acquire(blocking=False):
            raise KernelError(
                "A cell is running; stop it first. It cannot be killed inside the program that opened this session."
            )
        try:
            for name in self._made:
                self._namespace.pop(name, None)
            self._executor.tracker.changes(None)
            self._undo_history.end()
            self._made.clear()
        finally:
            self._turn.release()
        self._report(
            KernelState.IDLE,
            "Namespace reset: names made by cells are gone; the process and its imports stay.",
        )

    def activate(self, python: str) -> NoReturn:
        raise KernelError(
            "The session runs inside the program that opened it, so it cannot change the interpreter. Open mahtab-tui by itself for that."
        )

    def _ask(self, operation: Operation[T], timeout: float | None = None, **fields: Any) -> T:
        return self._requests.ask(operation, timeout, **fields)

    def info(self) -> KernelInfo:
        return KernelInfo(
            python_version(), sys.executable, working_directory(), os.getpid(), self._state
        )

    def close(self, *, leave: bool = False, on_purpose: bool = False) -> None:
        if self._state is KernelState.DEAD:
            return
        self.interrupt()
        self._jobs.put(None)
        self._loop.wake()
        self._thread.join(CLOSE_TIMEOUT)
        for name, tool in self._tools.items():
            if builtins.__dict__.get(name) is tool:
                del builtins.__dict__[name]
        for name in self._values_added:
            builtins.__dict__.pop(name, None)
        self._report(KernelState.DEAD, "")

    def _undo_cells(self, frame: Frame) -> Frame:
        try:
            return {"restoration": self._undo_history.answer(frame["op"], frame["cell"]), "cwd": ""}
        finally:
            self._executor.tracker.changes(None)

    # The kernel's thread

    def _run(self) -> None:
        self._calls = HostCalls(self._send, self._execute)
        self._answers = CallAnswers(self._host, self._calls.deliver)
        self._output = CellOutput(self._printed)
        environment = InProcessEnvironment(self._output, Console().replacements())
        before = dict(builtins.__dict__)
        self._executor = Executor(self._namespace, environment, self._interrupts, self._loop)
        self._executor.undo = self._undo_history
        toolbox.install(self._calls.call)
        definitions = dict(host_definitions(self._host))
        toolbox.add_functions(definitions["functions"])
        if "servers" in definitions:
            toolbox.add_servers(definitions["servers"], self._executor.attribution)
        self._tools = {
            name: value for name, value in builtins.__dict__.items() if name not in before
        }
        self._values_added = {"__", "___"}.difference(before)
        self._executor.tracker.changes(None)
        self._ready.set_result(None)
        while True:
            try:
                job = self._loop.wait(self._jobs)
                if job is None:
                    break
                self._jobs.finish()
                self._execute(job, None)
            except KeyboardInterrupt:
                continue
        self._loop.close()
        self._output.end()

    def _execute(self, frame: Frame, refusal: str | None) -> None:
        running: RunningCell = frame["running"]
        start = time.perf_counter()
        with self._lock:
            self._cells.append(running)
        outcome = self._executor.run(running.cell, frame["code"], refusal)
        while not running.result.done():
            try:
                self._finish(running, outcome._asdict(), time.perf_counter() - start)
            except KeyboardInterrupt:
                continue

    def _finish(self, running: RunningCell, outcome: Frame, duration: float) -> None:
        with self._lock:
            if running in self._cells:
                self._cells.remove(running)
            self._raise_in_thread(None)
        for change in outcome["changes"]:
            if change["change"] == "added":
                self._made.add(change["name"])
            elif change["change"] == "deleted":
                self._made.discard(change["name"])
        end = {"cell": running.cell, "duration": duration, "cwd": working_directory()}
        running.done(checked(CellEnd, {**outcome, **end}))

    def _printed(self, text: str) -> None:
        if self._cells:
            self._cells[-1].add_output(text)
        else:
            self._host.background_output(text)

    def _shown(self, shown: Frame) -> None:
        self._output.drain()
        if self._cells:
            self._cells[-1].add_display(shown)
        else:
            self._host.background_output(shown["text"])

    def _raise_in_thread(self, error: ctypes.py_object[Any] | None) -> None:
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self._thread.ident or 0), error)

    def _send(self, frame: Frame) -> None:
        if frame["op"] == "call" and frame["name"] == "display":
            self._shown(frame["args"])
            self._calls.deliver({"op": "answer", "id": frame["id"], "value": None})
        elif frame["op"] == "call":
            self._answers.begin(checked(HostCall, frame))
        else:
            self._answers.cancel(frame["id"])
