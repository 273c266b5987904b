"""The thread that starts a session's kernel, and then runs its queued cells one by one.

The kernel may be new, or one that an earlier screen has left running and that is reattached.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING

from mahtab_tui.bus.records import Notice, ReplIn, emit, warn
from mahtab_tui.bus.sanitize import one_line
from mahtab_tui.bus.values import Status
from mahtab_tui.kernel.base import KernelError
from mahtab_tui.session.cell_records import last_changes, unfinished_cells
from mahtab_tui.session.cells import Cells
from mahtab_tui.session.inbox import Inbox
from mahtab_tui.session.namespace_store import NamespaceStore
from mahtab_tui.session.runtime import Runtime
from mahtab_tui.system import start_thread

if TYPE_CHECKING:
    from mahtab_tui.session.data_files import DataFile
    from mahtab_tui.session.kernel_host import SessionKernelHost

JOIN_TIMEOUT_S = 2.0
"""Seconds that closing a session waits for its cell thread."""


class CellThread:
    """Starts the kernel, loads files, and then runs the queued cells one by one."""

    def __init__(
        self,
        runtime: Runtime,
        cells: Cells,
        namespace_store: NamespaceStore,
        inbox: Inbox,
        host: SessionKernelHost,
        ready: Future[bool],
        files: Sequence[DataFile],
    ) -> None:
        """
        Args:
            runtime: The session's log, kernel and past.
            cells: Runs the cells.
            namespace_store: Restores the saved variables.
            inbox: The queue of cells.
            host: What the kernel reports to.
            ready: Set when the kernel is ready, to whether its Python has pandas, or to the error
                for which it never will be.
            files: Loaded into variables once the kernel has started.
        """
        self._runtime = runtime
        self._cells = cells
        self._namespace_store = namespace_store
        self._inbox = inbox
        self._host = host
        self._ready = ready
        self._files = files
        self._thread = threading.Thread(target=self._run, name="cells", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def start_kernel(self) -> None:
        """Start the kernel without the thread.

        Waits until the saved variables are restored, or the cell of a reattached kernel has ended.
        Raises `KernelError`.
        """
        self._runtime.kernel.start(self._host)
        if self._runtime.kernel.was_reattached:
            self._announce_variables()
            self._resume_cells()
        else:
            self._namespace_store.start_restore(waits=True)

    def close(self) -> None:
        """Wait for the thread. Close the inbox first."""
        if self._thread.is_alive():
            self._thread.join(JOIN_TIMEOUT_S)

    def load(self, file: DataFile) -> bool:
        """Run a cell that loads a file into a variable, and return whether it succeeded."""
        from mahtab_tui.session.loading import make_loading_cell

        kernel = self._runtime.kernel
        has_pandas = kernel.can_import("pandas")
        loading_cell = make_loading_cell(file, Path(kernel.info().cwd), pandas=has_pandas)
        # The cell would also find a module of this name in the folder, whose code would run. One that
        # is imported already is not looked for.
        if loading_cell.module:
            kernel.import_module(loading_cell.module)
        result = self._cells.run(loading_cell.code)

        is_loaded = result.status is Status.OK
        note = loading_cell.note
        if not is_loaded:
            note = (
                f"{one_line(file.path.name)} could not be loaded: the cell above shows why."
                f" There is no variable {file.name}."
            )
        if note:
            warn(self._runtime.log, note)
        return is_loaded

    # On the thread

    def _run(self) -> None:
        try:
            self._start_kernel_and_load_files()
        except Exception as error:  # the thread's outermost frame, which goes on with the cells
            self._give_up(f"The kernel could not be started: {type(error).__name__}: {error}")
        while (item := self._inbox.next_item("python")) is not None:
            try:
                if item.work is not None:
                    item.work()
                else:
                    self._cells.run(item.text)
            except Exception as error:  # the thread's outermost frame
                self._report(f"The cell could not be run: {type(error).__name__}: {error}")

    def _start_kernel_and_load_files(self) -> None:
        try:
            self._runtime.kernel.start(self._host)
            if self._runtime.kernel.was_reattached:
                # Its variables can be listed while its cell still runs.
                start_thread("list-variables", self._list_variables)
                self._resume_cells()
            else:
                self._prepare_new_kernel()
            for file in self._files:
                self.load(file)
        except KernelError as error:
            self._report(str(error))
            self._set_unready(error)

    def _prepare_new_kernel(self) -> None:
        """List the variables of a kernel that has just started, and restore those of the session."""
        # The startup code or another program may have made variables.
        variables = self._runtime.kernel.variables()
        if variables:
            self._cells.authors.announce_existing(variables)
        self._namespace_store.start_restore()
        self._ready.set_result(self._runtime.kernel.can_import("pandas"))

    # A kernel that is reattached

    def _list_variables(self) -> None:
        """List the variables of the kernel. Called on a thread of its own."""
        try:
            self._announce_variables()
        except Exception as error:  # the thread's outermost frame
            self._give_up(f"The variables could not be listed: {type(error).__name__}: {error}")

    def _announce_variables(self) -> None:
        """Tell the session which variables the kernel has, and that it is ready."""
        try:
            save_request = self._runtime.kernel.last_save_request()
            self._namespace_store.resume(save_request.carried, save_request.lost)
            self._cells.authors.announce_restored(last_changes(self._runtime.past))
            self._ready.set_result(self._runtime.kernel.can_import("pandas"))
        except KernelError as error:
            warn(self._runtime.log, str(error))
            self._set_unready(error)

    def _resume_cells(self) -> None:
        """Go on with the cells that the kernel was running, and wait for the first one."""
        cells = unfinished_cells(self._runtime.past)
        # The later cells run inside the first one.
        for cell in cells[1:]:
            start_thread("resume-cell", self._resume_cell, cell, True)
        if cells:
            self._resume_cell(cells[0], False)

    def _resume_cell(self, cell: ReplIn, nested: bool) -> None:
        try:
            self._cells.resume_cell(cell, nested)
        except KernelError as error:
            self._report(str(error))

    # Failures

    def _give_up(self, problem: str) -> None:
        """Report why the kernel will not be ready, and let nobody wait for it."""
        self._report(problem)
        self._set_unready(KernelError(problem))

    def _set_unready(self, error: KernelError) -> None:
        """Let nobody wait any longer for a kernel that is not ready."""
        if not self._ready.done():
            self._ready.set_exception(error)

    def _report(self, problem: str) -> None:
        emit(self._runtime.log, Notice(problem, level="error"))
