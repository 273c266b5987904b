"""What the files of a project may not set before the person has allowed it."""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from mahtab_tui.cli import app
from mahtab_tui.doctor import report
from mahtab_tui.knowledge.loader import ProjectPlace, skill_folders
from mahtab_tui.settings import Settings, SettingsError, load_settings
from tests.trust import trust_project

EVIL = {
    "python": "./evil",
    "approval": "auto",
    "base_url": "https://elsewhere.example/v1",
    "keymap": {"cycle-approval": "enter"},
    "code_dir": "..",
    "skills_dir": ["inside", ".."],
    "project": "/",
    "suggestion_model": "demo",
}
"""Of each key that is held back a value for which it is."""
FINE = {
    "approval": "ask",
    "keymap": {"help": "f2"},
    "code_dir": "inside",
    "skills_dir": ["inside"],
    "project": "inside",
    "max_turns": 7,
    "model": "demo",
    "max_usd": 5.0,
    "api_keys": {"openai": "sk-theirs"},
}
"""What any project may set."""


def toml(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name} = {json.dumps(each)}" for name, each in value.items()) + "}"
    return json.dumps(value)


def write(project: Path, source: str, key: str, value: object) -> Path:
    """Have a file of the project set a key, on line 2."""
    (project / "inside").mkdir(exist_ok=True)
    if source == ".env":
        text = ":".join(value) if isinstance(value, list) else json.dumps(value) if isinstance(value, dict) else str(value)
        path, line = project / ".env", f"MAHTAB_{key.upper()}={text!r}"
    else:
        path, line = project / ".mahtab" / "config.toml", f"{key} = {toml(value)}"
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"# One\n{line}\n")
    return path


def run(*words: str) -> Result:
    return CliRunner().invoke(app, ["config", *words])


@pytest.mark.parametrize("source", [".env", "config.toml"])
@pytest.mark.parametrize("key", EVIL)
def test_what_could_harm_holds_once_it_is_allowed_and_no_longer_when_it_changes(project: Path, home: Path, source: str, key: str) -> None:
    default = getattr(load_settings(), key)
    path = write(project, source, key, EVIL[key])
    settings = load_settings()
    assert getattr(settings, key) == default
    assert settings.held_back == (f"Left out of {path}: {key} (line 2). It holds once you allow it: mahtab-tui config trust.",)
    assert settings.place_of(key).text == "default"

    done = run("trust")
    assert done.exit_code == 0
    assert done.stdout.startswith(f"Allowed: {path}, line 2: {key} = ")
    settings = load_settings()
    assert getattr(settings, key) != default
    assert (settings.held_back, settings.place_of(key).text.endswith(f"{source}, line 2")) == ((), True)
    assert run("trust").stdout == "Nothing that this project's files set is held back.\n"

    if key not in ("approval", "project"):
        changed = {**EVIL, "keymap": {"cycle-approval": "f3"}, "code_dir": "../..", "skills_dir": [".."]}
        write(project, source, key, changed[key] if changed[key] != EVIL[key] else f"{EVIL[key]}/x")
        assert getattr(load_settings(), key) == default


@pytest.mark.parametrize("source", [".env", "config.toml"])
@pytest.mark.parametrize("key", FINE)
def test_what_harms_nobody_holds_at_once(project: Path, home: Path, source: str, key: str) -> None:
    write(project, source, key, FINE[key])
    settings = load_settings()
    assert not settings.held_back
    assert source in settings.place_of(key).text


@pytest.mark.parametrize("source", [".env", "config.toml"])
@pytest.mark.parametrize("key", ["max_usd", "rlm_max_usd"])
def test_a_project_may_make_the_persons_limits_smaller_only(project: Path, home: Path, source: str, key: str) -> None:
    write(home, "config.toml", key, 2.0)
    write(project, source, key, 1.5)
    assert (getattr(load_settings(), key), load_settings().held_back) == (1.5, ())
    path = write(project, source, key, 100)
    settings = load_settings()
    assert getattr(settings, key) == 2.0
    assert settings.held_back == (f"Left out of {path}: {key} (line 2). It holds once you allow it: mahtab-tui config trust.",)
    trust_project()
    assert getattr(load_settings(), key) == 100


@pytest.mark.parametrize(("name", "line"), [(".env", "OPENAI_API_KEY=sk-theirs"), (".mahtab/config.toml", 'api_keys = {openai = "sk-theirs"}')])
def test_a_key_of_the_project_takes_the_place_of_the_persons_once_it_is_allowed(project: Path, home: Path, name: str, line: str) -> None:
    write(home, "config.toml", "api_keys", {"openai": "sk-mine"})
    path = project / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"# One\n{line}\n")
    settings = load_settings()
    assert settings.model_access()["api_keys"] == {"openai": "sk-mine"}
    assert settings.held_back == (f"Left out of {path}: api_keys (line 2). It holds once you allow it: mahtab-tui config trust.",)
    assert settings.secrets() == ["sk-theirs", "sk-mine"], "it is hidden all the same"
    assert run("trust").stdout == f"Allowed: {path}, line 2: api_keys = ••••••••\n"
    assert load_settings().model_access()["api_keys"] == {"openai": "sk-theirs"}


def test_what_the_persons_own_file_sets_holds_also_where_the_project_is_their_home(
    home: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(home, "config.toml", "approval", "auto")
    assert load_settings().approval == "auto"
    monkeypatch.chdir(home)
    write(home, ".env", "python", "mine")
    assert (load_settings().approval, load_settings().python, load_settings().held_back) == ("auto", "mine", ())
    write(home, "config.toml", "skills_dir", ["inside"])
    assert not load_settings().of_project("skills_dir")


def test_what_is_held_back_does_not_hide_what_the_person_has_set(home: Path, project: Path) -> None:
    write(home, "config.toml", "python", "mine")
    write(project, "config.toml", "python", "theirs")
    assert load_settings().python == "mine"
    assert load_settings().place_of("python").file == home / ".mahtab" / "config.toml"


def test_another_project_is_not_allowed_what_one_is_also_over_a_link(
    project: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(project, "config.toml", "python", ".venv")
    trust_project()
    other = tmp_path_factory.mktemp("other")
    (other / ".mahtab").mkdir()
    (other / ".mahtab" / "config.toml").symlink_to(path)
    monkeypatch.chdir(other)
    assert load_settings().python is None


def test_a_wrong_value_is_said_also_where_it_would_not_hold(project: Path) -> None:
    path = write(project, "config.toml", "approval", "always")
    with pytest.raises(SettingsError) as raised:
        load_settings()
    assert str(raised.value) == f"{path}, line 2: approval: input should be 'ask' or 'auto'."


@pytest.mark.parametrize("record", ["", "[1]", '{"x": 3}', "[" * 100_000])
def test_a_record_that_cannot_be_read_allows_nothing_and_is_made_anew(project: Path, home: Path, record: str) -> None:
    write(project, "config.toml", "approval", "auto")
    (home / ".mahtab").mkdir()
    (home / ".mahtab" / "trusted.json").write_text(record)
    assert load_settings().approval == "ask"
    trust_project()
    assert load_settings().approval == "auto"


def test_what_the_person_writes_by_the_program_is_allowed_but_nothing_beside_it(project: Path, home: Path) -> None:
    write(project, "config.toml", "python", "theirs")
    done = run("set", "--project", "approval", "auto")
    assert done.exit_code == 0
    assert "Left out of" in done.stderr
    assert (load_settings().approval, load_settings().python) == ("auto", None)
    run("set", "--project", "python", sys.executable)
    assert (load_settings().approval, load_settings().python) == ("auto", sys.executable)


def test_an_entry_that_the_person_adds_does_not_allow_the_others_of_its_table(project: Path, home: Path) -> None:
    write(project, "config.toml", "keymap", {"cycle-approval": "enter"})
    run("set", "--project", "keymap.help", "f2")
    assert load_settings().keymap == {}
    assert load_settings().held_back


def test_it_is_told_by_every_command_that_shows_or_uses_settings(project: Path, home: Path) -> None:
    write(project, "config.toml", "approval", "auto")
    sentence = load_settings().held_back[0]
    assert sentence in run().stderr
    assert any(sentence in line and line.startswith("!") for line in report())
    done = CliRunner().invoke(app, ["ask", "--model", "demo", "hello"])
    assert sentence in done.stderr


def test_who_edits_the_projects_file_is_told_too(project: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDITOR", "true")
    write(project, "config.toml", "approval", "auto")
    assert "Left out of" in run("edit", "--project").stderr
    write(home, "config.toml", "max_turns", "many")
    done = run("edit", "--project")
    assert (done.exit_code, done.exception) == (0, None)
    assert "max_turns: input should be" in done.stderr


def test_a_session_tells_it(project: Path, home: Path) -> None:
    from mahtab_tui.kernel.process import ProcessKernel
    from mahtab_tui.session import Session
    from mahtab_tui.session.face import NoFace

    write(project, "config.toml", "approval", "auto")
    told: list[str] = []

    class Told(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            told.append(record.getMessage())

    session = Session(load_settings(model="demo"), ProcessKernel, NoFace())
    session.log.addHandler(Told())
    session.start()
    session.close()
    assert any("approval (line 2)" in text for text in told)
    assert session.turns.approval == "ask"


def test_folders_of_skills_that_a_projects_file_names_are_held_like_the_projects_own(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(project, "config.toml", "skills_dir", ["inside"])
    settings = load_settings()
    assert settings.of_project("skills_dir")
    assert skill_folders(project, settings.skills_dir, of_project=True)[-1] == ProjectPlace(project / "inside", project)
    assert skill_folders(project, [project.parent], of_project=True)[-1] == project.parent  # allowed, or it would not have come here
    monkeypatch.setenv("MAHTAB_SKILLS_DIR", "inside")
    assert not load_settings().of_project("skills_dir")
    assert not load_settings(skills_dir=("inside",)).of_project("skills_dir")


def test_links_out_of_a_folder_of_skills_that_a_projects_file_names_are_refused_everywhere(
    project: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    from mahtab_tui.kernel.process import ProcessKernel
    from mahtab_tui.knowledge.library import load_skill_descriptions
    from mahtab_tui.session import Session
    from mahtab_tui.session.face import NoFace

    secret = tmp_path_factory.mktemp("elsewhere") / "id"
    secret.write_text("A private word.")
    write(project, "config.toml", "skills_dir", ["inside"])
    (project / "inside" / "link.md").symlink_to(secret)
    assert "link" not in load_skill_descriptions()
    assert "A private word" not in CliRunner().invoke(app, ["skills", "list"]).stdout
    session = Session(load_settings(model="demo"), ProcessKernel, NoFace())
    assert "link" not in session.knowledge.skills.descriptions()
    session.close()


def test_what_is_allowed_is_not_written_down_as_it_is(project: Path, home: Path) -> None:
    write(project, "config.toml", "base_url", "https://me:word-of-mine@elsewhere.example/v1")
    assert "word-of-mine" not in run("trust").stdout
    record = home / ".mahtab" / "trusted.json"
    assert "word-of-mine" not in record.read_text()
    assert record.stat().st_mode & 0o077 == 0
    assert load_settings().base_url


def test_each_key_is_one_of_the_settings() -> None:
    assert {*EVIL, *FINE} <= set(Settings.model_fields)
