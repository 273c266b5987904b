"""A question without a screen: by ``ask`` and by ``--query``; the answer for a person at a
terminal, and for a pipe."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.e2e.conftest import Replay, Start
from tests.skills import write_skill
from tests.warm import run_program

ANSWER = "# What *holds*\n\n- `load_rows` is **first**\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n[a link](https://example.org/x)\n"
HOSTILE = "\x1b[2J\x1b]0;title\x07 &#27;[2J &#x9b;2J [red]x[/red] " + "> " * 3_000 + "deep"
COMPLETE = {
    "text": '{"is_complete": true, "reasoning": "", "next_action": ""}',
    "match": "is_complete",
}
by_ask_and_query = pytest.mark.parametrize("how", ["ask", "--query"])
CODE = "```python\nprint(search_code('def'))\nprint(read_file('app.py'))\nprint(load_skill('tidy'))\n```"


@pytest.mark.sample(1)
@by_ask_and_query
def test_pipe_gets_the_answer_unchanged(replay: Replay, how: str) -> None:
    done = run_program(how, "what holds?", "--model", replay(ANSWER))
    assert (done.returncode, done.stdout) == (0, ANSWER.rstrip("\n") + "\n")


@by_ask_and_query
def test_terminal_gets_the_answer_rendered(start: Start, replay: Replay, how: str) -> None:
    terminal = start(how, "what holds?", "--model", replay(ANSWER), size=(80, 40))
    assert terminal.wait_end() == 0
    assert "What holds" in terminal.text
    assert "• load_rows is first" in terminal.text
    assert "https://example.org/x" in terminal.text
    assert "**" not in terminal.text
    assert "|---|" not in terminal.text


def test_model_output_reaches_the_terminal_as_text_only(start: Start, replay: Replay) -> None:
    terminal = start("ask", "x", "--model", replay(HOSTILE), size=(80, 40))
    assert terminal.wait_end() == 0
    assert b"\x1b[2J" not in terminal.raw
    assert b"\x1b]" not in terminal.raw
    assert "\x9b" not in terminal.raw.decode("utf-8", "replace")
    assert b"[red]x[/red]" in terminal.raw


@pytest.mark.sample(1)
@by_ask_and_query
def test_named_skills_and_source_are_used(project: Path, replay: Replay, how: str) -> None:
    (project / "src").mkdir()
    (project / "src" / "app.py").write_text("def load_rows(): ...\n")
    (project / "outside.py").write_text("def no(): ...\n")
    write_skill(project / "team", "tidy", "Tidy up", "Put things away.")
    model = replay(CODE, COMPLETE, "There.")
    options = f"--model {model} --approval auto --skills-dir team --code-dir src".split()
    done = run_program(how, "where?", *options)
    assert (done.returncode, done.stdout) == (0, "There.\n"), done.stderr
    assert (
        "app.py\n     1: def load_rows(): ...\n     1  def load_rows(): ...\nPut things away."
        in done.stderr
    )
    assert "outside" not in done.stderr.replace("is outside ", "")


@pytest.mark.sample(1)
@by_ask_and_query
def test_files_are_loaded_and_events_printed_as_json(
    project: Path, replay: Replay, how: str
) -> None:
    (project / "words.txt").write_text("one two")
    done = run_program(how, "how many?", "--model", replay("Two."), "--load", "words.txt", "--json")
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert (done.returncode, done.stderr) == (0, "")
    assert any("words" in event["text"] for event in events if event["tag"] == "user-repl-in")
    assert [event["text"] for event in events if event["tag"] == "assistant-chat"] == ["Two."]


@pytest.mark.parametrize("option", [("--set", "kernel=jupyter:"), ("--kernel", "jupyter:")])
@by_ask_and_query
def test_address_that_names_no_kernel_gives_one_sentence(how: str, option: tuple[str, str]) -> None:
    done = run_program(how, "hi", "--model", "demo", *option)
    assert done.returncode == 2
    assert done.stderr.startswith("mahtab-tui: Not a Jupyter kernel. Use jupyter:NAME")
