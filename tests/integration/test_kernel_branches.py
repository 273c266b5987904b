"""The namespace of an earlier cell, written for a kernel of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.inprocess import InProcessKernel
from mahtab_tui.kernel.restoration import KeepPlace
from tests.integration.keeping import Kept, restored
from tests.integration.kernels import Cells, RecordingHost


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Kept]:
    kept = Kept(tmp_path)
    yield kept
    kept.close()


def branch(kept: Kept, cells: Cells, cell: int) -> Cells:
    """A kernel with the namespace as it was before a cell."""
    origin, kept.place = kept.place, kept.place._replace(folder=f"{kept.place.folder}-branch")
    try:
        cells.kernel.branch(cell, kept.place)
        new = kept.kernel()
    finally:
        kept.place = origin
    assert restored(new) == {}
    return new


def test_a_branch_has_the_objects_as_they_were_before_a_cell(kept: Kept) -> None:
    cells = kept.kernel()
    cells.run("items = [1]; other = items; gone = 'here'\ndef total(): return sum(items)")
    cells.run("items.append(2); del gone; new = 1")
    cells.run("items.append(3)")
    new = branch(kept, cells, 2)
    assert new.run("print(items, other is items, gone, total(), 'new' in globals())").output == "[1] True here 1 False\n"
    new.run("items.append('branch')")
    assert cells.run("print(items, total(), new)").output == "[1, 2, 3] 6 1\n"
    assert cells.kernel.undo(2).exact
    assert cells.run("print(items, gone)").output == "[1] here\n"


def test_a_branch_before_cells_that_changed_no_object_needs_no_checkpoint(kept: Kept) -> None:
    cells = kept.kernel()
    cells.run("x = 1")
    cells.run("x = 2; y = 3")
    new = branch(kept, cells, 2)
    assert new.run("print(x, 'y' in globals())").output == "1 False\n"
    assert cells.run("print(x, y)").output == "2 3\n"


def test_there_is_no_branch_before_what_cannot_be_undone(kept: Kept) -> None:
    cells = kept.kernel()
    cells.run("x = [1]")
    with pytest.raises(KernelError, match="Cell 7 cannot be undone"):
        cells.kernel.branch(7, kept.place)
    assert not kept.folder.exists()
    cells.kernel.reset()
    with pytest.raises(KernelError, match="Cell 1 cannot be undone"):
        cells.kernel.branch(1, kept.place)


def test_a_disk_that_cannot_be_written_is_told_and_nothing_is_lost(kept: Kept, tmp_path: Path) -> None:
    cells = kept.kernel()
    cells.run("x = [1]")
    cells.run("x.append(2)")
    with pytest.raises(KernelError, match=r"The branch could not be written: No such file or directory\."):
        cells.kernel.branch(2, kept.place._replace(folder=str(tmp_path / "nowhere" / "session")))
    assert cells.run("print(x)").output == "[1, 2]\n"
    assert cells.kernel.undo(2).exact


def test_a_kernel_in_this_process_makes_no_branches() -> None:
    kernel = InProcessKernel({})
    kernel.start(RecordingHost())
    try:
        with pytest.raises(KernelError, match="so it is not saved"):
            kernel.branch(1, KeepPlace("/nowhere", "", 1))
    finally:
        kernel.close()
