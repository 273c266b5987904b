"""Going on where the working directory was deleted."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mahtab_tui.system.processes import existing_folder, leave_deleted_folder


def test_folder_is_itself_or_its_nearest_existing_parent(tmp_path: Path, home: Path) -> None:
    inner = tmp_path / "a" / "b"
    assert existing_folder(str(inner)) == str(tmp_path)
    inner.mkdir(parents=True)
    assert existing_folder(str(inner)) == str(inner)
    (tmp_path / "file").touch()
    assert existing_folder(str(tmp_path / "file" / "below")) == str(tmp_path)
    assert existing_folder("") == existing_folder("relative") == str(home)


def test_process_leaves_a_deleted_folder_and_reports_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "a" / "b"
    gone.mkdir(parents=True)
    monkeypatch.chdir(gone)
    assert leave_deleted_folder() == ""
    gone.rmdir()
    gone.parent.rmdir()
    assert (
        leave_deleted_folder()
        == f"The working directory {gone} can no longer be used; it is now {tmp_path}."
    )
    assert os.getcwd() == str(tmp_path)
