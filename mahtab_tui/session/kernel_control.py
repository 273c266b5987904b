"""Actions of the user on the kernel itself: reset it, kill it, take another one. All of it on
threads; errors become notices."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from mahtab_tui.bus.records import Notice, emit
from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.masked import MaskedKernel
from mahtab_tui.session.backend import MakeKernel
from mahtab_tui.session.cells import Cells
from mahtab_tui.session.namespace_store import NamespaceStore
from mahtab_tui.session.private_names import PrivateNames
from mahtab_tui.session.undo import Undo

_PATIENCE = 5.0
"""Seconds to wait for the variables to be written."""


class KernelControl:
    """Methods return at once."""

    def __init__(
        self,
        log: logging.Logger,
        kernel: MaskedKernel,
        make: MakeKernel | None,
        cells: Cells,
        keeping: NamespaceStore,
        undo: Undo,
        private: PrivateNames,
    ) -> None:
        """make: creates a kernel at another place; None if this one stays where it is."""
        self._make = make
        self._log = log
        self._kernel = kernel
        self._cells = cells
        self._keeping = keeping
        self._undo = undo
        self._private = private

    def kill(self) -> None:
        """Kill the kernel and start a new one."""
        self._on_thread("The kernel could not be killed", self._kernel.kill)

    def reset(self) -> None:
        """Start over with an empty namespace; the conversation stays."""

        def work() -> None:
            self._kernel.reset()
            self._cells.forget()
            self._keeping.forget()

        self._on_thread("The kernel could not be reset", work)

    def activate(self, python: str) -> None:
        """Go on with another interpreter, into which the saved variables come back."""

        def work() -> None:
            self._keeping.save(_PATIENCE)
            self._kernel.activate(python)
            self._cells.forget()
            self._keeping.begin()

        self._on_thread("The interpreter was not changed", work)

    def move(self, address: str) -> None:
        """Go on with a kernel at another place; empty for this machine. What was saved there of
        this session comes back."""

        def work() -> None:
            if self._make is None:
                raise KernelError("The kernel of this session belongs to another program.")
            new = self._make(address)
            self._keeping.save(_PATIENCE)
            self._kernel.exchange(new, f"Switched to {address or 'this machine'}.")
            self._cells.forget()
            self._keeping.begin()

        self._on_thread("The kernel was not moved", work)

    def change_directory(self, path: str) -> None:
        def work() -> None:
            emit(
                self._log,
                Notice(f"The working directory is now {self._kernel.change_directory(path)}."),
            )

        self._on_thread("The working directory was not changed", work)

    def redo(self) -> None:
        """Take the last undo back."""
        self._on_thread("Nothing was redone", self._undo.redo)

    def mark_private(self, name: str, private: bool) -> None:
        """Mark a variable as private, or take the mark away."""
        self._on_thread("Nothing was marked", lambda: self._private.mark(name, private))

    def _on_thread(self, failure: str, work: Callable[[], object]) -> None:
        def guarded() -> None:
            try:
                work()
            except KernelError as error:
                emit(self._log, Notice(f"{failure}. {error}", level="error"))

        threading.Thread(target=guarded, name="kernel-work", daemon=True).start()
