"""Folders that a cell closes to their owner: what it has done in them is undone."""

from __future__ import annotations

import os
import signal
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

if sys.platform != "linux":
    pytest.skip("files are watched on Linux only", allow_module_level=True)

from mahtab_tui.worker.walking import remove_folder
from mahtab_tui.worker.witness.copies import remove_copies
from tests.unit.file_project import Project, reasons

NOBODY = 65_534


@pytest.fixture
def project() -> Iterator[Project]:
    """A project of a user whom permissions keep out; this process acts as this user."""
    place = Path(tempfile.mkdtemp())
    is_root = os.geteuid() == 0
    if is_root:
        os.chown(place, NOBODY, -1)
        os.seteuid(NOBODY)
    try:
        project = Project(place / "work", place / "copies")
        (project.folder / "d/sub").mkdir(parents=True)
        (project.folder / "d/a").write_text("original")
        (project.folder / "d/sub/b").write_text("original")
        yield project
    finally:
        if is_root:
            os.seteuid(0)
        remove_folder(str(place))


def mode(project: Project) -> int:
    return stat.S_IMODE(os.stat(project.folder / "d").st_mode)


def set_mode(project: Project, folder_mode: int) -> None:
    """Change the permissions of the folder, noted as the witness would."""
    step = project.journal.steps[-1]
    project.journal.note_content(step, project.path("d"), is_written=False)
    (project.folder / "d").chmod(folder_mode)


def write(project: Project) -> None:
    project.journal.note_content(project.journal.steps[-1], project.path("d/a"))
    (project.folder / "d/a").write_text("by a cell")


def remove_and_make(project: Project) -> None:
    step = project.journal.steps[-1]
    for name in ("d/sub/b", "d/sub/new"):
        project.journal.note_name(step, project.path(name))
    (project.folder / "d/sub/b").unlink()
    (project.folder / "d/sub/new").write_text("new")


def write_and_close(project: Project, folder_mode: int) -> None:
    write(project)
    set_mode(project, folder_mode)


def rename_inside(project: Project) -> None:
    step = project.journal.steps[-1]
    for name in ("d/sub", "d/other"):
        project.journal.note_name(step, project.path(name))
    os.rename(project.path("d/sub"), project.path("d/other"))


@pytest.mark.parametrize("closed_mode", [0o000, 0o500, 0o300])
@pytest.mark.parametrize("change", [write, remove_and_make, rename_inside])
def test_what_a_cell_did_in_a_folder_that_it_closed_is_undone_and_redone(
    project: Project, change: Callable[[Project], None], closed_mode: int
) -> None:
    before = project.tree()
    after: dict[str, bytes] = {}

    def change_and_close() -> None:
        change(project)
        after.update(project.tree())
        set_mode(project, closed_mode)

    cell = project.cell(change_and_close)
    for _ in range(2):
        preview = project.preview(cell)
        assert mode(project) == closed_mode
        plan = project.stack.undo(cell)
        assert reasons(plan) == reasons(preview) == {}
        assert list(plan.files) == list(preview.files)
        assert (mode(project), project.tree()) == (0o755, before)

        assert reasons(project.stack.redo()) == {}
        assert mode(project) == closed_mode
        (project.folder / "d").chmod(0o755)
        assert project.tree() == after
        (project.folder / "d").chmod(closed_mode)


def test_a_folder_that_was_closed_before_a_cell_is_closed_after_its_undo(
    project: Project,
) -> None:
    project.cell(lambda: set_mode(project, 0o000))

    def open_write_and_close() -> None:
        set_mode(project, 0o755)
        write(project)
        set_mode(project, 0o000)

    cell = project.cell(open_write_and_close)
    assert reasons(project.stack.undo(cell)) == {}
    assert mode(project) == 0o000
    (project.folder / "d").chmod(0o755)
    assert (project.folder / "d/a").read_text() == "original"


def open_and_be_killed(project: Project, new_mode: int | None = None) -> None:
    """Open the folders of the last cell in a process that is killed then.

    Args:
        project: Has run the cell.
        new_mode: Permissions that the folder gets meanwhile; None if it gets none.
    """
    nodes = project.journal.nodes
    step = project.journal.steps[-1]
    pid = os.fork()
    if pid == 0:
        try:
            with nodes.opening(step.places):
                for node in step.nodes:
                    if new_mode is not None and node.path == project.path("d"):
                        nodes.set_mode(node, new_mode)
                os.kill(os.getpid(), signal.SIGKILL)
        finally:
            os._exit(1)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == -signal.SIGKILL


@pytest.mark.parametrize("closed_mode", [0o000, 0o055, 0o300])
def test_a_folder_that_was_open_when_the_witness_was_killed_is_closed_again(
    project: Project, closed_mode: int
) -> None:
    def close_both() -> None:
        step = project.journal.steps[-1]
        write(project)
        remove_and_make(project)
        project.journal.note_content(step, project.path("d/sub"), is_written=False)
        (project.folder / "d/sub").chmod(0o000)
        set_mode(project, closed_mode)

    project.cell(close_both)
    open_and_be_killed(project)
    assert mode(project) == closed_mode | stat.S_IRWXU

    remove_copies(project.copies.folder)

    assert mode(project) == closed_mode
    (project.folder / "d").chmod(0o755)
    assert stat.S_IMODE((project.folder / "d/sub").stat().st_mode) == 0o000
    assert not os.path.exists(project.copies.folder)


def test_a_folder_that_an_undo_has_opened_for_good_stays_open_when_the_witness_is_killed(
    project: Project,
) -> None:
    project.cell(lambda: write_and_close(project, 0o055))
    open_and_be_killed(project, new_mode=0o755)

    remove_copies(project.copies.folder)

    assert mode(project) == 0o755


def test_a_list_of_opened_folders_can_only_close_them(project: Project) -> None:
    names_and_modes = {"d": 0o777, ".ssh": 0o000, "d/sub": 0o055}
    (project.folder / ".ssh").mkdir(mode=0o700)
    (project.folder / "d/sub").chmod(0o700)
    with open(f"{project.copies.folder}/opened-folders", "w") as file:
        for name, listed_mode in names_and_modes.items():
            status = (project.folder / name).stat()
            numbers = f"{status.st_dev} {status.st_ino} {listed_mode}"
            file.write(f"{project.path(name)}\0{numbers}\0")

    remove_copies(project.copies.folder)

    modes = [stat.S_IMODE((project.folder / name).stat().st_mode) for name in names_and_modes]
    assert modes == [0o755, 0o700, 0o700]


def test_no_list_stays_of_folders_that_are_closed_again(project: Project) -> None:
    cell = project.cell(lambda: write_and_close(project, 0o000))
    project.preview(cell)
    project.stack.undo(cell)
    assert "opened-folders" not in os.listdir(project.copies.folder)
