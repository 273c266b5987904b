"""The command line: its registry and output, `config`, `skills` and `doctor`."""

from __future__ import annotations

import io
import os
import re
import stat
import sys
import termios
import tomllib
from io import BytesIO, TextIOWrapper
from pathlib import Path
from types import SimpleNamespace

import pytest
import typer
from typer.core import TyperGroup
from typer.testing import CliRunner, Result

from mahtab_tui.bus import records
from mahtab_tui.cli import doctor
from mahtab_tui.cli.main import COMMANDS, app
from mahtab_tui.cli.options import guard_terminal
from mahtab_tui.cli.search_report import Progress
from mahtab_tui.settings.model import Settings
from mahtab_tui.store.resume import find_session, new_store
from tests.config_files import config_file
from tests.hostile import HOSTILE
from tests.skills import write_skill
from tests.trust import trust_project

USER_CONFIG = """\
# What I like
theme = "nord"   # dark

max_turns = 3
[keymap]
# as in my editor
help = "f11"
"""


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_loads(name: str) -> None:
    group = typer.main.get_command(app)
    assert isinstance(group, TyperGroup)
    context = typer.Context(group)
    assert name in group.list_commands(context)
    command = group.get_command(context, name)
    assert command is not None
    assert command.name == name
    assert command.get_short_help_str()


@pytest.mark.parametrize(
    "words", [["--modle", "demo"], ["ask", "--modle", "demo", "why?"], ["--modle=demo"]]
)
def test_misspelt_option_suggests_the_right_one(words: list[str]) -> None:
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 2
    assert "There is no option --modle. Did you mean --model?" in done.output


def printed(monkeypatch: pytest.MonkeyPatch, text: str) -> str:
    written = BytesIO()
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    monkeypatch.setattr(sys, "stderr", TextIOWrapper(written, "utf-8"))
    guard_terminal()
    print(text, file=sys.stderr, flush=True)
    return written.getvalue().decode()


@pytest.mark.parametrize("text", HOSTILE)
def test_no_text_can_drive_the_terminal(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    without_colours = re.sub(r"\x1b\[[\d;]*m", "", printed(monkeypatch, text))
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", without_colours)


def test_text_printed_before_the_terminal_is_guarded_comes_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    written = BytesIO()
    stream = TextIOWrapper(written, "utf-8")
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    monkeypatch.setattr(sys, "stderr", stream)
    print("before", file=stream)
    guard_terminal()
    print("behind", file=sys.stderr, flush=True)
    stream.flush()
    assert written.getvalue() == b"before\nbehind\n"


# Files and folders to load


def test_a_path_that_the_system_refuses_is_reported() -> None:
    done = CliRunner().invoke(app, ["ask", "x", "--load", "a" * 300])
    assert done.exit_code == 2
    assert done.stderr.endswith("a: File name too long.\n")


@pytest.mark.parametrize(
    "kernel", ["ssh://host", "command: docker exec -i box python3", "jupyter:b"]
)
def test_files_for_a_kernel_with_an_address_are_refused_without_saying_where_it_runs(
    project: Path, kernel: str
) -> None:
    (project / "data.csv").write_text("a,b\n1,2\n")
    done = CliRunner().invoke(
        app, ["ask", "x", "--model", "demo", "--load", "data.csv", "--kernel", kernel]
    )
    assert done.exit_code == 2
    assert done.stderr == (
        f"mahtab-tui: The kernel at {kernel} does not see this machine's files."
        " Load data.csv in a cell, from a path that it sees.\n"
    )


# `mahtab-tui config`


def run_config(*words: str) -> Result:
    return CliRunner().invoke(app, ["config", *words])


@pytest.fixture
def user_config(home: Path, project: Path) -> Path:
    return config_file(home, USER_CONFIG)


def rows(done: Result) -> dict[str, list[str]]:
    assert done.exit_code == 0, done.stderr
    return {line.split()[0]: line.split(maxsplit=2)[1:] for line in done.stdout.splitlines()}


def test_every_setting_is_printed_with_its_source(
    user_config: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project_file = config_file(project, "reload = true\n")
    (project / ".env").write_text("MAHTAB_REFLECTION=never\n")
    trust_project()
    monkeypatch.setenv("MAHTAB_RLM_SMALL", "7")
    printed_rows = rows(run_config("--set", "rlm_max_usd=0.5"))
    assert {key.partition(".")[0] for key in printed_rows} == set(Settings.model_fields)
    assert printed_rows["theme"] == ["nord", str(user_config)]
    assert printed_rows["keymap.help"] == ["f11", str(user_config)]
    assert printed_rows["reload"] == ["true", str(project_file)]
    assert printed_rows["reflection"] == ["never", ".env"]
    assert printed_rows["rlm_small"] == ["7", "MAHTAB_RLM_SMALL"]
    assert printed_rows["rlm_max_usd"] == ["0.5", "command line"]
    assert printed_rows["approval"] == ["ask", "default"]
    assert printed_rows["model"][0] in ("claude", "demo")


def test_secrets_are_masked(home: Path, project: Path) -> None:
    config_file(home, '[api_keys]\nopenai = "sk-secret"\n')
    (project / ".env").write_text("ANTHROPIC_API_KEY=sk-other\n")
    trust_project()
    done = run_config()
    assert "sk-" not in done.stdout
    assert rows(done)["api_keys.openai"] == ["••••••••", f"{home}/.mahtab/config.toml"]
    assert rows(done)["api_keys.anthropic"] == ["••••••••", ".env"]


def test_control_sequences_of_a_value_do_not_reach_the_terminal(project: Path) -> None:
    config_file(project, 'theme = "\\u001b]52;c;aGFja2Vk\\u0007x"\n')
    output = run_config().stdout
    assert "\x1b" not in output
    assert re.search(r"^theme .*x +.*config\.toml$", output, re.MULTILINE)


def test_set_changes_only_one_value(user_config: Path) -> None:
    assert run_config("set", "max_turns", "9").stdout == f"Written to {user_config}.\n"
    assert user_config.read_text() == USER_CONFIG.replace("max_turns = 3", "max_turns = 9")
    run_config("set", "approval", "auto")
    run_config("set", "keymap.jump", "f12")
    text = user_config.read_text()
    assert tomllib.loads(text) == {
        "theme": "nord",
        "max_turns": 9,
        "approval": "auto",
        "keymap": {"help": "f11", "jump": "f12"},
    }
    assert re.findall(r"#.*", text) == re.findall(r"#.*", USER_CONFIG)


def test_project_file_is_written_on_request(project: Path, user_config: Path) -> None:
    assert run_config("set", "--project", "max_turns", "4").exit_code == 0
    assert (project / ".mahtab" / "config.toml").read_text() == "max_turns = 4\n"
    assert user_config.read_text() == USER_CONFIG
    overridden = run_config("set", "max_turns", "5").stderr
    assert (
        overridden == f"The new value has no effect: {project}/.mahtab/config.toml overrides it.\n"
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("modle", "x"), "There is no setting 'modle'. Did you mean model?"),
        (("zzz", "x"), "There is no setting 'zzz'. Known keys: model, "),
        (("max_turns", "many"), "max_turns: input should be a valid integer"),
        (("max_turns", "0"), "max_turns: input should be greater than or equal to 1."),
        (("approval", "never"), "approval: input should be 'ask', 'review' or 'auto'."),
        (("code_dir", "missing"), "code_dir: missing is not a folder."),
        (("model", "nonsense"), "model: There is no model 'nonsense'."),
        (("sub_model", "nonsense"), "sub_model: There is no model 'nonsense'."),
        (("theme", "nrod"), "theme: there is no theme 'nrod'. Did you mean nord?"),
        (("keymap.hlp", "f1"), "keymap: there is no command 'hlp'. Did you mean help?"),
        (("keymap", "help"), "keymap: 'help' is not a pair"),
        (("api_keys", "sk-typed-without-a-name"), "api_keys: •••••••• is not a pair"),
        (("keymap", "hlp=f1"), "keymap: there is no command 'hlp'."),
        (("keymap.", "f1"), "keymap.: there is no such entry."),
        (("model.x", "f1"), "model.x: there is no such entry."),
        (("python", "./missing"), "python: There is no program missing"),
    ],
)
def test_wrong_key_or_value_gives_one_sentence_and_writes_nothing(
    words: tuple[str, str], message: str, user_config: Path
) -> None:
    done = run_config("set", *words)
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
    assert done.stderr.startswith(f"mahtab-tui: {message}")
    assert user_config.read_text() == USER_CONFIG


@pytest.mark.parametrize(
    ("pair", "message"),
    [
        ("max_turns", "--set max_turns: write key=value."),
        ("max_turns=x", "--set max_turns: input"),
        ("=1", "--set There is no"),
    ],
)
def test_wrong_set_option_is_reported(pair: str, message: str, project: Path) -> None:
    done = run_config("--set", pair)
    assert (done.exit_code, done.stderr.startswith(f"mahtab-tui: {message}")) == (2, True)


def test_invalid_toml_file_is_not_touched(home: Path, project: Path) -> None:
    path = config_file(home, "a = [\n")
    for words in (("set", "max_turns", "3"), ("unset", "max_turns")):
        done = run_config(*words)
        assert (done.exit_code, f"{path}: not valid TOML" in done.stderr) == (1, True)
    assert path.read_text() == "a = [\n"
    assert run_config().exit_code == 2


def test_wrong_value_does_not_prevent_setting_another(home: Path, project: Path) -> None:
    path = config_file(home, 'max_turns = "x"\n')
    done = run_config("set", "approval", "auto")
    assert (done.exit_code, f"{path}: max_turns: input" in done.stderr) == (0, True)
    assert run_config("set", "max_turns", "3").stderr == ""


@pytest.mark.parametrize("folder", ["home", "project"])
def test_trust_reports_a_wrong_value_in_a_sentence(folder: str, home: Path, project: Path) -> None:
    path = config_file(home if folder == "home" else project, 'max_turns = "x"\n')
    done = run_config("trust", "--yes")
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1), done.stderr
    assert done.stderr.startswith(f"mahtab-tui: {path}: max_turns: input")


@pytest.mark.parametrize(
    "words",
    [
        ["config"],
        ["config", "set", "max_turns", "3"],
        ["config", "unset", "max_turns"],
        ["config", "trust"],
        ["mcp", "install"],
        ["skills", "list"],
        ["skills", "new", "tidy"],
        ["watch"],
        ["check"],
    ],
)
def test_deleted_folder_is_reported_in_a_sentence(
    words: list[str], home: Path, project: Path
) -> None:
    project.rmdir()
    done = CliRunner().invoke(app, words)
    assert (done.exit_code, done.stderr) == (
        2,
        "mahtab-tui: The folder in which the program was started no longer exists.\n",
    )


def test_failed_write_leaves_the_file_unchanged_and_nothing_else(
    user_config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    done = run_config("set", "max_turns", "9")
    failure = f"mahtab-tui: {user_config}: the file cannot be written: No space left on device.\n"
    assert (done.exit_code, done.stderr) == (1, failure)
    assert user_config.read_text() == USER_CONFIG
    assert list(user_config.parent.iterdir()) == [user_config]


def test_unset_removes_a_value(user_config: Path) -> None:
    assert run_config("unset", "max_turns").exit_code == 0
    assert run_config("unset", "keymap.help").exit_code == 0
    assert tomllib.loads(user_config.read_text()) == {"theme": "nord"}
    done = run_config("unset", "max_turns")
    assert (done.exit_code, done.stderr) == (
        2,
        f"mahtab-tui: {user_config} does not set max_turns.\n",
    )


def test_model_may_be_named_without_its_configured_provider(home: Path, project: Path) -> None:
    assert "There is no model 'gpt-4o'" in run_config("set", "model", "gpt-4o").stderr
    assert run_config("set", "provider", "openai").exit_code == 0
    assert run_config("set", "model", "gpt-4o").exit_code == 0
    assert "anthropic" in run_config("set", "provider", "nobody").stderr
    printed_rows = rows(run_config())
    assert (printed_rows["provider"][0], printed_rows["model"][0]) == ("openai", "gpt-4o")


# `mahtab-tui skills`


def run_skills(*words: str) -> Result:
    return CliRunner().invoke(app, ["skills", *words])


def test_list_shows_names_descriptions_and_broken_skills(project: Path) -> None:
    write_skill(project / "mine", "tidy", "Tidies up")
    write_skill(project / "mine", "broken", text="x")
    done = run_skills("list", "--skills-dir", "mine")
    assert done.exit_code == 0
    assert "tidy: Tidies up\n" in done.stdout
    assert "debug: " in done.stdout
    assert "mine/broken/SKILL.md" in done.stderr


def test_control_sequences_of_a_skill_do_not_reach_the_terminal(project: Path) -> None:
    write_skill(project / "mine", "sly", '"\\e]52;c;aGFja2Vk\\a Sly"')
    for words in (["list"], ["show", "sly"]):
        done = run_skills(*words, "--skills-dir", "mine")
        assert ("Sly" in done.stdout, "\x1b" in done.stdout) == (True, False)


def test_show_prints_the_instructions(project: Path) -> None:
    done = run_skills("show", "debug")
    assert "# Debug" in done.stdout
    missing = run_skills("show", "debugging")
    assert missing.exit_code == 1
    assert "There is no skill 'debugging'. Skills: debug," in missing.stderr


def test_a_new_skill_can_be_used_at_once(project: Path) -> None:
    done = run_skills("new", "look-up", "--description", 'Looks: "up" # all')
    assert done.stdout.strip() == str(project / ".mahtab" / "skills" / "look-up" / "SKILL.md")
    assert 'look-up: Looks: "up" # all\n' in run_skills("list").stdout
    assert "File exists" in run_skills("new", "look-up").stderr
    assert "single hyphens" in run_skills("new", "Look_up").stderr
    assert "not valid text" in run_skills("new", "odd", "--description", "a\udcff").stderr


@pytest.mark.parametrize(
    ("description", "message"),
    [("", "1 to 1,024 characters"), ("a" * 1_025, "1 to 1,024 characters"), ("a\x7f", "YAML")],
    ids=["empty", "long", "control character"],
)
def test_a_new_skill_that_is_wrong_is_not_written(
    project: Path, description: str, message: str
) -> None:
    done = run_skills("new", "look-up", "--description", description)
    assert (done.exit_code, message in done.stderr) == (2, True)
    assert not (project / ".mahtab" / "skills").exists()
    assert run_skills("new", "look-up", "--description", "Looks up").exit_code == 0


EMPTY_PATHS = [
    ["rlm", "why?", ""],
    ["rlm", "why?", "text.txt", "--log", ""],
    ["ask", "why?", "--load", ""],
    ["ask", "why?", "--skills-dir", ""],
    ["ask", "why?", "--code-dir", ""],
    ["skills", "list", "--skills-dir", ""],
    ["export", "-o", ""],
    ["mcp", "--project", ""],
    [""],
    ["--load", ""],
    ["--notebook", ""],
    ["--resume", ""],
]


@pytest.mark.usefixtures("home", "project")
@pytest.mark.parametrize("words", EMPTY_PATHS, ids=" ".join)
def test_empty_path_is_refused_in_a_sentence(words: list[str]) -> None:
    done = CliRunner().invoke(app, words)
    assert (done.exit_code, done.stdout) == (2, "")
    assert re.fullmatch(
        "mahtab-tui: (The name of a file .* is empty|Give a|--resume got).*\n", done.stderr
    )


@pytest.mark.usefixtures("home")
def test_empty_id_names_no_session(project: Path) -> None:
    store = new_store(project).store
    store.append(records.UserReplIn("x = 1", cell=1, time=1.0))
    store.close()
    if store.claim is not None:
        store.claim.release()
    done = CliRunner().invoke(app, ["sessions", "rm", "", "--yes"])
    assert (done.exit_code, "ID is empty" in done.stderr) == (1, True)
    assert find_session(store.session, None).id == store.session


def test_progress_line_fits_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal, program_side = os.openpty()
    termios.tcsetwinsize(program_side, (24, 20))
    with open(program_side, "w") as stderr:
        monkeypatch.setattr(sys, "stderr", stderr)
        progress = Progress()
        output = b""
        while output.count(b"\r\x1b[K") < 2:
            output += os.read(terminal, 1_000)
        progress.close()
    os.close(terminal)
    first_line = output.split(b"\r\x1b[K")[1]
    assert first_line == b"calls: 0 (0 running"


@pytest.mark.parametrize(("free", "mark"), [(5, "!"), (500, "✓")])
def test_full_disk_is_reported(
    home: Path, monkeypatch: pytest.MonkeyPatch, free: int, mark: str
) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda path: SimpleNamespace(free=free * 2**20))
    line = doctor._check_home()
    assert (line[0], "The disk is full" in line) == (mark, mark == "!")


def test_doctor_reports_an_unwritable_folder(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert "cannot be written to" in doctor._check_home()


def test_link_stays_a_link_and_file_permissions_stay(
    home: Path, project: Path, tmp_path: Path
) -> None:
    real = config_file(home, "max_turns = 3\r\n# end\r\n").rename(tmp_path / "mahtab.toml")
    real.chmod(0o644)
    path = home / ".mahtab" / "config.toml"
    path.symlink_to(real)
    assert run_config("set", "max_turns", "4").exit_code == 0
    assert path.is_symlink()
    assert real.read_bytes() == b"max_turns = 4\r\n# end\r\n"
    assert stat.S_IMODE(real.stat().st_mode) == 0o644
