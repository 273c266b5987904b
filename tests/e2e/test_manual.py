"""Commands and examples of the README and the manual work as written."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.core import TyperGroup

from mahtab_tui.acp.commands import COMMANDS as EDITOR_COMMANDS
from mahtab_tui.cli.main import app
from mahtab_tui.linear.commands import COMMANDS as LINEAR_COMMANDS
from mahtab_tui.manual import TOPICS
from mahtab_tui.search.limits import SearchLimits
from mahtab_tui.settings.model import Settings, load_settings
from mahtab_tui.tools.builtin import BUILTIN_TOOLS
from mahtab_tui.tui.commands import COMMANDS
from mahtab_tui.tui.commands.declarations import PANE_COMMANDS, PANE_KEYS
from mahtab_tui.worker.sandbox.functions import ALIASES
from mahtab_tui.worker.tools.toolbox import NAMES
from tests import film, warm
from tests.e2e.conftest import PROGRAM, Start
from tests.e2e.terminal import Terminal
from tests.manual import FOLDER, TABLES, with_tables
from tests.warm import run_program

README = (Path(__file__).parents[2] / "README.md").read_text("utf-8")
PAGES = {topic: (FOLDER / f"{topic}.md").read_text("utf-8") for topic in TOPICS}
INDEX = (FOLDER / "index.md").read_text("utf-8")
"""The first page of the site."""
TEXT = "\n".join([README, *PAGES.values()])


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", TEXT, re.DOTALL)


TRIALS = {
    topic: re.findall(r"```(\w+)\n(.*?)```", page.partition("\n## Try it\n")[2], re.DOTALL)
    for topic, page in {**PAGES, "index": INDEX}.items()
}
"""What a reader of each page can run, as languages and texts: commands for a shell (`sh`), cells for
the program (`python`), and after them what they show (`text`)."""
SHELL = [shlex.split(line, comments=True) for block in blocks("sh") for line in block.splitlines()]
"""The words of each shell command."""


def lines_of_program() -> list[list[str]]:
    return [words[words.index("mahtab-tui") + 1 :] for words in SHELL if "mahtab-tui" in words]


def test_every_documented_command_and_option_exists() -> None:
    lines = lines_of_program()
    assert len(lines) > 20
    for words in lines:
        documented_command = typer.main.get_command(app)
        options = {name for option in documented_command.params for name in option.opts}
        for word in words:
            if isinstance(documented_command, TyperGroup) and (
                within := documented_command.get_command(typer.Context(documented_command), word)
            ):
                documented_command = within
                options = {name for option in documented_command.params for name in option.opts}
            elif word.startswith("-") and word != "-":
                assert word.partition("=")[0] in options, words


def test_demo_answers_questions_without_a_screen(project: Path) -> None:
    (project / "data.csv").write_text("id,price\n1,10\n2,\n3,30\n")
    (project / "notes.txt").write_text("one two three")
    (project / "questions.txt").write_text("how many rows have no price?\n")
    tried = [text for trial in TRIALS.values() for _, text in trial]
    examples = [block for block in blocks("sh") if block not in tried]
    lines = [
        words
        for block in examples
        for words in (shlex.split(line, comments=True) for line in block.splitlines())
        if "ask" in words
    ]
    assert len(lines) > 4
    # In their order, because some go on in the session of others.
    for words in lines:
        piped = (project / words[1]).read_text() if words[0] == "cat" else ""
        model = [] if "--model" in words else ["--model", "demo"]
        done = run_program(*words[words.index("mahtab-tui") + 1 :], *model, stdin=piped)
        assert done.returncode == 0, done.stderr
        if piped == "one two three":
            answer = "stdin_text has 3 words"
        elif "describe without_price" in words:
            answer = "price"
        else:
            answer = "1 of 3 rows have no price"
        assert answer in done.stdout


def test_demo_answers_the_search(project: Path) -> None:
    words = next(words for words in lines_of_program() if words[:1] == ["rlm"])
    (project / "server.log").write_text(
        "10:00 request 7 ok\n10:01 request 8 timed out after 30 s: database\n"
    )
    done = run_program(*words, "--model", "demo")
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("line 2: 10:01 request 8 timed out after 30 s: database\n")
    assert (project / words[words.index("--log") + 1]).is_file()


@pytest.mark.slow
@pytest.mark.parametrize("topic", TRIALS)
def test_what_a_page_lets_a_reader_try_does_what_it_says(
    start: Start, home: Path, project: Path, topic: str
) -> None:
    command = home / "bin" / "mahtab-tui"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec {shlex.join(warm.command())} "$@"\n')
    command.chmod(0o755)
    path = os.pathsep.join([str(command.parent), str(Path(PROGRAM[0]).parent), os.environ["PATH"]])
    printed = ""
    screen: Terminal | None = None
    shown_languages = set()
    for language, text in TRIALS[topic]:
        shown_languages.add(language)
        if language == "sh":
            printed = subprocess.run(
                ["bash", "-c", text],
                env={**os.environ, "PATH": path},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=100,
            ).stdout
        elif language == "python":
            screen = (screen or start("--model", "demo", env={"PATH": path})).idle()
            screen.paste(text.rstrip("\n"))
            screen.press("enter")
        else:
            for line in text.splitlines():
                pattern = ".*".join(re.escape(part) for part in line.split("…"))
                if screen is not None:
                    screen.wait(pattern)
                else:
                    assert re.search(pattern, printed), printed
    assert "text" in shown_languages, "nothing to compare with"
    assert shown_languages & {"sh", "python"}, "nothing to run"


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "code",
    [
        code
        for code in blocks("python")
        if "create_repl_agent" in code or "Tool(" in code or 'model="demo"' in code
    ],
)
def test_python_examples_without_a_screen_run(project: Path, code: str) -> None:
    (project / "example.py").write_text(code)
    done = subprocess.run(
        [sys.executable, "example.py"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr


def test_configuration_example_is_valid(home: Path, project: Path) -> None:
    (home / ".mahtab").mkdir(exist_ok=True)
    (project / "team" / "skills").mkdir(parents=True)
    text = next(block for block in blocks("toml") if "max_usd" in block)
    (home / ".mahtab" / "config.toml").write_text(text, "utf-8")
    assert load_settings().theme == "mahtab-day"


def test_documented_slash_commands_keys_and_settings_exist() -> None:
    slashes = {*(command.slash for command in COMMANDS), *EDITOR_COMMANDS, *LINEAR_COMMANDS}
    # `/name` stands for any command, and `/f 1, 2` is a call as IPython writes it.
    named = set(re.findall(r"`/([a-z]+)(?: [^`]*)?`", TEXT)) - {"name", "login", "f"}
    assert named
    assert named <= slashes
    bound: list[Any] = [*COMMANDS, *PANE_COMMANDS, *PANE_KEYS]
    keys = {key for bound_command in bound for key in re.split(", ?", bound_command.keys)}
    chords = {key.lower() for key in re.findall(r"`((?:(?:Ctrl|Alt|Shift)\+)+[A-Z]|F\d+)`", TEXT)}
    assert chords
    assert chords <= keys
    settings = set(re.findall(r"`(rlm_\w+|max_\w+|\w+_model)`", TEXT))
    other_names = {"rlm_", *SearchLimits.__dataclass_fields__, *ALIASES}
    assert settings - other_names <= Settings.model_fields.keys()


def test_every_builtin_function_is_documented() -> None:
    documented = set(re.findall(r"`(\w+)`", PAGES["python"]))
    assert {*NAMES, *(name for tool in BUILTIN_TOOLS for name in tool.names)} <= documented


@pytest.mark.parametrize("topic", TABLES)
def test_tables_match_the_program(topic: str) -> None:
    assert PAGES[topic] == with_tables(topic, PAGES[topic])


def test_every_page_is_a_topic_and_every_link_works() -> None:
    assert {path.stem for path in FOLDER.glob("*.md")} == {"index", *TOPICS}
    root = Path(__file__).parents[2]
    for folder, text in [
        (root, README),
        (FOLDER, INDEX),
        *((FOLDER, page) for page in PAGES.values()),
    ]:
        targets = re.findall(r"\]\(([^)#:]+)[^):]*\)", text)
        targets += re.findall(r'(?:src|srcset)="([^"]+)"', text)
        for target in targets:
            assert (folder / target).exists(), target


@pytest.mark.slow
@pytest.mark.sample(1)
@pytest.mark.parametrize("theme", film.THEMES)
def test_moving_picture_shows_the_program_as_it_is(theme: str) -> None:
    picture = (FOLDER / "pictures" / f"film-{theme}.svg").read_text("utf-8")
    shown_texts = film.frame_texts(picture)
    last_text = ""
    for title, text in film.chapter_texts(film.take(theme)).items():
        assert text in shown_texts, f"{title}. Run python -m tests.film.\n{text}"
        last_text = text
    assert shown_texts[-1] == last_text


def test_topic_is_printed_as_markdown_into_a_pipe() -> None:
    done = run_program("help", "models")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("# Models\n")
    assert "](" not in done.stdout, "no link to a file that is not there"
    listed = run_program("help").stdout
    assert all(f"| `{topic}` | " in listed for topic in TOPICS)


@pytest.mark.parametrize(("word", "suggestions"), [("modles", "models"), ("zzz", "start, keys")])
def test_unknown_topic_gives_one_sentence_with_suggestions(word: str, suggestions: str) -> None:
    done = run_program("help", word)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert suggestions in done.stderr


def test_topic_is_shown_in_a_pager_on_a_terminal(start: Start, project: Path) -> None:
    pager = project / "pager"
    pager.write_text("#!/bin/sh\nsed 's/^/> /'\nread word < /dev/tty\n")
    pager.chmod(0o755)
    screen = start("help", "keys", size=(80, 24), env={"PAGER": str(pager), "MANPAGER": ""})
    screen.wait(r"> .*keymap\.toggle-mode")
    screen.press("enter")
    assert screen.wait_end() == 0


def test_readme_tour_works(start: Start, project: Path) -> None:
    steps = dict(re.findall(r"(?m)^(\d+)\. (.*)$", README))
    assert len(steps) == 10

    def written(step: int, text: str) -> str:
        assert f"`{text}`" in steps[str(step)]
        return text

    setup_command = next(block for block in blocks("sh") if "printf" in block).splitlines()[1]
    subprocess.run(setup_command, shell=True, check=True, cwd=project)
    screen = start("data.csv", "--model", "demo", size=(120, 45))
    screen.wait(r"\+ data")
    screen.enter(written(1, "len(data)"), r"(?m)^ \S 3 ")
    screen.enter("`" + written(2, "how many rows have no price?"))
    screen.press_until("y", "1 of 3 rows have no price", prompt_pattern="waits for you")
    screen.wait("without_pr.*◈ 3")
    screen.wait("idle")
    screen.send("\x0f" + written(5, "n"))
    screen.press_until("enter", "Repr", prompt_pattern="NAMESPACE")
    screen.press("escape", pattern="NAMESPACE")
    screen.enter("`" + written(6, "1 / 0"))
    screen.wait(r"ZeroDivisionError[\s\S]*Alt\+X asks")
    screen.send("\x1bx", "Explain the error of cell")
    screen.press("enter", pattern="The cell raised ZeroDivisionError")
    screen.wait("idle")
    call = 'rlm("Which requests timed out?", "10:01 request 8 timed out after 30 s: database")'
    screen.enter(written(7, call), "RECURSION")
    screen.wait("lines with 2 of the words")
    screen.wait("idle")
    screen.send("\x0f" + written(8, "t"))
    screen.press_until("enter", "Run again", prompt_pattern="TRANSCRIPT")
    screen.press("escape", gone_pattern="Run again")
    screen.press("f1", pattern="type to search")
    screen.press("escape", gone_pattern="type to search")
    screen.leave()
    assert written(10, "mahtab-tui --continue") in screen.text
