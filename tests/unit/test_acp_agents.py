"""Agents of other programs in the settings: how they are started, and what they get."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mahtab_tui.cli import doctor
from mahtab_tui.llm.base import ModelError
from mahtab_tui.llm.choices import offered_models
from mahtab_tui.llm.names import agent_name, full_name, model_label
from mahtab_tui.llm.providers import check_model, get_llm
from mahtab_tui.settings.acp_agents import AcpAgent, find_agent
from mahtab_tui.settings.model import SettingsError, load_settings
from mahtab_tui.settings.values import list_settings
from tests.config_files import config_file


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the programs `goose` and `mine`, alone on the PATH."""
    folder = tmp_path / "programs"
    folder.mkdir()
    for name in ("goose", "mine"):
        (folder / name).write_text("#!/bin/sh\n")
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))
    return folder


def test_a_known_agent_takes_what_is_configured() -> None:
    configured = {"claude": AcpAgent(env={"A": "1"}, options={"model": "opus"})}
    agent = find_agent("claude", configured)
    assert agent is not None
    assert agent.command == ("claude-agent-acp",)
    assert agent.options == {"mode": "default", "model": "opus"}
    assert agent.env["A"] == "1"
    assert find_agent("mine", {}) is None
    assert find_agent("mine", {"mine": AcpAgent()}) is None
    other = find_agent("goose", {"goose": AcpAgent(command=("other",))})
    assert other is not None
    assert other.command == ("other",)


def test_the_name_of_an_agent_is_that_of_no_model() -> None:
    assert (agent_name("acp:claude"), agent_name("claude"), agent_name("acp:")) == (
        "claude",
        "",
        "",
    )
    assert model_label("acp:claude") == "claude"
    assert full_name("acp:claude", "openai") == "acp:claude"
    with pytest.raises(ModelError, match="is an agent, which only answers questions"):
        get_llm("acp:claude")


def test_a_missing_agent_says_how_to_get_it(programs: Path) -> None:
    check_model("acp:goose")
    check_model("acp:mine", agents={"mine": AcpAgent(command=("mine", "--acp"))})
    with pytest.raises(
        ModelError, match=r"codex-acp, which is not on the PATH\. Install it with: npm"
    ):
        check_model("acp:codex")
    with pytest.raises(ModelError, match=r"There is no agent 'nobody'\. Agents: claude, codex, "):
        check_model("acp:nobody")
    with pytest.raises(ModelError, match="There is no model 'acp'"):
        check_model("acp")


def test_doctor_and_the_list_of_models_name_installed_agents(programs: Path) -> None:
    agents = {"mine": AcpAgent(command=("mine",)), "gone": AcpAgent(command=("gone",))}
    line, advice = doctor._list_agents(agents).splitlines()
    assert line.startswith(f"! agents      acp:goose ({programs}/goose); acp:mine (")
    assert "The agent gone needs the program gone" in advice
    offers = {choice.spec: choice.problem for choice in offered_models((), (), {"agents": agents})}
    assert offers["acp:goose"] == offers["acp:mine"] == ""
    assert "not on the PATH" in offers["acp:claude"]


def test_keys_of_an_agent_are_neither_listed_nor_inherited(
    home: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_SERVICE_TOKEN", "token-of-mine")
    monkeypatch.setenv("CLAUDECODE", "1")
    config_file(
        home,
        '[acp.mine]\ncommand = ["mine"]\noptions = {mode = "default"}\n'
        'env = {AGENT_API_KEY = "key-of-mine", OTHER = "${MY_SERVICE_TOKEN}"}\n',
    )
    settings = load_settings()
    texts = {entry.key: entry.value for entry in list_settings(settings)}
    assert texts["acp.mine"] == "mine mode=default"
    assert "key-of-mine" in settings.secrets()
    environment = settings.acp["mine"].environment()
    assert environment["AGENT_API_KEY"] == "key-of-mine"
    assert environment["OTHER"] == "token-of-mine"
    assert environment["HOME"] == os.environ["HOME"]
    assert {"MY_SERVICE_TOKEN", "CLAUDECODE"}.isdisjoint(environment)


@pytest.mark.parametrize("text", ['acp = {mine = "mine"}', "[acp.mine]\ncomand = []"])
def test_a_wrong_definition_is_named(home: Path, project: Path, text: str) -> None:
    config_file(home, text)
    with pytest.raises(SettingsError, match=r"acp\.mine: "):
        load_settings()
