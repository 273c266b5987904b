"""A question without a screen: by ``ask`` and by ``--query``; the answer for a person at a
terminal, and for a pipe."""

from __future__ import annotations

import json
import re
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.conftest import PROGRAM, Replay, Start
from tests.skills import write_skill
from tests.waiting import detached_kernels, wait_for
from tests.warm import run_program

ANSWER = "# What *holds*\n\n- `load_rows` is **first**\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n[a link](https://example.org/x)\n"
HOSTILE = "\x1b[2J\x1b]0;title\x07 &#27;[2J &#x9b;2J [red]x[/red] " + "> " * 3_000 + "deep"
COMPLETE = {
    "text": '{"is_complete": true, "reasoning": "", "next_action": ""}',
    "match": "is_complete",
}
by_ask_and_query = pytest.mark.parametrize("how", ["ask", "--query"])
READ_CALLS = ("0", "63")
"""The number of the system call `read` on x86-64 and on ARM."""
PRINT_COUNT = "```python\nprint('kept', count)\n```"
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


# Several questions in one session


def ask(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return run_program("ask", "--approval", "auto", *arguments, stdin=stdin)


def saved_session(replay: Replay) -> str:
    """Save a session called "the counts" with the variables `count` and `words`; return its ID."""
    model = replay("```python\ncount = 41 + 1\n```", COMPLETE, "Counted.")
    Path("words.txt").write_text("one two")
    done = ask("count!", "--model", model, "--load", "words.txt", "--save", "the counts")
    assert (done.returncode, done.stdout) == (0, "Counted.\n"), done.stderr
    saved = re.search(
        r"Saved as session (\w{8}): ask --session \1 goes on in it\.\n\Z", done.stderr
    )
    assert saved is not None, done.stderr
    return saved[1]


def test_saved_session_goes_on_with_its_variables_and_conversation(
    project: Path, home: Path, replay: Replay
) -> None:
    session = saved_session(replay)
    assert f"{session}  " in run_program("sessions").stdout
    assert "  the counts\n" in run_program("sessions").stdout
    for options in (["--continue"], ["--session", session[:6]], ["--session", "the counts"]):
        model = replay(PRINT_COUNT, COMPLETE, "It is 42.")
        done = ask("what is it now?", "--model", model, *options)
        assert (done.returncode, done.stdout) == (0, "It is 42.\n"), done.stderr
        assert "mahtab-tui: 2 variables restored.\n" in done.stderr
        assert "kept 42\n" in done.stderr
    exported = run_program("export", session, "-o", "all.md")
    assert exported.returncode == 0, exported.stderr
    text = Path("all.md").read_text()
    assert [text.count("count!"), text.count("what is it now?")] == [1, 3]

    renamed = ask("again?", "--model", replay("Yes."), "--continue", "--save", "other")
    assert "Saved as" not in renamed.stderr
    assert "  other\n" in run_program("sessions").stdout


def test_question_without_these_options_saves_nothing(home: Path, replay: Replay) -> None:
    assert ask("what?", "--model", replay("That.")).returncode == 0
    assert run_program("sessions", "--all").stdout == "No sessions yet.\n"


def test_session_that_is_open_elsewhere_is_left_alone(start: Start, replay: Replay) -> None:
    screen = start().idle()
    screen.enter("print('in the ' + 'first')", "in the first")
    done = ask("what?", "--model", replay("That."), "--continue")
    assert (done.returncode, done.stdout) == (1, "")
    assert re.search(r"open in another terminal: .*\. Close it there first\.\n\Z", done.stderr)


def test_kernel_that_waits_answers_and_waits_again(
    start: Start, home: Path, replay: Replay
) -> None:
    screen = start().idle()
    screen.enter("import threading; count = 7; lock = threading.Lock(); 'be' + 'gun'", "begun")
    screen.kill()
    wait_for(lambda: detached_kernels(home))
    (kernel,) = detached_kernels(home)
    for _ in range(2):
        model = replay("```python\nprint('kept', count, lock.locked())\n```", COMPLETE, "Seven.")
        done = ask("what?", "--model", model, "--continue")
        assert (done.returncode, done.stdout) == (0, "Seven.\n"), done.stderr
        assert "mahtab-tui: Reattached to the running kernel.\n" in done.stderr
        assert "kept 7 False\n" in done.stderr
        assert detached_kernels(home) == [kernel]


def test_quiet_prints_only_the_answer_or_the_reason_that_there_is_none(replay: Replay) -> None:
    for options in (["--quiet"], ["-q", "--save", "it"], ["-q", "--continue"]):
        model = replay("```python\ncount = 41 + 1\n```", COMPLETE, "It is 977.")
        done = ask("count!", "--model", model, *options)
        assert (done.returncode, done.stdout, done.stderr) == (0, "It is 977.\n", "")
    refused = ask("count!", "--model", replay("```python\n1\n```"), "-q", "--approval", "ask")
    assert (refused.returncode, refused.stdout) == (3, "")
    assert refused.stderr == (
        "mahtab-tui: The model's code did not run, because no one is here to approve it. --approval auto runs it.\n"
    )
    failed = ask("sing", "--model", "demo", "-q")
    assert (failed.returncode, failed.stdout) == (1, "")
    assert failed.stderr.startswith("mahtab-tui: The demo model has no rule for this question.")


def test_output_is_the_code_that_ran_or_one_line_of_json(replay: Replay) -> None:
    answers = ["```python\n1 / 0\n```", "```python\ncount = 42\ncount\n```", COMPLETE, "It is 977."]
    done = ask("count!", "--model", replay(*answers), "--output", "code")
    assert (done.returncode, done.stdout) == (0, "count = 42\ncount\n"), done.stderr
    assert "ZeroDivisionError" in done.stderr

    done = ask("count!", "--model", replay(*answers), "--output", "json", "--save", "it")
    (line,) = done.stdout.splitlines()
    values = json.loads(line)
    assert re.fullmatch(r"\w{8}", values.pop("session"))
    assert values == {
        "question": "count!",
        "status": "answered",
        "answer": "It is 977.",
        "code": ["count = 42\ncount"],
        "not_computed": ["977"],
        "error": None,
    }


def test_each_line_is_asked_in_one_session(project: Path, replay: Replay) -> None:
    questions = "count!\n\n  what is it?\nwhat else?\n"
    (project / "questions.txt").write_text(questions)
    answers = ["```python\ncount = 41 + 1\n```", COMPLETE, "Counted.", PRINT_COUNT, COMPLETE, "42."]
    for file in ("-", "questions.txt"):
        done = ask(
            *("--model", replay(*answers), "--each", file, "--output", "json"),
            stdin=questions if file == "-" else "piped",
        )
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        names = ("question", "status", "answer", "code")
        assert [tuple(line[name] for name in names) for line in lines] == [
            ("count!", "answered", "Counted.", ["count = 41 + 1"]),
            ("what is it?", "answered", "42.", ["print('kept', count)"]),
            ("what else?", "failed", None, []),
        ]
        assert done.returncode == 1, "one of them has failed"
        assert "kept 42\n" in done.stderr
        assert ("stdin_text" in done.stderr) == (file != "-")


def test_refused_code_of_a_question_does_not_count_for_the_next(replay: Replay) -> None:
    model = replay("```python\n1\n```", "Yes.")
    done = run_program(
        *("ask", "--model", model, "--approval", "ask", "--each", "-", "--output", "json"),
        stdin="is it?\nand now?\n",
    )
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(line["status"], line["answer"]) for line in lines] == [
        ("refused", None),
        ("answered", "Yes."),
    ]
    assert done.returncode == 3


def reads_stdin(pid: int) -> bool:
    """Whether a process waits for its stdin."""
    call, *arguments = Path(f"/proc/{pid}/syscall").read_text().split()
    return call in READ_CALLS and int(arguments[0], 16) == 0


def test_questions_that_cannot_be_read_are_a_failure(replay: Replay) -> None:
    for options in ([], ["--json"]):
        done = ask("--model", replay("Yes."), "--each", "/proc/self/mem", *options)
        assert done.returncode == 1
        assert done.stderr == (
            "mahtab-tui: The questions cannot be read: /proc/self/mem: Input/output error.\n"
        )


def test_session_of_which_nothing_was_saved_is_not_named(home: Path, replay: Replay) -> None:
    done = ask("what?", "--model", replay("That."), "--save", "it", "--python", "/bin/false")
    assert (done.returncode, done.stdout) == (1, "")
    assert "Saved as" not in done.stderr
    assert run_program("sessions", "--all").stdout == "No sessions yet.\n"


def test_name_without_visible_characters_is_refused(replay: Replay) -> None:
    done = ask("what?", "--model", replay("That."), "--save", " \x01")
    assert (done.returncode, done.stderr) == (2, "mahtab-tui: --save got an empty name.\n")


def test_question_that_the_user_stops_is_interrupted(start: Start, replay: Replay) -> None:
    model = replay("```python\nprint('ran')\n```", "It is 1.")
    terminal = start("ask", "what?", "--output", "json", "--model", model, size=(200, 20))
    terminal.wait(r"\[s\]top\?")
    terminal.send("s\n")
    assert terminal.wait_end() == 130
    assert '"status": "interrupted", "answer": null' in terminal.text
    assert '"error": null' in terminal.text


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_signal_ends_the_wait_for_piped_input(replay: Replay) -> None:
    arguments = ["ask", "what?", "--quiet", "--model", replay("That.")]
    with subprocess.Popen([*PROGRAM, *arguments], stdin=subprocess.PIPE) as program:
        try:
            wait_for(lambda: reads_stdin(program.pid))
            program.send_signal(signal.SIGINT)
            assert program.wait(30) == 130
        finally:
            program.kill()


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_line_is_answered_before_the_next_is_read_and_a_signal_ends_the_wait(
    replay: Replay,
) -> None:
    model = replay({"text": "Yes.", "repeat": True})
    arguments = ["ask", "--each", "-", "--quiet", "--model", model]
    with subprocess.Popen(
        [*PROGRAM, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as program:
        assert program.stdin is not None
        assert program.stdout is not None
        try:
            for question in ("is it?", "and now?"):
                program.stdin.write(f"{question}\n")
                program.stdin.flush()
                assert select.select([program.stdout], [], [], 30)[0], "it waits for more lines"
                assert program.stdout.readline() == "Yes.\n"
            wait_for(lambda: reads_stdin(program.pid))
            program.send_signal(signal.SIGINT)
            assert program.wait(30) == 130
        finally:
            program.kill()


def test_query_goes_on_in_a_session(replay: Replay) -> None:
    session = saved_session(replay)
    for options in (["--continue"], ["--resume", session]):
        model = replay(PRINT_COUNT, COMPLETE, "It is 42.")
        done = run_program(
            "--query", "what is it?", "--model", model, "--approval", "auto", *options
        )
        assert (done.returncode, done.stdout) == (0, "It is 42.\n"), done.stderr
        assert "kept 42\n" in done.stderr
