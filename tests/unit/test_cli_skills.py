"""``mahtab-tui skills``."""

from __future__ import annotations

from pathlib import Path

from typer.testing import CliRunner, Result

from mahtab_tui.cli.main import app
from tests.skills import write_skill


def run(*words: str) -> Result:
    return CliRunner().invoke(app, ["skills", *words])


def test_list_shows_names_descriptions_and_broken_skills(project: Path) -> None:
    write_skill(project / "mine", "tidy", "Tidies up")
    write_skill(project / "mine", "broken", text="x")
    done = run("list", "--skills-dir", "mine")
    assert done.exit_code == 0
    assert "tidy: Tidies up\n" in done.stdout
    assert "debug: " in done.stdout
    assert "mine/broken/SKILL.md" in done.stderr


def test_several_folders_may_be_named_and_the_last_one_takes_precedence(project: Path) -> None:
    for directory in ("a", "b"):
        write_skill(project / directory, "tidy", f"Of {directory}")
    assert "tidy: Of b\n" in run("list", "--skills-dir", "a", "--skills-dir", "b").stdout


def test_missing_named_folder_is_an_error(project: Path) -> None:
    done = run("list", "--skills-dir", "missing")
    assert (done.exit_code, done.stderr) == (
        2,
        "mahtab-tui: --skills-dir: missing is not a folder.\n",
    )


def test_control_sequences_of_a_skill_do_not_reach_the_terminal(project: Path) -> None:
    write_skill(project / "mine", "sly", '"\\e]52;c;aGFja2Vk\\a Sly"')
    for words in (["list"], ["show", "sly"], ["search", "sly"]):
        done = run(*words, "--skills-dir", "mine")
        assert ("Sly" in done.stdout, "\x1b" in done.stdout) == (True, False)


def test_show_prints_the_instructions(project: Path) -> None:
    done = run("show", "debug")
    assert "license: MIT" in done.stdout
    assert "# Debug" in done.stdout
    missing = run("show", "debugging")
    assert missing.exit_code == 1
    assert "There is no skill 'debugging'. Skills: debug," in missing.stderr


def test_a_new_skill_can_be_used_at_once(project: Path) -> None:
    done = run("new", "look-up", "--description", 'Looks: "up" # all')
    assert done.stdout.strip() == str(project / ".mahtab" / "skills" / "look-up" / "SKILL.md")
    assert 'look-up: Looks: "up" # all\n' in run("list").stdout
    assert run("check").exit_code == 0
    assert "already exists" in run("new", "look-up").stderr
    assert "single hyphens" in run("new", "Look_up").stderr


def test_skill_is_text_in_an_existing_folder(project: Path) -> None:
    done = run("new", "look-up", "--description", "a\udcff")
    assert (done.exit_code, done.stderr) == (2, "mahtab-tui: The description is not valid text.\n")
    assert not (project / ".mahtab").exists()
    project.rmdir()
    done = run("new", "look-up")
    assert (done.exit_code, done.stderr) == (
        2,
        "mahtab-tui: The folder in which the program was started no longer exists.\n",
    )


def test_metadata_is_printed_literally(project: Path) -> None:
    text = "---\nname: sly\ndescription: Fine.\nmetadata:\n  file: /etc/passwd\n---\n"
    path = write_skill(project / "mine", "sly", text=text)
    lines = run("show", "sly", "--skills-dir", "mine").stdout.splitlines()
    assert f"file: {path.relative_to(project)}" in lines
    assert "metadata, file: /etc/passwd" in lines


def test_check_names_each_broken_file_and_its_problem(project: Path) -> None:
    write_skill(project / "mine", "good")
    path = write_skill(project / "mine", "broken", text="x")
    done = run("check", "mine")
    assert done.exit_code == 1
    assert done.stdout.startswith(str(path.relative_to(project)))
    assert done.stdout.endswith("Skills that can be used: 1. Problems: 1.\n")


def test_search_prints_the_best_first(project: Path) -> None:
    assert run("search", "flaky tests").stdout.startswith("write-tests: ")
    nothing = run("search", "qqqq")
    assert (nothing.exit_code, nothing.stderr) == (1, "mahtab-tui: No skill matches 'qqqq'.\n")


def test_missing_source_folder_is_an_error_at_startup(project: Path) -> None:
    done = CliRunner().invoke(app, ["ask", "what?", "--code-dir", "missing"])
    assert (done.exit_code, done.stderr) == (
        2,
        "mahtab-tui: --code-dir: missing is not a folder.\n",
    )
