"""The work of taking back changes of files grows with their number, not faster."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

if sys.platform != "linux":
    pytest.skip("files are watched on Linux only", allow_module_level=True)

from mahtab_tui.worker.witness.plan import UndoPlan
from tests.unit.file_project import Project, reasons
from tests.waiting import run_python

FEW = 20
MANY = 200


def preview_new_folders(project: Project, size: int) -> None:
    """Preview an undo that takes back new folders, each with a file."""
    folders = [f"folder{index}" for index in range(size)]

    def make_folders() -> None:
        step = project.journal.steps[-1]
        for folder in folders:
            project.journal.note_name(step, project.path(folder))
            os.mkdir(project.path(folder))
            project.journal.note_name(step, project.path(f"{folder}/file"))
            (project.folder / folder / "file").write_bytes(b"content")

    cell = project.cell(make_folders)
    assert len(counting(project.preview, cell).files) == 2 * size


def undo_moved_names(project: Project, size: int) -> None:
    """Take back that each file got the name of the next one, in an order that is none."""
    names = [f"file{index}" for index in range(size)]
    for name in names:
        (project.folder / name).write_text(name)

    def move_on() -> None:
        for old, new in zip([*reversed(names), "last"], ["last", *reversed(names)], strict=True):
            os.rename(project.path(old), project.path(new))

    noted_names = ["last", *names]
    random.Random(size).shuffle(noted_names)
    cell = project.cell(move_on, removed=" ".join(noted_names))
    counting(project.stack.undo, cell)
    assert project.files() == {name: name.encode() for name in names}


def preview_names_that_stay(project: Project, size: int) -> None:
    """Preview an undo of which each file must stay because the one before does."""
    names = [f"file{index}" for index in range(size + 1)]
    for name in names[:-1]:
        (project.folder / name).write_text(name)

    def move_on() -> None:
        for index in reversed(range(size)):
            os.rename(project.path(names[index]), project.path(names[index + 1]))

    cell = project.cell(move_on, removed=" ".join(reversed(names)))
    (project.folder / names[0]).write_text("somebody else's")
    assert set(reasons(counting(project.preview, cell))) == set(names)


def undo_exchanged_names(project: Project, size: int) -> None:
    """Take back that files have got each other's names in pairs, all in a folder that was renamed."""
    os.mkdir(project.path("old"))
    names = [f"file{index}" for index in range(2 * size)]
    for name in names:
        (project.folder / "old" / name).write_text(name)

    def exchange() -> None:
        for first, second in zip(names[::2], names[1::2], strict=True):
            os.rename(project.path(f"old/{first}"), project.path("aside"))
            os.rename(project.path(f"old/{second}"), project.path(f"old/{first}"))
            os.rename(project.path("aside"), project.path(f"old/{second}"))
        os.rename(project.path("old"), project.path("new"))

    noted_names = [f"old/{name}" for name in names]
    random.Random(size).shuffle(noted_names)
    cell = project.cell(exchange, removed=" ".join([*noted_names, "old", "new"]))
    counting(project.stack.undo, cell)
    assert project.tree() == {f"old/{name}": name.encode() for name in names}


SCENARIOS = (
    preview_new_folders,
    undo_moved_names,
    preview_names_that_stay,
    undo_exchanged_names,
)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_work_grows_with_the_number_of_files(
    tmp_path: Path, scenario: Callable[[Project, int], None]
) -> None:
    call_counts = [
        count_calls(scenario.__name__, tmp_path / str(size), size) for size in (FEW, MANY)
    ]
    assert call_counts[1] < 15 * call_counts[0]


def count_calls(scenario: str, place: Path, size: int) -> int:
    """Return how many functions a scenario calls while it counts, in a process without other threads:
    Python 3.11 may hang in a profiled call while another thread waits to run."""
    code = f"from pathlib import Path; from {__name__} import *; run_scenario({scenario}, Path({str(place)!r}), {size})"
    done = run_python("-c", code, cwd=Path(__file__).parents[2])
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


def run_scenario(scenario: Callable[[Project, int], None], place: Path, size: int) -> None:
    folder = place / "work"
    folder.mkdir(parents=True)
    scenario(Project(folder, place / "copies"), size)


def counting(action: Callable[[int], UndoPlan], cell: int) -> UndoPlan:
    """Take back a cell, and print how many functions that has called."""
    calls = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        plan = action(cell)
    finally:
        sys.setprofile(None)
    print(calls)
    return plan
