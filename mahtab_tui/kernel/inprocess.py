"""The kernel inside the caller's own process.

Limits:
- An interrupt is an asynchronous exception, which a blocking call in C does not notice until it
  returns.
- Output of other threads, child processes and C code does not belong to the cell.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

from mahtab_tui.bus.values import Status
from mahtab_tui.kernel.base import CellListener, Kernel, KernelError
from mahtab_tui.kernel.host import KernelHost
from mahtab_tui.kernel.inprocess_runner import CANNOT_FORK, CellRunner
from mahtab_tui.kernel.operations import Operation, T
from mahtab_tui.kernel.running_cell import RunningCell
from mahtab_tui.kernel.values import CellResult, KernelInfo, KernelState, Lock
from mahtab_tui.worker.link.process_facts import python_version, working_directory

_CLOSED = "The session was closed."


class InProcessKernel(Kernel):
    """A `Kernel` over `namespace` itself: what cells bind remains there after the session."""

    lock_unavailable_reason = "the namespace is inside another program"
    undo_unavailable_reason = f"the kernel cannot be forked, because {CANNOT_FORK}"
    _save_unavailable_reason = (
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

    def interrupt(self, cell: int | None = None) -> bool:
        return self._runner is not None and self._runner.interrupt(cell)

    def kill(self) -> NoReturn:
        raise KernelError(
            "The code runs inside the program that opened this session,"
            " so it cannot be killed without it."
        )

    def reset(self) -> None:
        if not self._turn.acquire(blocking=False):
            raise KernelError("A cell is running. Stop it first.")
        try:
            runner = self._require_runner()
            # Its thread has ended, so it must not look ready for cells.
            if self._is_closed:
                raise KernelError(_CLOSED)
            runner.delete_cell_names()
            self._report(
                KernelState.IDLE,
                "Namespace reset: names made by cells are gone; the process and its imports stay.",
            )
        finally:
            self._turn.release()

    def activate(self, python: str) -> NoReturn:
        raise KernelError(
            "The session runs inside the program that opened it,"
            " so it cannot change the interpreter. Open mahtab-tui by itself for that."
        )

    def info(self) -> KernelInfo:
        return KernelInfo(
            python=python_version(),
            executable=sys.executable,
            cwd=working_directory(),
            pid=os.getpid(),
            state=self._state,
        )

    def close(self, *, leave: bool = False, on_purpose: bool = False) -> None:
        # The namespace stays with the caller in any case, so the arguments change nothing.
        if self._runner is None or self._is_closed:
            return
        self._runner.close()
        self._report(KernelState.DEAD, "")

    def _run_cell(
        self, code: str, listener: CellListener, nested: bool, lock: Lock | None
    ) -> CellResult:
        self._refuse_lock(lock)
        cell = RunningCell(*listener)
        with self._own_turn(nested):
            if self._runner is None or self._is_closed:
                cell.fail(Status.DIED, _CLOSED)
                return cell.result.result()
            with self._busy(nested):
                return self._runner.run(code, cell, nested)

    @contextmanager
    def _own_turn(self, nested: bool) -> Iterator[None]:
        """Let no other cell run within this context.

        A nested cell runs in the turn of the cell that waits for it.
        """
        if nested:
            yield
            return
        with self._turn:
            yield

    def _ask(self, operation: Operation[T], timeout: float | None = None, **fields: Any) -> T:
        return self._require_runner().requests.ask(operation, timeout, **fields)

    @property
    def _is_closed(self) -> bool:
        """Whether the kernel was closed, or has not been started."""
        return self._state is KernelState.DEAD

    def _require_runner(self) -> CellRunner:
        """Return what runs the cells. Raises `KernelError` before the start."""
        if self._runner is None:
            raise KernelError("The kernel was not started.")
        return self._runner
