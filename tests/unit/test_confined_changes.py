"""Code of a check changes files in one folder only."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from mahtab_tui.worker.guard.confined_changes import unavailable_reason

_TRIES = """
import os, sys
from mahtab_tui.worker.guard.confined_changes import confine_changes
folder = sys.argv[1]
confine_changes(folder)
for path in (f"{folder}/inside", f"{folder}.trial/beside", "/dev/null"):
    try:
        open(path, "w").close()
        print(os.path.basename(path), "written")
    except PermissionError:
        print(os.path.basename(path), "refused")
"""


@pytest.mark.skipif(bool(unavailable_reason()), reason="changes cannot be confined here")
def test_only_files_in_the_folder_and_devices_are_written(tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    folder.mkdir()
    (tmp_path / "copy.trial").mkdir()
    command = [sys.executable, "-c", _TRIES, str(folder)]
    tried = subprocess.run(command, capture_output=True, text=True, check=True)
    assert tried.stdout.splitlines() == ["inside written", "beside refused", "null written"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copy", "copy.trial"]
