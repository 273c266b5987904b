"""Notebooks that are kept up to date while the session goes on."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import pytest

from mahtab_tui.bus import records
from mahtab_tui.export.writing import write_text as write_file
from tests.notebooks import text_of
from tests.unit.notebook_bench import Bench, again, notices, story
from tests.unit.test_export import cell as ran
from tests.waiting import wait_for


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mahtab_tui.session.notebooks.PAUSE", 0.01)


def sources(path: Path) -> list[str]:
    return [cell.source for cell in nbformat.read(path, as_version=4).cells]


@pytest.mark.usefixtures("quick")
def test_new_notebook_grows_with_the_session(
    tmp_path: Path, open_bench: Callable[..., Bench]
) -> None:
    path = tmp_path / "new.ipynb"
    it = open_bench(path, saved=True)
    assert not path.exists()
    it.happen(*ran(1, "x = 1", ("stdout", "1\n")))
    wait_for(path.exists)
    assert sources(path) == ["x = 1"]
    made = nbformat.read(path, as_version=4)
    nbformat.validate(made)
    assert made.metadata.kernelspec.name == "python3"
    it.happen(
        *ran(2, "y = 2"),
        records.Hide(entry="cell 2", hidden=True),
        records.Undo("Undone.", cells=(1,), undone=True),
    )
    wait_for(
        lambda: (
            len(sources(path)) == 2
            and nbformat.read(path, as_version=4).cells[0].metadata.mahtab.get("undone")
        )
    )
    assert nbformat.read(path, as_version=4).cells[1].metadata.mahtab.hidden
    assert not it.notebook.unsaved
    assert sorted(os.listdir(tmp_path)) == ["new.ipynb"]


def test_pending_changes_are_written_at_the_end_and_only_if_any(
    tmp_path: Path, open_bench: Callable[..., Bench]
) -> None:
    path = story(tmp_path)
    it = open_bench(path, saved=True)
    before = path.stat().st_mtime_ns
    it.notebook.flush()
    assert path.stat().st_mtime_ns == before
    it.happen(*ran(1, "x"))
    it.notebook.flush()  # as when a signal ends the program
    assert len(sources(path)) == 4
    it.happen(*ran(2, "y"))
    it.notebook.end()
    written = path.stat().st_mtime_ns
    it.notebook.end()
    it.close()
    assert path.stat().st_mtime_ns == written
    assert len(sources(path)) == 5


@pytest.mark.usefixtures("quick")
def test_vanished_folder_is_reported_once_and_retried(
    tmp_path: Path, open_bench: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts: list[Path] = []

    def counted(path: Path, *rest: Any) -> str:
        attempts.append(path)
        return write_file(path, *rest)

    monkeypatch.setattr("mahtab_tui.export.writing.write_text", counted)
    folder = tmp_path / "there"
    folder.mkdir()
    it = open_bench(folder / "a.ipynb", saved=True)
    folder.rename(tmp_path / "gone")
    it.happen(*ran(1, "x"))
    wait_for(lambda: notices(it))
    it.happen(*ran(2, "y"))
    wait_for(lambda: len(attempts) > 3)
    assert it.notebook.unsaved
    assert notices(it) == ["a.ipynb cannot be written: No such file or directory."]
    (tmp_path / "gone").rename(folder)
    wait_for(lambda: notices(it)[1:] == ["Saving a.ipynb works again."])
    assert sources(folder / "a.ipynb") == ["x", "y"]


@pytest.mark.usefixtures("quick")
def test_notebook_continues_in_a_new_file_after_a_foreign_change(
    tmp_path: Path, open_bench: Callable[..., Bench]
) -> None:
    path, second, third = story(tmp_path), tmp_path / "it (2).ipynb", tmp_path / "it (3).ipynb"
    it = open_bench(path, saved=True)
    theirs = text_of(nbformat.v4.new_notebook())
    path.write_text(theirs)
    second.symlink_to(tmp_path / "nowhere")
    it.happen(*ran(1, "x"))
    wait_for(lambda: notices(it))
    it.happen(*ran(2, "y"))
    it.notebook.flush()
    assert notices(it) == [
        "Another program has changed it.ipynb, so this session is now saved in it (3).ipynb."
    ]
    assert path.read_text() == theirs
    assert not second.exists()
    assert sources(third)[-2:] == ["x", "y"]
    later = open_bench(third, it.records())
    later.happen(*ran(3, "z"))
    later.notebook.save()
    assert sources(third) == ["# Title", "x = 1", "x + 1", "x", "y", "z"]


def test_late_notebook_contains_the_whole_session(
    tmp_path: Path, open_bench: Callable[..., Bench]
) -> None:
    it = open_bench(story(tmp_path))
    it.happen(*again(2, 1, "x = 5"), *ran(2, "y = 2"))
    later = open_bench(tmp_path / "later.ipynb", it.records(), saved=True)
    later.notebook.flush()
    assert sources(tmp_path / "later.ipynb") == ["x = 5", "y = 2"]
    assert sources(tmp_path / "it.ipynb") == ["# Title", "x = 1", "x + 1"]
