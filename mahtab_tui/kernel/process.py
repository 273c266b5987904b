"""The kernel in a process of its own: the usual one."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from typing import Any

from mahtab_tui.kernel.base import KernelError, KernelHost, KernelInfo, KernelState, NoHost, OnDisplay, OnOutput
from mahtab_tui.kernel.code_help import Completions, Detail, Explanation
from mahtab_tui.kernel.launch import Here, Place, Wire, WireState
from mahtab_tui.kernel.restoration import KeepPlace, KeepResult, KeptFile, KeptNamespace, Restoration, RestoredFile, UndoStep
from mahtab_tui.kernel.told import UndoAnswer, checked
from mahtab_tui.kernel.values import CellResult, Origin, PrivateUse, Status, Variable
from mahtab_tui.kernel.worker_process import WorkerProcess
from mahtab_tui.system.working_folder import moved

ATTEMPTS = 3
"""Starts in a row that may fail before a dead kernel stays dead."""

STARTUP_TOLD = 4_000
"""Characters that are told of code that each kernel begins with, where it fails."""

CLOSED = "The session was closed."

VARIABLES_TIMEOUT = 5.0
INSPECT_TIMEOUT = 10.0
PRIVATE_TIMEOUT = 15.0
LOOK_TIMEOUT = 15.0
COMPLETE_TIMEOUT = 0.5
LOAD_TIMEOUT = 60.0
UNDO_TIMEOUT = 120.0
BRANCH_TIMEOUT = 600.0
RESTORE_TIMEOUT = 30.0
"""Seconds. Describing has a time limit of its own, of about 2 s; so has looking inside, of 10 s for sorting and the like."""


SLOW_DISK = 20_000_000
"""Bytes a second."""


class ProcessKernel:
    """A `Kernel` in a process of its own, replaced by a new one when it dies."""

    def __init__(
        self,
        python: str | None = None,
        cwd: str | None = None,
        color: bool = True,
        *,
        startup: str = "",
        reload: bool = False,
        undo_steps: int = 20,
        undo_memory: int = 1024,
        keep: KeepPlace | None = None,
        place: Place | None = None,
    ) -> None:
        """startup: code that runs in each new process before anything else. reload: load changed modules of the project anew.

        undo_steps: cells that can be undone. undo_memory: megabytes that this may take; the oldest steps go first. keep: where the
        namespace is kept; None for nowhere. place: where the kernel runs; None for this machine.
        """
        self._place = place or Here()
        self._wire = Wire(self._place.label, lambda text: self._host.kernel_state(self.info(), text), lambda name, args: self._host.call(name, args))
        self._keep_place = keep
        self._undo_limits = {"steps": undo_steps, "megabytes": undo_memory}
        self._host: KernelHost = NoHost()
        self._startup = startup
        self._reload = reload
        self._python = python
        self._executable = ""
        self._color = color
        self._size = (80, 24)
        self._cwd = cwd or ("" if self._place.label else os.getcwd())
        self._moved = ""
        """Says that a new process works elsewhere, until that is told."""
        self._turn = threading.Lock()
        """Held while a cell (that is not nested) runs."""
        self._swap = threading.Lock()
        """Held while one process takes the place of another."""
        self._changed = threading.Condition()
        self._state = KernelState.DEAD
        self._worker: WorkerProcess | None = None
        self._failure = "The kernel was not started."
        self._attached = self._place.waits
        """Whether the process had waited for this host."""
        self._closed = False

    def start(self, host: KernelHost) -> None:
        self._host = host
        executable = self._place.find(self._python)
        self._tell(KernelState.STARTING, "")
        try:
            with self._swap:
                self._become(self._launch(executable), executable)
        except KernelError as error:
            self._failed(str(error))
            raise
        self._begin("")

    def execute(
        self,
        code: str,
        *,
        cell: int,
        origin: Origin,
        on_output: OnOutput,
        limit: int | None = None,
        nested: bool = False,
        on_display: OnDisplay | None = None,
        limited: bool = False,
    ) -> CellResult:
        with nullcontext() if nested else self._turn:
            worker = self._ready_worker()
            if worker is None:
                return CellResult(cell, Status.DIED, "", (), 0.0, (), self._failure)
            if nested:
                return worker.execute(code, cell, on_output, limit, nested, on_display, limited)
            self._tell(KernelState.BUSY, "")
            try:
                return worker.execute(code, cell, on_output, limit, nested, on_display, limited)
            finally:
                if self._state is KernelState.BUSY:
                    self._tell(KernelState.IDLE, "")

    @property
    def outlives(self) -> bool:
        return self._worker is not None and self._worker.outlives

    @property
    def waited(self) -> bool:
        return self._attached

    def go_on(self, cell: int, *, on_output: OnOutput, on_display: OnDisplay, nested: bool = False) -> CellResult | None:
        with nullcontext() if nested else self._turn:
            worker = self._needed_worker()
            if not worker.waited:  # the kernel has died meanwhile
                return None
            if nested:
                return worker.outliving.go_on(cell, on_output, on_display)
            self._tell(KernelState.BUSY, "")
            try:
                return worker.outliving.go_on(cell, on_output, on_display)
            finally:
                if self._state is KernelState.BUSY:
                    self._tell(KernelState.IDLE, "")

    def stored(self, cell: int) -> None:
        if self._worker is not None:
            self._worker.outliving.stored(cell)

    def kept_before(self) -> tuple[Sequence[str] | None, Sequence[str]]:
        kept = self._needed_worker().outliving.kept(VARIABLES_TIMEOUT)
        return kept.carried, kept.lost

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
            self._changed.wait_for(lambda: self._worker is not worker and self._state is not KernelState.STARTING)

    def reset(self) -> None:
        self._replace(self._executable or self._place.find(self._python), "The kernel was reset.", "A fresh kernel runs: its namespace is empty.")

    def activate(self, python: str) -> None:
        executable = self._place.find(python)
        self._replace(executable, "The interpreter was changed.", "The kernel runs on {executable} (Python {python}) now: its namespace is empty.")
        self._python = python

    def change_directory(self, path: str) -> str:
        worker = self._needed_worker()
        worker.cwd = str(worker.request("chdir", VARIABLES_TIMEOUT, path=path))
        return worker.cwd

    def installed(self, module: str, *, load: bool = False) -> bool:
        return checked(bool, self._needed_worker().request("installed", LOAD_TIMEOUT if load else VARIABLES_TIMEOUT, module=module, load=load))

    def set_size(self, columns: int, lines: int) -> None:
        self._size = (columns, lines)
        if self._worker is not None:
            self._worker.tell("size", columns=columns, lines=lines)

    def set_reload(self, on: bool) -> None:
        self._reload = on
        if self._worker is not None:
            self._worker.tell("reload", on=on)

    def variables(self) -> list[Variable]:
        return checked(list[Variable], self._needed_worker().request("variables", VARIABLES_TIMEOUT))

    def private_use(self, names: Sequence[str], codes: Sequence[str]) -> PrivateUse:
        told = self._needed_worker().request("private_use", PRIVATE_TIMEOUT, names=list(names), codes=list(codes))
        return checked(PrivateUse, told)

    def inspect(self, name: str) -> Detail:
        return checked(Detail, self._needed_worker().request("inspect", INSPECT_TIMEOUT, name=name))

    def look(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        return checked(dict[str, Any], self._needed_worker().request("look", LOOK_TIMEOUT, asked=asked))

    def complete(self, code: str, cursor: int) -> Completions:
        worker = self._worker
        if worker is None:
            raise KernelError(self._failure)
        return checked(Completions, worker.request("complete", COMPLETE_TIMEOUT, code=code, cursor=cursor))

    def explain(self, code: str, cursor: int) -> Explanation | None:
        worker = self._worker
        if worker is None:
            raise KernelError(self._failure)
        found = worker.request("explain", VARIABLES_TIMEOUT, code=code, cursor=cursor)
        return None if found is None else checked(Explanation, found)

    @property
    def cannot_limit(self) -> str:
        return ""

    @property
    def cannot_undo(self) -> str:
        if not self._undo_limits["steps"]:
            return "undo is off (undo_steps is 0)"
        return "" if sys.platform == "linux" else "this system cannot fork the kernel safely"

    def undo_steps(self) -> tuple[UndoStep, ...]:
        return checked(tuple[UndoStep, ...], self._needed_worker().request("undo_steps", VARIABLES_TIMEOUT))

    def preview_undo(self, cell: int) -> Restoration:
        return self._undo("preview", cell)

    def undo(self, cell: int) -> Restoration:
        return self._undo("undo", cell)

    def redo(self) -> Restoration:
        return self._undo("redo", 0)

    def _undo(self, action: str, cell: int) -> Restoration:
        worker = self._needed_worker()
        with self._between_cells("undo"):
            told = checked(UndoAnswer, worker.request("undo", UNDO_TIMEOUT, action=action, cell=cell))
        worker.cwd = told.cwd or worker.cwd
        return told.restoration

    def branch(self, cell: int, place: KeepPlace) -> KeepResult:
        worker = self._needed_worker()
        settings = self._place.keep_settings(place)
        with self._between_cells("make a branch"):
            result = checked(KeepResult, worker.request("branch", BRANCH_TIMEOUT, cell=cell, settings=settings))
        if result.error:
            raise KernelError(f"The branch could not be written: {result.error}.")
        return result

    @contextmanager
    def _between_cells(self, work: str) -> Iterator[None]:
        """Keep cells from running within this context. Raises `KernelError` while one runs."""
        if not self._turn.acquire(blocking=False):
            raise KernelError(f"A cell runs. Wait for its end, or interrupt it; then {work}.")
        try:
            yield
        finally:
            self._turn.release()

    def kept(self) -> KeptNamespace | None:
        if self._keep_place is None:
            return None
        self._place.keep_settings(self._keep_place)
        if not self._place.may_be_kept(self._keep_place):
            return KeptNamespace((), ())
        return checked(KeptNamespace, self._needed_worker().request("kept", RESTORE_TIMEOUT))

    def keep(self, carried: Sequence[str], lost: Sequence[str], seconds: float) -> KeepResult:
        return checked(KeepResult, self._needed_worker().request("keep", seconds, carried=list(carried), lost=list(lost)))

    def restore(self, file: KeptFile) -> RestoredFile:
        worker = self._needed_worker()
        with self._turn:
            try:
                return checked(RestoredFile, worker.restore(file.name, RESTORE_TIMEOUT + file.size / SLOW_DISK))
            except KernelError:
                worker.interrupt()
                raise

    def info(self) -> KernelInfo:
        worker = self._worker
        if worker is None:
            return KernelInfo("", self._executable, self._cwd, 0, self._state, self._place.label)
        return self._info_of(worker, self._state)

    def close(self, *, leave: bool = False) -> None:
        self._closed = True
        with self._swap:
            worker, self._worker = self._worker, None
        if worker is not None and leave:
            worker.leave()
        elif worker is not None:
            worker.end(Status.KILLED, CLOSED)
        self._failure = CLOSED
        self._tell(KernelState.DEAD, "")

    # What a `WorkerProcess` tells.

    def late_output(self, text: str) -> None:
        self._host.late_output(text)

    def call(self, name: str, args: Mapping[str, Any]) -> Any:
        return self._host.call(name, args)

    def call_cancelled(self, name: str) -> None:
        self._host.call_cancelled(name)

    def taken(self, worker: WorkerProcess, how: str) -> None:
        with self._changed:
            if self._closed or self._worker is not worker:
                return
            self._worker = None
            self._cwd = worker.cwd
        self._failed(how)

    def ended(self, worker: WorkerProcess, how: str) -> None:
        with self._changed:
            if self._closed or self._worker is not worker:
                return
            self._worker = None
            self._cwd = worker.cwd
            self._state = KernelState.STARTING
        try:
            self._host.kernel_state(self._info_of(worker, KernelState.DEAD), how)
            self._restart()
        except Exception as error:  # the thread's outermost frame: cells wait for what comes of this
            self._failed(f"No new kernel could be started: {type(error).__name__}: {error}")

    def _restart(self) -> None:
        """Put a new process in the place of one that died. Runs on the dead one's reader thread."""
        for attempt in range(1, ATTEMPTS + 1):
            with self._swap:
                if self._closed or self._worker is not None:
                    return
                try:
                    self._become(self._launch(self._executable), self._executable)
                except KernelError as error:
                    if attempt == ATTEMPTS:
                        self._failed(f"No new kernel could be started, {ATTEMPTS} times in a row: {error}")
                    continue
            self._begin("A new kernel has started: its namespace is empty.")
            return

    def _replace(self, executable: str, why: str, now: str) -> None:
        """why: what the old one's cells are told. now: what is told once the new one is ready, with places for its hello."""
        with self._swap:
            if self._closed:
                raise KernelError(CLOSED)
            old = self._worker
            new = self._launch(executable)
            self._become(new, executable)
            self._state = KernelState.STARTING
        if old is not None:
            old.end(Status.KILLED, why)
        self._begin(now.format(python=new.hello.python, executable=new.hello.executable))

    def _begin(self, text: str) -> None:
        """Run what a new process begins with, and tell that it is ready. Cells wait until then."""
        with self._changed:
            worker, startup = self._worker, self._startup
            if startup:
                self._startup = ""  # one that ends the process must not end the next one, too
        if worker is None:
            return
        if self._attached:
            self._tell(KernelState.IDLE, "")
            return
        if self._place.label:
            worker.tell("elsewhere")
        worker.tell("functions", functions=[function._asdict() for function in self._host.functions()])
        if servers := self._host.servers():
            worker.tell("servers", servers=[server._asdict() for server in servers])
        if self._reload:
            worker.tell("reload", on=True)
        if self._undo_limits["steps"]:
            worker.tell("undo_limits", **self._undo_limits)
        if startup:
            result = worker.execute(startup, 0, lambda kind, text: None, None, False)
            if result.output and result.status is Status.OK:
                self._host.late_output(result.output)
            if result.status in (Status.DIED, Status.KILLED):
                return
            self._startup = startup
            if result.status is not Status.OK:
                text = f"{text} What each kernel begins with did not end well:\n{result.output[-STARTUP_TOLD:].rstrip()}".lstrip()
        if self._keep_place is not None:
            with suppress(KernelError):  # `kept` raises it
                worker.tell("keep_in", **self._place.keep_settings(self._keep_place))
        text, self._moved = f"{text} {self._moved} {self._place.problem}".strip(), ""
        self._tell(KernelState.IDLE, text)

    def _launch(self, executable: str) -> WorkerProcess:
        cwd = self._worker.cwd if self._worker is not None else self._cwd
        folder = self._place.existing_folder(cwd)
        worker = WorkerProcess(executable, folder, partial(self._place.start, executable, folder, self._color, self._size, self._wire), self)
        worker.start()
        self._attached = worker.waited
        self._wire.state = WireState()
        if worker.cwd != cwd and (folder != cwd or (self._place.label and cwd)):
            self._moved = moved(cwd, worker.cwd)
        return worker

    def _become(self, worker: WorkerProcess, executable: str) -> None:
        with self._changed:
            if worker.over:
                raise KernelError(f"The kernel of {executable} ended as soon as it was ready.")
            self._worker, self._executable = worker, executable

    def _ready_worker(self) -> WorkerProcess | None:
        """The process, once it has started; None where there is none to come."""
        with self._changed:
            self._changed.wait_for(lambda: self._state is not KernelState.STARTING)
            return self._worker

    def _needed_worker(self) -> WorkerProcess:
        worker = self._ready_worker()
        if worker is None:
            raise KernelError(self._failure)
        return worker

    def _failed(self, text: str) -> None:
        self._failure = text
        self._tell(KernelState.DEAD, text)

    def _tell(self, state: KernelState, text: str) -> None:
        with self._changed:
            self._state = state
            self._changed.notify_all()
        self._host.kernel_state(self.info(), text)

    def _info_of(self, worker: WorkerProcess, state: KernelState) -> KernelInfo:
        hello = worker.hello
        return KernelInfo(hello.python, hello.executable, worker.cwd, hello.pid, state, self._place.label, self._wire.state.next_try)
