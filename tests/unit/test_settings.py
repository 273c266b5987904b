"""Settings: who wins, and what is said of what is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from mahtab_tui.settings import SettingsError, load_settings, resource_folder


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    return path


def test_the_command_line_wins_over_everything(project: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(home / ".mahtab" / "config.toml", 'model = "from-home"\ntheme = "from-home"\nmax_turns = 1\napproval = "auto"\npython = "from-home"\n')
    write(project / ".mahtab" / "config.toml", 'model = "from-project"\ntheme = "from-project"\nmax_turns = 2\napproval = "ask"\n')
    write(project / ".env", "MAHTAB_MODEL=from-env-file\nMAHTAB_MAX_TURNS=3\nMAHTAB_THEME=from-env-file\nOTHER=1\n")
    monkeypatch.setenv("MAHTAB_MODEL", "from-environment")
    monkeypatch.setenv("MAHTAB_MAX_TURNS", "4")
    settings = load_settings(model="from-command-line", theme=None)
    assert settings.model == "from-command-line"
    assert settings.max_turns == 4
    assert settings.theme == "from-env-file"
    assert settings.approval == "ask"
    assert settings.python == "from-home"


def test_folders_of_skills_stand_in_the_environment_with_colons_between_them(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b"):
        (project / name).mkdir()
    monkeypatch.setenv("MAHTAB_SKILLS_DIR", "a:b:")
    assert load_settings().skills_dir == (Path("a"), Path("b"))
    monkeypatch.setenv("MAHTAB_SKILLS_DIR", "a:c")
    with pytest.raises(SettingsError, match="c is not a folder"):
        load_settings()


def test_without_any_source_the_defaults_hold(project: Path) -> None:
    settings = load_settings()
    assert (settings.approval, settings.max_turns, settings.reflection, settings.model) == ("ask", 5, "always", None)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('theme = "x"\nmodle = "demo"\n', "line 2: there is no setting 'modle'. Did you mean model?"),
        ('\n\napproval = "always"\n', "line 3: approval: input should be 'ask' or 'auto'."),
        ("max_turns = 0\n", "line 1: max_turns: input should be greater than or equal to 1."),
        ("a = [\n", "this is not TOML"),
        ("[keymap]\nhelp = 3\n", "line 1: keymap"),
    ],
)
def test_a_wrong_configuration_names_file_line_and_key(project: Path, text: str, said: str) -> None:
    path = write(project / ".mahtab" / "config.toml", text)
    with pytest.raises(SettingsError) as raised:
        load_settings()
    assert str(path) in str(raised.value)
    assert said in str(raised.value)


def test_a_configuration_that_is_no_text_is_said(project: Path) -> None:
    path = write(project / ".mahtab" / "config.toml", "")
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SettingsError, match="not UTF-8"):
        load_settings()


def test_a_wrong_variable_of_the_environment_is_named(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAHTAB_MAX_TURNS", "many")
    with pytest.raises(SettingsError, match="MAHTAB_MAX_TURNS"):
        load_settings()


def test_styles_and_skills_are_found_in_a_checkout() -> None:
    assert (resource_folder("styles") / "app.tcss").is_file()
    assert (resource_folder("skills") / "debug" / "SKILL.md").is_file()
