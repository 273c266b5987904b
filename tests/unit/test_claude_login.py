"""How the `claude` program reaches its service: with the person's logins and gateways, and without
the key that it would bill."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from langchain_core.messages import HumanMessage

from mahtab_tui.cli import doctor
from mahtab_tui.llm.base import ModelError
from mahtab_tui.llm.claude_process import gateway_address, login_environment, login_hint
from mahtab_tui.llm.providers import get_llm
from mahtab_tui.settings.model import load_settings
from tests.fake_claude import FakeClaude, install_fake_claude

KEY, TOKEN, GATEWAY = "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL"


def install(
    folder: Path, monkeypatch: pytest.MonkeyPatch, behaviour: str, **options: str
) -> FakeClaude:
    fake = install_fake_claude(folder, behaviour, **options)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return fake


def write_settings(folder: Path, settings: object) -> None:
    folder.mkdir(parents=True)
    (folder / "settings.json").write_text(
        settings if isinstance(settings, str) else json.dumps(settings)
    )


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("https://gw.example?key=SECRET", "https://gw.example"),
        ("https://gw.example:8443/SECRET#SECRET", "https://gw.example:8443"),
        ("user:SECRET@gw.example/path", "gw.example"),
        ("gw.example/v1/SECRET", "gw.example"),
        ("https://user:SEC/RET@gw.example", "a gateway"),
        ("https://[SECRET", "a gateway"),
    ],
)
def test_only_the_host_of_an_address_is_shown(
    monkeypatch: pytest.MonkeyPatch, address: str, shown: str
) -> None:
    monkeypatch.setenv(GATEWAY, address)
    assert gateway_address() == shown


def test_key_is_withheld_unless_the_user_wants_it_billed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(KEY, "a key")
    monkeypatch.setenv(TOKEN, "a token")
    assert KEY not in login_environment(use_api_key=False)
    assert login_environment(use_api_key=False)[TOKEN] == "a token"
    assert login_environment(use_api_key=True)[KEY] == "a key"


def test_a_gateway_of_the_shell_is_used_with_its_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(GATEWAY, "https://gateway.test")
    monkeypatch.setenv(KEY, "the gateway's key")
    given = login_environment(use_api_key=False)
    assert (given[GATEWAY], given[KEY]) == ("https://gateway.test", "the gateway's key")
    assert login_hint(use_api_key=False) == f"Requests go to https://gateway.test ({GATEWAY})."


@pytest.mark.parametrize("directory", [None, "elsewhere"])
def test_gateway_of_claudes_own_settings_keeps_the_shells_key(
    home: Path, monkeypatch: pytest.MonkeyPatch, directory: str | None
) -> None:
    monkeypatch.setenv(KEY, "the gateway's key")
    monkeypatch.setenv(GATEWAY, "https://of-the-shell.test")
    if directory:
        monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(home / directory))
    write_settings(
        home / (directory or ".claude"),
        {"env": {GATEWAY: "https://user:password@of-settings.test:8443/v1/a-key@b"}},
    )
    assert gateway_address() == "https://of-settings.test:8443"
    assert login_environment(use_api_key=False)[KEY] == "the gateway's key"


@pytest.mark.parametrize(
    "settings",
    [
        "{",
        "[]",
        "[" * 100_000,
        {"env": []},
        {"env": {GATEWAY: 5}},
        {"env": {GATEWAY: ""}},
        {"hooks": {}},
    ],
)
def test_settings_without_a_gateway_give_none(home: Path, settings: object) -> None:
    write_settings(home / ".claude", settings)
    assert gateway_address() == ""


def test_login_error_mentions_the_unused_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path / "bin", monkeypatch, "recording", recording="nokey")
    monkeypatch.setenv(KEY, "a key")
    with pytest.raises(
        ModelError,
        match=rf"Run `claude`, then /login in it\. {KEY} is set but was not passed .*config set claude_api_key true",
    ):
        get_llm("claude").invoke([HumanMessage("hello")])
    monkeypatch.delenv(KEY)
    with pytest.raises(ModelError, match=r"then /login in it\.$"):
        get_llm("claude").invoke([HumanMessage("hello")])


@pytest.mark.parametrize("wanted", [True, False])
def test_setting_passes_the_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wanted: bool
) -> None:
    fake = install(tmp_path / "bin", monkeypatch, "recording", recording="success")
    monkeypatch.setenv(KEY, "a key")
    monkeypatch.setenv("MAHTAB_CLAUDE_API_KEY", str(wanted))
    get_llm("claude", **load_settings().model_access()).invoke([HumanMessage("hello")])
    assert fake.starts[0]["keys"] == ([KEY] if wanted else [])


@pytest.mark.parametrize(
    ("status", "line"),
    [
        (
            {
                "loggedIn": True,
                "authMethod": "claude.ai",
                "subscriptionType": "max",
                "apiProvider": "firstParty",
            },
            "✓ login       claude.ai, max",
        ),
        (
            {"loggedIn": True, "authMethod": "third_party", "apiProvider": "bedrock"},
            "✓ login       third_party, bedrock",
        ),
        ({"loggedIn": False, "authMethod": "none"}, "! login       not logged in to `claude`"),
        ("Usage: claude [options]", "! login       unknown"),
        ([], "! login       unknown"),
    ],
)
def test_the_doctor_asks_claude_who_is_logged_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: object, line: str
) -> None:
    fake = install(
        tmp_path / "bin",
        monkeypatch,
        "answers",
        auth=status if isinstance(status, str) else json.dumps(status),
    )
    monkeypatch.setenv(KEY, "a key")
    found = doctor._login(str(shutil.which("claude")), use_api_key=False)
    assert found.startswith(line)
    assert (f"{KEY} is set but was not passed" in found) is ("unknown" not in line)
    assert fake.received == [{"auth": ["--safe-mode", "--setting-sources", "user"], "keys": []}]
