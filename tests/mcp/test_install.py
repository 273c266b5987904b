"""The server in clients' configurations, the plug-in, and commands for the package manager."""

from __future__ import annotations

import errno
import json
import os
import re
import stat
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from mahtab_tui.cli.mcp import ClientName, configuration_file, install, server_command
from mahtab_tui.mcp.packages import plan_commands
from mahtab_tui.settings.model import SettingsError
from mahtab_tui.version import __version__
from tests.warm import run_program

CHANGELOG = Path(__file__).parents[2] / "CHANGELOG.md"


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return run_program("mcp", *words)


def test_configuration_is_merged_into_the_existing_one(project: Path, home: Path) -> None:
    file = project / ".mcp.json"
    file.write_text('{"mcpServers": {"other": {"command": "x"}}, "more": 1}')
    assert run("install").returncode == 0
    written = json.loads(file.read_text())
    assert (written["more"], set(written["mcpServers"])) == (1, {"other", "mahtab"})
    assert written["mcpServers"]["mahtab"]["args"][-1] == "mcp"
    codex = home / ".codex" / "config.toml"
    codex.parent.mkdir()
    codex.write_text('model = "x"')
    assert run("install", "--client", "codex").returncode == 0
    assert tomllib.loads(codex.read_text())["mcp_servers"]["mahtab"]["args"][-1] == "mcp"
    for client, path in (("codex", codex), ("claude-code", file)):
        text_before = path.read_text()
        again = run("install", "--client", client)
        assert (again.returncode, "already" in again.stderr) == (2, True)
        assert path.read_text() == text_before


@pytest.mark.parametrize(
    ("client", "text"),
    [
        ("claude-code", "[" * 100_000),
        ("claude-code", '{"mcpServers": 3}'),
        ("claude-code", b"\xff"),
        ("claude-code", "{ // a comment\n}"),
        ("codex", 'mcp_servers = { other = { command = "x" } }\n'),
        ("codex", f"a = {'[' * 100_000}"),
        ("codex", f"a = {'9' * 5_000}"),
        ("codex", "mcp_servers = 3"),
        ("codex", 'mcp_servers = "mahtab"'),
    ],
    ids=range(9),
)
def test_configuration_of_another_kind_is_left_unchanged(
    project: Path, home: Path, client: ClientName, text: str | bytes
) -> None:
    path = configuration_file(client, project)
    path.parent.mkdir(exist_ok=True)
    content = text.encode() if isinstance(text, str) else text
    path.write_bytes(content)
    with pytest.raises(SettingsError, match="left as it is"):
        install(client, project)
    assert path.read_bytes() == content


def test_linked_configuration_stays_a_link_with_its_permissions(project: Path) -> None:
    real = project / "dotfiles.json"
    real.write_text("{}")
    real.chmod(0o640)
    (project / ".mcp.json").symlink_to(real)
    assert run("install").returncode == 0
    assert (project / ".mcp.json").is_symlink()
    assert (stat.S_IMODE(real.stat().st_mode), set(json.loads(real.read_text())["mcpServers"])) == (
        0o640,
        {"mahtab"},
    )
    assert sorted(path.name for path in project.iterdir()) == [".mcp.json", "dotfiles.json"]


def test_printing_writes_nothing(project: Path) -> None:
    assert "mahtab" in json.loads(run("install", "--print").stdout)["mcpServers"]
    section = run("install", "--client", "codex", "--print").stdout
    assert "mahtab" in tomllib.loads(section)["mcp_servers"]
    assert list(project.iterdir()) == []
    assert run("install", "--client", "emacs").returncode == 2


def test_client_finds_the_server_at_any_path_with_its_tools_at_once(
    project: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "mahtab-tui").write_text("#!/bin/sh\n")
    (project / "mahtab-tui").chmod(0o755)
    monkeypatch.setenv("PATH", str(project))
    assert server_command() == [str(project / "mahtab-tui"), "mcp"]
    monkeypatch.setenv("PATH", "")
    assert Path(server_command()[0]).is_absolute()
    for file in (install("claude-code", project), Path(run("plugin").stdout.strip()) / ".mcp.json"):
        (server,) = json.loads(file.read_text())["mcpServers"].values()
        assert Path(server["command"]).is_absolute()
        assert server["alwaysLoad"] is True
    (section,) = tomllib.loads(install("codex", project).read_text())["mcp_servers"].values()
    assert Path(section["command"]).is_absolute()
    assert section["required"] is True
    assert section["startup_timeout_sec"] >= 60  # 10 seconds by default
    assert section["tool_timeout_sec"] >= 3600  # a minute by default


def test_plug_in_is_complete(home: Path) -> None:
    folder = home / ".mahtab" / "claude-plugin"
    assert run("plugin").stdout == f"{folder}\n"
    assert stat.S_IMODE(folder.parent.stat().st_mode) == 0o700
    (folder / "commands" / "of-an-older-version.md").touch()
    assert run("plugin").stdout == f"{folder}\n"
    assert json.loads((folder / ".claude-plugin" / "plugin.json").read_text())["name"] == "mahtab"
    manifest = json.loads((folder / ".claude-plugin" / "plugin.json").read_text())
    newest_version = re.search(r"^## (\S+)", CHANGELOG.read_text(), re.MULTILINE)
    assert newest_version is not None
    assert (manifest["version"], newest_version[1]) == (__version__, __version__)
    servers = json.loads((folder / ".mcp.json").read_text())["mcpServers"]
    assert servers["mahtab"]["args"][-1] == "mcp"
    assert " ".join(sorted(path.stem for path in (folder / "commands").glob("*.md"))) == (
        "activate info pkg reset undo"
    )
    head = (folder / "skills" / "persistent-python" / "SKILL.md").read_text().split("---")[1]
    assert "name: persistent-python" in head


async def test_a_script_can_start_the_server() -> None:
    from mcp import Client, StdioServerParameters

    code = "import mahtab_tui; mahtab_tui.start_server()"
    async with Client(StdioServerParameters(command=sys.executable, args=["-c", code])) as client:
        assert "eval" in [tool.name for tool in (await client.list_tools()).tools]


@pytest.fixture
def packaged_project(tmp_path: Path) -> Path:
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    (tmp_path / "inner").mkdir()
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'p'\nversion = '1'\n")
    for file in (".venv/bin/python", ".venv/pyvenv.cfg"):
        (tmp_path / file).touch()
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
    packaged_project: Path, packages: list[str], commands: list[list[str]]
) -> None:
    python = str(packaged_project / ".venv" / "bin" / "python")
    steps = plan_commands("develop", packages, python, packaged_project, uv="uv")
    assert steps.commands == [
        ["uv", *(word.format(project=packaged_project) for word in words)] for words in commands
    ]


def test_unwritable_configuration_is_left_unchanged(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / ".mcp.json").write_text("{}")

    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(SettingsError, match="No space left on device"):
        install("claude-code", project)
    assert [(path.name, path.read_text()) for path in project.iterdir()] == [(".mcp.json", "{}")]
