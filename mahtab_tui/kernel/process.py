"""The kernel in a separate process, which is the default."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import Any

from mahtab_tui.kernel.base import (
    KernelError,
    KernelHost,
    KernelInfo,
    OnDisplay,
    OnOutput,
    between_cells,
)
from mahtab_tui.kernel.launch import Launcher, LocalLauncher
from mahtab_tui.kernel.requests import UndoAnswer, checked
from mahtab_tui.kernel.supervisor import KernelSupervisor
from mahtab_tui.kernel.values import (
    RESET,
    CellResult,
    Completions,
    Detail,
    Explanation,
    KeepResult,
    Lock,
    PrivateUse,
    Restoration,
    RestoredFile,
    SavedFile,
    SavedNamespace,
    SaveTarget,
    Status,
    UndoStep,
    Variable,
)

VARIABLES_TIMEOUT = 5.0
INSPECT_TIMEOUT = 10.0
DESCRIBE_TIMEOUT = 5.0
PRIVATE_TIMEOUT = 15.0
LOOK_TIMEOUT = 15.0
COMPLETE_TIMEOUT = 0.5
LOAD_TIMEOUT = 60.0
UNDO_TIMEOUT = 120.0
RESTORE_TIMEOUT = 30.0
"""Seconds. Inspecting and describing have their own time limits of about 2 s; the inspector has 10
s for sorting and the like."""


SLOW_DISK = 20_000_000
"""Bytes per second."""


class ProcessKernel:
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
        """Held while a cell runs, unless it is nested."""
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
        saved = self._processes.require().detach_state.saved(VARIABLES_TIMEOUT)
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
        worker.cwd = str(worker.request("chdir", VARIABLES_TIMEOUT, path=path))
        return worker.cwd

    def installed(self, module: str, *, load: bool = False) -> bool:
        return checked(
            bool,
            self._processes.require().request(
                "installed", LOAD_TIMEOUT if load else VARIABLES_TIMEOUT, module=module, load=load
            ),
        )

    def set_size(self, columns: int, lines: int) -> None:
        self._processes.size = (columns, lines)
        if self._processes.worker is not None:
            self._processes.worker.send("size", columns=columns, lines=lines)

    def set_reload(self, on: bool) -> None:
        self._processes.reload = on
        if self._processes.worker is not None:
            self._processes.worker.send("reload", on=on)

    def variables(self) -> list[Variable]:
        return checked(
            list[Variable], self._processes.require().request("variables", VARIABLES_TIMEOUT)
        )

    def private_use(self, names: Sequence[str], codes: Sequence[str]) -> PrivateUse:
        reply = self._processes.require().request(
            "private_use", PRIVATE_TIMEOUT, names=list(names), codes=list(codes)
        )
        return checked(PrivateUse, reply)

    def inspect(self, name: str, *, run_code: bool = True) -> Detail:
        reply = self._processes.require().request(
            "inspect", INSPECT_TIMEOUT, name=name, run_code=run_code
        )
        return checked(Detail, reply)

    def describe(self, names: Sequence[str], limit: int) -> dict[str, str]:
        return checked(
            dict[str, str],
            self._processes.require().request(
                "describe", DESCRIBE_TIMEOUT, names=list(names), limit=limit
            ),
        )

    def inspect_object(self, request: Mapping[str, Any]) -> dict[str, Any]:
        return checked(
            dict[str, Any], self._processes.require().request("look", LOOK_TIMEOUT, asked=request)
        )

    def complete(self, code: str, cursor: int) -> Completions:
        return checked(
            Completions,
            self._processes.require(wait=False).request(
                "complete", COMPLETE_TIMEOUT, code=code, cursor=cursor
            ),
        )

    def explain(self, code: str, cursor: int) -> Explanation | None:
        found = self._processes.require(wait=False).request(
            "explain", VARIABLES_TIMEOUT, code=code, cursor=cursor
        )
        return None if found is None else checked(Explanation, found)

    @property
    def cannot_lock(self) -> str:
        return checked(str, self._processes.require().request("cannot_lock", VARIABLES_TIMEOUT))

    @property
    def cannot_undo(self) -> str:
        if not self._undo_limits["steps"]:
            return "undo is off (undo_steps is 0)"
        return "" if sys.platform == "linux" else "this system cannot fork the kernel safely"

    def undo_steps(self) -> tuple[UndoStep, ...]:
        return checked(
            tuple[UndoStep, ...], self._processes.require().request("undo_steps", VARIABLES_TIMEOUT)
        )

    def preview_undo(self, cell: int) -> Restoration:
        return self._undo("preview", cell)

    def undo(self, cell: int) -> Restoration:
        return self._undo("undo", cell)

    def redo(self) -> Restoration:
        return self._undo("redo", 0)

    def _undo(self, action: str, cell: int) -> Restoration:
        worker = self._processes.require()
        with between_cells(self._turn, "undo"):
            reply = checked(
                UndoAnswer, worker.request("undo", UNDO_TIMEOUT, action=action, cell=cell)
            )
        worker.cwd = reply.cwd or worker.cwd
        return reply.restoration

    def saved_namespace(self) -> SavedNamespace | None:
        if self._save_target is None:
            return None
        self._launcher.keep_settings(self._save_target)
        if not self._launcher.label and not os.path.lexists(self._save_target.folder):
            return SavedNamespace((), ())
        return checked(SavedNamespace, self._processes.require().request("kept", RESTORE_TIMEOUT))

    def keep(self, carried: Sequence[str], lost: Sequence[str], seconds: float) -> KeepResult:
        return checked(
            KeepResult,
            self._processes.require().request(
                "keep", seconds, carried=list(carried), lost=list(lost)
            ),
        )

    def restore(self, file: SavedFile) -> RestoredFile:
        worker = self._processes.require()
        with self._turn:
            try:
                return checked(
                    RestoredFile, worker.restore(file.name, RESTORE_TIMEOUT + file.size / SLOW_DISK)
                )
            except KernelError:
                worker.interrupt()
                raise

    def info(self) -> KernelInfo:
        return self._processes.info()

    def close(self, *, leave: bool = False, on_purpose: bool = False) -> None:
        self._processes.close(leave=leave, on_purpose=on_purpose)
