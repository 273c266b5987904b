"""The start: files to open, keys typed ahead, and one sentence for bad arguments."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import venv
from pathlib import Path

import pytest
from nbformat.v4 import new_notebook

from tests.e2e.conftest import PROGRAM, Replay, Start
from tests.e2e.terminal import Terminal
from tests.notebooks import text_of
from tests.tables import rows
from tests.warm import command

# Bad arguments: one clear sentence and an exit code, never a traceback.

_REFUSED = r"""
watch | No session on a screen is of
ask x --model nonsense | There is no model 'nonsense'
ask x --model replay:missing.jsonl | missing.jsonl cannot be read
ask x --model replay:broken.jsonl | broken.jsonl, line 2
ask x --model claude | not on the PATH
ask ' ' | Give a question
ask x --model demo --set kernel=jupyter+http://hub?token=x | Use jupyter:NAME or existing:CONNECTION.json.
ask x --each - | leave out the question.
ask --each none.txt | The questions cannot be read: none.txt: No such file or directory.
ask --each - --model demo | There was no question.
ask x --continue --session ab | choose one of them.
ask x --session '' | --session got an empty ID.
ask x --session none --model demo | There is no session whose ID begins with 'none', or with this title.
ask x --continue --model demo | There is no session to resume.
ask x --save ' ' | --save got an empty name.
ask x --json --quiet | --json prints every event: leave out --quiet and --output.
ask x --json --output code | --json prints every event
ask x --load none.csv | There is no file none.csv.
ask x --model demo --load none.csv | There is no file none.csv.
ask x --approval always | --approval: input should be 'ask', 'review' or 'auto'
--model demo ask x | Give the options after the command
--theme nrod | theme: there is no theme 'nrod'. Did you mean nord?
--linear=plain --theme nrod | theme: there is no theme 'nrod'. Did you mean nord?
--set theme=nrod | theme: there is no theme 'nrod'. Did you mean nord?
--no-such-option | There is no option --no-such-option.
docter | There is no file, folder or command docter. Did you mean doctor?
none.csv --model demo | There is no file, folder or command none.csv.
--load none.csv | There is no file none.csv.
one two | Give only one folder to work in: one or two.
data.csv --kernel ssh://host | The kernel at ssh://host does not see this machine's files. Load data.csv in a cell
--query x --resume | give --resume an ID
--query x --continue | There is no session to resume.
--query x --load none.csv | There is no file none.csv
--query ' ' | Give a question
--query x doctor | Give the options after the command
--json | --json works only with --query
--no-store --continue | --no-store starts a session that is not saved: leave out --resume and --continue.
--no-store --resume abc | leave out --resume and --continue.
--no-store --query Why? | --query opens no screen: leave out --theme, --linear, --no-share, --no-store and --notebook
none.ipynb | There is no file, folder or command none.ipynb.
broken.ipynb | broken.ipynb is not a notebook: it is not valid JSON.
old.ipynb | old.ipynb is not a notebook of version 4 of the format.
it.ipynb more.md | Only one file can be opened as cells: it.ipynb or more.md. --load FILE loads the other as a variable.
it.ipynb --notebook x.ipynb | Only one file can be opened as cells: it.ipynb or x.ipynb.
--notebook x.py | --notebook writes a notebook: x.py must end in .ipynb.
--notebook nowhere/x.ipynb | There is no folder nowhere for x.ipynb.
--notebook broken.ipynb | broken.ipynb is not a notebook
--notebook x.ipynb --no-store | --no-store saves nothing of the session: leave out --notebook.
--notebook x.ipynb --query Why? | --query opens no screen: leave out
sessions --notebook x.ipynb | There is no option --notebook.
rlm 'only a question' | Give a question and a file
rlm ' ' - | Give a question and a file
rlm q missing.txt --model demo | missing.txt cannot be read
rlm q - --model demo --max-turns 0 | --max-turns must be at least 1
rlm q - --model no-such | There is no model
rlm q - --model demo --sub-model replay:none.jsonl | none.jsonl cannot be read
rlm q /dev/zero --model demo | /dev/zero is not a file
rlm q - --model demo --log no/such/x.jsonl | x.jsonl cannot be written: No such file
"""
REFUSED = {
    "": 'This needs a terminal. Without one, use: mahtab-tui ask "question".',
    f"--notebook {'x' * 300}.ipynb": "is too long.",
    **dict(rows(_REFUSED)),
}
"""Arguments, and a part of the sentence that refuses them."""

SIGNALS = """
import os, signal, sys
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
os.execv(sys.argv[1], sys.argv[1:])
"""

ORDERS = "id,price\n1,10\n2,\n"

STARTED = b"\x1b[?1004h"
"""Sequence that the program writes once it receives keys unchanged."""


def run(
    *arguments: str, stdin: str = "", env: dict[str, str] | None = None, cold: bool = False
) -> subprocess.CompletedProcess[str]:
    """Run the program without a terminal. cold: run the installed command."""
    return subprocess.run(
        [*(PROGRAM if cold else command()), *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, **(env or {})},
    )


@pytest.mark.sample(10)
@pytest.mark.parametrize("words", REFUSED)
def test_wrong_arguments_give_one_sentence(project: Path, words: str) -> None:
    for folder in ("one", "two"):
        (project / folder).mkdir()
    for name, text in {
        "broken.jsonl": '{"text": "a"}\n{"txt": "b"}\n',
        "data.csv": "a\n1\n",
        "more.md": "words",
        "it.ipynb": text_of(new_notebook()),
        "broken.ipynb": "{",
        "old.ipynb": '{"nbformat": 3, "worksheets": []}',
    }.items():
        (project / name).write_text(text)
    cold = words in ("", "--no-such-option")
    done = run(*shlex.split(words), env={"PATH": "/usr/bin:/bin"}, cold=cold)
    assert (done.returncode, done.stdout) == (2, "")
    assert REFUSED[words] in done.stderr
    assert done.stderr.startswith("mahtab-tui: ")
    assert re.fullmatch(r".*\n(calls: 0 .*\n)?", done.stderr)
    assert not (project / "x.ipynb").exists()


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("model", "advice"), [("claude", "Install Claude Code"), ("openai:gpt-5", "set OPENAI_API_KEY")]
)
def test_unreachable_model_leaves_python_working_and_gives_advice(
    start: Start, model: str, advice: str
) -> None:
    screen = start("--model", model, env={"PATH": "/usr/bin:/bin"}).idle()
    screen.enter("6 * 7", r"\b42\b")
    screen.press("f2")
    screen.enter("why?", advice)
    screen.wait("/model (demo|chooses)")
    screen.enter("/model demo", "mahtab .* demo")
    screen.enter("which variables are there?", "There are no variables")


@pytest.mark.sample(1)
@pytest.mark.parametrize("option", ["--code-dir", "--skills-dir"])
def test_missing_named_folder_is_an_error_at_startup(cold_start: Start, option: str) -> None:
    screen = cold_start(option, "missing")
    screen.wait(f"mahtab-tui: {option}: missing is not a folder")
    assert screen.wait_end() == 2
    done = run("ask", "x", "--model", "demo", option, "missing")
    assert (done.returncode, done.stderr) == (
        2,
        f"mahtab-tui: {option}: missing is not a folder.\n",
    )


def test_failing_startup_file_is_reported_and_the_question_answered(home: Path) -> None:
    (home / ".mahtab").mkdir()
    (home / ".mahtab" / "startup.py").write_text("made = 1\n1 / 0\n")
    done = run("ask", "which variables are there?", "--model", "demo")
    assert (done.returncode, "made" in done.stdout) == (0, True)
    assert "The code that every kernel starts with failed:" in done.stderr
    assert "ZeroDivisionError" in done.stderr


@pytest.mark.parametrize("python", ["missing", "folder", "text", "failing"])
def test_invalid_python_interpreter_is_reported(project: Path, python: str) -> None:
    (project / "folder").mkdir()
    (project / "text").write_text("words")
    (project / "failing").write_text("#!/bin/sh\nexit 3\n")
    (project / "failing").chmod(0o755)
    done = run("ask", "x", "--model", "demo", "--python", f"./{python}")
    assert done.returncode == 1
    assert done.stderr.startswith("mahtab-tui: ")
    assert "Traceback" not in done.stderr


def test_question_without_a_screen_sets_the_exit_code(replay: Replay) -> None:
    code = {"text": "```python\nprint(6 * 7)\n```"}
    complete = {
        "text": '{"is_complete": true, "reasoning": "", "next_action": ""}',
        "match": "is_complete",
    }
    model = replay(code, complete, "It is 42.")
    answered = run("ask", "how much?", "--model", model, "--approval", "auto")
    assert (answered.returncode, answered.stdout) == (0, "It is 42.\n")
    assert ">>> print(6 * 7)\n42" in answered.stderr
    refused = run("ask", "how much?", "--model", replay(code, "Not run."))
    assert (refused.returncode, refused.stdout) == (3, "")
    failed = run("ask", "how much?", "--model", replay({"error": "The service is down."}))
    assert failed.returncode == 1
    assert "The service is down." in failed.stderr


def test_every_line_of_json_is_an_event_and_stdin_is_a_variable() -> None:
    options = "--model demo --approval auto --json".split()
    done = run("ask", "how many words are in stdin_text?", *options, stdin="one two three")
    events = [json.loads(line) for line in done.stdout.splitlines()]
    outputs = [event["text"] for event in events if event["tag"] == "assistant-repl-out"]
    assert any("has 3 words" in output for output in outputs)


def test_piped_input_is_not_looked_for_on_another_machine() -> None:
    kernel = f"command: {sys.executable}"
    options = ["--model", "demo", "--approval", "auto", "--kernel", kernel]
    done = run("ask", "how many words are in stdin_text?", *options, stdin="one two three")
    assert (done.returncode, done.stdout) == (1, "")
    assert "What is piped in was not loaded, because the kernel (" in done.stderr
    assert "No such file" not in done.stderr
    assert run("ask", "which variables are there?", *options).returncode == 0


def test_run_repl_leaves_the_names_to_the_caller(project: Path) -> None:
    script = project / "script.py"
    script.write_text(
        "from mahtab_tui import run_repl\nmine = [1, 2]\nrun_repl(ns=globals(), model='demo')\nprint('made', made, mine)\nimport signal\nprint('stops', signal.getsignal(signal.SIGTSTP) == signal.SIG_DFL)\n"
    )
    with Terminal([sys.executable, str(script)], cwd=project) as screen:
        screen.idle()
        screen.wait(r"mine\s+2 items\s+list")
        screen.enter("made = len(mine); mine.append(3)", r"made\s+int")
        screen.press("ctrl+d", pattern=r"made 2 \[1, 2, 3\]")
        screen.wait("stops True")


def test_an_interactive_interpreter_shares_its_namespace(project: Path) -> None:
    with Terminal(
        [sys.executable, "-i", "-m", "mahtab_tui"],
        cwd=project,
        env={"MAHTAB_MODEL": "demo"},
    ) as screen:
        screen.idle()
        screen.enter("made = 42", r"made\s+int")
        screen.enter(
            "sorted(name for name in globals() if name[:2] != '__' and name not in ('In', 'Out', '_'))",
            r"\['made', 'run_repl', 'sys'\]",
        )
        screen.press("ctrl+d", pattern=">>> ")
        screen.type("made + 1\n", r"\b43\b")


@pytest.mark.sample(1)
@pytest.mark.parametrize("command", [["--model", "demo"], ["sessions"]])
def test_deleted_folder_gives_one_sentence(project: Path, command: list[str]) -> None:
    deleted_folder = project / "gone"
    deleted_folder.mkdir()
    started = ["sh", "-c", f'rmdir {deleted_folder}; exec "$@"', "sh", *PROGRAM, *command]
    done = subprocess.run(started, cwd=deleted_folder, capture_output=True, text=True, timeout=60)
    sentence = "mahtab-tui: The folder in which the program was started no longer exists.\n"
    assert (done.returncode, done.stderr) == (2, sentence)


@pytest.mark.thorough
def test_screen_works_with_full_disk_closed_stderr_and_odd_folder(project: Path) -> None:
    folder = Path(os.fsdecode(os.fsencode(project) + b"/p\xff\xfe x"))
    folder.mkdir()
    limited = ["bash", "-c", f'ulimit -f 0; exec "{PROGRAM[0]}" --model demo 2>&-']
    with Terminal(limited, cwd=folder) as screen:
        screen.idle()
        screen.enter("6 * 7", r"\b42\b")
        screen.wait("The session continues")
        screen.leave()
        assert b"Traceback" not in screen.raw


@pytest.mark.thorough
def test_screen_works_with_ignored_children_and_blocked_signals(project: Path) -> None:
    command = [sys.executable, "-c", SIGNALS, PROGRAM[0], "--model", "demo"]
    with Terminal(command, cwd=project) as screen:
        screen.idle()
        screen.enter("import os; os.waitstatus_to_exitcode(os.system('exit 3'))", r"\b3\b")
        screen.leave()


@pytest.mark.thorough
def test_size_and_prompt_in_the_environment_do_not_count(cold_start: Start) -> None:
    screen = cold_start(env={"COLUMNS": "1", "LINES": "1", "PYTHONINSPECT": "1"})
    screen.idle()
    screen.enter("import shutil; shutil.get_terminal_size().columns > 20", "True")
    screen.leave()
    assert b">>>" not in screen.raw


@pytest.mark.parametrize("closed", ["<&-", "<&- >&-"])
def test_missing_terminal_is_explained_in_a_sentence(project: Path, closed: str) -> None:
    command = ["bash", "-c", f'exec "{PROGRAM[0]}" --model demo {closed}']
    with Terminal(command, cwd=project) as screen:
        screen.wait("This needs a terminal.")
        assert screen.wait_end() == 2
        assert b"Traceback" not in screen.raw


# Files and folders as arguments.


@pytest.mark.parametrize(
    "how",
    [["orders.csv", "--model", "demo"], ["--model", "demo", "--load", "orders.csv"]],
    ids=["named", "option"],
)
def test_file_is_loaded_by_a_visible_cell(start: Start, project: Path, how: list[str]) -> None:
    (project / "orders.csv").write_text(ORDERS)
    screen = start(*how)
    screen.wait(r"pd\.read_csv\('orders\.csv'\)")
    screen.wait(r"orders +2 × 2 +DataFrame +❯ 1")
    screen.enter("len(Out), _ if '_' in globals() else 'nothing'", r"\(0, 'nothing'\)")


@pytest.mark.thorough
def test_folder_becomes_the_working_directory(start: Start, project: Path) -> None:
    (project / "sales").mkdir()
    (project / "app.txt").write_text("x = 1\n")
    (project / "sales" / ".mahtab").mkdir()
    (project / "sales" / ".mahtab" / "config.toml").write_text(
        'theme = "mahtab-day"\nmodel = "claude"\n'
    )
    screen = start("sales", "app.txt", "--model", "demo")
    screen.wait("mahtab +sales")
    screen.wait("config trust")  # the folder's project is not trusted
    screen.wait(r"app +str")
    screen.enter("import os; os.path.basename(os.getcwd())", "'sales'")


def test_unloadable_file_is_reported_and_the_screen_continues(start: Start, project: Path) -> None:
    (project / "bad.json").write_text("{")
    (project / "blob.bin").write_bytes(bytes(range(256)))
    screen = start("bad.json", "blob.bin", "--model", "demo", size=(120, 60))
    screen.wait("bad.json could not be loaded: the cell above shows why")
    screen.wait("blob.bin is not a text file: blob is its path")
    screen.enter("6 * 7", "▌ 42")


def test_failed_import_gives_a_hint(start: Start, project: Path) -> None:
    venv.create(project / "plain", with_pip=False)
    venv.create(project / ".venv", with_pip=False)
    (next((project / ".venv").glob("lib/python3*/site-packages")) / "numpy.py").write_text("")
    screen = start("--python", "plain", "--model", "demo", size=(120, 24))
    screen.wait(r"Model +demo: offline, canned rules\. Type /model")
    screen.enter("import sklearn", "This Python has no sklearn: %pip install scikit-learn")
    screen.enter("import numpy", r"\.venv has numpy: /python \.venv")


@pytest.mark.sample(1)
@pytest.mark.parametrize("module", ["pandas", "csv"])
def test_opening_a_file_runs_nothing_in_its_folder(
    start: Start, project: Path, module: str
) -> None:
    (project / "data.csv").write_text("a,b\n1,2\n")
    (project / f"{module}.py").write_text("open('ran', 'w').close()\n")
    screen = start("data.csv", "--model", "demo")
    screen.wait(r"data\s+(DataFrame|list)")
    assert not (project / "ran").exists()


# Keys typed before the first screen are not lost, and mean what they mean later.


@pytest.mark.sample(1)
@pytest.mark.parametrize("drawn", ["nothing", "the terminal is taken over"])
def test_lines_typed_before_the_first_screen_run(cold_start: Start, drawn: str) -> None:
    screen = cold_start()
    while drawn != "nothing" and STARTED not in screen.raw:
        assert screen.pump()
    screen.send("6 * 7\rif True:\rprint('in' + 'side')\r\r`which variables are there?\r", r"▌ 42 ")
    screen.wait("▌ inside ")
    screen.wait("▌ You  which variables are there")


@pytest.mark.thorough
def test_suspended_and_resumed_program_gets_each_key_once(cold_start: Start) -> None:
    screen = cold_start()
    screen.wait("Python")
    os.kill(screen.pid, signal.SIGSTOP)
    os.waitid(os.P_PID, screen.pid, os.WSTOPPED)
    os.kill(screen.pid, signal.SIGCONT)
    screen.enter("'abcdefghijklmnopqrstuvwxyz'.upper()", "▌ 'ABCDEFGHIJKLMNOPQRSTUVWXYZ'")
    assert screen.raw.count(STARTED) == 1


def test_unknown_session_is_reported(start: Start) -> None:
    screen = start("--resume", "zzz")
    screen.wait("no session")
    assert screen.wait_end() == 2


@pytest.mark.thorough
def test_last_words_of_a_library_are_printed_as_text_below_the_screen(project: Path) -> None:
    script = project / "script.py"
    script.write_text(
        "import os\nfrom mahtab_tui import run_repl\nfrom mahtab_tui.tui.app import MahtabApp\nrun = MahtabApp.run\n"
        "def and_more(self):\n    run(self)\n    os.write(2, b'\\x1b]52;c;aGFja2Vk\\x07late words\\n')\n"
        "MahtabApp.run = and_more\nrun_repl(ns={}, model='demo')\n"
    )
    with Terminal([sys.executable, str(script)], cwd=project) as screen:
        screen.idle()
        screen.press("ctrl+d", pattern="late words")
        assert b"aGFja2Vk" not in screen.raw
