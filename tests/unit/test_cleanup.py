"""Leftovers of programs that were killed are removed; files in use are not."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mahtab_tui.bus.logger import DisplayHandler
from mahtab_tui.kernel.inprocess import InProcessKernel
from mahtab_tui.session import Session
from mahtab_tui.session.components import remove_leftovers
from mahtab_tui.session.info import HeadlessFrontend
from mahtab_tui.session.sharing import share_folder
from mahtab_tui.settings.model import load_settings
from mahtab_tui.store.database import lock_session
from mahtab_tui.tui.open import _report_leftovers

HOLDS = "import sys, time; from mahtab_tui.store.database import lock_session; lock = lock_session('other'); print('held', flush=True); time.sleep(1000)"


def test_locks_and_sockets_are_removed_with_their_program(home: Path) -> None:
    mine = lock_session("mine")
    assert mine is not None
    with (
        subprocess.Popen([sys.executable, "-c", HOLDS], stdout=subprocess.PIPE) as other,
        socket.socket(socket.AF_UNIX) as gone,
    ):
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        gone.bind(str(share_folder() / "1.sock"))
        locks = home / ".mahtab" / "open"
        remove_leftovers()
        assert sorted(path.name for path in locks.iterdir()) == [
            "session-mine.lock",
            "session-other.lock",
        ]
        assert list(share_folder().iterdir()) == []
        other.kill()
    remove_leftovers()
    assert [path.name for path in locks.iterdir()] == ["session-mine.lock"]
    mine.release()


def test_old_pictures_and_folders_of_earlier_versions_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    for name in ("mahtab-claude-old", "mahtab-claude-new", "other-old"):
        (tmp_path / name / "empty").mkdir(parents=True)
    (tmp_path / "mahtab-picture-old.png").touch()
    (tmp_path / "mahtab-picture-new.png").touch()
    (tmp_path / "mahtab-claude-link").symlink_to(tmp_path / "other-old")
    made = {
        path.name for path in tmp_path.iterdir()
    }  # a thread that another test has left may make more
    yesterday = time.time() - 25 * 60 * 60
    for name in ("mahtab-claude-old", "mahtab-picture-old.png", "other-old", "mahtab-claude-link"):
        os.utime(tmp_path / name, (yesterday, yesterday), follow_symlinks=False)
    remove_leftovers()
    left = {"mahtab-claude-link", "mahtab-claude-new", "mahtab-picture-new.png", "other-old"}
    assert made & {path.name for path in tmp_path.iterdir()} == left
    assert (tmp_path / "other-old" / "empty").exists()


def test_damaged_store_is_reported_to_screen_and_watchers_whoever_finds_it(
    home: Path, project: Path
) -> None:
    path = home / ".mahtab" / "sessions.db"
    path.parent.mkdir()
    path.write_bytes(b"this is no database, it only says so" * 1000)
    session = Session(load_settings(model="demo"), InProcessKernel({}), HeadlessFrontend())
    screen = DisplayHandler()
    session.listen(lambda log: log.addHandler(screen))
    session.build()
    _report_leftovers(session)
    (notice,) = screen.pop_records()
    assert "was damaged" in notice.text
    assert not path.exists()
    assert session.broadcast.watch().get_nowait() == notice
    session.close()
