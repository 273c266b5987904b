"""The linear interface on a pty: line by line, in the terminal's own scrollback."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.e2e.conftest import PROGRAM, Replay, Start
from tests.e2e.terminal import DEADLINE, Terminal
from tests.e2e.test_terminal import CELL, KITTY_KEEPS, QUESTION
from tests.e2e.test_terminal import PROGRAM as BORROWER
from tests.ssh_server import SshServer, needs_sshd

FORMS = ("--linear", "--linear=plain")
in_both_forms = pytest.mark.parametrize("form", FORMS)
PLAIN = "--linear=plain"
PROMPT_END = b"\x1b[?2004l"
"""At its end, a prompt takes pastes for keys again."""
CHOICES = r"1 to 6:\s*\Z"
HOSTILE_CELL = r"print('\x1b]0;title\x07a\x1b[2Jb\x9b31mc\x1b[31mred\x1b[0m\u202ed')"
PICTURE_CELL = "from PIL import Image; Image.new('RGB', (30, 20), 'red')"
BAR_CELL = (
    "import pathlib, time; print('10 %', end='')\n"
    "while not pathlib.Path('go').exists(): time.sleep(0.05)\n"
    "print('\\r90 %')"
)
REPL = """
from mahtab_tui import run_repl
names = {"y": 5}
run_repl(names, model="demo", linear=True)
print("left with", names["z"])
"""

WAITING_CELL = (
    "import pathlib, time; print('before')\n"
    "while not pathlib.Path('go').exists(): time.sleep(0.05)\n"
    "print('after')"
)
HOST = """
import readline
from mahtab_tui import run_repl
def complete_nothing(word, index):
    return None
readline.add_history("of the host")
readline.set_completer(complete_nothing)
readline.set_completer_delims(" ")
run_repl({}, model="demo", linear="plain")
input("host reads: ")
count = readline.get_current_history_length()
print("history", [readline.get_history_item(number) for number in range(1, count + 1)])
print("completer", readline.get_completer() is complete_nothing)
print("delimiters", repr(readline.get_completer_delims()))
"""


def at_prompt(terminal: Terminal, label: str) -> None:
    """Wait until the last line is a prompt."""
    terminal.wait(rf"{re.escape(label)}\s*\Z")


def lines(terminal: Terminal) -> list[str]:
    return [line.rstrip() for line in terminal.text.splitlines()]


def run_cell(terminal: Terminal, code: str, next_label: str) -> None:
    terminal.send(f"{code}\r")
    at_prompt(terminal, next_label)


def give_up_line(terminal: Terminal, pattern: str) -> None:
    """Press Ctrl+C at a prompt until a regular expression is found: Python's `input` misses a signal that
    comes just before it waits for a key."""
    terminal.press_until("ctrl+c", pattern)


@in_both_forms
def test_cells_print_below_each_other_and_say_in_words_how_they_end(
    start: Start, form: str
) -> None:
    terminal = start(form)
    at_prompt(terminal, "In 1:")
    run_cell(terminal, "x = 41 + 1", "In 2:")
    run_cell(terminal, "x", "In 3:")
    run_cell(terminal, "1/0", "In 4:")
    assert lines(terminal).count("42") == 1
    assert "[+x int 42]" in lines(terminal)
    assert "ZeroDivisionError: division by zero" in lines(terminal)
    assert any(line.startswith("In 3: error, ") for line in lines(terminal))


@in_both_forms
def test_block_ends_with_an_empty_line(start: Start, form: str) -> None:
    terminal = start(form)
    at_prompt(terminal, "In 1:")
    terminal.send("for number in range(3):\r", r"\.\.\.:")
    # The drawn prompt has indented the line already.
    indent = "    " if form == PLAIN else ""
    terminal.send(f"{indent}print('line', number)\r")
    run_cell(terminal, "", "In 2:")
    assert re.findall(r"^line \d", terminal.text, re.MULTILINE) == ["line 0", "line 1", "line 2"]


@pytest.mark.parametrize("arguments", [(), ("--linear",)], ids=["by itself", "asked for lines"])
def test_dumb_terminal_gets_only_text(start: Start, arguments: tuple[str, ...]) -> None:
    terminal = start(*arguments, env={"TERM": "dumb"})
    at_prompt(terminal, "In 1:")
    run_cell(terminal, r"print('\x1b[31mred\x1b[0m')", "In 2:")
    terminal.send("/fullscreen\r", "cannot show the full screen")
    at_prompt(terminal, "In 2:")
    assert b"\nred\r\n" in terminal.raw
    assert b"\x1b" not in terminal.raw


def test_setting_opens_the_plain_form(start: Start) -> None:
    terminal = start(env={"MAHTAB_SCREEN_READER": "true"})
    at_prompt(terminal, "In 1:")
    assert b"\x1b[" not in terminal.raw.replace(b"\x1b[?2004h", b"").replace(b"\x1b[?2004l", b"")


@contextmanager
def piped_program(folder: Path, *arguments: str) -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    """Run the program with a terminal for its input, and a pipe for its output; yield the
    terminal's other end, and the process."""
    keyboard, terminal = os.openpty()
    try:
        with subprocess.Popen(
            [*PROGRAM, *arguments, "--model", "demo"],
            stdin=terminal,
            stdout=subprocess.PIPE,
            stderr=terminal,
            cwd=folder,
            start_new_session=True,
        ) as process:
            os.close(terminal)
            try:
                yield keyboard, process
            finally:
                process.kill()
    finally:
        os.close(keyboard)


def read_until(process: subprocess.Popen[bytes], pattern: str) -> str:
    assert process.stdout is not None
    text = ""
    deadline = time.monotonic() + DEADLINE
    while not re.search(pattern, text):
        assert time.monotonic() < deadline, text
        data = os.read(process.stdout.fileno(), 4096)
        assert data, text
        text += data.decode()
    return text


@pytest.mark.parametrize("arguments", [(), ("--linear",)], ids=["by itself", "asked for lines"])
def test_pipe_gets_the_lines_while_a_terminal_has_the_keys(
    project: Path, arguments: tuple[str, ...]
) -> None:
    with piped_program(project, *arguments) as (keyboard, process):
        text = read_until(process, r"In 1: \Z")
        os.write(keyboard, b"6 * 7\n")
        text += read_until(process, r"In 2: \Z")
        # Nothing can be edited in a line.
        os.write(keyboard, b"xs = [1]\n")
        text += read_until(process, r"In 3: \Z")
        os.write(keyboard, b"`describe xs\n")
        text += read_until(process, r"1 to \d: \Z")
        assert "  6 " not in text
        os.write(keyboard, b"\n")
        read_until(process, r"Ask: \Z")
        os.write(keyboard, b"\x04")
        assert process.wait(DEADLINE) == 0
    assert "\n42\n" in text.replace("In 1: ", "\n")
    assert "\x1b" not in text


def test_closed_pipe_ends_the_program_without_a_traceback(project: Path) -> None:
    with piped_program(project, PLAIN) as (keyboard, process):
        read_until(process, r"In 1: \Z")
        assert process.stdout is not None
        process.stdout.close()
        os.write(keyboard, b"6 * 7\n")
        assert process.wait(DEADLINE) == 1
        errors = os.read(keyboard, 65536).decode()
    assert "Traceback" not in errors
    assert "BrokenPipe" not in errors


@in_both_forms
def test_code_of_the_model_is_shown_whole_and_runs_only_when_chosen(
    start: Start, form: str, replay: Replay
) -> None:
    code = "\n".join(f"value_{number} = {number}" for number in range(30))
    answer = f"I count.\n```python\n{code}\n```"
    model = replay(answer, "Not counted.", answer, "Counted.")
    terminal = start(form, "--model", model, size=(80, 60))
    at_prompt(terminal, "In 1:")
    terminal.send("`")
    if form == PLAIN:
        terminal.send("\r")
    at_prompt(terminal, "Ask:")
    terminal.send("count\r", CHOICES)
    for number in range(30):
        assert f"    value_{number} = {number}" in terminal.text
    terminal.send("\r", "The code was skipped")
    at_prompt(terminal, "Ask:")
    assert "+value_0" not in terminal.text
    terminal.send("count\r", CHOICES)
    terminal.send("9\r", "number from 1 to 6")
    terminal.wait(CHOICES)
    terminal.send("3\r", r"\+value_0 int 0")
    at_prompt(terminal, "Ask:")
    assert "Counted." in terminal.text


@in_both_forms
def test_code_of_the_model_is_edited_before_it_runs(
    start: Start, form: str, replay: Replay
) -> None:
    model = replay("```python\ntotal = 1\nprint('total is', total)\n```", "Done.")
    terminal = start(form, "--model", model)
    at_prompt(terminal, "In 1:")
    terminal.send("`add\r", CHOICES)
    # In the plain form, the lines of the code come one after the other.
    terminal.send("6\r", r"In 1: total = 1\s*\Z" if form == PLAIN else r"total\)\s*\Z")
    if form == PLAIN:
        terminal.send("\x7f5\r", r"\.\.\.: print\('total is', total\)\s*\Z")
        terminal.send("\r")
    else:
        terminal.send("\x1b[A\x1b[F\x7f5", "total = 5")
        terminal.send("\x1b[B\x1b[F\r")
    terminal.wait("Done.")
    assert "total is 5" in lines(terminal)
    # The user has just seen the code.
    assert "total = 5" not in terminal.text.rpartition("running:")[2]
    at_prompt(terminal, "Ask:")


def test_edited_code_goes_along_to_the_full_screen(start: Start, replay: Replay) -> None:
    terminal = start("--linear", "--model", replay("```python\ntotal = 1\n```", "Done."))
    at_prompt(terminal, "In 1:")
    terminal.send("`add\r", CHOICES)
    terminal.send("6\r", r"In 1: total = 1\s*\Z")
    terminal.send(" + 41", r"1 \+ 41")
    terminal.send("\x07")
    terminal.wait("y run")
    terminal.wait(r"total = 1 \+ 41")


def test_question_goes_along_to_the_full_screen(start: Start, replay: Replay) -> None:
    terminal = start("--linear", "--model", replay("```python\ntotal = 1\n```", "Done."))
    at_prompt(terminal, "In 1:")
    terminal.send("`add\r", CHOICES)
    terminal.send("\x07")
    terminal.wait("waits for you")
    terminal.wait("y run")


@in_both_forms
def test_ctrl_c_stops_a_cell_and_gives_up_a_line(start: Start, form: str) -> None:
    terminal = start(form)
    at_prompt(terminal, "In 1:")
    terminal.send("unfinished = 5", "unfinished = 5")
    give_up_line(terminal, r"unfinished = 5.*\n(.*\n)?In 1:\s*\Z")
    terminal.send("import time; print('begun'); time.sleep(600)\r", r"\nbegun")
    terminal.send("\x03", "In 1: interrupted")
    at_prompt(terminal, "In 2:")
    run_cell(terminal, "'unfinished' in globals()", "In 3:")
    assert "False" in lines(terminal)


@in_both_forms
def test_cells_read_lines_and_passwords(start: Start, form: str) -> None:
    terminal = start(form)
    at_prompt(terminal, "In 1:")
    terminal.send("name = input('who? ')\r", r"\nwho\?\s*\Z")
    run_cell(terminal, "Ada", "In 2:")
    terminal.send("import getpass; word = getpass.getpass('word? ')\r", r"\nword\?")
    run_cell(terminal, "hidden-word", "In 3:")
    run_cell(terminal, "name, len(word)", "In 4:")
    assert "('Ada', 11)" in terminal.text
    assert terminal.text.count("who? Ada") == 1
    assert "hidden-word" not in terminal.text


def test_line_that_grows_is_drawn_over_itself(start: Start, project: Path) -> None:
    terminal = start("--linear")
    at_prompt(terminal, "In 1:")
    terminal.paste(BAR_CELL)
    terminal.send("\r", r"\n10 %\s*\Z")
    (project / "go").touch()
    at_prompt(terminal, "In 2:")
    assert "90 %" in lines(terminal)
    assert "10 %" not in lines(terminal)


def test_terminal_can_go_from_prompt_to_prompt(start: Start) -> None:
    terminal = start("--linear")
    at_prompt(terminal, "In 1:")
    run_cell(terminal, "6 * 7", "In 2:")
    marks = re.findall(rb"\x1b\]133;([ABCD])\x1b\\|(42)", terminal.raw)
    order = "".join((mark or output).decode() for mark, output in marks)
    assert re.fullmatch("(DAB?)+C42(DA)+", order)


@pytest.mark.slow
def test_user_who_looks_elsewhere_hears_that_something_waits(start: Start) -> None:
    terminal = start(PLAIN)
    at_prompt(terminal, "In 1:")
    run_cell(terminal, "import time", "In 2:")
    assert b"\x07" not in terminal.raw
    terminal.send("time.sleep(10); name = input('who? ')\r", r"\nwho\?\s*\Z")
    while b"\x07" not in terminal.raw:
        assert terminal.pump()


def test_vi_keys_edit_the_prompt_and_its_mode_is_named(start: Start) -> None:
    terminal = start("--linear", env={"MAHTAB_KEYS": "vim"})
    at_prompt(terminal, r"In 1 (insert):")
    terminal.send("6 * 8", r"6 \* 8")
    terminal.send("\x1b", r"In 1 \(normal\): 6 \* 8")
    terminal.send("r7", r"6 \* 7")
    run_cell(terminal, "", "In 2 (insert):")
    assert "42" in lines(terminal)


@in_both_forms
def test_program_borrows_the_terminal_and_its_keys(start: Start, project: Path, form: str) -> None:
    (project / "bin").mkdir()
    (project / "bin" / "vim").write_text(BORROWER)
    (project / "bin" / "vim").chmod(0o755)
    path = f"{project / 'bin'}:{os.environ['PATH']}"
    terminal = start(form, env={"PATH": path, "SHELL": "/bin/sh"})
    at_prompt(terminal, "In 1:")
    terminal.send("!vim x.py\r", "lent to vim x.py")
    terminal.send("\x03", "interrupted")
    terminal.send("words\r", "exit code 3")
    at_prompt(terminal, "In 2:")
    run_cell(terminal, "6 * 7", "In 3:")
    assert "42" in lines(terminal)


@in_both_forms
def test_undo_shows_what_it_changes_and_keeps_it_by_default(start: Start, form: str) -> None:
    terminal = start(form)
    at_prompt(terminal, "In 1:")
    run_cell(terminal, "total = 1", "In 2:")
    run_cell(terminal, "total = 2", "In 3:")
    terminal.send("/undo\r", r"1 to 2:\s*\Z")
    assert re.search(r"~ total  int 2 → 1", terminal.text)
    terminal.send("\r", "Nothing was changed")
    at_prompt(terminal, "In 3:")
    terminal.send("/undo\r")
    terminal.wait(r"1 to 2:\s*\Z")
    terminal.send("2\r", "Cell 2 was undone")
    at_prompt(terminal, "In 3:")
    terminal.send("/vars\r", r"\ntotal +int +1")


def test_ctrl_c_does_not_say_that_nothing_was_done_while_the_kernel_goes_on(start: Start) -> None:
    terminal = start(PLAIN)
    at_prompt(terminal, "In 1:")
    run_cell(terminal, "import os; total = os.getpid(); print('kernel', total)", "In 2:")
    line = re.search(r"^kernel (\d+)", terminal.text, re.MULTILINE)
    assert line is not None
    kernel_pid = int(line[1])
    os.kill(kernel_pid, signal.SIGSTOP)
    try:
        terminal.send("/undo\r", "/undo")
        # With Ctrl+C, the terminal discards what has not been read yet.
        time.sleep(1)
        terminal.press_until("ctrl+c", "Stopped waiting; it may still have been done")
        assert "Nothing was done" not in terminal.text
    finally:
        os.kill(kernel_pid, signal.SIGCONT)
    at_prompt(terminal, "In 2:")
    terminal.send("/undo\r", r"1 to 2:\s*\Z")
    give_up_line(terminal, "Nothing was done")
    at_prompt(terminal, "In 2:")


def test_user_goes_from_lines_to_the_screen_and_back(start: Start) -> None:
    terminal = start("--linear")
    at_prompt(terminal, "In 1:")
    run_cell(terminal, "x = 41 + 1", "In 2:")
    terminal.send("draft = 1")
    terminal.send("\x07", "kernel .*idle")
    terminal.wait(r"In 1 · you")
    terminal.wait("draft = 1")
    terminal.press("ctrl+c")
    terminal.wait_gone("draft = 1")
    terminal.enter("y = x + 1", r"\+ y int 43")
    terminal.enter("/linear", r"In 3: \s*")
    # pyte has no second screen, so the lines stand over it.
    terminal.send("x, y\r", r"\(42, 43\)")
    # Before the prompt is there, the terminal would keep the key for nobody.
    terminal.wait("In 4:")
    terminal.send("\x04")
    assert terminal.wait_end() == 0


def test_user_comes_back_from_the_screen_to_the_plain_form(start: Start) -> None:
    terminal = start(PLAIN)
    at_prompt(terminal, "In 1:")
    terminal.send("/fullscreen\r", "TRANSCRIPT")
    terminal.enter("/linear", "In 1: ")
    terminal.send("6 * 7\r", "In 2: ")
    # The other form marks prompts.
    assert b"\x1b]133;" not in terminal.raw


@in_both_forms
def test_output_of_others_cannot_drive_the_terminal(start: Start, form: str) -> None:
    terminal = start(form)
    at_prompt(terminal, "In 1:")
    typed_bytes = len(terminal.raw)
    run_cell(terminal, HOSTILE_CELL, "In 2:")
    output = bytes(terminal.raw[typed_bytes:])
    for sequence in (b"\x1b]0;", b"\x1b[2J", b"\xc2\x9b", "\u202e".encode()):
        assert sequence not in output
    assert b"red" in output
    assert (b"\x1b[31m" in output) == (form == "--linear")


def test_files_of_cells_are_links_for_the_terminal(start: Start, project: Path) -> None:
    terminal = start("--linear")
    at_prompt(terminal, "In 1:")
    run_cell(terminal, "written = open('out.txt', 'w').write('1')", "In 2:")
    address = f"file://{socket.gethostname()}{project}/out.txt"
    terminal.wait("out.txt` new")
    assert f"\x1b]8;;{address}\x1b\\".encode() in terminal.raw
    assert terminal.raw.count(b"\x1b]8;;\x1b\\") == 1


def test_code_with_a_question_instead_is_not_run(start: Start, replay: Replay) -> None:
    model = replay("```python\ntotal = 1\nprint('total is', total)\n```", "Done.")
    terminal = start(PLAIN, "--model", model)
    at_prompt(terminal, "In 1:")
    terminal.send("`add\r", CHOICES)
    terminal.send("6\r", r"In 1: total = 1\s*\Z")
    terminal.send("\x15`too small\r", "The code was skipped: too small")
    at_prompt(terminal, "Ask:")


def test_line_goes_on_after_the_program_was_stopped(project: Path) -> None:
    # Shells change the terminal while they have it.
    script = 'set -m; "$@"; stty sane; fg >/dev/null'
    argv = ["bash", "-c", script, "bash", *PROGRAM, PLAIN, "--model", "demo"]
    with Terminal(argv, cwd=project) as terminal:
        at_prompt(terminal, "In 1:")
        terminal.send("6 *", r"In 1: 6 \*\s*\Z")
        terminal.send("\x1a", r"Stopped[^\0]*\nIn 1: 6 \*\s*\Z")
        run_cell(terminal, " 7", "In 2:")
        assert [line for line in lines(terminal) if "7" in line] == ["In 1: 6 * 7"]
        assert "42" in lines(terminal)


def test_program_without_a_shell_is_not_stopped(cold_start: Start) -> None:
    terminal = cold_start(PLAIN)
    at_prompt(terminal, "In 1:")
    terminal.send("6 *", r"In 1: 6 \*\s*\Z")
    terminal.send("\x1a", r"In 1: 6 \*In 1: 6 \*\s*\Z")
    run_cell(terminal, " 7", "In 2:")
    assert "42" in lines(terminal)


def test_new_width_reaches_the_kernel(start: Start) -> None:
    terminal = start("--linear", size=(70, 24))
    at_prompt(terminal, "In 1:")
    run_cell(terminal, "import shutil; shutil.get_terminal_size().columns", "In 2:")
    terminal.resize(90, 30)
    run_cell(terminal, "0", "In 3:")
    run_cell(terminal, "shutil.get_terminal_size().columns", "In 4:")
    assert re.findall(r"^(70|90)\s*$", terminal.text, re.MULTILINE) == ["70", "90"]


@in_both_forms
def test_cell_goes_on_while_the_width_changes(start: Start, project: Path, form: str) -> None:
    terminal = start(form, size=(70, 24))
    at_prompt(terminal, "In 1:")
    terminal.paste(WAITING_CELL)
    terminal.send("\r", "before")
    terminal.resize(100, 30)
    (project / "go").touch()
    at_prompt(terminal, "In 2:")
    assert [line for line in lines(terminal) if line in ("before", "after")] == ["before", "after"]
    run_cell(terminal, "import shutil; shutil.get_terminal_size().columns", "In 3:")
    assert "100" in lines(terminal)


@needs_sshd
@in_both_forms
def test_lines_reach_a_terminal_over_ssh(project: Path, tmp_path: Path, form: str) -> None:
    server = SshServer(tmp_path)
    program = shlex.join([f"HOME={os.environ['HOME']}", *PROGRAM, form, "--model", "demo"])
    remote_command = f"cd {shlex.quote(str(project))} && env {program}"
    options = ("-t", "-o", "StrictHostKeyChecking=no", "-p", str(server.port))
    command = [str(server.client() / "ssh"), *options, "127.0.0.1", remote_command]
    try:
        with Terminal(command, columns=80, lines=24, cwd=project) as terminal:
            at_prompt(terminal, "In 1:")
            terminal.paste(WAITING_CELL)
            terminal.send("\r", "before")
            terminal.resize(100, 30)
            (project / "go").touch()
            at_prompt(terminal, "In 2:")
            terminal.send("print('be' + 'gun'); time.sleep(600)\r", "begun")
            terminal.press("ctrl+c", pattern=r"KeyboardInterrupt[^$]*In 3:\s*\Z")
            terminal.send("\x04", "mahtab-tui --continue")
            assert terminal.wait_end() == 0
    finally:
        server.close()


@in_both_forms
def test_end_of_input_saves_and_says_how_to_go_on(start: Start, form: str) -> None:
    terminal = start(form)
    at_prompt(terminal, "In 1:")
    run_cell(terminal, "x = 1", "In 2:")
    terminal.send("\x04")
    assert terminal.wait_end() == 0
    assert "To continue it: mahtab-tui --continue" in terminal.text
    again = start(form, "--continue")
    at_prompt(again, "In 2:")
    run_cell(again, "x + 1", "In 3:")
    assert "2" in lines(again)


def test_leaving_asks_before_it_loses_names(start: Start) -> None:
    terminal = start(PLAIN, "--no-store")
    at_prompt(terminal, "In 1:")
    run_cell(terminal, "x = 1", "In 2:")
    terminal.send("\x04", "lose 1 name of the namespace")
    terminal.wait(r"1 to 2:\s*\Z")
    terminal.send("\r")
    at_prompt(terminal, "In 2:")
    terminal.send("/quit\r")
    terminal.wait(r"1 to 2:\s*\Z")
    terminal.send("2\r")
    assert terminal.wait_end() == 0


def test_cell_ends_the_session_by_exit(start: Start) -> None:
    terminal = start(PLAIN)
    at_prompt(terminal, "In 1:")
    terminal.send("exit()\r")
    assert terminal.wait_end() == 0


def test_signal_saves_and_gives_the_terminal_back(cold_start: Start) -> None:
    terminal = cold_start("--linear")
    at_prompt(terminal, "In 1:")
    run_cell(terminal, "x = 1", "In 2:")
    assert terminal.kill(signal.SIGTERM) == -signal.SIGTERM
    again = cold_start(PLAIN, "--continue")
    at_prompt(again, "In 2:")
    run_cell(again, "x + 1", "In 3:")
    assert "2" in lines(again)


def test_cell_that_ran_on_without_a_terminal_is_shown_with_its_output(
    cold_start: Start, project: Path
) -> None:
    terminal = cold_start(PLAIN)
    at_prompt(terminal, "In 1:")
    terminal.paste(WAITING_CELL)
    terminal.send("\r", r"(?m)^before")
    terminal.kill()
    (project / "go").touch()
    again = cold_start(PLAIN, "--continue")
    at_prompt(again, "In 2:")
    assert [line for line in lines(again) if line in ("before", "after")] == ["before", "after"]


@in_both_forms
def test_tab_completes_names_of_the_namespace(start: Start, form: str) -> None:
    terminal = start(form)
    at_prompt(terminal, "In 1:")
    run_cell(terminal, "unmistakable = 12", "In 2:")
    terminal.send("unmis", "unmis$|unmis ")
    # A busy kernel may not answer at once.
    terminal.press_until("tab", "In 2: unmistakable")
    run_cell(terminal, " * 2", "In 3:")
    assert "24" in lines(terminal)


@in_both_forms
def test_inputs_of_earlier_sessions_come_back(start: Start, form: str) -> None:
    terminal = start(form)
    at_prompt(terminal, "In 1:")
    run_cell(terminal, "remembered = 1", "In 2:")
    terminal.send("\x04")
    assert terminal.wait_end() == 0
    again = start(form)
    at_prompt(again, "In 1:")
    again.send("\x1b[A", "In 1: remembered = 1")


def test_namespace_of_a_program_is_shared(project: Path) -> None:
    with Terminal([sys.executable, "-c", REPL], cwd=project) as terminal:
        at_prompt(terminal, "In 1:")
        run_cell(terminal, "z = y + 1", "In 2:")
        run_cell(terminal, "print('printed', z)", "In 3:")
        terminal.send("name = input('who? ')\r", r"\nwho\?")
        run_cell(terminal, "Ada", "In 4:")
        terminal.send("\x04", "left with 6")
        assert "printed 6" in lines(terminal)
        assert terminal.wait_end() == 0


@in_both_forms
def test_namespace_of_python_i_is_shared_and_its_prompt_comes_back(
    project: Path, form: str
) -> None:
    value = "'plain'" if form == PLAIN else "True"
    with Terminal([sys.executable, "-i", "-c", "from mahtab_tui import run_repl"]) as terminal:
        at_prompt(terminal, ">>>")
        terminal.send("y = 5\r")
        terminal.send(f"run_repl(globals(), model='demo', linear={value})\r")
        at_prompt(terminal, "In 1:")
        run_cell(terminal, "z = y + 1", "In 2:")
        terminal.send("\x04")
        at_prompt(terminal, ">>>")
        terminal.send("'z is', z\r", r"\('z is', 6\)")
        terminal.send("exit()\r")
        assert terminal.wait_end() == 0


def test_readline_of_the_host_program_stays_as_it_was(project: Path) -> None:
    with Terminal([sys.executable, "-c", HOST], cwd=project) as terminal:
        at_prompt(terminal, "In 1:")
        run_cell(terminal, "of_the_session = 1", "In 2:")
        terminal.send("/reset\r", r"1 to 2:\s*\Z")
        run_cell(terminal, "1", "In 2:")
        terminal.send("\x04", "host reads: ")
        terminal.send("more\r", r"delimiters ' '")
        assert "history ['of the host', 'more']" in terminal.text
        assert "completer True" in terminal.text
        assert terminal.wait_end() == 0


def at_first_prompt(terminal: Terminal) -> None:
    """Wait until the first prompt has asked the terminal what it can draw."""
    at_prompt(terminal, "In 1:")
    while QUESTION not in terminal.raw:
        assert terminal.pump()


def draws_with_kitty(terminal: Terminal) -> bool:
    pattern = KITTY_KEEPS + rb".*\x1b_Ga=p,i=1,c=4,r=1,q=2\x1b\\"
    return re.search(pattern, terminal.raw, re.DOTALL) is not None


def test_picture_is_drawn_if_the_terminal_says_that_it_can(start: Start) -> None:
    terminal = start("--linear")
    at_first_prompt(terminal)
    terminal.send("\x1b_Gi=31;OK\x1b\\" + CELL + "\x1b[?62;22c")
    run_cell(terminal, PICTURE_CELL, "In 2:")
    assert draws_with_kitty(terminal)
    assert "PIL.Image" not in terminal.text
    run_cell(terminal, "6 * 7", "In 3:")
    assert "42" in lines(terminal)


LATE_ANSWERS = (
    # Attributes, the cursor, a mode, a colour, a version, and the keyboard.
    "\x1b[?62;22c\x1b[>1;10;0c\x1b[24;1R\x1b[?2026;2$y\x1b]11;rgb:0000/0000/0000\x1b\\",
    "\x1bP>|term 1.0\x1b\\\x1b[?1u\x1b]10;rgb:ffff/ffff/ffff\x07",
)


def send_late_answers(terminal: Terminal) -> None:
    terminal.send("\x1b_Gi=31;OK\x1b\\" + CELL + "".join(LATE_ANSWERS))


def test_late_answers_of_the_terminal_are_typed_into_no_prompt(start: Start) -> None:
    terminal = start("--linear")
    at_first_prompt(terminal)
    terminal.send("6 *")
    terminal.wait(r"In 1: 6 \*")
    send_late_answers(terminal)
    terminal.send(" 7")
    terminal.wait(r"In 1: 6 \* 7")
    run_cell(terminal, "", "In 2:")
    assert "42" in lines(terminal)
    run_cell(terminal, PICTURE_CELL, "In 3:")
    assert draws_with_kitty(terminal)


def test_late_answers_of_the_terminal_are_not_the_input_of_a_cell(start: Start) -> None:
    terminal = start("--linear")
    at_first_prompt(terminal)
    terminal.send("name = input('who? ')\r", r"\nwho\?\s*\Z")
    terminal.send("A")
    send_late_answers(terminal)
    terminal.send("da")
    terminal.wait(r"who\? Ada")
    run_cell(terminal, "", "In 2:")
    run_cell(terminal, "name", "In 3:")
    assert "'Ada'" in lines(terminal)


def test_answers_of_the_terminal_are_not_shown_when_a_cell_was_typed_ahead(
    start: Start, project: Path
) -> None:
    terminal = start("--linear")
    terminal.send(
        "import pathlib; print('be' + 'gun'); any(iter(pathlib.Path('go').exists, True))\r"
    )
    while QUESTION not in terminal.raw:
        assert terminal.pump()
    # A cell that did not wait for the answers would begin, and the terminal would show them.
    end = time.monotonic() + 0.5
    while "begun" not in terminal.text and time.monotonic() < end:
        assert terminal.pump()
    send_late_answers(terminal)
    (project / "go").touch()
    at_prompt(terminal, "In 2:")
    assert "begun" in lines(terminal)
    assert "Gi=31" not in terminal.text


def test_ctrl_c_before_a_cell_keeps_it_as_the_draft(start: Start) -> None:
    terminal = start("--linear")
    terminal.send("6 * 7\r")
    while PROMPT_END not in terminal.raw:
        assert terminal.pump()
    # Until then, Ctrl+C is a key.
    while not termios.tcgetattr(terminal._fd)[3] & termios.ISIG:
        assert terminal.pump()
    terminal.press("ctrl+c")
    send_late_answers(terminal)
    terminal.wait(r"In 1: 6 \* 7\s+In 1: 6 \* 7\s*\Z")
    run_cell(terminal, "", "In 2:")
    assert "42" in lines(terminal)


@pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")
def test_tmux_keeps_the_lines_in_its_scrollback(project: Path) -> None:
    def tmux(*words: str) -> str:
        command = ["tmux", "-L", f"mahtab-{os.getpid()}", *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def wait(pattern: str) -> str:
        deadline = time.monotonic() + DEADLINE
        while not re.search(pattern, text := tmux("capture-pane", "-p", "-S", "-200")):
            assert time.monotonic() < deadline, text
            time.sleep(0.1)
        return text

    program = [*PROGRAM, "--linear", "--model", "demo"]
    tmux("new-session", "-d", "-x", "80", "-y", "24", "-c", str(project), *program)
    try:
        wait(r"In 1:\s*\Z")
        tmux("send-keys", "for n in range(60): print('row', n)", "Enter", "Enter")
        text = wait(r"In 2:\s*\Z")
        assert re.findall(r"^row (\d+)", text, re.MULTILINE) == [str(n) for n in range(60)]
    finally:
        tmux("kill-server")


def test_unknown_form_is_refused(start: Start) -> None:
    terminal = start("--linear=fancy")
    assert terminal.wait_end() == 2
    assert "use --linear or --linear=plain" in terminal.text
