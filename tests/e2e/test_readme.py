"""What the README shows works with what it names."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.core import TyperGroup

from mahtab_tui.cli.main import app
from mahtab_tui.settings.model import load_settings
from mahtab_tui.tui.commands import COMMANDS
from tests.warm import command

README = (Path(__file__).parents[2] / "README.md").read_text("utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


SHELL = [shlex.split(line, comments=True) for block in blocks("sh") for line in block.splitlines()]
"""The words of each line that is to be typed in a shell."""


def lines_of_program() -> list[list[str]]:
    """What stands behind the program's name."""
    return [words[words.index("mahtab-tui") + 1 :] for words in SHELL if "mahtab-tui" in words]


def test_every_command_and_option_is_there() -> None:
    lines = lines_of_program()
    assert len(lines) > 20
    for words in lines:
        found = typer.main.get_command(app)
        options = {name for option in found.params for name in option.opts}
        for word in words:
            if isinstance(found, TyperGroup) and word in found.commands:
                found = found.commands[word]
                options = {name for option in found.params for name in option.opts}
            elif word.startswith("-"):
                assert word in options, words


@pytest.mark.parametrize("words", [words for words in SHELL if "ask" in words], ids=" ".join)
def test_questions_without_a_screen_are_answered_by_the_demo(project: Path, words: list[str]) -> None:
    (project / "data.csv").write_text("id,price\n1,10\n2,\n3,30\n")
    (project / "notes.txt").write_text("one two three")
    piped = (project / words[1]).read_text() if words[0] == "cat" else ""
    asked = [*words[words.index("mahtab-tui") + 1 :], *([] if "--model" in words else ["--model", "demo"])]
    done = subprocess.run([*command(), *asked], input=piped, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    assert ("stdin_text has 3 words" if piped else "1 of 3 rows have no price") in done.stdout


def test_the_search_is_answered_by_the_demo(project: Path) -> None:
    words = next(words for words in lines_of_program() if words[0] == "rlm" and "--replay" not in words)
    (project / "server.log").write_text("10:00 request 7 ok\n10:01 request 8 timed out after 30 s: database\n")
    done = subprocess.run([*command(), *words, "--model", "demo"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("1 requests: 8\n")
    assert (project / words[words.index("--log") + 1]).is_file()


@pytest.mark.parametrize("code", [code for code in blocks("python") if "create_repl_agent" in code or "Tool(" in code])
def test_python_that_needs_no_screen_runs(project: Path, code: str) -> None:
    (project / "example.py").write_text(code)
    done = subprocess.run([sys.executable, "example.py"], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr


def test_the_configuration_is_one(home: Path, project: Path) -> None:
    (home / ".mahtab").mkdir(exist_ok=True)
    (project / "team" / "skills").mkdir(parents=True)
    text = next(block for block in blocks("toml") if "max_history" in block)
    (home / ".mahtab" / "config.toml").write_text(text, "utf-8")
    assert load_settings().theme == "mahtab-day"


def test_slash_commands_and_keys_are_there() -> None:
    slashes = {command.slash for command in COMMANDS}
    named = set(re.findall(r"`/([a-z]+)(?: [^`]*)?`", README)) - {"name", "login"}
    assert named
    assert named <= slashes
    keys = {key for each in COMMANDS for key in each.keys.split(",")}
    assert {key.lower() for key in re.findall(r"`(Alt\+[A-Z])`", README)} - {"alt+e", "alt+r", "alt+q"} <= keys
