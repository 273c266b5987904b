"""Which commands stand for what is asked of the package manager."""

from __future__ import annotations

from pathlib import Path

import pytest

from mahtab_tui.mcp.packages import PackageError, plan_commands


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with a pyproject.toml and an environment."""
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'p'\nversion = '1'\n")
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    (tmp_path / ".venv" / "bin" / "python").touch()
    (tmp_path / ".venv" / "pyvenv.cfg").touch()
    (tmp_path / "inner").mkdir()
    return tmp_path


@pytest.mark.parametrize(
    ("packages", "commands"),
    [
        (["."], [["sync"]]),
        (["inner/.."], [["sync"]]),
        (["../other"], [["add", "--editable", "{project}/../other"]]),
        (["../other", "."], [["add", "--editable", "{project}/../other"], ["sync"]]),
    ],
)
def test_project_itself_is_editable_when_installed(
    project: Path, packages: list[str], commands: list[list[str]]
) -> None:
    steps = plan_commands(
        "develop", packages, str(project / ".venv" / "bin" / "python"), project, uv="uv"
    )
    assert steps.commands == [
        ["uv", *(word.format(project=project) for word in words)] for words in commands
    ]


def test_missing_packages_are_refused(project: Path) -> None:
    with pytest.raises(PackageError, match="or folders"):
        plan_commands("develop", [], str(project / ".venv" / "bin" / "python"), project, uv="uv")
