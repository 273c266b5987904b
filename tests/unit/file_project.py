"""A folder whose cells are functions, for tests of taking back changes of files."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

from mahtab_tui.worker.witness.copies import Copies
from mahtab_tui.worker.witness.journal import FileJournal
from mahtab_tui.worker.witness.plan import UndoPlan
from mahtab_tui.worker.witness.redo import RedoStack


class Project:
    """A folder whose cells are functions, with what the witness keeps of them."""

    def __init__(self, folder: Path, copies_folder: Path, megabytes: int = 2**20) -> None:
        self.folder = folder
        # Larger copies are refused, as `file_undo_mb` says.
        self.copies = Copies(str(copies_folder / "1"), 2 * 2**20, megabytes * 2**20)
        self.journal = FileJournal(self.copies)
        self.stack = RedoStack(self.journal)
        self._cell = 0

    def path(self, name: str) -> str:
        return str(self.folder / name)

    def cell(
        self,
        change: Callable[[], object],
        *,
        removed: str = "",
        written: str = "",
        linked: str = "",
    ) -> int:
        """Run a change as a cell. Returns its number.

        Args:
            change: What it does.
            removed: Names that lose their files, or get others.
            written: Names of files that it writes or creates.
            linked: Names of files that get other names.
        """
        self._cell += 1
        step = self.journal.step(self._cell)
        for name in removed.split():
            self.journal.note_name(step, self.path(name))
        for name in linked.split():
            self.journal.note_existing(step, self.path(name))
        for name in written.split():
            if os.path.exists(self.path(name)):
                self.journal.note_content(step, self.path(name))
            else:
                self.journal.note_name(step, self.path(name))
        change()
        self.journal.finish(step)
        return self._cell

    def rename(self, old: str, new: str) -> int:
        return self.cell(lambda: os.rename(self.path(old), self.path(new)), removed=f"{old} {new}")

    def write(self, name: str, content: bytes) -> int:
        return self.cell(lambda: (self.folder / name).write_bytes(content), written=name)

    def preview(self, cell: int) -> UndoPlan:
        return self.stack.plan(cell)

    def files(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in self.folder.iterdir()}

    def tree(self) -> dict[str, bytes]:
        """Return all files, by their paths in the folder."""
        paths = [path for path in self.folder.rglob("*") if path.is_file()]
        return {str(path.relative_to(self.folder)): path.read_bytes() for path in paths}

    def links(self) -> dict[frozenset[str], bytes]:
        """Return the contents of the files in the folder, by all names that a file has there."""
        names: defaultdict[int, set[str]] = defaultdict(set)
        for path in self.folder.iterdir():
            names[path.stat().st_ino].add(path.name)
        return {
            frozenset(group): (self.folder / min(group)).read_bytes() for group in names.values()
        }


def reasons(restorer: UndoPlan) -> dict[str, str]:
    return {os.path.basename(item.name): item.reason for item in restorer.unrestored}
