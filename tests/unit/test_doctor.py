"""Report of the doctor on the folder of sessions."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from mahtab_tui.cli import doctor


@pytest.mark.parametrize(("free", "mark"), [(5, "!"), (500, "✓")])
def test_full_disk_is_reported(
    home: Path, monkeypatch: pytest.MonkeyPatch, free: int, mark: str
) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda path: SimpleNamespace(free=free * 2**20))
    line = doctor._home()
    assert line.startswith(f"{mark} home")
    assert (f"{free} MiB free" in line, "The disk is full" in line) == (True, mark == "!")


def test_unwritable_folder_is_reported(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert "cannot be written to" in doctor._home()


@pytest.mark.parametrize(
    ("steps", "platform", "line"),
    [
        (
            "7",
            "linux",
            "✓ undo        7 cells, 1,024 MB of memory at most (undo_steps, undo_memory)",
        ),
        ("0", "linux", "✓ undo        off (undo_steps is 0)"),
        (
            "7",
            "darwin",
            "! undo        7 cells, 1,024 MB of memory at most (undo_steps, undo_memory)\n",
        ),
        ("many", "linux", "✓ undo        not known"),
    ],
)
def test_undo_limits_are_shown(
    project: Path, monkeypatch: pytest.MonkeyPatch, steps: str, platform: str, line: str
) -> None:
    monkeypatch.setenv("MAHTAB_UNDO_STEPS", steps)
    monkeypatch.setattr("sys.platform", platform)
    report = doctor._undo(doctor._settings()[0])
    assert report.startswith(line) if platform == "darwin" else report == line


@pytest.mark.parametrize(
    ("keep", "platform", "line"),
    [
        (
            "true",
            "linux",
            "✓ variables   3 MB saved across all sessions, 1,024 MB at most per session (keep_namespace_mb)",
        ),
        (
            "false",
            "linux",
            "✓ variables   not saved (keep_namespace is false); 3 MB saved across all sessions",
        ),
        (
            "true",
            "darwin",
            "! variables   3 MB saved across all sessions, 1,024 MB at most per session (keep_namespace_mb)\n",
        ),
        ("perhaps", "linux", "✓ variables   not known"),
    ],
)
def test_saved_variables_are_shown(
    home: Path, project: Path, monkeypatch: pytest.MonkeyPatch, keep: str, platform: str, line: str
) -> None:
    for session in ("session-a", "session-b"):
        folder = home / ".mahtab" / "namespaces" / session
        folder.mkdir(parents=True)
        (folder / "1.variables").write_bytes(bytes(3 * 2**19))
    monkeypatch.setenv("MAHTAB_KEEP_NAMESPACE", keep)
    monkeypatch.setattr("sys.platform", platform)
    report = doctor._variables(doctor._settings()[0])
    assert report.startswith(line) if platform == "darwin" else report == line
