"""Kills, resets and replaces a session's kernel, for the user, who does not wait for it."""

from __future__ import annotations

import logging
from collections.abc import Callable

from mahtab_tui.bus.records import Notice, emit
from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.masked import MaskedKernel
from mahtab_tui.session.backend import MakeKernel
from mahtab_tui.session.cells import Cells
from mahtab_tui.session.private_names import PrivateNames
from mahtab_tui.session.undo_control import UndoControl
from mahtab_tui.system import start_thread


class KernelControl:
    """Does on threads what the user asks of the kernel.

    Each method returns immediately; a failure becomes a notice. Programming errors go to
    `threading.excepthook`, as from any thread.

    Requests that overlap do not wait for each other here: each runs on a thread of its own, and the
    kernel decides which of them comes first.
    """

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
        """
        Args:
            make_kernel: Makes a kernel at an address; None if the session must keep its kernel.
        """
        self._log = log
        self._kernel = kernel
        self._make_kernel = make_kernel
        self._cells = cells
        self._undo = undo
        self._private = private

    def kill(self) -> None:
        """Kill the kernel and start a new one. Variables that are not saved are lost."""
        self._run_in_thread(self._kernel.kill, failure="The kernel could not be killed")

    def reset(self) -> None:
        """Start a new kernel without variables."""
        self._run_in_thread(self._cells.reset_kernel, failure="The kernel could not be reset")

    def activate(self, python: str) -> None:
        """Switch to another interpreter.

        Args:
            python: The path of the interpreter, or of the folder of a virtual environment.
        """

        def switch_interpreter() -> None:
            self._cells.change_kernel(lambda: self._kernel.activate(python))

        self._run_in_thread(switch_interpreter, failure="The interpreter was not changed")

    def move(self, address: str) -> None:
        """Switch to a kernel at another address.

        Args:
            address: The address; empty for this machine.
        """

        def switch_kernel() -> None:
            if self._make_kernel is None:
                raise KernelError("The kernel of this session belongs to another program.")
            kernel = self._make_kernel(address)
            text = f"Switched to {address or 'this machine'}."
            self._cells.change_kernel(lambda: self._kernel.replace_kernel(kernel, text))

        self._run_in_thread(switch_kernel, failure="The kernel was not moved")

    def change_directory(self, path: str) -> None:
        """Change the kernel's working directory, and report the new one in a notice."""

        def change_and_report() -> None:
            folder = self._kernel.change_directory(path)
            emit(self._log, Notice(f"The working directory is now {folder}."))

        self._run_in_thread(change_and_report, failure="The working directory was not changed")

    def redo(self) -> None:
        """Reverse the last undo or rewind."""
        self._run_in_thread(self._undo.redo, failure="Nothing was redone")

    def mark_private(self, name: str, *, private: bool) -> None:
        """Mark a variable as private, or remove the mark."""
        failure = f"The privacy of {name} was not changed"
        self._run_in_thread(lambda: self._private.mark(name, private), failure=failure)

    def _run_in_thread(self, action: Callable[[], object], *, failure: str) -> None:
        """Call a function on a thread.

        Args:
            action: The function. It may raise `KernelError`.
            failure: A sentence without its full stop, with which the notice about an error begins.
        """

        def run_and_report() -> None:
            try:
                action()
            except KernelError as error:
                emit(self._log, Notice(f"{failure}. {error}", level="error"))

        start_thread("kernel-control", run_and_report)
