"""The kernel inside the caller's own process. An interrupt is an asynchronous exception, which a
blocking call in C does not notice until it returns, and output of other threads, child processes
and C code does not belong to the cell."""

from __future__ import annotations

import os
import sys
from contextlib import nullcontext
from typing import Any, NoReturn

from mahtab_tui.bus.values import Status
from mahtab_tui.kernel.base import CellListener, Kernel, KernelError
from mahtab_tui.kernel.host import KernelHost
from mahtab_tui.kernel.inprocess_runner import CANNOT_FORK, CellRunner
from mahtab_tui.kernel.operations import Operation, T
from mahtab_tui.kernel.running_cell import RunningCell
from mahtab_tui.kernel.values import CellResult, KernelInfo, KernelState, Lock
from mahtab_tui.worker.link.process_facts import python_version, working_directory


class InProcessKernel(Kernel):
    """A `Kernel` over `namespace` itself: what cells bind remains there after the session."""

    cannot_lock = "the namespace is inside another program"
    cannot_undo = f"the kernel cannot be forked, because {CANNOT_FORK}"
    _cannot_save = (
        "The namespace belongs to the program that opened this session, so it is not saved."
    )

    def __init__(self, namespace: dict[str, Any]) -> None:
        super().__init__()
        self._namespace = namespace
        self._runner: CellRunner | None = None
        """Runs the cells, from `start` on."""

    def start(self, host: KernelHost) -> None:
        self._host = host
        self._runner = CellRunner.start(self._namespace, host)
        self._report(KernelState.IDLE, "")

    def _run_cell(
        self, code: str, listener: CellListener, nested: bool, lock: Lock | None
    ) -> CellResult:
        self._refuse_lock(lock)
        running = RunningCell(*listener)
        with nullcontext() if nested else self._turn:
            if self._runner is None or self._state is KernelState.DEAD:
                running.lost(Status.DIED, "The session was closed.")
                return running.result.result()
            with self._busy(nested):
                return self._runner.run(code, running, nested)

    def _ask(self, operation: Operation[T], timeout: float | None = None, **fields: Any) -> T:
        return self._started().requests.ask(operation, timeout, **fields)

    def interrupt(self) -> bool:
        return self._runner is not None and self._runner.interrupt()

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
            self._started().delete_cell_names()
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

    def info(self) -> KernelInfo:
        return KernelInfo(
            python_version(), sys.executable, working_directory(), os.getpid(), self._state
        )

    def close(self, *, leave: bool = False, on_purpose: bool = False) -> None:
        if self._runner is None or self._state is KernelState.DEAD:
            return
        self._runner.close()
        self._report(KernelState.DEAD, "")

    def _started(self) -> CellRunner:
        """Return what runs the cells. Raises `KernelError` before the start."""
        if self._runner is None:
            raise KernelError("The kernel was not started.")
        return self._runner
