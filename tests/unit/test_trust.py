"""Settings that a project's files may set only after the user trusts them."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from mahtab_tui.cli.doctor import report
from mahtab_tui.cli.main import app
from mahtab_tui.kernel.process import ProcessKernel
from mahtab_tui.knowledge.instructions import find_instructions
from mahtab_tui.knowledge.library import load_skill_descriptions
from mahtab_tui.knowledge.skills_loader import ProjectFolder, skill_folders
from mahtab_tui.session import Session
from mahtab_tui.session.frontend import HeadlessFrontend
from mahtab_tui.settings.model import Settings, load_settings
from mahtab_tui.settings.sources import all_untrusted_settings
from mahtab_tui.store.memory_store import MemoryStore
from tests.config_files import config_file, toml
from tests.skills import write_skill
from tests.trust import trust_project

WAITS: dict[str, object] = {
    "model": "replay:.mahtab/a.jsonl",
    "reflection_model": "demo",
    "sub_model": "demo",
    "provider": "openai",
    "api_keys": {"openai": "sk-theirs"},
    "claude_api_key": True,
    "screen_reader": True,
    "rlm_max_depth": 4,
    "rlm_max_turns": 21,
    "rlm_max_calls": 100_000,
    "rlm_max_usd": 1.5,
    "rlm_max_seconds": 100_000.0,
    "rlm_concurrency": 1,
    "rlm_small": 1,
    "rlm_ask_above": 51,
    "reflection": "always",
    "output_answers": True,
    "loop": "single",
    "return_pictures": False,
    "max_turns": 4,
    "base_url": "https://elsewhere.example/v1",
    "model_timeout": 121.0,
    "max_answer_chars": 2_000_001,
    "max_history": 21,
    "max_usd": 0.5,
    "keys": "vim",
    "notifications": "osc9",
    "mention_last_session": False,
    "mcp_output_format": "ansi",
    "mcp_highlight": True,
    "approval": "auto",
    "approval_rules": "allow: *(*)",
    "python": "./evil",
    "kernel": "command: ./evil",
    "reload": True,
    "keymap": {"help": "f2"},
    "project": "inside",
    "share": False,
    "skills_dir": ["inside"],
    "skills_budget": 60_001,
    "code_dir": "inside",
    "undo_steps": 21,
    "undo_memory": 1_025,
    "file_undo": False,
    "file_undo_mb": 201,
    "witnessed_folders": ["inside"],
    "keep_namespace": False,
    "keep_namespace_mb": 1_025,
    "keep_kernel": 13.0,
    "mcp": {"theirs": {"command": "./evil"}},
    "acp": {"theirs": {"command": ["./evil"]}},
    "embedding_model": "ollama:theirs",
}
"""Settings with a value that needs trust."""
FREE: dict[str, object] = {"theme": "mahtab-day", "pictures": "blocks", "approval": "ask"}
"""Settings with a value that any project may set."""


def write(project: Path, key: str, value: object, source: str = "config.toml") -> Path:
    (project / "inside").mkdir(exist_ok=True)
    if source != ".env":
        return config_file(project, f"# One\n{key} = {toml(value)}\n")
    text = ":".join(value) if isinstance(value, list) else value
    text = json.dumps(text) if isinstance(text, dict) else str(text)
    path = project / ".env"
    path.write_text(f"# One\nMAHTAB_{key.upper()}={text!r}\n")
    return path


def run(*words: str, input: str | None = None) -> Result:
    return CliRunner().invoke(app, ["config", *words], input=input)


def waiting(path: Path, key: str) -> str:
    return f"{path} sets {key}, which is not used until you trust it: run mahtab-tui config trust."


def test_every_setting_has_a_trust_decision() -> None:
    assert WAITS.keys() | FREE.keys() == Settings.model_fields.keys()


def test_new_setting_needs_trust_by_default(project: Path) -> None:
    class NewSettings(Settings):
        brand_new: bool = False

    write(project, "brand_new", True)
    arguments: dict[str, Any] = {}
    assert NewSettings(**arguments).brand_new is False
    assert [unit.values for unit in all_untrusted_settings(NewSettings)] == [{"brand_new": True}]


@pytest.mark.parametrize("source", [".env", "config.toml"])
@pytest.mark.parametrize("key", WAITS)
def test_harmful_value_is_used_only_while_trusted_and_unchanged(
    project: Path, source: str, key: str
) -> None:
    default = getattr(load_settings(), key)
    path = write(project, key, WAITS[key], source)
    settings = load_settings()
    assert getattr(settings, key) == default
    assert settings.untrusted == (waiting(path, key),)
    assert not settings.is_from_project(key)
    done = run("trust", "--yes")
    assert (done.exit_code, done.stdout.partition(" = ")[0]) == (0, f"{path}: {key}")
    settings = load_settings()
    assert getattr(settings, key) != default
    assert (settings.untrusted, settings.origin(key).text.endswith(source)) == ((), True)
    assert run("trust").stdout == "Nothing here needs trusting.\n"


def test_changed_value_needs_trust_again(project: Path) -> None:
    write(project, "python", "./evil")
    run("trust", "--yes")
    write(project, "python", "./worse")
    assert load_settings().python is None


@pytest.mark.parametrize("source", [".env", "config.toml"])
@pytest.mark.parametrize("key", FREE)
def test_harmless_values_are_used_at_once(project: Path, source: str, key: str) -> None:
    write(project, key, FREE[key], source)
    settings = load_settings()
    assert not settings.untrusted
    assert source in settings.origin(key).text


@pytest.mark.parametrize("name", [".env", "config.toml"])
def test_trusted_project_key_replaces_the_users(project: Path, home: Path, name: str) -> None:
    write(home, "api_keys", {"openai": "sk-mine"})
    if name == ".env":
        path = project / name
        path.write_text("# One\nOPENAI_API_KEY=sk-theirs\n")
    else:
        path = write(project, "api_keys", {"openai": "sk-theirs"})
    settings = load_settings()
    assert settings.model_access()["api_keys"] == {"openai": "sk-mine"}
    assert settings.untrusted == (waiting(path, "api_keys"),)
    assert settings.secrets() == ["sk-theirs", "sk-mine"], "it is hidden all the same"
    assert run("trust", "--yes").stdout.startswith(f"{path}: api_keys = 'openai'=••••••••\n")
    assert load_settings().model_access()["api_keys"] == {"openai": "sk-theirs"}


def test_users_own_file_applies_even_if_the_project_is_their_home(
    home: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(home, "approval", "auto")
    assert load_settings().approval == "auto"
    monkeypatch.chdir(home)
    write(home, "python", "mine", ".env")
    settings = load_settings()
    assert (settings.approval, settings.python, settings.untrusted) == ("auto", "mine", ())
    write(home, "skills_dir", ["inside"])
    assert not load_settings().is_from_project("skills_dir")


def test_untrusted_value_does_not_hide_the_users_own(home: Path, project: Path) -> None:
    write(home, "python", "mine")
    write(project, "python", "theirs")
    assert load_settings().python == "mine"
    assert load_settings().origin("python").file == home / ".mahtab" / "config.toml"


def test_trust_does_not_extend_to_another_project_even_through_a_link(
    project: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(project, "python", ".venv")
    trust_project()
    other_project = tmp_path_factory.mktemp("other")
    (other_project / ".mahtab").mkdir()
    (other_project / ".mahtab" / "config.toml").symlink_to(path)
    monkeypatch.chdir(other_project)
    assert load_settings().python is None


@pytest.mark.parametrize("record", ["", "[1]", '{"x": 3}', "[" * 100_000])
def test_unreadable_trust_record_allows_nothing_and_is_recreated(
    project: Path, home: Path, record: str
) -> None:
    write(project, "approval", "auto")
    (home / ".mahtab").mkdir()
    (home / ".mahtab" / "trusted.json").write_text(record)
    assert load_settings().approval == "ask"
    trust_project()
    assert load_settings().approval == "auto"


def test_value_set_by_the_command_is_trusted_but_no_other(project: Path, home: Path) -> None:
    write(project, "python", "theirs")
    done = run("set", "--project", "approval", "auto")
    assert done.exit_code == 0
    assert "until you trust it" in done.stderr
    assert (load_settings().approval, load_settings().python) == ("auto", None)
    run("set", "--project", "python", sys.executable)
    assert (load_settings().approval, load_settings().python) == ("auto", sys.executable)


def test_entry_added_by_the_user_does_not_trust_the_rest_of_its_table(
    project: Path, home: Path
) -> None:
    write(project, "keymap", {"cycle-approval": "enter"})
    run("set", "--project", "keymap.help", "f2")
    assert load_settings().keymap == {}
    assert load_settings().untrusted


def test_untrusted_settings_are_reported_by_every_command_using_settings(
    project: Path, home: Path
) -> None:
    write(project, "approval", "auto")
    sentence = load_settings().untrusted[0]
    assert sentence in run().stderr
    assert any(sentence in line and line.startswith("!") for line in report())
    done = CliRunner().invoke(app, ["ask", "--model", "demo", "hello"])
    assert sentence in done.stderr


def test_session_reports_untrusted_settings(project: Path, home: Path) -> None:
    write(project, "approval", "auto")
    store = MemoryStore()
    settings = load_settings(model="demo")
    session = Session(settings, ProcessKernel(), HeadlessFrontend(), store=store)
    session.start()
    session.close()
    assert any("sets approval," in record.text for record in store.records)
    assert session.info.approval == "ask"


def test_skill_folders_named_by_a_project_file_need_trust(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(project, "skills_dir", ["inside"])
    trust_project()
    settings = load_settings()
    assert settings.is_from_project("skills_dir")
    inside = ProjectFolder(project / "inside", project)
    assert inside in skill_folders(project, settings.skills_dir, of_project=True)
    # A folder outside needs trust only, which the settings check.
    assert skill_folders(project, [project.parent], of_project=True)[-1] == project.parent
    monkeypatch.setenv("MAHTAB_SKILLS_DIR", "inside")
    assert not load_settings().is_from_project("skills_dir")
    assert not load_settings(skills_dir=("inside",)).is_from_project("skills_dir")


def test_links_out_of_a_project_named_skill_folder_are_refused(
    project: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    secret = tmp_path_factory.mktemp("elsewhere") / "id"
    secret.write_text("A private word.")
    write(project, "skills_dir", ["inside"])
    trust_project()
    (project / "inside" / "link.md").symlink_to(secret)
    assert "link" not in load_skill_descriptions()
    assert "A private word" not in CliRunner().invoke(app, ["skills", "list"]).stdout
    session = Session(load_settings(model="demo"), ProcessKernel(), HeadlessFrontend())
    assert "link" not in session.knowledge.skills.descriptions()
    session.close()


def test_trust_record_does_not_contain_the_values(project: Path, home: Path) -> None:
    write(project, "base_url", "https://me:word-of-mine@elsewhere.example/v1")
    assert "word-of-mine" not in run("trust", "--yes").stdout
    record = home / ".mahtab" / "trusted.json"
    assert "word-of-mine" not in record.read_text()
    assert record.stat().st_mode & 0o077 == 0
    assert load_settings().base_url


def test_trust_makes_each_value_visible_and_asks(project: Path, home: Path) -> None:
    path = write(project, "model", "demo\u001b]52;c;aGk=\u0007\u202e\u200bx")
    done = run("trust", input="n\n")
    assert done.exit_code == 1
    assert f"{path}: model = 'demo\\x1b]52;c;aGk=\\x07\\u202e\\u200bx'\n" in done.stdout
    assert load_settings().model is None
    assert run("trust").exit_code == 1  # nobody answers
    assert run("trust", input="y\n").exit_code == 0
    assert load_settings().model is not None


def test_instructions_of_a_project_are_shown_and_trusted_with_its_settings(project: Path) -> None:
    (project / "AGENTS.md").write_text("Use polars.\x1b[2J See @more.md")
    (project / "more.md").write_text("More.")
    output = run("trust", input="n\n").stdout
    for name, text in {"AGENTS.md": "Use polars.␛[2J See @more.md", "more.md": "More."}.items():
        assert f"{project}/AGENTS.md: instructions for the model, from {name}:\n{text}\n" in output
    assert find_instructions(project).untrusted
    assert run("trust", "--yes").exit_code == 0
    assert find_instructions(project).texts() == {
        "AGENTS.md": "Use polars.\x1b[2J See @more.md",
        "more.md": "More.",
    }


def test_skills_of_a_project_are_shown_and_trusted_with_its_settings(project: Path) -> None:
    folder = write_skill(project / ".mahtab" / "skills", "ours", content="Ours.").parent
    (folder / "more.md").write_text("More.")
    output = run("trust", input="n\n").stdout
    assert f"{folder}/SKILL.md: a skill for the model:\nours: fine\n\nOurs.\n" in output
    assert f"{folder}/more.md: a skill for the model:\nMore.\n" in output
    assert "ours" not in load_skill_descriptions()
    assert run("trust", "--yes").exit_code == 0
    assert "ours" in load_skill_descriptions()
