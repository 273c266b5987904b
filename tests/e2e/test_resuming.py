"""Resuming a session, its kernel and its variables."""

from __future__ import annotations

import os
import re
import shutil
import signal
import sqlite3
import venv
from contextlib import closing
from pathlib import Path

import pytest

from tests.acp.editor import editor, text_of
from tests.config_files import config_file
from tests.e2e.conftest import Replay, Start
from tests.e2e.terminal import Terminal
from tests.integration.remote import RemoteMachine
from tests.waiting import alive, detached_kernels, wait_for
from tests.warm import run_program

UNTIL_GO = "import os, pathlib, time\nprint('be' + 'gun', os.getpid())\nwhile not pathlib.Path('go').exists(): time.sleep(0.01)\n"
SLEEP = "import time; print('be' + 'gun'); time.sleep(1000)"


@pytest.mark.thorough
def test_session_with_unreadable_records_is_resumed_without_them(start: Start, home: Path) -> None:
    screen = start().idle()
    for word in ("first", "second", "third"):
        screen.enter(f"print('the {word} ' + 'line')", f"the {word} line")
    screen.leave()
    with closing(sqlite3.connect(home / ".mahtab" / "sessions.db", isolation_level=None)) as file:
        file.execute("update record set attrs = '{' where text like '%second%'")
        file.execute(
            """update record set attrs = '{"cell": "x", "kinds": 7}' where tag = 'user-repl-out' and text like '%third%'"""
        )
        file.execute("update session set first = cast(x'ff' as text), last = 1e300")
    listed = run_program("sessions")
    assert (listed.returncode, listed.stderr) == (0, "")
    assert "records" in listed.stdout
    screen = start("--continue")
    screen.wait("Records left out because they cannot be read: 3")
    screen.wait(r"In 3\b")
    assert "second" not in screen.text
    screen.enter("print('and it goes ' + 'on')", "and it goes on")
    assert "In 4" in screen.text


def test_text_in_the_editor_survives_a_killed_screen(start: Start, home: Path) -> None:
    screen = start().idle()
    screen.enter("first = 1", r"first\s+int")
    screen.type("draft = first +", r"draft = first \+")
    drafts = home / ".mahtab" / "drafts"
    wait_for(lambda: any("draft = first +" in path.read_text() for path in drafts.glob("*.json")))
    screen.kill()
    again = start("--continue")
    again.wait(r"❯ draft = first \+")
    again.press("ctrl+c")
    again.enter("first + 1", r"\b2\b")
    again.leave()
    assert not list(drafts.glob("*"))


def test_damaged_store_is_moved_away_and_the_session_saved_in_a_new_one(
    start: Start, home: Path
) -> None:
    store = home / ".mahtab" / "sessions.db"
    store.parent.mkdir()
    store.write_bytes(b"this is no database, it only says so" * 1000)
    for command in (["--continue"], ["sessions"]):
        content = store.read_bytes()
        screen = start(*command)
        screen.wait_end()
        assert re.search(r"was\s+damaged;", screen.text)
        assert b"Traceback" not in screen.raw
        assert not store.exists()
        store.write_bytes(content)
    screen = start().idle()
    screen.enter("print('num' + 'ber one')")
    screen.wait(r"(?s)damaged;.*a new one was started")
    screen.wait("number one")
    screen.leave()
    assert len(list(store.parent.glob("sessions.db.damaged-*"))) == 3
    start("--continue").wait("number one")


@pytest.mark.thorough
def test_session_resumes_on_its_interpreter_or_reports_it_missing(start: Start) -> None:
    for name in (".venv", "other"):
        venv.create(name, symlinks=True, with_pip=False)
    screen = start("--python", "other").idle()
    screen.enter("import sys; 'on ' + sys.prefix[-5:]", "on other")
    screen.leave()
    screen = start("--continue", size=(200, 40)).idle()
    screen.enter("'again ' + __import__('sys').prefix[-5:]", "again other")
    screen.leave()
    shutil.rmtree("other")
    screen = start("--continue", size=(200, 40))
    screen.wait(r"other/bin/python,(?s:.*)is gone(?s:.*)/kernel\s+lists\s+others")
    screen.enter("'still ' + 'works'", "still works")


def opened(start: Start, *arguments: str) -> Terminal:
    """Open a session and run one cell."""
    screen = start(*arguments).idle()
    screen.enter("print('in the ' + 'first'); kept = 1", "in the first")
    return screen


def wait_until_shared() -> None:
    """Wait until a session can be watched, which is after it is first drawn."""
    wait_for(lambda: "Running (" in run_program("sessions").stdout)


def cells(home: Path) -> dict[str, list[str]]:
    """Return the code that ran in each session, by its id."""
    with closing(sqlite3.connect(home / ".mahtab" / "sessions.db")) as file:
        rows = file.execute(
            "select session, json_extract(attrs, '$.cell') || ' ' || text from record where tag = 'user-repl-in' order by number"
        ).fetchall()
    return {
        session: [text for row_session, text in rows if row_session == session]
        for session, _ in rows
    }


@pytest.mark.thorough
def test_session_open_in_another_terminal_is_forked(start: Start, home: Path) -> None:
    first_terminal = opened(start)
    wait_until_shared()
    (session,) = cells(home)
    second = start("--resume", session[:4])
    second.wait(rf"\({session}\) is open in another terminal:\s+process {first_terminal.pid} since")
    second.wait("Choose w or f")
    second.enter("x", "Choose(?s:.*)Choose")
    second.enter("f", "in the first")
    second.wait("This is now the session")
    second.enter("print('in the ' + 'fork')", "in the fork")
    first_terminal.enter("print('in the ' + 'first again')", "in the first again")
    first_terminal.leave()
    second.leave()
    stored_cells = cells(home)
    (copy,) = stored_cells.keys() - {session}
    assert stored_cells[session] == [
        "1 print('in the ' + 'first'); kept = 1",
        "2 print('in the ' + 'first again')",
    ]
    assert stored_cells[copy] == [
        "1 print('in the ' + 'first'); kept = 1",
        "2 print('in the ' + 'fork')",
    ]


@pytest.mark.thorough
def test_session_open_in_another_terminal_is_watched_or_declined(start: Start) -> None:
    first_terminal = opened(start)
    wait_until_shared()
    assert f"(open: process {first_terminal.pid} since" in run_program("sessions").stdout
    unasked = run_program("--continue")
    assert (unasked.returncode, unasked.stderr.count("\n")) == (2, 1), "no terminal, no question"
    second = start("--continue")
    second.wait("Choose w or f")
    second.press("enter", pattern="was not changed")
    assert second.wait_end() == 1
    third = start("--continue")
    third.wait("Choose w or f")
    third.enter("w", "watches")
    third.wait("in the first")
    first_terminal.enter("print('and it ' + 'follows')")
    third.wait("and it follows")
    third.leave()


def test_session_of_a_no_share_program_is_not_watched(start: Start) -> None:
    opened(start, "--no-share")
    second = start("--continue")
    second.wait("Choose f and")
    assert "watch" not in second.text


def test_watching_with_a_wrong_setting_is_refused_in_a_sentence(start: Start, home: Path) -> None:
    opened(start)
    wait_until_shared()
    config_file(home, 'max_turns = "x"\n')
    watcher = start("watch")
    assert watcher.wait_end() == 2
    assert "config.toml: max_turns: input" in watcher.text
    assert "Traceback" not in watcher.text


@pytest.mark.thorough
def test_resumed_session_is_watched_from_another_terminal_during_a_cell(start: Start) -> None:
    first_terminal = opened(start)
    first_terminal.enter(UNTIL_GO + "print('the ' + 'end')\n", r"begun \d")
    first_terminal.kill()
    second = start("--continue")
    second.wait("is still running")
    wait_until_shared()
    watcher = start("--continue")
    watcher.wait("Choose w or f")
    watcher.enter("w", r"watches \w+ \(\d+\)")
    watcher.wait("in the first")
    watcher.wait("begun")
    watcher.wait(r"kept\s+int\s+1")
    Path("go").touch()
    watcher.wait("the end")
    second.wait("the end")
    watcher.type("q")
    assert watcher.wait_end() == 0
    second.leave()


# A kernel outlives its screen; the next screen of the session reattaches.


def start_on(host: str, start: Start, folder: Path) -> Terminal:
    options = []
    if host == "elsewhere":
        (folder / "road").mkdir()
        options += ["--kernel", RemoteMachine(folder / "road").address.text]
    return start(*options).idle()


@pytest.mark.sample(1)
@pytest.mark.parametrize("host", ["here", "elsewhere"])
def test_cell_survives_a_killed_screen_and_its_output_appears_once(
    start: Start, tmp_path: Path, host: str
) -> None:
    screen = start_on(host, start, tmp_path)
    screen.enter("import os, time, pathlib; kept = 40; print('num' + 'ber', os.getpid())")
    kernel = int(screen.wait(r"number \d+ ").split()[1])
    wait = "while not pathlib.Path('go').exists(): time.sleep(0.01)"
    screen.enter(
        f"exec('''print('be' + 'gun')\n{wait}\nprint('mid' + 'dle')\nos.rename('go', 'gone')\n{wait}\nprint('the ' + 'end')''')",
        "begun",
    )
    screen.kill()
    Path("go").touch()
    wait_for(Path("gone").exists)
    again = start("--continue")
    again.wait("middle")
    again.wait(r"Cell 2 is still running")
    again.wait("busy")
    Path("go").touch()
    again.wait("the end")
    again.idle()
    assert [again.text.count(word) for word in ("begun", "middle", "the end")] == [1, 1, 1]
    again.enter("print(kept + 2, os.getpid())", f"42 {kernel}")
    again.leave()
    wait_for(lambda: not alive(kernel))


async def test_editor_goes_on_with_the_kernel_of_a_killed_screen(start: Start, home: Path) -> None:
    screen = start().idle()
    screen.enter("import threading; kept = threading.Lock(); 'be' + 'gun'", "begun")
    screen.kill()
    wait_for(lambda: detached_kernels(home))
    (kernel,) = detached_kernels(home)
    async with editor() as user:
        listed = await user.agent.list_sessions(cwd=os.getcwd())
        user.session = listed.sessions[0].session_id
        await user.agent.load_session(os.getcwd(), user.session, mcp_servers=[])
        await user.ask("/run import os; kept.locked(), os.getpid()")
        assert f"(False, {kernel})" in text_of(user.cell)
    wait_for(lambda: not alive(kernel))


async def test_editor_shows_the_end_of_a_cell_that_a_killed_screen_has_left(
    start: Start, home: Path
) -> None:
    screen = start().idle()
    screen.enter(UNTIL_GO + "'the ' + 'end'", "begun")
    screen.kill()
    wait_for(lambda: detached_kernels(home))
    async with editor() as user:
        listed = await user.agent.list_sessions(cwd=os.getcwd())
        await user.agent.load_session(os.getcwd(), listed.sessions[0].session_id, mcp_servers=[])
        await user.until(lambda: "begun" in text_of(user.cell) if user.calls else None)
        assert [call.status for call in user.calls.values()] == ["in_progress"]
        Path("go").touch()
        await user.until(lambda: user.cell.status == "completed")
        assert text_of(user.cell).count("begun") == 1
        assert "'the end'" in text_of(user.cell)


@pytest.mark.thorough
def test_cell_that_ended_while_detached_shows_its_result(start: Start, home: Path) -> None:
    screen = start().idle()
    screen.enter(UNTIL_GO + "made = 6 * 7\nmade, 'res' + 'ult'", "begun")
    screen.kill()
    Path("go").touch()
    again = start("--continue")
    again.wait(r"\(42, 'result'\)")
    again.wait(r"\+ made int")
    again.idle()
    again.kill()
    wait_for(lambda: detached_kernels(home))
    third = start("--continue", size=(120, 35))
    third.wait(r"\(42, 'result'\)")
    third.idle()
    third.wait(r"made\s+42\s+int\s+❯ 1")
    assert third.text.count("'result')") == 1, "a stored result is not shown again"


@pytest.mark.sample(1)
@pytest.mark.parametrize("host", ["here", "elsewhere"])
def test_output_of_a_kernel_ending_while_detached_appears_once(
    start: Start, home: Path, tmp_path: Path, host: str
) -> None:
    screen = start_on(host, start, tmp_path)
    screen.enter(UNTIL_GO + "print('the ' + 'end', flush=True); os._exit(3)")
    kernel = int(screen.wait(r"begun \d+ ").split()[1])
    screen.kill()
    Path("go").touch()
    wait_for(lambda: not alive(kernel) and not detached_kernels(home))
    for _ in range(2):
        again = start("--continue")
        again.wait("the end")
        again.wait("The kernel ended in cell 1 while no screen was open")
        again.idle()
        assert [again.text.count(word) for word in ("begun", "the end")] == [1, 1]
        again.leave()
    assert list((home / ".mahtab" / "run" / "kernels").iterdir()) == []


def test_input_request_of_a_cell_waits_for_the_next_screen(start: Start) -> None:
    screen = start().idle()
    screen.enter("name = input('your ' + 'name? ')", "your name")
    screen.kill()
    again = start("--continue")
    again.wait("your name")
    again.press_until("x", "x")
    again.press("enter", pattern=r"\+ name str")


@pytest.mark.parametrize("hours", [12, 0])
def test_unused_kernel_ends_with_its_screen(start: Start, home: Path, hours: int) -> None:
    screen = start("--set", f"keep_kernel={hours}").idle()
    (kernel,) = detached_kernels(home) or [0]
    assert bool(kernel) == bool(hours)
    screen.kill()
    wait_for(lambda: not detached_kernels(home) and not (kernel and alive(kernel)))


def sessions(*arguments: str, code: int = 0) -> str:
    done = run_program("sessions", *arguments)
    assert done.returncode == code, done.stderr
    return done.stdout + done.stderr


def test_quitting_offers_to_detach_the_cell_and_lists_show_it(start: Start, home: Path) -> None:
    screen = start(size=(120, 35)).idle()
    screen.enter(SLEEP, "begun")
    screen.press(
        "ctrl+q",
        pattern=r"Leave\? A cell is running. · \^q again leaves it running · \^s stops it and leaves · Esc stays",
    )
    screen.press("escape", gone_pattern=r"Leave\?")
    screen.leave()
    (kernel,) = detached_kernels(home)
    listed = sessions()
    session = re.search(
        r"(\w{8})  running cell 1 for \d+ s, CPU \d+ s, \d+ MB: import time; print\('be'", listed
    )
    assert session is not None, listed
    assert "has a kernel in the background" in sessions("rm", "--yes", session[1], code=1)
    other_terminal = start()
    other_terminal.wait(r"has\s+a\s+kernel\s+in\s+the\s+background")
    other_terminal.wait(rf"mahtab-tui --resume\s+{session[1]}")
    assert "Stopped the kernel" in sessions("stop", session[1][:4])
    wait_for(lambda: not alive(kernel))
    assert "no kernel" in sessions("stop", session[1], code=1)
    assert "in the background" not in sessions()
    (output_file,) = (home / ".mahtab" / "run" / "kernels").glob(f"{session[1]}*")
    assert output_file.read_bytes() == b"1\nbegun\n", "for the next screen"
    again = start("--resume", session[1])
    again.wait(r"begun\s")
    again.wait("The kernel ended in cell 1 while no screen was open")


def test_screen_mentions_several_kernels_in_one_sentence_and_one_command_stops_them(
    start: Start, home: Path
) -> None:
    for number in range(2):
        screen = start().idle()
        screen.enter(f"n = {number}", r"\+ n int")
        screen.kill(signal.SIGTERM)
    kernels = detached_kernels(home)
    assert len(kernels) == 2
    other_terminal = start(size=(120, 35))
    other_terminal.wait(r"2\s+kernels\s+are\s+in\s+the\s+background")
    assert "has a kernel in the background" not in other_terminal.text
    assert "Give the ID" in sessions("stop", code=2)
    assert sessions("stop", "--idle").count("Stopped the kernel of session") == 2
    wait_for(lambda: not any(map(alive, kernels)))
    assert "No idle kernel" in sessions("stop", "--idle", code=1)


def test_detachable_cell_is_stopped_by_quitting_with_another_key(start: Start, home: Path) -> None:
    screen = start().idle()
    screen.enter(SLEEP, "begun")
    (kernel,) = detached_kernels(home)
    screen.press("ctrl+q", pattern=r"Leave\?")
    screen.press("ctrl+s")
    assert screen.wait_end() == 0
    wait_for(lambda: not alive(kernel))


def test_kernel_with_a_screen_is_not_stopped_from_outside(start: Start, home: Path) -> None:
    screen = start().idle()
    screen.enter("n = 1", r"\+ n int")
    (path,) = (home / ".mahtab" / "run" / "kernels").glob("*.sock")
    assert "is open in another terminal" in sessions("stop", path.name.split(".")[0], code=1)
    screen.enter("n + 1", r"\b2\b")


def test_models_cell_ends_when_its_screen_is_gone(start: Start, replay: Replay) -> None:
    code = UNTIL_GO + "made = 'by the ' + 'model'\nprint(made)"
    model = replay(f"I wait.\n```python\n{code}\n```", "It has ended.")
    screen = start("--model", model, "--approval", "auto").idle()
    screen.press("f2")
    screen.enter("do it", r"begun\s")
    screen.kill()
    again = start("--model", model, "--continue")
    again.wait("Cell 1 is still running")
    again.wait("I wait")
    Path("go").touch()
    again.wait(r"by the model\s")
    again.idle()
    again.wait(r"made\s+str")
    again.enter("made.upper()", "'BY THE MODEL'")
    again.leave()


@pytest.mark.thorough
def test_detached_remote_kernel_is_listed_and_an_absent_machine_reported(
    start: Start, home: Path, tmp_path: Path
) -> None:
    (tmp_path / "road").mkdir()
    machine = RemoteMachine(tmp_path / "road")
    screen = start("--kernel", machine.address.text, size=(120, 35)).idle()
    screen.enter(SLEEP, "begun")
    screen.press("ctrl+q", pattern=r"Leave\? A cell is running. · \^q again leaves it running")
    screen.press("escape", gone_pattern=r"Leave\?")
    screen.leave()
    listed = sessions()
    match = re.search(r"(\w{8})  started \d+ s ago on python", listed)
    assert match is not None, listed
    session = match[1]
    assert "has a kernel in the background" in sessions("rm", "--yes", session, code=1)
    other_terminal = start()
    other_terminal.wait(r"has\s+a\s+kernel\s+in\s+the\s+background,\s+started\s+\d+\s+s\s+ago")
    other_terminal.leave()
    machine.refuse()
    away = start("--resume", session, size=(150, 40))
    assert away.wait_end() == 1
    assert (
        f"Try again later, or give up that kernel: mahtab-tui sessions stop {session}" in away.text
    )
    machine.accept()
    back = start("--resume", session)
    back.wait("Cell 1 is still running")
    back.wait("busy")
    back.press("ctrl+c")
    back.idle()
    back.leave()
    assert "in the background" not in sessions()
    wait_for(lambda: machine.sockets() == [])


# Saved variables.


def is_saved(home: Path, word: str) -> bool:
    """Return whether the index of the session's variables mentions a word."""
    indexes = (home / ".mahtab" / "namespaces").glob("*/index.json")
    return any(word in index.read_text() for index in indexes)


def test_variables_survive_a_killed_screen(start: Start, home: Path) -> None:
    screen = start("--set", "keep_kernel=0", size=(120, 35)).idle()
    screen.enter("import socket; items = [1, 2]; sock = socket.socket()")
    screen.enter("add = lambda x: items.append(x)")
    wait_for(lambda: is_saved(home, '"add"'))
    screen.kill()
    again = start("--continue", size=(120, 35))
    again.wait(r"3 variables restored, 1 not: sock \(a connection cannot be saved\)")
    again.wait(r"items\s+2 items\s+list\s+❯ 1")
    again.wait(r"sock\s+a conn.*socket\s+not kept")
    again.enter("add(40); items", r"\[1, 2, 40\]")
    again.leave()


def test_quitting_at_once_saves_changes_of_the_last_cell(start: Start) -> None:
    screen = start().idle()
    screen.enter("word = 'ready'; print('made ' + 'it')", "made it")
    screen.leave()
    again = start("--continue")
    again.wait("1 variable restored")
    again.enter("print('al' + word)", "already")


def test_disabled_saving_writes_nothing(start: Start, home: Path) -> None:
    screen = start("--set", "keep_namespace=false").idle()
    screen.enter("word = 'ready'; print('made ' + 'it')", "made it")
    screen.leave()
    assert not (home / ".mahtab" / "namespaces").exists()
    start("--continue").wait("variables were not")


@pytest.mark.thorough
def test_saved_variables_survive_a_killed_kernel(start: Start, home: Path) -> None:
    screen = start().idle()
    screen.enter("import os; word = 'ready'; print('pid', os.getpid())")
    pid = int(screen.wait(r"pid \d+\s").split()[1])
    wait_for(lambda: is_saved(home, '"word"'))
    os.kill(pid, signal.SIGKILL)
    screen.wait(r"Started a new kernel\.")
    screen.wait("2 variables restored")
    screen.enter("print('al' + word)", "already")


@pytest.mark.thorough
def test_session_is_deleted_after_confirmation(start: Start, home: Path) -> None:
    screen = start().idle()
    screen.enter("word = 'ready'; print('made ' + 'it')", "made it")
    screen.leave()
    (folder,) = (home / ".mahtab" / "namespaces").glob("session-*")
    session = folder.name.partition("-")[2]

    assert run_program("sessions", "rm", session[:4], stdin="n\n").returncode == 1
    assert folder.exists()
    done = run_program("sessions", "rm", session[:4], stdin="y\n")
    assert (done.returncode, f"Deleted session {session}." in done.stdout) == (0, True)
    assert not folder.exists()
