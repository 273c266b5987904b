"""Kernels one after the other, each with the namespace that the one before saved."""

from __future__ import annotations

import os
from pathlib import Path

from mahtab_tui.kernel.process import ProcessKernel
from mahtab_tui.kernel.values import FileWatching, KeepResult, SavedNamespace, SaveTarget
from tests.integration.kernels import PATIENCE, Cells, RecordingHost


class SavedSession:
    def __init__(self, home: Path, megabytes: int = 200) -> None:
        above = home / "namespaces"
        above.mkdir(mode=0o700)
        self.folder = above / "session-1"
        self.location = SaveTarget(str(self.folder), os.urandom(32).hex(), megabytes)
        self.watching: FileWatching | None = None
        """How the files of its kernels are watched."""
        self._open: list[ProcessKernel] = []
        self._cells = 0

    def kernel(self, python: str | None = None) -> Cells:
        kernel = ProcessKernel(python, keep=self.location, watching=self.watching)
        host = RecordingHost()
        self._open.append(kernel)
        kernel.start(host)
        cells = Cells(kernel, host)
        cells.number = self._cells
        return cells

    def keep(self, cells: Cells, *carried: str) -> KeepResult:
        self._cells = cells.number
        return cells.kernel.keep(carried, (), PATIENCE)

    def started(self, *codes: str, python: str | None = None) -> Cells:
        """Return a new kernel in which these cells have run."""
        cells = self.kernel(python)
        for code in codes:
            cells.text(code)
        return cells

    def leave(self, *codes: str) -> None:
        """Run cells in a kernel, save its namespace, and end it."""
        cells = self.started(*codes)
        self.keep(cells)
        cells.kernel.close()

    def again(self, cells: Cells, python: str | None = None) -> tuple[Cells, dict[str, str]]:
        """Return a new kernel with the saved namespace, and the reasons for what is not
        restored."""
        assert self.keep(cells).error == ""
        cells.kernel.close()
        new = self.kernel(python)
        return new, restored(new)

    def files(self) -> dict[str, int]:
        return {path.name: path.stat().st_mtime_ns for path in self.folder.glob("*.variables")}

    def close(self) -> None:
        for kernel in self._open:
            kernel.close()


def listed(cells: Cells) -> SavedNamespace:
    saved = cells.kernel.saved_namespace()
    assert saved is not None
    return saved


def restored(cells: Cells) -> dict[str, str]:
    saved = listed(cells)
    missing = {entry.variable.name: entry.reason for entry in saved.missing}
    for file in saved.files:
        missing.update(cells.kernel.restore(file).missing)
    return missing
