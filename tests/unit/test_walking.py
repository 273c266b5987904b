"""Folders are walked however deep they are."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from mahtab_tui.knowledge.skill_file import read_skill, skill_files
from mahtab_tui.session.checking.project_copy import ProjectCopy
from mahtab_tui.worker.guard.readable_paths import readable_paths
from mahtab_tui.worker.rlm.contexts import read_context
from mahtab_tui.worker.walking import remove_folder, walk_folders
from tests.unit.file_project import Project, reasons

DEPTH = sys.getrecursionlimit() + 100


@pytest.fixture
def deep_folder() -> Iterator[Path]:
    """A folder in which the innermost of very many folders has a file. Its path is short."""
    top = Path(tempfile.mkdtemp(dir="/tmp"), "deep")
    top.mkdir()
    folder = str(top)
    for _ in range(DEPTH):
        folder += "/d"
        os.mkdir(folder)
    Path(folder, "file.txt").write_text("deep")
    yield top
    remove_folder(str(top.parent))


def test_each_folder_and_file_is_found(deep_folder: Path) -> None:
    (deep_folder / "link").symlink_to(deep_folder / "d")
    folders = list(walk_folders(str(deep_folder)))
    assert sorted(folders[0][1]) == ["d", "link"]
    assert len(folders) == DEPTH + 1
    assert folders[-1][1:] == ([], ["file.txt"])


def test_a_folder_is_removed_with_links_but_not_with_what_they_lead_to(
    deep_folder: Path, tmp_path: Path
) -> None:
    other_file = tmp_path / "file"
    other_file.write_text("kept")
    (deep_folder / "link").symlink_to(tmp_path)
    (deep_folder / "d/link").symlink_to(other_file)
    remove_folder(str(deep_folder))
    assert not deep_folder.exists()
    assert other_file.read_text() == "kept"


def test_a_text_in_a_deep_folder_is_searched(deep_folder: Path) -> None:
    assert "deep" in read_context(deep_folder).text


def test_the_files_of_a_deep_skill_are_listed(deep_folder: Path) -> None:
    (deep_folder / "SKILL.md").write_text("---\nname: deep\ndescription: deep\n---\nText.\n")
    files = skill_files(read_skill(deep_folder / "SKILL.md"))
    assert [os.path.basename(file) for file in files] == ["file.txt"]


def test_a_private_file_in_a_deep_folder_is_not_readable(deep_folder: Path) -> None:
    folder = list(walk_folders(str(deep_folder)))[-1][0]
    Path(folder, ".env").write_text("KEY=secret")
    paths = readable_paths(str(deep_folder))
    assert f"{folder}/file.txt" in paths.whole
    assert f"{folder}/.env" not in paths.whole


def test_a_copy_of_a_deep_project_is_removed(deep_folder: Path, home: Path) -> None:
    copy = ProjectCopy(str(deep_folder))
    copy.fill(links=False, is_stopped=lambda: False)
    copy.remove()
    assert not os.path.exists(copy.folder)


@pytest.mark.skipif(sys.platform != "linux", reason="files are watched on Linux only")
def test_a_write_in_a_deep_folder_and_its_rename_are_undone(
    deep_folder: Path, tmp_path: Path
) -> None:
    project = Project(deep_folder, tmp_path / "copies")
    folder = "/".join("d" * DEPTH)
    paths = [f"{folder}/file.txt", f"{folder}/new", "d", "e"]

    def change() -> None:
        step = project.journal.steps[-1]
        for path in paths:
            project.journal.note_name(step, project.path(path))
        os.unlink(project.path(paths[0]))
        Path(project.path(paths[1])).write_text("new")
        os.rename(project.path("d"), project.path("e"))

    cell = project.cell(change)
    assert reasons(project.stack.undo(cell)) == {}
    folders = list(walk_folders(str(deep_folder)))
    assert folders[0][1] == ["d"]
    assert folders[-1][2] == ["file.txt"]
