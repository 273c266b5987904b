"""Names that cells give to files, in random orders: an undo gives back each, and loses nothing."""

from __future__ import annotations

import os
import random
import shutil
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

if sys.platform != "linux":
    pytest.skip("files are watched on Linux only", allow_module_level=True)

from mahtab_tui.worker.witness.file_step import FileStep
from mahtab_tui.worker.witness.restoring import Restorer
from tests.unit.file_project import Project, reasons

NAMES = ("a", "b", "c", "d", "a/x", "a/y", "b/x", "c/x", "a/x/y", "b/x/y", "d/c/b/a")
FIRST_NAMES = ("a/", "a/x", "a/y", "b/", "b/x/", "b/x/y", "c", "d/", "d/c/", "d/c/b/", "d/c/b/a")
"""Those that are there before a cell; a slash is at the end of a folder's."""


class Operation(NamedTuple):
    """What a cell does to names."""

    action: str
    name: str
    other_name: str


operations = st.builds(
    Operation,
    st.sampled_from("rename rename rename exchange link remove make write".split()),
    st.sampled_from(NAMES),
    st.sampled_from(NAMES),
)


def fill(folder: Path) -> None:
    for name in FIRST_NAMES:
        if name.endswith("/"):
            (folder / name).mkdir()
        else:
            (folder / name).write_text(f"first {name}")


def perform(project: Project, operation: Operation) -> None:
    """Do what a cell does, and note it before, as the witness would."""
    step = project.journal.steps[-1]
    path = project.path(operation.name)
    other_path = project.path(operation.other_name)
    if operation.action == "exchange":
        for names in ((path, "aside"), (other_path, path), ("aside", other_path)):
            rename(project, *(os.path.join(project.folder, name) for name in names))
        return
    if operation.action == "rename":
        rename(project, path, other_path)
        return
    if operation.action == "link":
        project.journal.note_existing(step, path)
        project.journal.note_name(step, other_path)
        os.link(path, other_path)
    elif operation.action == "write" and os.path.exists(path):
        project.journal.note_content(step, path)
        Path(path).write_text(f"written to {operation.name}")
    else:
        project.journal.note_name(step, path)
        if operation.action == "make":
            os.mkdir(path)
        elif operation.action == "write":
            Path(path).write_text(f"new {operation.name}")
        elif os.path.isdir(path):
            os.rmdir(path)
        else:
            os.unlink(path)


def rename(project: Project, path: str, other_path: str) -> None:
    for noted_path in (path, other_path):
        project.journal.note_name(project.journal.steps[-1], noted_path)
    os.rename(path, other_path)


def read_names(folder: Path) -> dict[str, object]:
    """Return what is in a folder by path: the first path of the same file with its text, or a folder."""
    tree: dict[str, object] = {}
    first_names: dict[int, str] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        is_folder = path.is_dir()
        first_name = "" if is_folder else first_names.setdefault(path.stat().st_ino, name)
        tree[name] = None if is_folder else (first_name, path.read_text())
    return tree


def texts(folder: Path) -> set[str]:
    return {path.read_text() for path in folder.rglob("*") if path.is_file()}


def run_cell(project: Project, cell_operations: list[Operation], seed: int) -> int:
    """Run a cell, and shuffle the order in which its places are known."""

    def change() -> None:
        for operation in cell_operations:
            with suppress(OSError):
                perform(project, operation)

    cell = project.cell(change)
    for step in project.journal.steps:
        places = list(step.names.items())
        random.Random(seed).shuffle(places)
        step.names = dict(places)
    return cell


@settings(max_examples=60, deadline=None)
@given(st.lists(operations, max_size=12), st.integers(0, 99))
def test_an_undo_gives_back_all_names(cell_operations: list[Operation], seed: int) -> None:
    place = Path(tempfile.mkdtemp())
    try:
        project = Project(place / "work", place / "copies")
        project.folder.mkdir()
        fill(project.folder)
        before = read_names(project.folder)
        cell = run_cell(project, cell_operations, seed)
        after = read_names(project.folder)

        plan = project.stack.undo(cell)

        assert (reasons(plan), read_names(project.folder)) == ({}, before)
        plan = project.stack.redo()
        assert (reasons(plan), read_names(project.folder)) == ({}, after)
    finally:
        shutil.rmtree(place)


@settings(max_examples=60, deadline=None)
@given(st.lists(operations, min_size=1, max_size=12), st.integers(0, 99), st.sampled_from(NAMES))
def test_an_undo_that_something_else_disturbs_loses_nothing(
    cell_operations: list[Operation], seed: int, disturbed_name: str
) -> None:
    place = Path(tempfile.mkdtemp())
    try:
        project = Project(place / "work", place / "copies")
        project.folder.mkdir()
        fill(project.folder)
        cell = run_cell(project, cell_operations, seed)
        plan = project.preview(cell)
        (project.folder / "draft").write_text("somebody else's")
        with suppress(OSError):
            os.rename(project.path("draft"), project.path(disturbed_name))
        before = texts(project.folder)

        Restorer(project.journal, plan, FileStep(cell, 0)).restore()

        held_texts = {Path(path).read_text() for path in kept_paths(project)}
        assert before <= texts(project.folder) | held_texts
        drafts = {path.name for path in project.folder.rglob("*.restored")}
        assert drafts <= reasons(plan).keys()  # somebody has taken both its names
    finally:
        shutil.rmtree(place)


def kept_paths(project: Project) -> list[str]:
    """Return the copies that a redo needs."""
    folder = project.copies.folder
    return [os.path.join(folder, name) for name in os.listdir(folder) if name.isdecimal()]
