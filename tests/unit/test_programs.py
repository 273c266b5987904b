"""Programs on the PATH."""

from __future__ import annotations

from pathlib import Path

import pytest

from mahtab_tui.llm.claude_process import login_environment
from mahtab_tui.system.processes import find_program
from tests.integration.kernels import executable


@pytest.mark.parametrize("path", ["", ".", ":{}", "{}:", ".:{}", "bin:{}"])
def test_program_in_the_project_is_not_found_by_its_name(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, path: str
) -> None:
    for folder in (tmp_path / "project", tmp_path / "project" / "bin", tmp_path / "bin"):
        folder.mkdir(parents=True)
        executable(folder / "claude", "#!/bin/sh\n")
    monkeypatch.chdir(tmp_path / "project")
    monkeypatch.setenv("PATH", path.format(tmp_path / "bin"))
    wanted = str(tmp_path / "bin") if "{}" in path else ""
    assert find_program("claude") == (f"{wanted}/claude" if wanted else None)
    assert login_environment(use_api_key=False)["PATH"] == wanted
