"""MCP servers in the configuration and in a project's `.mcp.json`."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from mahtab_tui.cli.main import app
from mahtab_tui.settings.mcp_servers import McpServer
from mahtab_tui.settings.model import SettingsError, load_settings
from tests.servers import configure
from tests.trust import trust_project


def project_has(project: Path, content: Any) -> Path:
    file = project / ".mcp.json"
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    return file


def test_project_servers_are_used_only_while_trusted_and_unchanged(
    project: Path,
) -> None:
    file = project_has(
        project,
        {
            "mcpServers": {
                "db": {
                    "type": "stdio",
                    "command": "db",
                    "args": ["--x"],
                    "env": {"A": "1"},
                    "timeout": 5,
                }
            }
        },
    )
    settings = load_settings()
    assert settings.mcp == {}
    assert settings.untrusted == (
        f"{file} sets mcp (line 1), which is not used until you trust it: run mahtab-tui config trust.",
    )
    shown = CliRunner().invoke(app, ["config", "trust", "--yes"])
    assert "'command': 'db', 'args': ['--x'], 'env': {'A': '1'}" in shown.stdout
    assert load_settings().mcp == {"db": McpServer(command="db", args=("--x",), env={"A": "1"})}
    assert load_settings().origin("mcp.db") == (str(file), file)
    project_has(project, {"mcpServers": {"db": {"command": "worse"}}})
    assert load_settings().mcp == {}


def test_users_own_server_overrides_the_projects_of_the_same_name(
    project: Path, home: Path
) -> None:
    project_has(
        project,
        {
            "mcpServers": {
                "db": {"url": "https://theirs.example/mcp"},
                "other": {"command": "other"},
            }
        },
    )
    trust_project()
    configure(home, db={"command": "mine"})
    assert load_settings().mcp == {
        "db": McpServer(command="mine"),
        "other": McpServer(command="other"),
    }


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("{", "not valid JSON"),
        ("[" * 100_000, "not valid JSON"),
        ("[]", 'there is no table "mcpServers"'),
        ({"mcpServers": {"a": 3}}, "the server 'a' is not used: it is not a table."),
        ({"mcpServers": {"a": {}}}, "the server 'a' is not used: give a command or a url."),
        (
            {"mcpServers": {"a": {"type": "sse", "url": "https://x"}}},
            "its type 'sse' is not supported",
        ),
        ({"mcpServers": {"a": {"command": 3}}}, "command: input should be a valid string"),
        (
            {"mcpServers": {"a": {"command": "x", "url": "https://x"}}},
            "give a command or a url, not both",
        ),
        ({"mcpServers": {"a": {"url": "file:///etc/passwd"}}}, "url: string should match pattern"),
    ],
)
def test_broken_file_gives_one_sentence_and_does_not_prevent_startup(
    project: Path, content: Any, sentence: str
) -> None:
    file = project_has(project, content)
    (found,) = load_settings().untrusted
    assert found.startswith(f"{file}: ")
    assert sentence in found


def test_non_regular_file_is_not_read(project: Path) -> None:
    os.mkfifo(project / ".mcp.json")
    assert load_settings().untrusted == (
        f"{project / '.mcp.json'}: not a file, so no server is used.",
    )


def test_wrong_server_of_the_user_is_an_error_with_its_line(project: Path, home: Path) -> None:
    configure(home, db={"comand": "x"})
    with pytest.raises(SettingsError, match=r"config\.toml, line 1: mcp\.db: "):
        load_settings()


def test_variables_are_substituted_when_a_server_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WHERE", "here")
    server = McpServer(
        command="${WHERE}/x", args=("${MISSING:-default}", "a"), env={"K": "${WHERE}"}
    )
    assert server.expanded() == McpServer(
        command="here/x", args=("default", "a"), env={"K": "here"}
    )
    with pytest.raises(LookupError, match="The variable MISSING is not set"):
        McpServer(url="https://x/${MISSING}").expanded()


def test_secrets_of_servers_are_masked_wherever_secrets_are(
    project: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("THE_TOKEN", "tok-123456789")
    configure(
        home,
        a={"command": "x", "env": {"GITHUB_TOKEN": "${THE_TOKEN}", "DEBUG": "verbose-mode"}},
        b={"url": "https://x.example", "headers": {"Authorization": "Bearer abcdefghij"}},
    )
    secrets = load_settings().secrets()
    assert {"tok-123456789", "Bearer abcdefghij", "abcdefghij"} <= set(secrets)
    assert "verbose-mode" not in secrets


@pytest.mark.parametrize(
    "words",
    [["/opt/bin/mahtab-tui", "mcp"], ["/usr/bin/python3", "-P", "-m", "mahtab_tui", "mcp"]],
    ids=["program", "module"],
)
def test_entry_written_by_mcp_install_is_not_our_own_server(
    project: Path, words: list[str]
) -> None:
    own = {"command": words[0], "args": words[1:], "alwaysLoad": True}
    project_has(project, {"mcpServers": {"mahtab": own}})
    settings = load_settings()
    assert (settings.mcp, settings.untrusted) == ({}, ())
    project_has(project, {"mcpServers": {"mahtab": own, "other": {"command": "x"}}})
    assert "mcp" in load_settings().untrusted[0]
