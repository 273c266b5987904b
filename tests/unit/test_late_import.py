"""Imports that happen when something is first used, perhaps on several threads at once."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import pytest

from mahtab_tui.kernel.worker import stdlib

begun, go = threading.Event(), threading.Event()

SLOW = f"""
import sys
test = sys.modules[{__name__!r}]
test.begun.set()
test.go.wait(20)
READY = True
"""


def test_threads_wait_for_a_module_and_the_path_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "slowly_imported.py").write_text(SLOW)
    monkeypatch.setattr(stdlib, "_PATH", [str(tmp_path), *stdlib._PATH])
    before = sys.path
    found: list[bool] = []
    threads = [threading.Thread(target=lambda: found.append(stdlib.late_import("slowly_imported").READY)) for _ in range(4)]
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
