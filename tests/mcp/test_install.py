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

from mahtab_tui.cli.client_files import install, program_command, uninstall
from mahtab_tui.cli.mcp_clients import CLIENTS, ClientName
from mahtab_tui.mcp.packages import plan_commands, run_command
from mahtab_tui.settings.model import SettingsError
from mahtab_tui.version import __version__
from tests.e2e.terminal import Terminal
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
    for client, path in (("codex", codex), ("claude", file)):
        text_before = path.read_text()
        again = run("install", "--client", client)
        assert (again.returncode, "already" in again.stderr) == (2, True)
        assert path.read_text() == text_before


def test_former_name_of_claude_code_is_still_known(project: Path, home: Path) -> None:
    printed = run("install", "claude", "--print").stdout
    assert run("install", "--client", "claude-code", "--print").stdout == printed
    assert run("install", "claude-code").returncode == 0
    assert (project / ".mcp.json").read_text() == printed
    assert run("uninstall", "claude-code").returncode == 0
    assert json.loads((project / ".mcp.json").read_text()) == {}


@pytest.mark.parametrize(
    ("client", "text"),
    [
        ("claude", "[" * 100_000),
        ("claude", '{"mcpServers": 3}'),
        ("claude", b"\xff"),
        ("claude", "{ // a comment\n}"),
        ("zed", '{"context_servers": {},}'),
        ("gemini", '{"mcpServers": []}'),
        ("cursor", "[]"),
        ("codex", 'mcp_servers = { other = { command = "x" } }\n'),
        ("codex", f"a = {'[' * 100_000}"),
        ("codex", f"a = {'9' * 5_000}"),
        ("codex", "mcp_servers = 3"),
        ("codex", 'mcp_servers = "mahtab"'),
    ],
    ids=range(12),
)
def test_configuration_of_another_kind_is_left_unchanged(
    project: Path, home: Path, client: ClientName, text: str | bytes
) -> None:
    path = CLIENTS[client].path(project)
    path.parent.mkdir(parents=True, exist_ok=True)
    content = text.encode() if isinstance(text, str) else text
    path.write_bytes(content)
    for change in (install, uninstall):
        with pytest.raises(SettingsError, match="left as it is"):
            change(CLIENTS[client], project)
        assert path.read_bytes() == content


JSON_BEFORE = """{
  "other": 1,
  "%s": {
    "github": {
      "command": "x"
    }
  }
}
"""
TOML_BEFORE = """# mine
model = "x"

[mcp_servers.github]  # theirs
command = "x"
"""


@pytest.mark.parametrize(
    ("client", "file", "key", "fields"),
    [
        ("claude", "{project}/.mcp.json", "mcpServers", {"alwaysLoad": True}),
        ("gemini", "{home}/.gemini/settings.json", "mcpServers", {"timeout": 86_400_000}),
        ("cursor", "{project}/.cursor/mcp.json", "mcpServers", {}),
        ("zed", "{home}/.config/zed/settings.json", "context_servers", {"source": "custom"}),
        (
            "codex",
            "{home}/.codex/config.toml",
            "mcp_servers",
            {"required": True, "startup_timeout_sec": 120, "tool_timeout_sec": 86_400},
        ),
    ],
)
def test_each_client_gets_its_format_and_uninstalling_undoes_it(
    project: Path, home: Path, client: ClientName, file: str, key: str, fields: dict[str, object]
) -> None:
    path = Path(file.format(project=project, home=home))
    is_toml = path.suffix == ".toml"
    text = TOML_BEFORE if is_toml else JSON_BEFORE % key
    for text_before in (None, text):
        if text_before is not None:
            path.write_text(text_before)
        assert f"Written to {path}." in run("install", client).stdout
        servers = (tomllib.loads if is_toml else json.loads)(path.read_text())[key]
        program, *arguments = program_command("mcp")
        assert servers["mahtab"] == {"command": program, "args": arguments, **fields}
        assert ("github" in servers) == (text_before is not None)

        assert run("uninstall", "--client", client).stdout == f"Removed from {path}.\n"
        assert path.read_text() == (text_before or ("" if is_toml else "{}\n"))
        again = run("uninstall", client)
        assert again.returncode == 2
        assert "has no server named mahtab. It was left as it is." in again.stderr
    assert set(CLIENTS) == {"claude", "codex", "gemini", "cursor", "zed"}


MAHTAB = 'command = "mahtab-tui"\nargs = [\n  "mcp",\n]\n'


@pytest.mark.parametrize(
    ("text", "text_after"),
    [
        (
            f"# mine\n\n[mcp_servers.mahtab]\n# ours\n{MAHTAB}\n# theirs\n[other]\n",
            "# mine\n\n# theirs\n[other]\n",
        ),
        (f"[mcp_servers.mahtab]\n{MAHTAB}\n# the end\n", "# the end\n"),
        (f"[mcp_servers.mahtab]\n{MAHTAB}[a]\n[mcp_servers.mahtab.env]\nb = 1\n", "[a]\n"),
        ('[ mcp_servers . mahtab ]\nargs = [\n["x"],\n]\n[b]\n', "[b]\n"),
        ('mcp_servers = { mahtab = { command = "x" }, b = {} }\n', "mcp_servers = { b = {} }\n"),
        (
            '[mcp_servers]\nmahtab.command = "x"\nb.command = "y"\n',
            '[mcp_servers]\nb.command = "y"\n',
        ),
        (
            '[a]\nb = """\n[mcp_servers.mahtab]\n"""\n[mcp_servers.mahtab]\n',
            '[a]\nb = """\n[mcp_servers.mahtab]\n"""\n',
        ),
    ],
)
def test_uninstalling_from_any_form_of_toml_leaves_the_rest(
    home: Path, text: str, text_after: str
) -> None:
    path = home / ".codex" / "config.toml"
    path.parent.mkdir()
    path.write_text(text)
    assert run("uninstall", "codex").returncode == 0
    assert re.sub(" +", " ", path.read_text()) == text_after


def test_client_that_is_named_twice_is_refused(project: Path) -> None:
    for command in ("install", "uninstall"):
        done = run(command, "cursor", "--client", "gemini")
        assert done.returncode == 2
        assert done.stderr == "mahtab-tui: The client is given twice: leave out --client.\n"
    assert list(project.iterdir()) == []


def test_codex_may_have_its_configuration_in_another_folder(
    project: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CODEX_HOME", str(project / "codex"))
    assert f"Written to {project / 'codex' / 'config.toml'}." in run("install", "codex").stdout
    assert "mahtab" in tomllib.loads((project / "codex" / "config.toml").read_text())["mcp_servers"]
    assert not (home / ".codex").exists()


@pytest.mark.parametrize(("key", "is_written"), [("y", True), ("n", False)])
def test_entry_is_shown_and_confirmed_at_a_terminal(
    project: Path, key: str, is_written: bool
) -> None:
    with Terminal(["mcp", "install", "cursor"], cwd=project, warm=True) as terminal:
        terminal.wait(r"(?s)mcp\.json gets this entry:.*\"mahtab\".*Write it\?")
        assert not (project / ".cursor").exists()
        terminal.type(f"{key}\r")
        assert terminal.wait_end() == (0 if is_written else 1)
    assert (project / ".cursor" / "mcp.json").exists() == is_written


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
    assert program_command("mcp") == [str(project / "mahtab-tui"), "mcp"]
    monkeypatch.setenv("PATH", "")
    assert Path(program_command("mcp")[0]).is_absolute()
    for file in (
        install(CLIENTS["claude"], project),
        Path(run("plugin").stdout.strip()) / ".mcp.json",
    ):
        (server,) = json.loads(file.read_text())["mcpServers"].values()
        assert Path(server["command"]).is_absolute()
        assert server["alwaysLoad"] is True
    (section,) = tomllib.loads(install(CLIENTS["codex"], project).read_text())[
        "mcp_servers"
    ].values()
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
    manifest = json.loads((folder / ".claude-plugin" / "plugin.json").read_text())
    assert manifest["name"] == "mahtab"
    newest_version = re.search(r"^## (\S+)", CHANGELOG.read_text(), re.MULTILINE)
    assert newest_version is not None
    for_codex = json.loads((folder / ".codex-plugin" / "plugin.json").read_text())
    assert {**manifest, **for_codex} == {**for_codex, **manifest}, "both say the same"
    assert (folder / for_codex["skills"] / "mahtab" / "SKILL.md").is_file()
    marketplace = json.loads((folder / ".agents" / "plugins" / "marketplace.json").read_text())
    assert [plugin["name"] for plugin in marketplace["plugins"]] == ["mahtab"]
    assert (manifest["version"], newest_version[1]) == (__version__, __version__)
    servers = json.loads((folder / ".mcp.json").read_text())["mcpServers"]
    assert servers["mahtab"]["args"][-1] == "mcp"
    assert " ".join(sorted(path.stem for path in (folder / "commands").glob("*.md"))) == (
        "activate info pkg reset undo"
    )
    assert servers["mahtab"]["alwaysLoad"] is True
    assert servers["mahtab"]["tool_timeout_sec"] >= 3600
    skill = (folder / "skills" / "mahtab" / "SKILL.md").read_text()
    assert "name: mahtab" in skill.split("---")[1]
    assert skill.count("\n") <= 60


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


@pytest.mark.parametrize(
    ("python", "uv", "missing"),
    [(".venv/bin/python", "", "uv"), ("/nowhere/python", "uv", "an active environment")],
)
def test_note_says_what_is_missing_to_change_the_projects_file(
    packaged_project: Path, python: str, uv: str, missing: str
) -> None:
    steps = plan_commands("add", ["six"], str(packaged_project / python), packaged_project, uv=uv)
    assert steps.note == f"pyproject.toml was not changed: that needs {missing}."


async def test_output_that_ends_within_a_character_is_shown_to_its_end(tmp_path: Path) -> None:
    pieces: list[str] = []

    async def add(text: str) -> None:
        pieces.append(text)

    command = [sys.executable, "-c", r"import os; os.write(1, b'caf\xc3')"]
    assert await run_command(command, tmp_path, {}, add) == 0
    assert "".join(pieces) == "caf\ufffd"


def test_unwritable_configuration_is_left_unchanged(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / ".mcp.json").write_text("{}")

    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(SettingsError, match="No space left on device"):
        install(CLIENTS["claude"], project)
    assert [(path.name, path.read_text()) for path in project.iterdir()] == [(".mcp.json", "{}")]
