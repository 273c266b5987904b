"""The application starts well, however long each of its imports takes."""

from __future__ import annotations

import json
import subprocess
import sys


def test_slow_imports_on_several_threads_succeed() -> None:
    """Once here; `python -m tests.slow_imports 200` tries as many as it takes to meet a rare
    order."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.slow_imports", "1"],
        capture_output=True,
        text=True,
        check=True,
    )
    reports = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(reports) == 1
    assert [run for run in reports if run["failures"]] == []
    assert [run for run in reports if run["of_two"]] == [], (
        "a library is imported by the main thread and by others at the same time"
    )
    assert {name for run in reports for name in run["early"]} <= {"yaml"}, (
        "others do not wait until the screen has its libraries"
    )
    assert all(run["others"] > 20 for run in reports), (
        "the model's libraries are still imported beside the main thread"
    )
