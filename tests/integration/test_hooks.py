"""Hooks in a session: what they see, block, change and say, and what happens when one misbehaves."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mahtab_tui.bus import tags
from mahtab_tui.bus.decision import Decision
from mahtab_tui.bus.records import Approval, AssistantReplIn, Notice, UserChat, UserReplIn
from mahtab_tui.kernel.values import Status
from mahtab_tui.session.agent_calls import AgentCalls
from mahtab_tui.session.agent_thread import QuestionBlocked
from mahtab_tui.session.joined_agents import AgentCall
from tests.integration.sessions import Opened
from tests.waiting import wait_for

OpenSession = Callable[..., Opened]

WRITES_DOWN = """
import json, sys
given = json.load(sys.stdin)
with open("given.jsonl", "a") as file:
    file.write(json.dumps(given) + "\\n")
"""


def command(script: str) -> list[str]:
    return [sys.executable, "-c", script]


def answering(**answer: Any) -> list[str]:
    """A hook that writes down what it gets, and answers so."""
    return command(f"{WRITES_DOWN}\nprint({json.dumps(answer)!r})")


def given(project: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (project / "given.jsonl").read_text().splitlines()]


def notices(it: Opened) -> list[str]:
    return [record.text for record in it.store.records if isinstance(record, Notice)]


def cells_of(it: Opened, kind: type[UserReplIn] | type[AssistantReplIn]) -> list[str]:
    return [record.text for record in it.store.records if isinstance(record, kind)]


def approve(it: Opened, *decisions: Decision) -> list[str]:
    """Answer the approvals that will wait, in order; returns the list of the codes that waited, which grows."""
    asked: list[str] = []

    def waiting() -> list[Approval]:
        return [record for record in it.store.records if isinstance(record, Approval) and record.state == "waiting"]

    def work() -> None:
        for number, decision in enumerate(decisions):
            wait_for(lambda number=number: len(waiting()) > number)  # type: ignore[misc]
            asked.append(waiting()[number].text)
            it.session.decide(waiting()[number].request, decision)

    threading.Thread(target=work, daemon=True).start()
    return asked


def test_hooks_see_every_cell_before_and_after_it_runs(open_session: OpenSession, project: Path) -> None:
    it = open_session("```python\ny = x + 1\n```", "Done.", hooks={"before_cell": answering(), "after_cell": answering()}, approval="auto")
    for code in ("x = 1\nprint('one')", "1 / 0"):
        it.session.cells.run(code)
    it.session.agent.ask("go on")
    before, after, failed_before, failed, of_model, after_model = given(project)
    about = {"session": "test", "project": str(project), "by": "user", "party": "you", "code": "x = 1\nprint('one')"}
    assert before == {"hook": "before_cell", **about}
    assert after == {"hook": "after_cell", **about, "cell": 1, "outcome": "ok", "output": "one\n"}
    assert (failed_before["code"], failed["outcome"], "ZeroDivisionError" in failed["output"]) == ("1 / 0", "error", True)
    assert (of_model["by"], of_model["code"], after_model["outcome"], after_model["party"]) == ("model", "y = x + 1", "ok", of_model["party"])
    assert it.value("y") == "2"


def test_a_blocked_cell_of_the_user_does_not_run_and_its_text_is_not_lost(open_session: OpenSession) -> None:
    it = open_session(hooks={"before_cell": answering(block="no \x1b[31mred\x1b[0m walls")})
    result = it.session.cells.run("x = 1")
    assert result.status is Status.INTERRUPTED
    assert notices(it) == ["The hook before_cell blocked it: no red walls. So your code did not run.\nx = 1"]
    assert not cells_of(it, UserReplIn)


def test_what_a_hook_changes_is_what_runs_and_what_is_recorded(open_session: OpenSession) -> None:
    it = open_session(hooks={"before_cell": answering(change="x = 2", notify="see [bold]me[/bold]")})
    it.run("x = 1")
    assert cells_of(it, UserReplIn) == ["x = 2"]
    assert notices(it) == ["before_cell: see [bold]me[/bold]", "The hook before_cell changed your code."]


def test_approval_shows_the_changed_code_and_that_runs(open_session: OpenSession) -> None:
    change = command("import json, sys\ncode = json.load(sys.stdin)['code']\nprint(json.dumps({'change': code.replace('bad', 'good')}))")
    it = open_session("```python\nx = 'bad'\n```", "Done.", hooks={"before_cell": change})
    asked = approve(it, Decision("run"))
    it.session.agent.ask("go on")
    assert asked == ["x = 'good'"]
    assert cells_of(it, AssistantReplIn) == ["x = 'good'"]
    assert it.session.cells.finished[-1].code == "x = 'good'"


def test_what_the_user_writes_instead_passes_the_hook_too_and_waits_again_if_it_is_changed(open_session: OpenSession) -> None:
    change = command("import json, sys\ncode = json.load(sys.stdin)['code']\nprint(json.dumps({'change': code.replace('bad', 'good')}))")
    it = open_session("```python\nx = 1\n```", "Done.", hooks={"before_cell": change})
    asked = approve(it, Decision("run", code="x = 'bad'"), Decision("run", code="x = 'fine'"))
    it.session.agent.ask("go on")
    assert asked == ["x = 1", "x = 'good'"]
    assert cells_of(it, AssistantReplIn) == ["x = 'fine'"]


def test_the_model_is_told_why_its_code_was_blocked(open_session: OpenSession) -> None:
    it = open_session("```python\nx = 1\n```", "I see.", hooks={"before_cell": answering(block="not on Mondays")})
    assert it.session.agent.ask("go on") == "I see."
    refused = [record for record in it.store.records if isinstance(record, Approval)]
    assert [(record.state, record.text) for record in refused] == [("refused", "x = 1")]
    assert "not on Mondays" in str(it.session.agent.agent.messages)
    assert not cells_of(it, AssistantReplIn)


def test_agents_are_told_what_a_hook_has_done_to_their_code(open_session: OpenSession, project: Path) -> None:
    script = "import json, sys\ncode = json.load(sys.stdin)['code']\nprint(json.dumps({'block': 'no'} if 'bad' in code else {'change': code + '  # seen'}))"
    it = open_session(hooks={"before_cell": command(script)}, approval="auto")
    it.run("0")
    guest, calls = it.session.joined_agents.join("codex", lambda sentence: None, None), AgentCalls(it.session)
    blocked = calls.serve(guest, AgentCall(lambda frame: None), "run", {"code": "bad"})
    assert blocked == {"declined": "declined: The hook before_cell blocked it: no. So code of codex did not run."}
    ran = calls.serve(guest, AgentCall(lambda frame: None), "run", {"code": "x = 1"})
    assert ran["edited"] == "x = 1  # seen"
    assert cells_of(it, AssistantReplIn) == ["x = 1  # seen"]


def test_a_nested_cell_passes_the_hook_too(open_session: OpenSession, project: Path) -> None:
    it = open_session("```python\ny = 1\n```", "Done.", hooks={"before_cell": answering()}, approval="auto")
    it.run("ask('go on')")
    assert [(each["by"], each["code"]) for each in given(project)] == [("user", "ask('go on')"), ("model", "y = 1")]


def test_questions_are_changed_or_blocked_before_they_are_asked(open_session: OpenSession, project: Path) -> None:
    script = (
        "import json, sys\nq = json.load(sys.stdin)['question']\nprint(json.dumps({'block': 'too short'} if len(q) < 5 else {'change': q + '?'}))"
    )
    it = open_session("Fine.", hooks={"before_question": command(script), "after_answer": answering()})
    with pytest.raises(QuestionBlocked, match="too short"):
        it.session.agent.ask("hm")
    it.session.agent.ask("how is it")
    assert [record.text for record in it.store.records if isinstance(record, UserChat)] == ["how is it?"]
    assert notices(it)[0] == "The hook before_question blocked it: too short. So the question was not asked.\nhm"
    (told,) = given(project)
    assert (told["question"], told["answer"], told["outcome"], told["by"]) == ("how is it?", "Fine.", "ok", "model")


def test_after_answer_is_told_of_a_failure(open_session: OpenSession, project: Path) -> None:
    it = open_session({"error": "it broke"}, hooks={"after_answer": answering()})
    with pytest.raises(Exception, match="it broke"):
        it.session.agent.ask("go on")
    assert [told["outcome"] for told in given(project)] == ["error"]


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("import sys; sys.exit('it broke')", "ended with exit code 1: it broke"),
        ("import os; os.kill(os.getpid(), 9)", "ended by signal 9"),
        ("print('garbage')", "did not answer with JSON: garbage"),
        ("print('[' * 100_000)", "did not answer with JSON"),
        ("print('\\x1b]0;own\\x07garb\\x1b[2Jage')", "did not answer with JSON: garbage"),
        ('print(\'{"blok": "typo"}\')', "not an object with block, change, notify: {'blok': 'typo'}"),
        ("print('[1]')", "not an object with block, change, notify: [1]"),
        ("print('{\"change\": 1}')", "gave a value of change that is not a text"),
        ('print(\'{"change": "\\\\ud800"}\')', "gave a value of change that is not a text"),
        ('print(\'{"change": "x = 1 \\\\u202e"}\')', "changed it to code that must not run. Line 1 contains the character U+202E"),
        ("import sys\nwhile True: sys.stdout.write('x' * 65536)", "wrote more than 1,000,000 bytes"),
    ],
)
def test_a_hook_that_misbehaves_blocks_with_one_sentence(open_session: OpenSession, script: str, said: str) -> None:
    it = open_session(hooks={"before_cell": command(script)})
    result = it.session.cells.run("x = 1")
    assert result.status is Status.INTERRUPTED
    (notice,) = notices(it)
    assert said in notice
    assert notice.endswith("So your code did not run.\nx = 1")
    assert "\x1b" not in notice


@pytest.mark.parametrize(
    "script",
    [
        "import time; time.sleep(1000)",
        "import os, time\nos.close(1); os.close(2); time.sleep(1000)",
        "import sys\nwhile True: sys.stderr.write('x' * 65536)",
        "import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(1000)']); time.sleep(1000)",
    ],
)
def test_a_hook_that_hangs_is_ended_at_its_time_limit(open_session: OpenSession, script: str) -> None:
    it = open_session(hooks={"before_cell": command(script)}, hook_seconds=0.5)
    assert it.session.cells.run("x = 1").status is Status.INTERRUPTED
    assert "did not end within 0.5 s" in notices(it)[-1]


def test_a_process_that_a_hook_leaves_behind_does_not_hold_it_up(open_session: OpenSession, project: Path) -> None:
    script = (
        "import subprocess, sys\nleft = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(1000)'])\n"
        "open('left.txt', 'w').write(str(left.pid))"
    )
    it = open_session(hooks={"before_cell": command(script)}, hook_seconds=20)
    try:
        assert it.session.cells.run("1 + 1").output == "2\n"
    finally:
        os.kill(int((project / "left.txt").read_text()), signal.SIGKILL)


def test_a_program_that_is_not_there(open_session: OpenSession) -> None:
    it = open_session(hooks={"before_cell": ["no-such-program"]})
    it.session.cells.run("x = 1")
    assert "no-such-program: No such file or directory" in notices(it)[0]


def test_a_hook_that_reads_nothing_of_a_large_cell_works(open_session: OpenSession) -> None:
    it = open_session(hooks={"before_cell": command("pass")})
    assert it.session.cells.run(f"x = {'1' * 1_000_000!r}; len(x)").output == "1000000\n"


def test_stopping_ends_a_hanging_hook_at_once_and_the_next_input_runs(open_session: OpenSession) -> None:
    hang = command("import json, sys, time\nif 'hang' in json.load(sys.stdin)['code']: time.sleep(1000)")
    it = open_session(hooks={"before_cell": hang}, hook_seconds=1000)
    it.session.submit("python", "hang = 1")
    it.session.submit("python", "x = 2")
    wait_for(lambda: it.session.cell_runs)
    assert it.session.stop() == "hook"
    it.store.wait(tags.USER_REPL_OUT, cell=1)
    assert "was stopped by the user. So your code did not run.\nhang = 1" in "\n".join(notices(it))
    assert cells_of(it, UserReplIn) == ["x = 2"]


def test_stopping_a_turn_ends_its_hook(open_session: OpenSession) -> None:
    it = open_session("```python\nx = 1\n```", hooks={"before_cell": command("import time; time.sleep(1000)")}, hook_seconds=1000)
    it.session.submit("ask", "go on")
    wait_for(lambda: it.session.cell_runs)
    assert it.session.stop() == "model"
    it.store.wait(tags.AGENT, state="stopped")
    assert not cells_of(it, AssistantReplIn)


def test_an_after_hook_that_fails_is_told_once_and_cannot_block(open_session: OpenSession) -> None:
    it = open_session(hooks={"after_cell": command("import sys; sys.exit('it broke')")})
    it.session.cells.run("1")
    it.session.cells.run("2")
    assert notices(it) == ["The hook after_cell ended with exit code 1: it broke"]
    other = open_session(hooks={"after_cell": answering(block="late")})
    other.session.cells.run("1")
    assert notices(other) == ["The hook after_cell answered block, which has no effect here."]


def test_a_function_is_called_off_the_main_thread(open_session: OpenSession, home: Path) -> None:
    folder = home / ".mahtab" / "hooks"
    folder.mkdir(parents=True)
    (folder / "own_checks.py").write_text(
        "import threading\n"
        "def check(given):\n"
        "    if given['code'] == 'raise': raise ValueError('no \\x1b[2Jgood')\n"
        "    return {'change': f'x = {threading.current_thread() is threading.main_thread()}'}\n"
    )
    it = open_session(hooks={"before_cell": "own_checks:check"})
    it.run("x = 1")
    assert cells_of(it, UserReplIn) == ["x = False"]
    it.session.cells.run("raise")
    assert "The hook before_cell raised ValueError: no good. So your code did not run." in notices(it)[-1]


def test_a_function_that_hangs_is_given_up(open_session: OpenSession, home: Path) -> None:
    folder = home / ".mahtab" / "hooks"
    folder.mkdir(parents=True)
    (folder / "slow_checks.py").write_text("import time\ndef check(given): time.sleep(5)\n")
    it = open_session(hooks={"before_cell": "slow_checks:check"}, hook_seconds=0.3)
    assert it.session.cells.run("x = 1").status is Status.INTERRUPTED
    assert "did not return within 0.3 s" in notices(it)[-1]


def test_hooks_get_no_secrets_and_a_change_never_writes_a_mask_into_code(open_session: OpenSession, project: Path) -> None:
    it = open_session(hooks={"before_cell": answering(change="x = 1"), "after_cell": answering()})
    it.session.secrets.add("hunter2-hunter2")
    it.session.cells.run("x = 'hunter2-hunter2'; x")
    assert "hunter2" not in (project / "given.jsonl").read_text()
    assert "it holds a secret, which hooks do not get" in notices(it)[-1]
    assert "hunter2" not in notices(it)[-1]


def test_sessions_without_hooks_load_nothing_of_them() -> None:
    import subprocess

    script = (
        "import sys\nfrom mahtab_tui.session import Session\nfrom mahtab_tui.kernel.inprocess import InProcessKernel\n"
        "from mahtab_tui.session.face import NoFace\nfrom mahtab_tui.settings.model import load_settings\n"
        "it = Session(load_settings(), InProcessKernel({}), NoFace()); it.close(keep_kernel=True)\nprint('mahtab_tui.session.hooks' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout == "False\n"
