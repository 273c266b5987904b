"""Imports that happen when something is first used, perhaps on several threads at once."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import threading
from pathlib import Path

import pytest

from mahtab_tui.worker import stdlib

begun, go = threading.Event(), threading.Event()

SLOW = f"""
import sys
test = sys.modules[{__name__!r}]
test.begun.set()
test.go.wait(20)
READY = True
"""


def test_threads_wait_for_a_module_and_the_path_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "slowly_imported.py").write_text(SLOW)
    monkeypatch.setattr(stdlib, "_PATH", [str(tmp_path), *stdlib._PATH])
    before = sys.path
    found: list[bool] = []
    threads = [
        threading.Thread(target=lambda: found.append(stdlib.late_import("slowly_imported").READY))
        for _ in range(4)
    ]
    threads[0].start()
    assert begun.wait(20)
    for thread in threads[1:]:
        thread.start()
    threads[1].join(0.2)  # one that does not wait has its module by now, without READY
    go.set()
    for thread in threads:
        thread.join()
    assert found == [True] * 4
    assert sys.path is before
    del sys.modules["slowly_imported"]


def test_other_threads_import_their_own_modules_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cell could not import from its folder while the control thread loaded something, and what
    it appended to `sys.path` was lost."""
    (tmp_path / "ours").mkdir()
    (tmp_path / "ours" / "slowly_imported.py").write_text(SLOW)
    (tmp_path / "ours" / "hidden.py").touch()
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "of_a_cell.py").write_text("FOUND = True\n")
    monkeypatch.setattr(stdlib, "_PATH", [str(tmp_path / "ours"), *stdlib._PATH])
    monkeypatch.setattr(sys, "path", list(sys.path))
    begun.clear()
    go.clear()
    loading = threading.Thread(target=stdlib.late_import, args=("slowly_imported",))
    loading.start()
    try:
        assert begun.wait(20)
        sys.path.append(str(tmp_path / "theirs"))
        assert importlib.import_module("of_a_cell").FOUND
        assert importlib.util.find_spec("hidden") is None
    finally:
        go.set()
        loading.join()
    assert sys.path[-1] == str(tmp_path / "theirs")
    for name in ("slowly_imported", "of_a_cell"):
        del sys.modules[name]


def test_modules_next_to_the_users_data_are_not_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "beside_the_data.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="beside_the_data"):
        stdlib.late_import("beside_the_data")
