"""The user's actions on a session's kernel."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial

from mahtab_tui.bus.records import Notice, emit
from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.masked import MaskedKernel
from mahtab_tui.session.backend import MakeKernel
from mahtab_tui.session.cells import Cells
from mahtab_tui.session.private_names import PrivateNames
from mahtab_tui.session.undo_control import UndoControl
from mahtab_tui.system import start_thread


class KernelControl:
    """The user's actions on the kernel. Methods return immediately."""

    def __init__(
        self,
        log: logging.Logger,
        kernel: MaskedKernel,
        make_kernel: MakeKernel | None,
        *,
        cells: Cells,
        undo: UndoControl,
        private: PrivateNames,
    ) -> None:
        """make_kernel: None if the session must keep its kernel."""
        self._log = log
        self._kernel = kernel
        self._make_kernel = make_kernel
        self._cells = cells
        self._undo = undo
        self._private = private

    def kill(self) -> None:
        """Kill the kernel. What its cell changed is lost."""
        self._on_thread("The kernel could not be killed", self._kernel.kill)

    def reset(self) -> None:
        """Start a new kernel without variables."""
        self._on_thread("The kernel could not be reset", self._cells.reset_kernel)

    def activate(self, python: str) -> None:
        """Switch to another interpreter or environment. python: its path."""
        change = partial(self._kernel.activate, python)
        self._on_thread("The interpreter was not changed", self._cells.change_kernel, change)

    def move(self, address: str) -> None:
        """Switch to a kernel at another address; empty for this machine."""

        def work() -> None:
            if self._make_kernel is None:
                raise KernelError("The kernel of this session belongs to another program.")
            kernel = self._make_kernel(address)
            text = f"Switched to {address or 'this machine'}."
            self._cells.change_kernel(lambda: self._kernel.replace_kernel(kernel, text))

        self._on_thread("The kernel was not moved", work)

    def change_directory(self, path: str) -> None:
        def work() -> None:
            folder = self._kernel.change_directory(path)
            emit(self._log, Notice(f"The working directory is now {folder}."))

        self._on_thread("The working directory was not changed", work)

    def redo(self) -> None:
        self._on_thread("Nothing was redone", self._undo.redo)

    def mark_private(self, name: str, private: bool) -> None:
        self._on_thread("Nothing was marked", self._private.mark, name, private)

    def _on_thread(self, failure: str, work: Callable[..., object], *args: object) -> None:
        """Call a function on a thread. failure: the beginning of the notice if it fails."""

        def work_or_report() -> None:
            try:
                work(*args)
            except KernelError as error:
                emit(self._log, Notice(f"{failure}. {error}", level="error"))

        start_thread("kernel-work", work_or_report)
