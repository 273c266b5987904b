"""Files under version control."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ALLOWED = set(
    ".ci .gitignore ARCHITECTURE.md CHANGELOG.md CONTRIBUTING.md LICENSE README.md mahtab_tui"
    " pyproject.toml skills styles tests".split()
)


def test_top_level_has_only_known_files() -> None:
    root = Path(__file__).parents[2]
    git = shutil.which("git")
    if git is None or not (root / ".git").exists():
        pytest.skip("not a clone")
    listed = subprocess.run([git, "ls-files"], cwd=root, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip(listed.stderr)
    assert {path.split("/")[0] for path in listed.stdout.splitlines()} == ALLOWED
