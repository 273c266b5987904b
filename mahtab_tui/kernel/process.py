"""The kernel in a separate process, which is the default."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from functools import partial
from typing import Any

from mahtab_tui.kernel.base import (
    FRESH,
    RESET,
    CellListener,
    CellResult,
    KeepResult,
    Kernel,
    KernelError,
    KernelHost,
    KernelInfo,
    KernelState,
    Lock,
    OnDisplay,
    OnOutput,
    Operation,
    Operations,
    RestoredFile,
    SavedFile,
    SavedNamespace,
    SaveTarget,
    Status,
    T,
    UndoAnswer,
    host_definitions,
)
from mahtab_tui.kernel.cells import RunningCell
from mahtab_tui.kernel.launch import ConnectionState, Launcher, LocalLauncher
from mahtab_tui.kernel.requests import KernelReady
from mahtab_tui.kernel.worker_process import CLAIMED, WorkerProcess
from mahtab_tui.system import existing_folder, moved_message

SLOW_DISK = 20_000_000

ATTEMPTS = 3

STARTUP_OUTPUT = 4_000

CLOSED = "The session was closed."


class ProcessKernel(Kernel):
    def __init__(
        self,
        python: str | None = None,
        cwd: str | None = None,
        *,
        startup: str = "",
        reload: bool = False,
        undo_steps: int = 20,
        undo_memory: int = 1024,
        keep: SaveTarget | None = None,
        launcher: Launcher | None = None,
    ) -> None:
        """startup: code that runs first in each new process. undo_memory: megabytes; the oldest
        steps are dropped first. keep: where the namespace is saved; None for nowhere. launcher:
        where the kernel runs; None for this machine."""
        self._launcher = launcher = launcher or LocalLauncher()
        self._python = python
        self._cwd = cwd or ("" if launcher.label else os.getcwd())
        self._startup = startup
        self._reload = reload
        self._undo_limits = {"steps": undo_steps, "megabytes": undo_memory}
        self._save_target = keep
        # If variables are saved, the session reports which of them are restored.
        self._is_empty = "; its namespace is empty" if keep is None else ""
        self._wire = ConnectionState(
            launcher.label,
            lambda text: self._host.kernel_state(self.info(), text),
            lambda name, args: self._host.call(name, args),
        )
        self._size = (80, 24)
        self._turn = threading.Lock()
        self._swap = threading.Lock()
        self._changed = threading.Condition()
        self._worker: WorkerProcess | None = None
        self._starting: WorkerProcess | None = None
        self._executable = ""
        self._failure = "The kernel was not started."
        self._moved = ""
        self._attached = launcher.will_reattach
        self._closed = False

    def start(self, host: KernelHost) -> None:
        self._host = host
        self._report(KernelState.STARTING, "")
        try:
            executable = self._launcher.find(self._python)
            with self._swap:
                self._set_worker(self._launch(executable), executable)
        except KernelError as error:
            if not self._closed:
                self._failure = str(error)
                self._report(KernelState.DEAD, "")
            raise
        self._begin("")

    def _run_cell(
        self, code: str, listener: CellListener, nested: bool, lock: Lock | None
    ) -> CellResult:
        with nullcontext() if nested else self._turn:
            worker = self._ready()
            if worker is None:
                return CellResult(listener.cell, Status.DIED, "", (), 0.0, (), self._failure)
            with self._busy(nested):
                return worker.execute(code, RunningCell(*listener), nested, lock)

    @property
    def can_detach(self) -> bool:
        return self._worker is not None and self._worker.can_detach

    @property
    def was_reattached(self) -> bool:
        return self._attached

    def resume_cell(
        self, cell: int, *, on_output: OnOutput, on_display: OnDisplay, nested: bool = False
    ) -> CellResult | None:
        with nullcontext() if nested else self._turn:
            worker = self._require()
            if not worker.was_reattached:
                return None
            with self._busy(nested):
                return worker.resume_cell(cell, on_output, on_display)

    def acknowledge(self, cell: int) -> None:
        if self._worker is not None:
            self._worker.acknowledge(cell)

    def saved_before(self) -> tuple[Sequence[str] | None, Sequence[str]]:
        return self._require().saved_before()

    def interrupt(self) -> bool:
        worker = self._worker
        return worker is not None and worker.interrupt()

    def kill(self) -> None:
        with self._changed:
            worker = self._worker
        if worker is None:
            raise KernelError("There is no kernel to kill.")
        worker.kill("The kernel was killed.")
        with self._changed:
            self._changed.wait_for(
                lambda: self._worker is not worker and self._state is not KernelState.STARTING
            )

    def reset(self) -> None:
        self._replace(self._executable or self._launcher.find(self._python), RESET, FRESH)

    def activate(self, python: str) -> None:
        now = f"Switched to {{executable}} (Python {{python}}){self._is_empty}."
        self._replace(self._launcher.find(python), "The interpreter was changed.", now)
        self._python = python

    def set_size(self, columns: int, lines: int) -> None:
        self._size = (columns, lines)
        if self._worker is not None:
            self._worker.send("size", columns=columns, lines=lines)

    def set_reload(self, on: bool) -> None:
        self._reload = on
        if self._worker is not None:
            self._worker.send("reload", on=on)

    def _ask(self, operation: Operation[T], timeout: float | None = None, **fields: Any) -> T:
        typing = operation in (Operations.complete, Operations.explain)
        worker = self._require(wait=not typing)
        reply = worker.ask(operation, timeout, **fields)
        if isinstance(reply, UndoAnswer):
            worker.cwd = reply.cwd or worker.cwd
        elif isinstance(reply, str) and operation is Operations.change_directory:
            worker.cwd = reply
        return reply

    @property
    def cannot_lock(self) -> str:
        return self._ask(Operations.cannot_lock)

    @property
    def cannot_undo(self) -> str:
        if not self._undo_limits["steps"]:
            return "undo is off (undo_steps is 0)"
        return "" if sys.platform == "linux" else "this system cannot fork the kernel safely"

    def saved_namespace(self) -> SavedNamespace | None:
        if self._save_target is None:
            return None
        self._launcher.keep_settings(self._save_target)
        if not self._launcher.label and not os.path.lexists(self._save_target.folder):
            return SavedNamespace((), ())
        return self._ask(Operations.saved_namespace)

    def keep(self, carried: Sequence[str], lost: Sequence[str], seconds: float) -> KeepResult:
        return self._ask(Operations.keep, seconds, carried=list(carried), lost=list(lost))

    def restore(self, file: SavedFile) -> RestoredFile:
        worker = self._require()
        with self._turn:
            try:
                return worker.restore(file.name, Operations.restore.timeout + file.size / SLOW_DISK)
            except KernelError:
                worker.interrupt()
                raise

    def info(self) -> KernelInfo:
        return self._info(self._worker, self._state)

    def close(self, *, leave: bool = False, on_purpose: bool = False) -> None:
        self._closed, self._failure = True, CLOSED
        if not leave or self._worker is None:
            self._wire.given_up.set()
        if (starting := self._starting) is not None:
            starting.kill(CLOSED)
        with self._swap:
            worker, self._worker = self._worker, None
        if worker is not None and leave:
            worker.leave(on_purpose)
        elif worker is not None:
            worker.end(Status.KILLED, CLOSED)
        self._report(KernelState.DEAD, "")

    def _ready(self) -> WorkerProcess | None:
        with self._changed:
            self._changed.wait_for(lambda: self._state is not KernelState.STARTING)
            return self._worker

    def _require(self, *, wait: bool = True) -> WorkerProcess:
        worker = self._ready() if wait else self._worker
        if worker is None:
            raise KernelError(self._failure)
        return worker

    def _report(self, state: KernelState, text: str) -> None:
        with self._changed:
            self._state = state
            self._changed.notify_all()
        self._host.kernel_state(self.info(), text)

    def _replace(self, executable: str, why: str, now: str) -> None:
        with self._swap:
            if self._closed:
                raise KernelError(self._failure)
            old = self._worker
            new = self._launch(executable)
            self._set_worker(new, executable)
            self._state = KernelState.STARTING
        if old is not None:
            old.end(Status.KILLED, why)
        self._begin(now.format(python=new.hello.python, executable=new.hello.executable))

    def _launch(self, executable: str) -> WorkerProcess:
        cwd = self._worker.cwd if self._worker is not None else self._cwd
        folder = cwd if self._launcher.label else existing_folder(cwd)
        start = partial(self._launcher.start, executable, folder, self._size, self._wire)
        worker = WorkerProcess(executable, folder, start, self._host, self._on_end)
        self._starting = worker
        try:
            worker.start()
        finally:
            self._starting = None
        self._attached = worker.was_reattached
        self._wire.next_try = 0.0
        if worker.cwd != cwd and (folder != cwd or (self._launcher.label and cwd)):
            self._moved = moved_message(cwd, worker.cwd)
        return worker

    def _set_worker(self, worker: WorkerProcess, executable: str) -> None:
        with self._changed:
            if worker.claimed:
                raise KernelError(CLAIMED)
            if worker.over:
                raise KernelError(f"The kernel of {executable} ended as soon as it was ready.")
            self._worker, self._executable = worker, executable
        self.set_size(*self._size)

    def _begin(self, text: str) -> None:
        with self._changed:
            worker, startup = self._worker, self._startup
            if startup:
                self._startup = ""  # startup code that ends the process must not end the next one
        if worker is None:
            return
        if self._attached:
            self._report(KernelState.IDLE, "")
            return
        if self._launcher.label:
            worker.send("elsewhere")
        for op, definitions in host_definitions(self._host):
            worker.send(op, **{op: definitions})
        if self._reload:
            worker.send("reload", on=True)
        if self._undo_limits["steps"]:
            worker.send("undo_limits", **self._undo_limits)
        if startup:
            result = worker.execute(startup, RunningCell(0, lambda kind, text: None))
            if result.output and result.status is Status.OK:
                self._host.background_output(result.output)
            if result.status in (Status.DIED, Status.KILLED):
                return
            self._startup = startup
            if result.status is not Status.OK:
                text = f"{text} {startup_failure(result)}".lstrip()
        if self._save_target is not None:
            with suppress(KernelError):  # `saved_before` raises it
                worker.send("keep_in", **self._launcher.keep_settings(self._save_target))
        text, self._moved = f"{text} {self._moved} {self._launcher.problem}".strip(), ""
        self._report(KernelState.IDLE, text)

    def _info(self, worker: WorkerProcess | None, state: KernelState) -> KernelInfo:
        hello = KernelReady("", self._executable, "", 0) if worker is None else worker.hello
        return KernelInfo(
            hello.python,
            hello.executable,
            self._cwd if worker is None else worker.cwd,
            hello.pid,
            state,
            self._launcher.label,
            0.0 if worker is None else self._wire.next_try,
            self._launcher.address,
        )

    # Called on a process's reader thread

    def _on_end(self, worker: WorkerProcess, how: str) -> None:
        with self._changed:
            if self._closed or self._worker is not worker:
                return
            self._worker = None
            self._cwd = worker.cwd
            self._closed = worker.claimed  # a new one would wait for the same session
            self._state = KernelState.STARTING
        if worker.claimed:
            self._fail(how)
            return
        try:
            self._host.kernel_state(self._info(worker, KernelState.DEAD), how)
            self._restart()
        except Exception as error:  # the thread's outermost frame: cells wait for the outcome
            self._fail(f"Could not start a new kernel: {type(error).__name__}: {error}")

    def _restart(self) -> None:
        for attempt in range(1, ATTEMPTS + 1):
            with self._swap:
                if self._closed or self._worker is not None:
                    return
                try:
                    self._set_worker(self._launch(self._executable), self._executable)
                except KernelError as error:
                    if attempt == ATTEMPTS:
                        why = f"A new kernel failed to start {ATTEMPTS} times in a row: {error}"
                        self._fail(why)
                    continue
            self._begin(f"Started a new kernel{self._is_empty}.")
            return

    def _fail(self, text: str) -> None:
        self._failure = text
        self._report(KernelState.DEAD, text)


def startup_failure(result: CellResult) -> str:
    output = result.output[-STARTUP_OUTPUT:].rstrip()
    return f"The code that every kernel starts with failed:\n{output}"
