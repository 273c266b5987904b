"""How editors are told of the program."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from mahtab_tui.acp.commands import COMMANDS
from mahtab_tui.version import __version__
from tests.waiting import run_python

PACKAGE = Path(__file__).parents[2] / "mahtab_tui"


def run(*arguments: str) -> CompletedProcess[str]:
    return run_python("-m", "mahtab_tui", "acp", *arguments)


@pytest.mark.parametrize(
    ("editor", "file", "more"),
    [
        ("zed", ".config/zed/settings.json", {"type": "custom"}),
        ("jetbrains", ".jetbrains/acp.json", {"env": {}}),
    ],
)
def test_entry_is_added_beside_others_and_removed_again(
    project: Path, home: Path, editor: str, file: str, more: dict[str, object]
) -> None:
    path = home / file
    path.parent.mkdir(parents=True)
    before = {"theme": "dark", "agent_servers": {"other": {"command": "x"}}}
    path.write_text(json.dumps(before))
    assert run("install", editor).returncode == 0
    after = json.loads(path.read_text())
    entry = after["agent_servers"].pop("mahtab")
    assert after == before
    assert Path(entry["command"]).is_absolute()
    assert entry["args"][-1] == "acp"
    assert more.items() <= entry.items()
    refused = run("install", editor)
    assert refused.returncode != 0
    assert "mahtab-tui acp uninstall NAME" in " ".join(refused.stderr.split())
    printed = json.loads(run("install", editor, "--print").stdout)
    assert printed == {"agent_servers": {"mahtab": entry}}

    again = run("install", editor)
    assert again.returncode == 2
    assert "mahtab-tui acp uninstall" in again.stderr
    assert run("uninstall", editor).returncode == 0
    assert json.loads(path.read_text()) == before


def test_toad_gets_a_command(project: Path, home: Path) -> None:
    printed = run("install", "toad").stdout
    assert printed.startswith("toad acp '")
    assert printed.endswith(" acp'\n")
    assert list(home.iterdir()) == []


def test_entry_of_the_registry_names_this_version() -> None:
    entry = json.loads((PACKAGE / "acp" / "agent.json").read_text())
    project = tomllib.loads((PACKAGE.parent / "pyproject.toml").read_text())["project"]
    assert entry["version"] == __version__
    assert entry["license"] == project["license"]
    distribution = entry["distribution"]["uvx"]
    assert distribution == {"package": f"{project['name']}[acp]=={__version__}", "args": ["acp"]}
    assert "acp" in project["optional-dependencies"]


def test_page_names_all_commands() -> None:
    page = (PACKAGE / "manual" / "editors.md").read_text()
    assert [name for name in (*COMMANDS, "rewind") if f"`/{name}" not in page] == []
