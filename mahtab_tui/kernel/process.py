"""The kernel in a separate process, which is the default."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

from mahtab_tui.kernel.base import (
    KernelError,
    KernelHost,
    KernelInfo,
    OnDisplay,
    OnOutput,
)
from mahtab_tui.kernel.launch import Launcher, LocalLauncher
from mahtab_tui.kernel.operations import Operation, Operations, T, UndoAnswer, WorkerOperations
from mahtab_tui.kernel.supervisor import KernelSupervisor
from mahtab_tui.kernel.values import (
    RESET,
    CellResult,
    KeepResult,
    Lock,
    RestoredFile,
    SavedFile,
    SavedNamespace,
    SaveTarget,
    Status,
)

SLOW_DISK = 20_000_000
"""Bytes per second."""


class ProcessKernel(WorkerOperations):
    """A `Kernel` in a separate process, which is replaced by a new one when it dies."""

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
        keep: SaveTarget | None = None,
        launcher: Launcher | None = None,
    ) -> None:
        """startup: code that runs first in each new process. reload: reload changed modules of the
        project.

        undo_steps: number of cells that can be undone. undo_memory: megabytes for that; the oldest
        steps are dropped first. keep: where the namespace is saved; None for nowhere. launcher:
        where the kernel runs; None for this machine.
        """
        self._launcher = launcher or LocalLauncher()
        self._python = python
        self._save_target = keep
        self._undo_limits = {"steps": undo_steps, "megabytes": undo_memory}
        self._turn = threading.Lock()
        self._processes = KernelSupervisor(
            self._launcher,
            cwd,
            color,
            startup=startup,
            reload=reload,
            undo_limits=self._undo_limits,
            keep=keep,
        )

    def start(self, host: KernelHost) -> None:
        self._processes.start(host, self._python)

    def execute(
        self,
        code: str,
        *,
        cell: int,
        on_output: OnOutput,
        limit: int | None = None,
        nested: bool = False,
        on_display: OnDisplay | None = None,
        lock: Lock | None = None,
    ) -> CellResult:
        with nullcontext() if nested else self._turn:
            worker = self._processes.ready()
            if worker is None:
                return CellResult(cell, Status.DIED, "", (), 0.0, (), self._processes.failure)
            with self._processes.busy(nested):
                return worker.execute(code, cell, on_output, limit, nested, on_display, lock)

    @property
    def can_detach(self) -> bool:
        return self._processes.worker is not None and self._processes.worker.can_detach

    @property
    def was_reattached(self) -> bool:
        return self._processes.attached

    def resume_cell(
        self, cell: int, *, on_output: OnOutput, on_display: OnDisplay, nested: bool = False
    ) -> CellResult | None:
        with nullcontext() if nested else self._turn:
            worker = self._processes.require()
            if not worker.was_reattached:  # the kernel died meanwhile
                return None
            with self._processes.busy(nested):
                return worker.detach_state.resume_cell(cell, on_output, on_display)

    def acknowledge(self, cell: int) -> None:
        if self._processes.worker is not None:
            self._processes.worker.detach_state.on_stored(cell)

    def saved_before(self) -> tuple[Sequence[str] | None, Sequence[str]]:
        saved = self._processes.require().detach_state.saved(Operations.saved_before.timeout)
        return saved.carried, saved.lost

    def interrupt(self) -> bool:
        worker = self._processes.worker
        return worker is not None and worker.interrupt()

    def kill(self) -> None:
        self._processes.kill()

    def reset(self) -> None:
        self._processes.replace(
            self._processes.executable or self._launcher.find(self._python),
            RESET,
            "Started a fresh kernel; its namespace is empty.",
        )

    def activate(self, python: str) -> None:
        executable = self._launcher.find(python)
        now = self._processes.new_process_text("Switched to {executable} (Python {python})")
        self._processes.replace(executable, "The interpreter was changed.", now)
        self._python = python

    def change_directory(self, path: str) -> str:
        worker = self._processes.require()
        worker.cwd = worker.ask(Operations.change_directory, path=path)
        return worker.cwd

    def set_size(self, columns: int, lines: int) -> None:
        self._processes.size = (columns, lines)
        if self._processes.worker is not None:
            self._processes.worker.send("size", columns=columns, lines=lines)

    def set_reload(self, on: bool) -> None:
        self._processes.reload = on
        if self._processes.worker is not None:
            self._processes.worker.send("reload", on=on)

    def _ask(self, operation: Operation[T], timeout: float | None = None, **fields: Any) -> T:
        typing = operation in (Operations.complete, Operations.explain)  # these never wait
        worker = self._processes.require(wait=not typing)
        reply = worker.ask(operation, timeout, **fields)
        if isinstance(reply, UndoAnswer):
            worker.cwd = reply.cwd or worker.cwd
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
        worker = self._processes.require()
        with self._turn:
            try:
                return worker.restore(file.name, Operations.restore.timeout + file.size / SLOW_DISK)
            except KernelError:
                worker.interrupt()
                raise

    def info(self) -> KernelInfo:
        return self._processes.info()

    def close(self, *, leave: bool = False, on_purpose: bool = False) -> None:
        self._processes.close(leave=leave, on_purpose=on_purpose)
