"""The thread that starts the kernel and runs the waiting cells."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mahtab_tui.bus.records import Notice, Record, ReplIn, emit
from mahtab_tui.bus.sanitize import one_line
from mahtab_tui.kernel.base import Kernel, KernelError
from mahtab_tui.kernel.values import Status
from mahtab_tui.session.cells import YOU, Cells
from mahtab_tui.session.inbox import Inbox
from mahtab_tui.session.kernel_host import SessionKernelHost
from mahtab_tui.session.namespace_store import NamespaceStore

if TYPE_CHECKING:
    from mahtab_tui.session.loading import DataFile


@dataclass(eq=False, repr=False)
class CellThread:
    """Runs the cells of the inbox, one after the other."""

    _log: logging.Logger
    _kernel: Kernel
    _keeping: NamespaceStore
    _host: SessionKernelHost
    _cells: Cells
    _inbox: Inbox
    _ready: Future[bool]
    """See `Session.ready`."""
    _files: Sequence[DataFile]
    """Loaded into variables once the kernel has started."""
    _past: Sequence[Record] = ()
    """The records of a resumed session."""

    def __post_init__(self) -> None:
        self._thread = threading.Thread(target=self._run, name="cells", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Wait for the thread to end. Close the inbox first."""
        if self._thread.is_alive():
            self._thread.join(2.0)

    def load(self, file: DataFile) -> bool:
        """Run a cell that loads a file into a variable, and wait; returns whether it succeeded."""
        from mahtab_tui.session.loading import loading_cell

        loading = loading_cell(
            file, Path(self._kernel.info().cwd), pandas=self._kernel.installed("pandas")
        )
        if (
            loading.module
        ):  # import it from the environment first: opening a file must not run modules beside it
            self._kernel.installed(loading.module, load=True)
        result = self._cells.run(loading.code, origin="user", party=YOU)
        if result.status is not Status.OK:
            self._notice(
                f"{one_line(file.path.name)} could not be loaded: the cell above shows why. There is no variable {file.name}.",
                "warning",
            )
        elif loading.note:
            self._notice(loading.note, "warning")
        return result.status is Status.OK

    def _attach(self) -> None:
        """Take up a kernel that has waited, with the cells that it runs."""
        from mahtab_tui.session.reattach import unfinished

        cells = unfinished(self._past)
        threading.Thread(target=self._take_stock, name="taking-stock", daemon=True).start()
        for cell in cells[1:]:  # they run inside the first
            threading.Thread(
                target=self._go_on, args=(cell, True), name="going-on", daemon=True
            ).start()
        if cells:
            self._go_on(cells[0], False)

    def _take_stock(self) -> None:
        """List the variables. Code may keep the kernel from answering for long."""
        from mahtab_tui.session.reattach import makers

        try:
            self._keeping.attached(*self._kernel.kept_before())
            self._cells.adopt_again(makers(self._past))
            self._ready.set_result(self._kernel.installed("pandas"))
        except KernelError as error:
            self._notice(str(error), "warning")

    def _go_on(self, cell: ReplIn, nested: bool) -> None:
        try:
            self._cells.go_on(cell, nested)
        except KernelError as error:
            self._notice(str(error), "error")

    def _run(self) -> None:
        try:
            self._kernel.start(self._host)
            if self._kernel.waited:
                self._attach()
            elif variables := self._kernel.variables():
                self._cells.adopt(variables)
            if not self._kernel.waited:
                self._keeping.begin()
                self._ready.set_result(self._kernel.installed("pandas"))
            for file in self._files:
                self.load(file)
        except KernelError as error:
            self._notice(str(error), "error")
            if not self._ready.done():
                self._ready.set_exception(error)
        while (item := self._inbox.take("python")) is not None:
            try:
                if item.work is not None:
                    item.work()
                else:
                    self._cells.run(item.text, origin="user", party=YOU)
            except Exception as error:  # the thread's outermost frame
                self._notice(f"The cell could not be run: {type(error).__name__}: {error}", "error")

    def _notice(self, text: str, level: str) -> None:
        emit(self._log, Notice(text, level=level))
