"""The kernel in a separate process, which is the default."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from functools import partial
from typing import Any

from mahtab_tui.bus.values import Status
from mahtab_tui.kernel.base import (
    FRESH,
    RESET,
    CellListener,
    Kernel,
    KernelError,
    OnDisplay,
    OnOutput,
)
from mahtab_tui.kernel.cancellation import Cancellation
from mahtab_tui.kernel.connection_state import ConnectionState
from mahtab_tui.kernel.host import HostCall, KernelHost, host_definitions
from mahtab_tui.kernel.launch import Launcher, LocalLauncher
from mahtab_tui.kernel.messages import KernelReady
from mahtab_tui.kernel.operations import Operation, Operations, T, UndoAnswer
from mahtab_tui.kernel.running_cell import RunningCell
from mahtab_tui.kernel.values import (
    CellResult,
    FileWatching,
    KeepResult,
    KernelInfo,
    KernelState,
    Lock,
    RestoredFile,
    SavedFile,
    SavedNamespace,
    SaveRequest,
    SaveTarget,
)
from mahtab_tui.kernel.worker_process import CLAIMED, WorkerProcess
from mahtab_tui.system import existing_folder, moved_message

RESTORE_BYTES_PER_S = 20_000_000
"""Speed of a slow disk, by which the time for restoring a file is limited."""
MAX_START_ATTEMPTS = 3
"""Attempts to start a kernel in place of one that has died."""
MAX_STARTUP_OUTPUT_CHARS = 4_000
"""Characters of the output of failed startup code that are shown."""
DEFAULT_SCREEN_SIZE = (80, 24)

CLOSED = "The session was closed."


class ProcessKernel(Kernel):
    """A kernel in a process of its own, on this machine or another one.

    A process that dies is replaced by a new one.
    """

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
        watching: FileWatching | None = None,
    ) -> None:
        """Create a kernel without a process.

        Args:
            python: The interpreter or its environment; None for our own.
            cwd: The working directory; None for ours, or for the home folder elsewhere.
            startup: Code that runs first in each new process.
            reload: Whether changed modules of the project are reloaded before a cell.
            undo_steps: Number of cells that can be undone; 0 for none.
            undo_memory: Megabytes for that; the oldest steps are dropped first.
            keep: Where the namespace is saved; None for nowhere.
            launcher: Where the kernel runs; None for this machine.
            watching: How its files are watched, so that undo restores them; None if they are not.
        """
        super().__init__()
        launcher = launcher or LocalLauncher()
        self._launcher = launcher
        self._watching: FileWatching | None = None
        if isinstance(launcher, LocalLauncher) and undo_steps and sys.platform == "linux":
            self._watching = watching
            launcher.watches_files = watching is not None
        self._python = python
        self._cwd = cwd or ("" if launcher.label else os.getcwd())
        self._startup = startup
        self._reload = reload
        self._undo_steps = undo_steps
        self._undo_megabytes = undo_memory
        self._save_target = keep
        # If variables are saved, the session reports which of them are restored.
        self._empty_note = "; its namespace is empty" if keep is None else ""
        self._wire = ConnectionState(
            launcher.label,
            lambda text: self._host.kernel_state(self.info(), text),
            lambda name, args: self._host.call(HostCall(name, args, Cancellation())),
        )
        self._size = DEFAULT_SCREEN_SIZE
        self._swap = threading.Lock()
        """Held while the process is replaced."""
        self._changed = threading.Condition()
        """Guards the state and the process; notified when they change."""
        self._worker: WorkerProcess | None = None
        self._starting_worker: WorkerProcess | None = None
        """A process that is not ready yet."""
        self._executable = ""
        self._failure = "The kernel was not started."
        """Why there is no process, as a sentence."""
        self._moved_note = ""
        """A sentence saying that the working directory is gone; reported with the next state. Empty
        if it is not."""
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
                running = RunningCell(*listener)
                running.watches_files = self._watching is not None
                return worker.execute(code, running, nested, lock)

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

    def last_save_request(self) -> SaveRequest:
        return self._require().last_save_request()

    def interrupt(self, cell: int | None = None) -> bool:
        worker = self._worker
        return worker is not None and worker.interrupt(cell)

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
        text = f"Switched to {{executable}} (Python {{python}}){self._empty_note}."
        self._replace(self._launcher.find(python), "The interpreter was changed.", text)
        self._python = python

    def set_size(self, columns: int, lines: int) -> None:
        self._size = (columns, lines)
        if self._worker is not None:
            self._worker.set_size(columns, lines)

    def set_reload(self, on: bool) -> None:
        self._reload = on
        if self._worker is not None:
            self._worker.set_reload(on)

    def _ask(self, operation: Operation[T], timeout: float | None = None, **fields: Any) -> T:
        # While the user types, nothing waits for a process that is only starting.
        is_for_typing = operation in (Operations.complete, Operations.explain)
        worker = self._require(wait=not is_for_typing)
        reply = worker.ask(operation, timeout, **fields)
        if isinstance(reply, UndoAnswer):
            worker.cwd = reply.cwd or worker.cwd
        elif isinstance(reply, str) and operation is Operations.change_directory:
            worker.cwd = reply
        return reply

    @property
    def lock_unavailable_reason(self) -> str:
        return self._ask(Operations.cannot_lock)

    @property
    def protects_files(self) -> bool:
        return self._ask(Operations.protects_files)

    @property
    def undo_unavailable_reason(self) -> str:
        if not self._undo_steps:
            return "undo is off (undo_steps is 0)"
        if sys.platform != "linux":
            return "this system cannot fork the kernel safely"
        return ""

    def saved_namespace(self) -> SavedNamespace | None:
        if self._save_target is None:
            return None
        # Raises an error if nothing can be saved.
        self._launcher.keep_settings(self._save_target)
        if not self._launcher.label and not os.path.lexists(self._save_target.folder):
            return SavedNamespace((), ())
        return self._ask(Operations.saved_namespace)

    def keep(self, carried: Sequence[str], lost: Sequence[str], seconds: float) -> KeepResult:
        return self._ask(Operations.keep, seconds, carried=list(carried), lost=list(lost))

    def restore(self, file: SavedFile) -> RestoredFile:
        worker = self._require()
        timeout = Operations.restore.timeout + file.size / RESTORE_BYTES_PER_S
        with self._turn:
            return worker.restore(file.name, timeout)

    def info(self) -> KernelInfo:
        return self._info(self._worker, self._state)

    def close(self, *, leave: bool = False, on_purpose: bool = False) -> None:
        self._closed = True
        self._failure = CLOSED
        if not leave or self._worker is None:
            self._wire.given_up.set()
        starting_worker = self._starting_worker
        if starting_worker is not None:
            starting_worker.kill(CLOSED)
        with self._swap:
            worker = self._worker
            self._worker = None
        if worker is not None and leave:
            worker.leave(on_purpose)
        elif worker is not None:
            worker.end(Status.KILLED, CLOSED)
        self._report(KernelState.DEAD, "")

    def _ready(self) -> WorkerProcess | None:
        """Return the process, once it has started; None if there is none."""
        with self._changed:
            self._changed.wait_for(lambda: self._state is not KernelState.STARTING)
            return self._worker

    def _require(self, *, wait: bool = True) -> WorkerProcess:
        """Return the process.

        Args:
            wait: Whether to wait for one that starts.

        Raises:
            KernelError: There is none.
        """
        worker = self._ready() if wait else self._worker
        if worker is None:
            raise KernelError(self._failure)
        return worker

    def _report(self, state: KernelState, text: str) -> None:
        with self._changed:
            self._state = state
            self._changed.notify_all()
        self._host.kernel_state(self.info(), text)

    def _replace(self, executable: str, reason: str, text: str) -> None:
        """Replace the process.

        Args:
            executable: The new interpreter.
            reason: A sentence for cells of the old process.
            text: A sentence about the new process, with fields for its interpreter.

        Raises:
            KernelError: The new process could not start. The old one stays.
        """
        with self._swap:
            if self._closed:
                raise KernelError(self._failure)
            old_worker = self._worker
            worker = self._launch(executable)
            self._set_worker(worker, executable)
            self._state = KernelState.STARTING
        if old_worker is not None:
            old_worker.end(Status.KILLED, reason)
        text = text.format(python=worker.hello.python, executable=worker.hello.executable)
        self._begin(text, has_replaced=True)

    def _launch(self, executable: str) -> WorkerProcess:
        """Start a process, and wait until it is ready. Raises `KernelError`."""
        is_remote = bool(self._launcher.label)
        cwd = self._worker.cwd if self._worker is not None else self._cwd
        folder = cwd if is_remote else existing_folder(cwd)
        start = partial(self._launcher.start, executable, folder, self._size, self._wire)
        program = executable
        if is_remote:
            program = f"{executable or 'Python'} on {self._launcher.label}"
        worker = WorkerProcess(executable, program, folder, start, self._host, self._on_end)
        self._starting_worker = worker
        try:
            worker.start()
        finally:
            self._starting_worker = None
        self._attached = worker.was_reattached
        self._wire.next_try = 0.0

        # The other machine chooses a folder itself if none was named.
        was_named = folder != cwd or (is_remote and bool(cwd))
        if worker.cwd != cwd and was_named:
            self._moved_note = moved_message(cwd, worker.cwd)
        return worker

    def _set_worker(self, worker: WorkerProcess, executable: str) -> None:
        """Use a process from now on. Raises `KernelError` if it has ended already."""
        with self._changed:
            if worker.claimed:
                raise KernelError(CLAIMED)
            if worker.over:
                raise KernelError(f"The kernel of {executable} ended as soon as it was ready.")
            self._worker = worker
            self._executable = executable
        self.set_size(*self._size)

    def _begin(self, text: str, *, has_replaced: bool = False, follows_crash: bool = False) -> None:
        """Prepare a process that has started, and report that it is idle.

        Args:
            text: A sentence for the user.
            has_replaced: Whether another process was ended for it, whose variables are not wanted.
            follows_crash: Whether the last process has died.
        """
        with self._changed:
            worker = self._worker
        if worker is None:
            return
        if self._attached:
            self._report(KernelState.IDLE, "")
            return

        self._send_settings(worker)
        startup_problem = self._run_startup(worker)
        if startup_problem is None:
            return
        if self._save_target is not None:
            # `saved_namespace` raises the error again, for the user.
            with suppress(KernelError):
                settings = self._launcher.keep_settings(self._save_target)
                worker.set_save_settings(settings, wait=not has_replaced)
                if follows_crash:
                    # It answers once the old one's variables are saved.
                    worker.ask(Operations.saved_namespace)
        notes = (text, startup_problem, self._moved_note, self._launcher.problem)
        self._moved_note = ""
        self._report(KernelState.IDLE, " ".join(filter(None, notes)))

    def _send_settings(self, worker: WorkerProcess) -> None:
        """Tell a new process what it must know before anything that is sent later."""
        if self._launcher.label:
            worker.set_remote()
        definitions = host_definitions(self._host)
        worker.add_functions(definitions.functions)
        if definitions.servers:
            worker.add_servers(definitions.servers)
        if self._reload:
            worker.set_reload(True)
        if self._undo_steps:
            worker.set_undo_limits(self._undo_steps, self._undo_megabytes)
        if self._watching is not None:
            worker.watch_files(self._watching)

    def _run_startup(self, worker: WorkerProcess) -> str | None:
        """Run the startup code in a new process.

        Returns:
            A sentence if it failed, otherwise an empty text; None if it has ended the process.
        """
        if not self._startup:
            return ""
        # Startup code that ends the process must not end the next one, too.
        startup = self._startup
        self._startup = ""
        result = worker.execute(startup, RunningCell(0, lambda kind, text: None))
        if result.status in (Status.DIED, Status.KILLED):
            return None
        self._startup = startup
        if result.status is not Status.OK:
            return startup_failure(result)
        if result.output:
            self._host.background_output(result.output)
        return ""

    def _info(self, worker: WorkerProcess | None, state: KernelState) -> KernelInfo:
        """Return what is known of the kernel.

        Args:
            worker: Its process; None if there is none.
            state: Its state.
        """
        if worker is None:
            hello = KernelReady("", self._executable, "", 0)
            cwd = self._cwd
            next_try = 0.0
        else:
            hello = worker.hello
            cwd = worker.cwd
            next_try = self._wire.next_try
        return KernelInfo(
            hello.python,
            hello.executable,
            cwd,
            hello.pid,
            state,
            self._launcher.label,
            next_try,
            self._launcher.address,
        )

    # Called on a process's reader thread

    def _on_end(self, worker: WorkerProcess, sentence: str) -> None:
        """Start a new process in place of one that has died.

        Args:
            worker: The process that has ended.
            sentence: How it has ended.
        """
        with self._changed:
            if self._closed or self._worker is not worker:
                return
            self._worker = None
            self._cwd = worker.cwd
            # If another host has the process, a new one would wait for the same session.
            self._closed = worker.claimed
            self._state = KernelState.STARTING
        if worker.claimed:
            self._fail(sentence)
            return
        try:
            self._host.kernel_state(self._info(worker, KernelState.DEAD), sentence)
            self._restart()
        except Exception as error:  # the thread's outermost frame: cells wait for the outcome
            self._fail(f"Could not start a new kernel: {type(error).__name__}: {error}")

    def _restart(self) -> None:
        """Start a new process, with several attempts, unless there is one or the kernel was closed."""
        for attempt in range(1, MAX_START_ATTEMPTS + 1):
            with self._swap:
                if self._closed or self._worker is not None:
                    return
                try:
                    self._set_worker(self._launch(self._executable), self._executable)
                except KernelError as error:
                    if attempt == MAX_START_ATTEMPTS:
                        self._fail(
                            f"A new kernel failed to start {MAX_START_ATTEMPTS} times in a row:"
                            f" {error}"
                        )
                    continue
            self._begin(f"Started a new kernel{self._empty_note}.", follows_crash=True)
            return

    def _fail(self, text: str) -> None:
        """Report that there is no process any more."""
        self._failure = text
        self._report(KernelState.DEAD, text)


def startup_failure(result: CellResult) -> str:
    """Return a sentence about failed startup code, with the end of its output."""
    output = result.output[-MAX_STARTUP_OUTPUT_CHARS:].rstrip()
    return f"The code that every kernel starts with failed:\n{output}"
