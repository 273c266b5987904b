"""Taking back changes of files, without a kernel: nothing is lost by it."""

from __future__ import annotations

import errno
import inspect
import os
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

if sys.platform != "linux":
    pytest.skip("files are watched on Linux only", allow_module_level=True)

from mahtab_tui.worker.witness import journal
from mahtab_tui.worker.witness.archive import Archive
from mahtab_tui.worker.witness.copies import remove_abandoned
from mahtab_tui.worker.witness.drafts import remove_drafts
from mahtab_tui.worker.witness.file_step import FileStep
from mahtab_tui.worker.witness.node_table import NodeTable
from mahtab_tui.worker.witness.nodes import Node
from mahtab_tui.worker.witness.process_files import descendants, read_memory, shares_files
from mahtab_tui.worker.witness.restoring import Restorer
from mahtab_tui.worker.witness.states import FILE, FOLDER, read_state
from tests.unit.file_project import Project, reasons
from tests.waiting import run_python

LARGE_BYTES = 3 * 2**20
_NOT_EMPTY = f"it could not be restored ({os.strerror(errno.ENOTEMPTY)})"


@pytest.fixture
def project(tmp_path: Path) -> Project:
    (tmp_path / "work").mkdir()
    return Project(tmp_path / "work", tmp_path / "copies")


@pytest.fixture
def far_project(tmp_path: Path) -> Iterator[Project]:
    """A project on another file system than the copies."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        if os.stat(folder).st_dev == os.stat(tmp_path).st_dev:
            pytest.skip("this machine has one file system for both")
        yield Project(Path(folder), tmp_path / "copies")


def test_a_renamed_file_above_the_limit_gets_its_name_back(project: Project) -> None:
    content = bytes(LARGE_BYTES)
    (project.folder / "old").write_bytes(content)
    cell = project.rename("old", "new")
    preview = project.preview(cell)
    restorer = project.stack.undo(cell)
    assert list(restorer.files.values()) == list(preview.files.values())
    assert reasons(restorer) == {}
    assert project.files() == {"old": content}
    project.stack.redo()
    assert project.files() == {"new": content}
    project.stack.undo(cell)
    assert project.files() == {"old": content}


def test_a_renamed_file_on_another_file_system_gets_its_name_back(far_project: Project) -> None:
    content = bytes(LARGE_BYTES)
    (far_project.folder / "old").write_bytes(content)
    cell = far_project.rename("old", "new")
    assert reasons(far_project.stack.undo(cell)) == {}
    assert far_project.files() == {"old": content}


def test_many_renamed_files_are_not_copied_twice(project: Project) -> None:
    names = [f"file{index}" for index in range(5)]
    for name in names:
        (project.folder / name).write_bytes(bytes(2**20))
    before = project.files()

    def rename_and_mark() -> None:
        for name in names:
            os.rename(project.path(name), project.path(f"new-{name}"))
            # As `touch` does, so that it is not the same file any more.
            project.journal.note_content(
                project.journal.steps[-1], project.path(f"new-{name}"), is_written=False
            )
            os.utime(project.path(f"new-{name}"), (1, 1))

    cell = project.cell(rename_and_mark, removed=" ".join(f"{name} new-{name}" for name in names))
    assert reasons(project.stack.undo(cell)) == {}
    assert project.files() == before


def test_a_new_name_stays_if_the_old_one_cannot_come_back(far_project: Project) -> None:
    content = bytes(LARGE_BYTES)
    (far_project.folder / "old").write_bytes(content)

    def rename_and_write() -> None:
        os.rename(far_project.path("old"), far_project.path("new"))
        (far_project.folder / "new").write_bytes(b"small")

    cell = far_project.cell(rename_and_write, removed="old new")
    preview = far_project.preview(cell)
    restorer = far_project.stack.undo(cell)
    assert reasons(restorer) == reasons(preview)
    assert reasons(restorer).keys() == {"old", "new"}
    assert far_project.files() == {"new": b"small"}


def test_a_new_file_that_cannot_be_copied_is_not_removed(far_project: Project) -> None:
    cell = far_project.write("large", bytes(LARGE_BYTES))
    far_project.write("small", b"small")
    preview = far_project.preview(cell)
    restorer = far_project.stack.undo(cell)
    assert far_project.files() == {"large": bytes(LARGE_BYTES)}
    assert reasons(restorer) == reasons(preview)
    assert reasons(restorer)["large"].startswith("there is no room for a copy")
    assert restorer.files.keys() == {far_project.path("small")}


def test_an_undo_does_not_drop_the_copies_that_it_makes(tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        if os.stat(folder).st_dev == os.stat(tmp_path).st_dev:
            pytest.skip("this machine has one file system for both")
        project = Project(Path(folder), tmp_path / "copies", megabytes=1)
        cell = project.write("one", bytes(700_000))
        project.write("two", bytes(700_000))
        after = project.files()
        restorer = project.stack.undo(cell)
        assert len(reasons(restorer)) == len(project.files()) == 1
        project.stack.redo()
        assert project.files() == after


def test_a_redo_does_not_take_the_change_of_somebody_else_for_its_own(project: Project) -> None:
    cell = project.cell(
        lambda: [(project.folder / name).write_bytes(b"by the cell") for name in ("a", "b")],
        written="a b",
    )
    project.stack.undo(cell)
    (project.folder / "a").write_bytes(b"by somebody else")
    assert reasons(project.stack.redo()).keys() == {"a"}
    restorer = project.stack.undo(cell)
    assert reasons(restorer).keys() == {"a"}
    assert project.files() == {"a": b"by somebody else"}


def test_a_refused_redo_keeps_what_it_would_have_restored(project: Project) -> None:
    cell = project.write("a", b"by the cell")
    project.stack.undo(cell)
    (project.folder / "a").write_bytes(b"by somebody else")
    assert reasons(project.stack.redo()).keys() == {"a"}
    assert project.files() == {"a": b"by somebody else"}
    (project.folder / "a").unlink()
    assert reasons(project.stack.undo(cell)) == {}
    assert reasons(project.stack.redo()) == {}
    assert project.files() == {"a": b"by the cell"}
    assert reasons(project.stack.undo(cell)) == {}
    assert project.files() == {}


def test_an_edit_of_what_a_cell_made_outlives_the_undo_of_its_later_rename(
    project: Project,
) -> None:
    cell = project.write("a", b"by the cell")
    (project.folder / "a").write_bytes(b"by somebody else")
    later_cell = project.rename("a", "b")
    assert reasons(project.stack.undo(cell)).keys() == {"a"}
    assert project.files() == {"a": b"by somebody else"}
    project.stack.redo()
    assert project.files() == {"b": b"by somebody else"}
    assert reasons(project.stack.undo(later_cell)) == {}


def test_a_file_keeps_its_new_name_if_somebody_else_has_taken_the_old_one(project: Project) -> None:
    (project.folder / "old").write_bytes(b"original")
    cell = project.rename("old", "new")
    (project.folder / "old").write_bytes(b"by somebody else")
    assert reasons(project.preview(cell)).keys() == {"old", "new"}
    assert reasons(project.stack.undo(cell)).keys() == {"old", "new"}
    assert project.files() == {"old": b"by somebody else", "new": b"original"}


def test_what_a_cell_moved_in_from_another_folder_stays(project: Project) -> None:
    outside = project.folder.parent / "outside"
    outside.write_bytes(b"original")

    def move_in() -> None:
        step = project.journal.steps[-1]
        project.journal.note_existing(step, str(outside))
        project.journal.note_name(step, project.path("inside"))
        outside.rename(project.folder / "inside")

    assert reasons(project.stack.undo(project.cell(move_in))).keys() == {"inside"}
    assert project.files() == {"inside": b"original"}


def test_a_file_that_another_one_replaced_stays_if_that_was_edited_since(project: Project) -> None:
    (project.folder / "a").write_bytes(b"original")

    def replace() -> None:
        project.journal.note_name(project.journal.steps[-1], project.path("draft"))
        (project.folder / "draft").write_bytes(b"by the cell")
        for name in ("draft", "a"):
            project.journal.note_name(project.journal.steps[-1], project.path(name))
        os.replace(project.path("draft"), project.path("a"))

    cell = project.cell(replace)
    with open(project.folder / "a", "ab") as file:
        file.write(b" and somebody else")
    assert reasons(project.stack.undo(cell)).keys() == {"a"}
    assert project.files() == {"a": b"by the cell and somebody else"}


def test_a_file_that_has_got_another_name_since_is_not_written(project: Project) -> None:
    (project.folder / "a").write_bytes(b"original")
    cell = project.write("a", b"by the cell")
    # As programs that make backups do.
    os.link(project.folder / "a", project.folder.parent / "backup")
    assert reasons(project.stack.undo(cell)).keys() == {"a"}
    assert project.files() == {"a": b"by the cell"}
    assert (project.folder.parent / "backup").read_bytes() == b"by the cell"


def test_a_file_that_was_made_and_written_again_comes_back_with_a_redo(project: Project) -> None:
    cell = project.write("a", b"first")
    later_cell = project.write("a", b"second")
    for _ in range(2):
        assert reasons(project.stack.undo(cell)) == {}
        assert project.files() == {}
        assert reasons(project.stack.redo()) == {}
        assert project.files() == {"a": b"second"}
    assert reasons(project.stack.undo(later_cell)) == {}
    assert project.files() == {"a": b"first"}
    assert reasons(project.stack.undo(cell)) == {}
    assert project.files() == {}


def test_folders_that_changed_places_change_them_back(project: Project) -> None:
    outer = project.folder / "outer"
    (outer / "inner").mkdir(parents=True)
    (outer / "of-outer").write_bytes(b"o")
    (outer / "inner/of-inner").write_bytes(b"i")
    before = project.tree()

    def swap() -> None:
        step = project.journal.steps[-1]
        for name in ("outer/inner", "draft"):
            project.journal.note_name(step, project.path(name))
        os.rename(outer / "inner", project.path("draft"))
        for name in ("outer", "draft/inner"):
            project.journal.note_name(step, project.path(name))
        os.rename(outer, project.path("draft/inner"))
        for name in ("draft", "outer"):
            project.journal.note_name(step, project.path(name))
        os.rename(project.path("draft"), outer)

    cell = project.cell(swap)
    after = project.tree()
    assert after == {"outer/of-inner": b"i", "outer/inner/of-outer": b"o"}
    assert reasons(project.stack.undo(cell)) == {}
    assert project.tree() == before
    assert reasons(project.stack.redo()) == {}
    assert project.tree() == after


def test_files_with_several_names_that_changed_places_change_them_back(project: Project) -> None:
    places = {"a": "b", "a2": "b2", "b": "c", "b2": "c2", "c": "a", "c2": "a2", "c3": "b3"}
    for name in "abc":
        (project.folder / name).write_bytes(name.encode())
    for name in places.keys() - {"a", "b", "c"}:
        os.link(project.folder / name[0], project.folder / name)
    before = project.links()

    def exchange() -> None:
        for name in places:
            os.rename(project.folder / name, project.folder / f"moved-{name}")
        for name, new_name in places.items():
            os.rename(project.folder / f"moved-{name}", project.folder / new_name)

    cell = project.cell(exchange, removed=" ".join({**places, "b3": ""}))
    after = project.links()
    for _ in range(2):
        assert reasons(project.stack.undo(cell)) == {}
        assert project.links() == before
        assert reasons(project.stack.redo()) == {}
        assert project.links() == after


def test_a_file_that_was_moved_aside_needs_no_draft_if_it_has_another_name(
    project: Project,
) -> None:
    for name in ("a", "b"):
        (project.folder / name).write_bytes(name.encode())
        os.link(project.folder / name, project.folder / f"{name}2")

    def exchange() -> None:
        os.rename(project.path("a"), project.path("t"))
        os.rename(project.path("b"), project.path("a"))
        os.rename(project.path("t"), project.path("b"))

    cell = project.cell(exchange, removed="a t b", linked="a2 b2")
    plan = project.preview(cell)
    (project.folder / "draft").write_bytes(b"somebody else's")
    os.replace(project.folder / "draft", project.folder / "b")
    Restorer(project.journal, plan, FileStep(cell, 0)).restore()
    assert reasons(plan).keys() == {"b"}
    assert project.links() == {
        frozenset({"a", "a2"}): b"a",
        frozenset({"b"}): b"somebody else's",
        frozenset({"b2"}): b"b",
    }


def test_an_edit_between_two_cells_is_not_overwritten(project: Project) -> None:
    (project.folder / "a").write_bytes(b"original")
    (project.folder / "b").write_bytes(b"original")
    first = project.cell(
        lambda: [(project.folder / name).write_bytes(b"first") for name in ("a", "b")],
        written="a b",
    )
    (project.folder / "a").write_bytes(b"by somebody else")
    # The same content with another time is no edit.
    os.utime(project.folder / "b", (1, 1))
    second = project.cell(
        lambda: [(project.folder / name).write_bytes(b"second") for name in ("a", "b")],
        written="a b",
    )
    assert reasons(project.preview(first)).keys() == {"a"}
    restorer = project.stack.undo(first)
    assert reasons(restorer).keys() == {"a"}
    assert project.files() == {"a": b"by somebody else", "b": b"original"}
    project.stack.redo()
    # Alone, the second cell can be undone.
    assert reasons(project.stack.undo(second)) == {}
    assert project.files() == {"a": b"by somebody else", "b": b"first"}
    assert reasons(project.stack.undo(first)).keys() == {"a"}
    assert project.files() == {"a": b"by somebody else", "b": b"original"}


def test_large_files_are_undone_cell_by_cell_and_together(project: Project) -> None:
    (project.folder / "a").write_bytes(bytes(1_200_000))
    first = project.write("a", b"1" * 1_200_000)
    second = project.write("a", b"2" * 1_200_000)
    for _ in range(2):
        assert reasons(project.stack.undo(second)) == {}
        assert reasons(project.stack.undo(first)) == {}
        assert project.files() == {"a": bytes(1_200_000)}
        project.stack.redo()
        project.stack.redo()
        assert project.files() == {"a": b"2" * 1_200_000}
    assert reasons(project.stack.undo(first)) == {}
    assert project.files() == {"a": bytes(1_200_000)}


def test_a_copy_that_is_another_name_of_a_changed_file_is_not_restored(
    project: Project,
) -> None:
    (project.folder / "a").write_bytes(b"original")
    os.link(project.folder / "a", project.folder.parent / "elsewhere")
    cell = project.cell(lambda: (project.folder / "a").unlink(), removed="a")
    with open(project.folder.parent / "elsewhere", "ab") as other:
        other.write(b" and more")
    assert "by something outside the cells" in reasons(project.stack.undo(cell))["a"]
    assert project.files() == {}


def test_a_restored_file_is_another_name_only_of_what_it_was(project: Project) -> None:
    elsewhere = project.folder.parent / "elsewhere"
    for name in ("a", "b"):
        (project.folder / name).write_bytes(b"original")
    os.link(project.folder / "a", project.folder.parent / "twin")

    def remove() -> None:
        (project.folder / "a").unlink()
        # The witness does not learn of names in other folders.
        (project.folder / "b").rename(elsewhere)

    project.stack.undo(project.cell(remove, removed="a b"))
    assert project.files() == {"a": b"original", "b": b"original"}
    assert (project.folder / "a").samefile(project.folder.parent / "twin")
    assert not (project.folder / "b").samefile(elsewhere)


def test_a_file_that_cannot_be_written_in_place_stays_as_it_is(project: Project) -> None:
    (project.folder / "a").write_bytes(b"o" * 1_500_000)
    os.link(project.folder / "a", project.folder / "twin")
    cell = project.cell(lambda: (project.folder / "a").write_bytes(b"new"), written="a")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_200_000, limits[1]))
    try:
        restorer = project.stack.undo(cell)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert reasons(restorer) == {"a": "it could not be restored (File too large)"}
    assert project.files() == {"a": b"new", "twin": b"new"}
    assert (project.folder / "a").samefile(project.folder / "twin")


def test_holes_replace_what_was_there(project: Project) -> None:
    with open(project.folder / "a", "wb") as file:
        file.seek(200_000)
        file.write(b"in the middle")
        file.truncate(400_000)
    os.link(project.folder / "a", project.folder / "twin")
    before = project.files()
    cell = project.write("a", b"x" * 500_000)
    project.stack.undo(cell)
    assert project.files() == before


def test_a_change_after_a_write_in_the_background_is_not_overwritten(project: Project) -> None:
    (project.folder / "a").write_bytes(b"original")
    cell = project.write("a", b"by the cell")
    # A process of the cell writes once more after its end, then somebody else does.
    background = project.journal.step(cell, is_background=True)
    project.journal.note_content(background, project.path("a"))
    (project.folder / "a").write_bytes(b"in the background")
    assert reasons(project.preview(cell))["a"].startswith("it was changed in the background")
    assert project.files() == {"a": b"in the background"}
    project.write("b", b"")
    assert reasons(project.stack.undo(cell)).keys() == {"a"}
    assert project.files() == {"a": b"in the background"}


def test_a_file_that_was_made_in_the_background_and_removed_comes_back_and_is_named(
    project: Project,
) -> None:
    cell = project.write("b", b"by the cell")
    background = project.journal.step(cell, is_background=True)
    project.journal.note_name(background, project.path("a"))
    (project.folder / "a").write_bytes(b"in the background")
    project.cell(lambda: os.unlink(project.path("a")), removed="a")
    assert reasons(project.preview(cell)).keys() == {"a"}
    assert reasons(project.stack.undo(cell)).keys() == {"a"}
    assert project.files() == {"a": b"in the background"}


def test_a_file_larger_than_all_copies_may_be_is_not_kept(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    project = Project(tmp_path / "work", tmp_path / "copies", megabytes=1)
    (project.folder / "a").write_bytes(bytes(1_500_000))
    cell = project.cell(lambda: (project.folder / "a").unlink(), removed="a")
    assert "it is larger than" in reasons(project.preview(cell))["a"]
    assert os.listdir(project.copies.folder) == ["in-use"]


def test_a_path_too_many_to_be_noted_does_not_spoil_a_copy(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "MAX_CELL_PATHS", 1)
    (project.folder / "a").write_bytes(b"original")

    def rename_and_write() -> None:
        os.rename(project.path("a"), project.path("b"))
        project.journal.note_content(project.journal.steps[-1], project.path("b"))
        (project.folder / "b").write_bytes(b"another")

    cell = project.cell(rename_and_write, removed="a b")
    restorer = project.stack.undo(cell)
    assert reasons(restorer) == {"": "Only the first 1 files of a cell are noted."}
    assert project.files() == {"a": b"original", "b": b"another"}


def test_a_process_that_has_ended_is_not_taken_for_one_that_cannot_be_read() -> None:
    namespace = os.stat("/proc/self/ns/mnt").st_ino
    with subprocess.Popen(["true"]) as process:
        # It has ended, and is not waited for.
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        for _ in range(2):
            assert read_memory(process.pid, 1, 8) == b""
            assert shares_files(process.pid, namespace)
            process.wait()
    assert not shares_files(os.getpid(), namespace + 1)


def test_a_long_chain_of_processes_is_followed_to_its_end() -> None:
    depth = 60
    program = "(" * depth + "echo started; sleep 60" + "; :)" * depth
    limit = sys.getrecursionlimit()
    command = ["sh", "-c", program]
    with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            sys.setrecursionlimit(len(inspect.stack()) + 40)
            pids = list(descendants(process.pid))
        finally:
            sys.setrecursionlimit(limit)
            os.killpg(process.pid, signal.SIGKILL)
    assert len(pids) > depth


def test_two_files_that_became_one_are_two_again(project: Project) -> None:
    for name in ("a", "b"):
        (project.folder / name).write_bytes(name.encode())
    before = project.files()

    def become_one() -> None:
        (project.folder / "a").unlink()
        os.link(project.folder / "b", project.folder / "a")
        (project.folder / "b").write_bytes(b"both")

    assert reasons(project.stack.undo(project.cell(become_one, removed="a", written="b"))) == {}
    assert project.files() == before


def test_permissions_and_a_later_write_are_undone_together(project: Project) -> None:
    (project.folder / "a").write_bytes(b"original")

    def change_mode() -> None:
        project.journal.note_content(project.journal.steps[-1], project.path("a"), is_written=False)
        (project.folder / "a").chmod(0o600)

    cell = project.cell(change_mode)
    project.write("a", b"ORIGINAL")
    assert reasons(project.stack.undo(cell)) == {}
    assert project.files() == {"a": b"original"}


def test_a_write_through_one_of_several_names_is_undone_for_all(project: Project) -> None:
    (project.folder / "a").write_bytes(b"original")
    os.link(project.folder / "a", project.folder / "twin")
    before = project.files()
    cell = project.write("a", b"written through a")
    project.cell(lambda: os.unlink(project.path("a")), removed="a")
    project.write("a", b"another file")
    after = project.files()
    preview = project.preview(cell)
    restorer = project.stack.undo(cell)
    assert list(restorer.files.values()) == list(preview.files.values())
    assert project.files() == before
    assert (project.folder / "a").samefile(project.folder / "twin")
    project.stack.redo()
    assert project.files() == after


def test_a_write_through_a_name_that_led_elsewhere_is_undone_after_others(project: Project) -> None:
    for name in ("kept", "borrowed", "other"):
        (project.folder / name).write_bytes(name.encode())
    before = project.files()

    def link() -> None:
        os.unlink(project.path("borrowed"))
        os.link(project.path("kept"), project.path("borrowed"))

    first_cell = project.cell(link, removed="borrowed", linked="kept")
    project.write("borrowed", b"written by another name")
    project.rename("other", "borrowed")
    last_cell = project.write("kept", b"written later")
    after = project.files()
    assert reasons(project.stack.undo(first_cell)) == {}
    assert project.files() == before
    project.stack.redo()
    assert project.files() == after
    project.stack.undo(last_cell)
    assert reasons(project.stack.undo(first_cell)) == {}
    assert project.files() == before


def test_a_file_with_two_names_is_kept_once_for_a_redo(project: Project) -> None:
    for name in ("first", "second"):
        (project.folder / name).write_bytes(name.encode())
    os.link(project.path("first"), project.path("third"))
    before = project.files()

    def change() -> None:
        os.replace(project.path("third"), project.path("second"))
        # Two copies of this are more than the copies of a cell may be.
        (project.folder / "first").write_bytes(b"x" * (3 * 2**19))

    cell = project.cell(change, removed="third second", written="first")
    preview = project.preview(cell)
    restorer = project.stack.undo(cell)
    assert reasons(preview) == reasons(restorer) == {}
    assert project.files() == before


def test_a_restored_file_is_not_taken_for_a_missing_one_with_its_number(project: Project) -> None:
    missing = [f"missing{number}" for number in range(30)]
    for name in ("file", "edited", *missing):
        (project.folder / name).write_bytes(name.encode())

    def write(content: str, *names: str) -> int:
        return project.cell(
            lambda: [(project.folder / name).write_text(content) for name in names],
            written=" ".join(names),
        )

    cell = write("first", "file", "edited")
    (project.folder / "edited").write_bytes(b"by somebody else")
    write("second", "file", "edited", *missing)
    for name in missing:
        (project.folder / name).unlink()  # by somebody else; many systems use the number again
    preview = project.preview(cell)
    restorer = project.stack.undo(cell)
    assert reasons(restorer) == reasons(preview)
    assert reasons(restorer).keys() == {"edited", *missing}
    assert project.files() == {"file": b"file", "edited": b"by somebody else"}


def test_an_open_file_that_somebody_else_changes_is_not_overwritten(project: Project) -> None:
    (project.folder / "a").write_bytes(b"original")
    cell = project.write("a", b"by the cell")
    project.journal.open_nodes.update(project.journal.steps[-1].nodes)
    (project.folder / "a").write_bytes(b"by somebody else")
    assert "open for writing" in reasons(project.stack.undo(cell))["a"]
    assert project.files() == {"a": b"by somebody else"}


def test_a_preview_follows_a_folder_to_a_name_that_was_used_again(project: Project) -> None:
    journal = project.journal
    os.makedirs(project.path("old"))
    (project.folder / "old/a").write_bytes(b"original")

    def rename_and_use_again() -> None:
        step = journal.steps[-1]
        old, new = project.path("old"), project.path("new")
        journal.note_name(step, old)
        journal.note_name(step, new)
        os.rename(old, new)
        journal.note_name(step, old)
        os.mkdir(old)
        journal.note_name(step, f"{old}/a")
        (project.folder / "old/a").write_bytes(b"another")

    cell = project.write("old/a", b"changed")
    project.cell(rename_and_use_again)
    preview = project.preview(cell)
    restorer = project.stack.undo(cell)
    assert restorer.files == preview.files
    assert restorer.unrestored == preview.unrestored == []
    assert (project.folder / "old/a").read_bytes() == b"original"


def test_a_link_that_cannot_come_back_leaves_no_other_name(project: Project) -> None:
    link = project.folder / "link"
    link.symlink_to("elsewhere")

    def replace() -> None:
        link.unlink()
        link.mkdir()

    cell = project.cell(replace, removed="link", written="link")
    (link / "other").write_bytes(b"of somebody else")
    assert reasons(project.preview(cell)) == {"link": _NOT_EMPTY}
    restorer = project.stack.undo(cell)
    assert reasons(restorer) == {"link": _NOT_EMPTY}
    assert os.listdir(project.folder) == ["link"]
    assert os.listdir(link) == ["other"]


def test_a_redo_names_what_was_in_a_removed_folder(project: Project) -> None:
    names = ["outer", "outer/inner", "outer/inner/file"]

    def make() -> None:
        for name in names:
            project.journal.note_name(project.journal.steps[-1], project.path(name))
            if name.endswith("file"):
                (project.folder / name).write_bytes(b"content")
            else:
                (project.folder / name).mkdir()

    cell = project.cell(make)
    paths = [project.path(name) for name in names]
    assert sorted(project.stack.undo(cell).files) == paths
    assert sorted(project.stack.redo().files) == paths

    project.stack.undo(cell)
    (project.folder / "outer").write_bytes(b"of somebody else")
    plan = project.stack.redo()
    assert sorted(item.name for item in plan.unrestored) == paths
    assert plan.files == {}


def test_a_write_in_the_background_at_the_end_of_a_cell_does_not_hide_what_the_cell_did(
    project: Project,
) -> None:
    (project.folder / "a").write_bytes(b"old")
    step = project.journal.step(1)
    project.journal.note_content(step, project.path("a"))
    (project.folder / "a").write_bytes(b"new")
    background = project.journal.step(1, is_background=True)
    project.journal.note_name(background, project.path("log"))
    (project.folder / "log").write_bytes(b"line")

    changes = project.journal.finish(project.journal.step(1))
    plan = project.stack.undo(1)

    assert [(change.change, change.path) for change in changes] == [("changed", project.path("a"))]
    assert project.files() == {"a": b"old", "log": b"line"}
    assert list(reasons(plan)) == ["log"]


def test_a_removed_folder_with_too_many_files_comes_back_with_those_that_were_noted(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "MAX_CELL_PATHS", 3)
    folder = project.folder / "outer" / "inner"
    folder.mkdir(parents=True)
    names = [f"outer/inner/{number}" for number in range(5)]
    for name in names:
        (project.folder / name).write_bytes(name.encode())

    def remove() -> None:
        for name in names:
            os.remove(project.path(name))
        os.rmdir(folder)
        os.rmdir(folder.parent)

    cell = project.cell(remove, removed=" ".join([*names, "outer/inner", "outer"]))
    plan = project.stack.undo(cell)

    assert project.tree() == {name: name.encode() for name in names[:3]}
    assert reasons(plan) == {"": "Only the first 3 files of a cell are noted."}


def test_a_removed_file_too_many_does_not_keep_others_from_being_restored(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "MAX_CELL_PATHS", 1)
    (project.folder / "a").write_bytes(b"old")
    (project.folder / "b").write_bytes(b"lost")
    project.journal.note_content(project.journal.step(1), project.path("a"))
    project.journal.note_name(project.journal.step(1), project.path("b"))
    (project.folder / "a").write_bytes(b"other")
    os.remove(project.path("b"))
    project.journal.finish(project.journal.step(1))

    plan = project.stack.undo(1)

    assert project.files() == {"a": b"old"}
    assert reasons(plan)["b"] == "its content was not copied"


def test_names_that_cannot_be_exchanged_do_not_keep_others_from_being_restored(
    project: Project,
) -> None:
    for name in ("a", "b", "c"):
        (project.folder / name).write_bytes(name.encode())

    def change() -> None:
        os.rename(project.path("a"), project.path("t"))
        os.rename(project.path("b"), project.path("a"))
        os.rename(project.path("t"), project.path("b"))
        (project.folder / "c").write_bytes(b"changed")

    cell = project.cell(change, removed="a t b", written="c")
    plan = project.preview(cell)
    for name in ("a", "b"):
        (project.folder / f"{name}2").write_bytes(b"somebody else's")
        os.replace(project.path(f"{name}2"), project.path(name))
    Restorer(project.journal, plan, FileStep(cell, 0)).restore()

    others = b"somebody else's"
    assert project.files() == {"a": others, "b": others, "c": b"c"}
    assert set(reasons(plan)) == {"a", "b"}


@pytest.mark.parametrize("is_name_taken", [False, True])
def test_the_reason_why_a_file_cannot_return_to_its_place_is_the_real_one(
    project: Project, is_name_taken: bool
) -> None:
    folder = project.folder / "d"
    folder.mkdir()
    for name in ("a", "b"):
        (folder / name).write_bytes(name.encode())

    def exchange() -> None:
        os.rename(folder / "a", folder / "t")
        os.rename(folder / "b", folder / "a")
        os.rename(folder / "t", folder / "b")

    class InterferingRestorer(Restorer):
        """Somebody else takes the name, or moves the folder, before a file returns to its place."""

        def _move_back(self, node: Node) -> None:
            if is_name_taken:
                (folder / "a").write_bytes(b"somebody else's")
            else:
                folder.rename(project.path("moved"))
            super()._move_back(node)

    cell = project.cell(exchange, removed="d/a d/t d/b")
    plan = project.preview(cell)
    (folder / "b2").write_bytes(b"somebody else's")
    os.replace(folder / "b2", folder / "b")
    InterferingRestorer(project.journal, plan, FileStep(cell, 0)).restore()

    draft_reasons = [reason for name, reason in reasons(plan).items() if "restored" in name]
    reason = "something else has this name now" if is_name_taken else os.strerror(errno.ENOENT)
    assert draft_reasons == [f"it could not be restored ({reason})"]


def test_files_with_the_longest_names_are_restored(project: Project) -> None:
    first = "n" * 254 + "1"
    second = "n" * 254 + "2"
    (project.folder / first).write_bytes(b"first")
    (project.folder / second).write_bytes(b"second")

    def exchange() -> None:
        os.rename(project.path(first), project.path("t"))
        os.rename(project.path(second), project.path(first))
        os.rename(project.path("t"), project.path(second))

    exchange_cell = project.cell(exchange, removed=f"{first} t {second}")
    project.write(first, b"written")
    plan = project.stack.undo(exchange_cell)

    assert reasons(plan) == {}
    assert project.files() == {first: b"first", second: b"second"}


def test_a_written_file_that_cannot_be_found_again_is_named(project: Project) -> None:
    (project.folder / "d").mkdir()
    (project.folder / "d" / "f").write_bytes(b"old")

    def change() -> None:
        (project.folder / "d" / "f").write_bytes(b"other")
        os.rename(project.path("d"), project.folder.parent / "elsewhere")

    cell = project.cell(change, written="d/f")
    plan = project.stack.undo(cell)

    assert [item.name for item in plan.unrestored] == [project.path("d/f")]


def test_the_path_of_a_folder_that_a_mount_shows_in_itself_ends(project: Project) -> None:
    (project.folder / "inner").mkdir()
    nodes = project.journal.nodes
    place = nodes.name(project.path("inner/mount"))
    assert place is not None

    folder = nodes.identify(place, read_state(str(project.folder)))

    assert folder.path == project.path("inner/mount")


def test_a_redo_brings_back_what_was_written_through_a_name_that_an_undo_removed(
    project: Project,
) -> None:
    outside = project.folder.parent / "outside"
    outside.write_bytes(b"old")

    step = project.journal.step(1)
    project.journal.note_existing(step, str(outside))
    project.journal.note_name(step, project.path("a"))
    os.link(outside, project.path("a"))
    project.journal.note_content(step, project.path("a"))
    (project.folder / "a").write_bytes(b"written")
    project.journal.finish(step)
    renamed = outside.rename(outside.with_name("renamed"))

    project.stack.undo(1)
    assert (project.files(), renamed.read_bytes()) == ({}, b"old")
    plan = project.stack.redo()

    assert reasons(plan) == {}
    assert project.files() == {"a": b"written"}


def test_a_redo_takes_away_what_an_undo_made_again_of_a_file_that_somebody_has_moved(
    project: Project,
) -> None:
    (project.folder / "a").write_bytes(b"old")
    step = project.journal.step(1)
    project.journal.note_name(step, project.path("a"))
    project.journal.note_name(step, project.path("x"))
    os.rename(project.path("a"), project.path("x"))
    project.journal.note_content(step, project.path("x"))
    (project.folder / "x").write_bytes(b"written")
    (project.folder / "a").write_bytes(b"new")
    project.journal.finish(step)
    os.rename(project.path("x"), project.path("moved"))

    project.stack.undo(1)
    assert project.files() == {"a": b"old", "moved": b"written"}
    project.stack.redo()

    assert project.files() == {"a": b"new", "moved": b"written"}


def test_a_file_whose_copy_somebody_has_removed_stays_and_is_named(project: Project) -> None:
    (project.folder / "a").write_bytes(b"old")
    cell = project.write("a", b"written")
    shutil.rmtree(project.copies.folder)

    preview = project.preview(cell)
    plan = project.stack.undo(cell)
    assert (preview.files, reasons(preview)) == (plan.files, reasons(plan))

    assert project.files() == {"a": b"written"}
    assert plan.files == {}
    assert reasons(plan)["a"] == "its copy was changed by something outside the cells"


def test_a_preview_promises_nothing_for_which_the_disk_has_no_room(tmp_path: Path) -> None:
    code = f"""
import os, sys
from pathlib import Path
sys.path.insert(0, {str(Path(__file__).parents[2])!r})
from tests.unit.test_file_restoring import Project, reasons
project = Project(Path("disk").resolve(), Path("copies").resolve())
(project.folder / "a").write_bytes(bytes([1]) * 700_000)
cell = project.write("a", b"small")
(project.folder / "other").write_bytes(bytes([1]) * 700_000)
preview = project.preview(cell)
plan = project.stack.undo(cell)
print(list(preview.files) == list(plan.files), reasons(preview) == reasons(plan), reasons(plan))
"""
    (tmp_path / "disk").mkdir()
    command = f"mount -t tmpfs -o size=1m tmpfs disk && {sys.executable} -c {shlex.quote(code)}"
    done = subprocess.run(
        ["unshare", "--mount", "--map-root-user", "sh", "-c", command],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    if "unshare" in done.stderr or "mount:" in done.stderr:
        pytest.skip("this machine lets no test mount a small disk")
    no_space = os.strerror(errno.ENOSPC)
    assert done.stdout == f"True True {{'a': 'it could not be restored ({no_space})'}}\n", (
        done.stderr
    )


def test_a_full_disk_whose_files_can_share_blocks_keeps_nothing_from_being_restored(
    tmp_path: Path,
) -> None:
    code = f"""
import os, sys
from pathlib import Path
sys.path.insert(0, {str(Path(__file__).parents[2])!r})
from tests.unit.test_file_restoring import Project, reasons
project = Project(Path("disk/work").resolve(), Path("disk/copies").resolve())
project.folder.mkdir()
original = os.urandom(1_500_000)
(project.folder / "a").write_bytes(original)
status = os.statvfs("disk")
with open("disk/filler", "wb") as filler:
    os.posix_fallocate(filler.fileno(), 0, status.f_bavail * status.f_frsize - 1_000_000)
cell = project.write("a", b"small")
for action in (project.preview, project.stack.undo):
    plan = action(cell)
    print(list(plan.files), reasons(plan))
print((project.folder / "a").read_bytes() == original, os.listdir(project.folder))
"""
    (tmp_path / "disk").mkdir()
    script = f"""
truncate -s 400M image && mkfs.xfs -q -m reflink=1 image && mount -o loop image disk || exit 77
{sys.executable} -c {shlex.quote(code)}
"""
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script], cwd=tmp_path, capture_output=True, text=True
    )
    if done.returncode == 77 or "unshare" in done.stderr:
        pytest.skip("this machine lets no test mount a disk whose files share blocks")
    restored_path = str(tmp_path / "disk/work/a")
    assert done.stdout == f"{[restored_path]} {{}}\n" * 2 + "True ['a']\n", done.stderr


def test_a_file_that_cannot_get_its_old_name_back_keeps_the_new_one(project: Project) -> None:
    (project.folder / "a").write_bytes(b"content")
    cell = project.rename("a", "b")
    plan = project.preview(cell)
    (project.folder / "a").write_bytes(b"somebody else's")

    Restorer(project.journal, plan, FileStep(cell, 0)).restore()

    assert project.files() == {"a": b"somebody else's", "b": b"content"}
    assert reasons(plan) == {
        "a": "it could not be restored (something else has changed it meanwhile)",
        "b": "it could not be restored (what has this name now could not get its old one back)",
    }


def test_nothing_stays_of_an_undo_whose_process_is_killed(project: Project) -> None:
    (project.folder / "a").write_bytes(b"written by a cell")
    (project.folder / "b").write_bytes(b"exchanged by a cell")
    code = f"""
import os, signal
from mahtab_tui.worker.witness.copies import Copies
copies = Copies({project.copies.folder + "2"!r}, 2**20, 2**20)
path = {project.path("b")!r}
os.rename(path, copies.drafts.new_path(path, moved_from=path))
with copies.drafts.replacing({project.path("a")!r}) as draft:
    with open(draft, "w") as file:
        file.write("original")
        os.kill(os.getpid(), signal.SIGKILL)
"""
    assert run_python("-c", code).returncode == -signal.SIGKILL
    assert len(list(project.folder.glob("*.restored"))) == 2

    remove_abandoned(os.path.dirname(project.copies.folder))

    assert project.files() == {"a": b"written by a cell", "b": b"exchanged by a cell"}


def test_a_file_that_decides_what_runs_is_not_made_of_a_draft(project: Project) -> None:
    draft = project.path(".bashrc.1.0.restored")
    Path(draft).write_text("of a cell")
    drafts_list = project.folder.parent / "drafts"
    drafts_list.write_text(f"{draft}\0{project.path('.bashrc')}\0")

    remove_drafts(str(drafts_list))

    assert os.listdir(project.folder) == [os.path.basename(draft)]


def test_a_file_that_had_no_room_for_a_copy_is_copied_by_a_later_cell(
    far_project: Project,
) -> None:
    for name in ("written", "removed"):
        (far_project.folder / name).write_bytes(b"original")
        os.utime(far_project.path(name), (1, 1))
    far_project.copies.max_cell_bytes = 0
    # They are opened and stay as they are.
    far_project.cell(lambda: None, written="written removed")
    far_project.copies.max_cell_bytes = 2**20

    def change() -> None:
        (far_project.folder / "written").write_bytes(b"by a cell")
        (far_project.folder / "removed").unlink()

    cell = far_project.cell(change, written="written", removed="removed")
    assert reasons(far_project.stack.undo(cell)) == {}
    assert far_project.files() == {"written": b"original", "removed": b"original"}


def test_a_name_in_the_folder_that_took_another_name_of_its_file_is_undone(
    project: Project,
) -> None:
    (project.folder / "a").write_bytes(b"original")
    os.link(project.path("a"), project.path("twin"))

    def change() -> None:
        step = project.journal.steps[-1]
        project.journal.note_name(step, project.path("a"))
        (project.folder / "a").unlink()
        (project.folder / "a").mkdir()
        project.journal.note_existing(step, project.path("twin"))
        project.journal.note_name(step, project.path("a/inner"))
        os.link(project.path("twin"), project.path("a/inner"))

    cell = project.cell(change)
    assert reasons(project.stack.undo(cell)) == {}
    assert project.files() == {"a": b"original", "twin": b"original"}
    assert (project.folder / "a").samefile(project.folder / "twin")


def test_who_lets_calls_go_on_ends_when_none_can_be_received_any_more() -> None:
    code = """
import os
from mahtab_tui.worker.witness.deputy import let_calls_go_on
from mahtab_tui.worker.witness.listener import CallListener
from mahtab_tui.worker.witness.protection import FileProtection
reading_end, writing_end = os.pipe()
os.write(writing_end, b"not a call")
let_calls_go_on(CallListener(reading_end), FileProtection(os.getpid(), os.uname().machine))
"""
    done = run_python("-c", code)
    assert (done.returncode, done.stderr) == (0, "")


_ABANDONED_COPIES = """
import os, sys
from mahtab_tui.worker.witness import deputy
from mahtab_tui.worker.witness.copies import Copies
from mahtab_tui.worker.witness.listener import CallListener
from mahtab_tui.worker.witness.protection import FileProtection

os.makedirs("copies/abandoned")
open("copies/abandoned/in-use", "w").close()
with open("copies/abandoned/drafts", "w") as drafts:
    drafts.write("name.1.0.restored\\0name\\0")
# As if the program was removed while it runs: what returns drafts cannot be loaded any more.
sys.modules["mahtab_tui.worker.guard.protected_places"] = None
"""


@pytest.mark.parametrize(
    "take_place",
    [
        "serve_survivors(listener, protection, 'copies/abandoned')",
        "_wait_for_end(witness_end, listener, protection, 'copies/abandoned')",
    ],
)
def test_calls_go_on_whatever_goes_wrong_when_copies_are_removed(
    tmp_path: Path, take_place: str
) -> None:
    code = f"""{_ABANDONED_COPIES}
witness_end, writing_end = os.pipe()
os.close(writing_end)
calls_end, writing_end = os.pipe()
os.write(writing_end, b"not a call")  # whoever receives it ends without an error
listener = CallListener(calls_end)
protection = FileProtection(os.getpid(), os.uname().machine)
if os.fork() == 0:
    deputy.{take_place}
sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))
"""
    done = run_python("-c", code, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


def test_copies_are_made_whatever_goes_wrong_when_those_of_others_are_removed(
    tmp_path: Path,
) -> None:
    code = f"{_ABANDONED_COPIES}\nCopies('copies/own', 1, 1)"
    done = run_python("-c", code, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


def _fill_and_rewrite(project: Project, count: int) -> int:
    """Let one cell rewrite many files, remove others and make new ones; return its number."""
    names = [f"f{index}" for index in range(count)]
    for name in names:
        (project.folder / name).write_bytes(b"old")

    def change() -> None:
        for index, name in enumerate(names):
            if index % 3 == 0:
                (project.folder / name).write_bytes(b"written")
            elif index % 3 == 1:
                os.unlink(project.path(name))
            else:
                os.rename(project.path(name), project.path(f"new-{name}"))

    moved = " ".join(f"{name} new-{name}" for name in names[2::3])
    removed = f"{' '.join(names[1::3])} {moved}"
    return project.cell(change, removed=removed, written=" ".join(names[::3]))


def test_what_many_files_were_is_packed_and_comes_back_by_an_undo(project: Project) -> None:
    cell = _fill_and_rewrite(project, 900)
    after = project.files()
    project.journal.pack()
    step = project.journal.steps[0]
    assert not step.names
    assert all(node.kind == FOLDER for node in step.nodes)

    assert len(project.preview(cell).files) == 900
    project.journal.pack()
    plan = project.stack.undo(cell)
    assert plan.unrestored == []
    assert project.files() == {f"f{index}": b"old" for index in range(900)}
    project.stack.redo()
    assert project.files() == after


def test_a_file_that_is_packed_is_known_again_when_a_later_cell_changes_it(
    project: Project,
) -> None:
    cell = _fill_and_rewrite(project, 900)
    project.journal.pack()
    later_cell = project.write("f3", b"later")
    project.journal.pack()
    step = project.journal.steps[0]
    # It is packed again, but for the file that both cells know.
    assert [node.path for node in step.nodes if node.kind == FILE] == [project.path("f3")]
    project.stack.undo(later_cell)
    assert (project.folder / "f3").read_bytes() == b"written"
    assert project.stack.undo(cell).unrestored == []
    assert project.files() == {f"f{index}": b"old" for index in range(900)}


def test_packing_again_adds_nothing_if_nothing_is_new(project: Project) -> None:
    names = [f"f{index}" for index in range(300)]

    def rewrite() -> None:
        for name in names:
            (project.folder / name).write_bytes(os.urandom(5))

    cell = project.cell(rewrite, written=" ".join(names))
    project.journal.pack()
    part_counts = []
    for _ in range(3):
        project.cell(rewrite, written=" ".join(names))
        project.journal.pack()
        project.cell(lambda: None)
        project.journal.pack()
        part_counts.append(
            [step.archive and step.archive.part_count for step in project.journal.steps]
        )
    assert [counts[0] for counts in part_counts] == [2, 2, 2]
    # They know the same files, which are not packed, and the first one's names are.
    assert not any(count for counts in part_counts for count in counts[1:])
    assert reasons(project.stack.undo(cell)) == {}
    assert project.files() == {}


class _FailsOnce:
    """Cannot be packed, or unpacked, the first time."""

    def __init__(self, *, is_packable: bool) -> None:
        self.is_packable = is_packable

    def __reduce__(self) -> tuple[object, ...]:
        if not self.is_packable:
            self.is_packable = True
            raise MemoryError
        return _remake, ()


_failures = [MemoryError()]


def _remake() -> int:
    if _failures:
        raise _failures.pop()
    return 1


def test_what_cannot_be_packed_or_unpacked_for_want_of_memory_stays(project: Project) -> None:
    cell = _fill_and_rewrite(project, 900)
    step = project.journal.steps[0]
    _failures[:] = [MemoryError()]
    changed_node = next(reversed(step.nodes))
    step.nodes[changed_node].links = _FailsOnce(is_packable=False)  # type: ignore[assignment]
    with pytest.raises(MemoryError):
        project.journal.pack()
    project.journal.pack()
    assert not step.names
    with pytest.raises(MemoryError):
        step.unpack(project.journal.nodes)
    assert project.stack.undo(cell).unrestored == []
    assert project.files() == {f"f{index}": b"old" for index in range(900)}


class _FullTable(NodeTable):
    """Has no memory for more than a hundred files."""

    def register(self, node: Node) -> None:
        if len(self._nodes) >= 100:
            raise MemoryError
        super().register(node)


def test_what_is_unpacked_and_cannot_be_stored_stays_packed(project: Project) -> None:
    cell = _fill_and_rewrite(project, 900)
    project.journal.pack()
    step = project.journal.steps[0]
    copy_count = len(os.listdir(project.copies.folder))
    with pytest.raises(MemoryError):
        step.unpack(_FullTable(project.copies, lambda number: None))
    assert not step.names
    assert len(os.listdir(project.copies.folder)) == copy_count
    assert project.stack.undo(cell).unrestored == []
    assert project.files() == {f"f{index}": b"old" for index in range(900)}


def test_a_failure_to_pack_changes_nothing(project: Project) -> None:
    project.write("f", b"1")
    (node,) = (node for node in project.journal.steps[0].nodes if node.kind == FILE)
    archive = Archive(project.copies)
    with pytest.raises(MemoryError):
        archive.pack((node, _FailsOnce(is_packable=False)), set())
    assert list(archive.outer_nodes) == []
    assert archive.part_count == 0


def test_somebody_elses_change_of_a_packed_file_stays(project: Project) -> None:
    cell = _fill_and_rewrite(project, 300)
    project.journal.pack()
    (project.folder / "f3").write_bytes(b"somebody else's")
    plan = project.stack.undo(cell)
    assert set(reasons(plan)) == {"f3"}
    assert (project.folder / "f3").read_bytes() == b"somebody else's"


def test_copies_of_packed_files_go_with_their_step_and_by_the_limit(project: Project) -> None:
    cell = _fill_and_rewrite(project, 300)
    copy_count = len(os.listdir(project.copies.folder))
    project.journal.pack()
    assert len(os.listdir(project.copies.folder)) == copy_count

    project.copies.max_bytes = 4096
    project.write("other", b"1")
    project.write("other", b"2")  # its copy needs the room of all others
    reason = "its copy was removed, because all copies need more than"
    texts = reasons(project.preview(cell)).values()
    # 100 have been rewritten, and 100 removed.
    assert sum(text.startswith(reason) for text in texts) == 200

    project.journal.pack()
    project.journal.forget_before(cell + 100)
    assert not [name for name in os.listdir(project.copies.folder) if name.isdigit()]
