"""Agents of other programs answer questions in a session."""

from __future__ import annotations

import json
import os
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from mahtab_tui.acp_client.agent import OutsideAgent
from mahtab_tui.acp_client.turn import OWN_TOOLS
from mahtab_tui.agent.host import Door
from mahtab_tui.bus.conversation import Conversation
from mahtab_tui.bus.entries import AnswerText, Cell, ToolUse
from mahtab_tui.kernel.cancellation import Cancellation
from mahtab_tui.session.agent import SessionAgent
from mahtab_tui.session.agent_calls import AgentCalls
from mahtab_tui.session.code_rules import CodeRules
from mahtab_tui.session.joined_agents import AgentCall
from mahtab_tui.session.running_sessions import share_folder
from mahtab_tui.session.user_requests import Permission
from mahtab_tui.system import start_thread
from tests import tags
from tests.acp_client.conftest import Answering, OpenAnswering
from tests.pictures import encoded
from tests.waiting import alive, wait_for


def entries(it: Answering) -> list[object]:
    conversation = Conversation()
    conversation.fold(it.store.records)
    return [
        entry for entry in conversation.entries if isinstance(entry, Cell | AnswerText | ToolUse)
    ]


def test_an_agent_answers_and_runs_code_in_the_namespace(answering: OpenAnswering) -> None:
    it = answering(approval="auto")
    it.run("mine = [1, 2]")
    assert it.ask("eval mine.append(3); total = sum(mine); total").startswith("It says: 6\n")
    cell = it.store.wait(tags.ASSISTANT_REPL_IN)
    assert cell.party == "other"
    assert it.value("total") == "6"
    # The cell says what the call would.
    assert it.tools == {}


def test_words_come_in_pieces_and_end_as_an_answer(answering: OpenAnswering) -> None:
    it = answering()
    assert it.ask("say one two three") == "one two three "
    assert [piece.text for piece in it.unstored.records] == ["one ", "two ", "three "]


def test_code_in_the_words_of_an_agent_stays_words(answering: OpenAnswering) -> None:
    it = answering()
    it.ask(r"say Look:\n```python\nx = 1\n```\nDone.")
    (words,) = entries(it)
    assert isinstance(words, AnswerText)
    assert "```python\nx = 1\n```" in words.source


def test_the_user_allows_an_agents_cell(answering: OpenAnswering) -> None:
    it = answering()
    turn = it.begin_question("eval 6 * 7")
    request = it.wait_approval()
    assert (request.party, request.text) == ("other", "6 * 7")
    it.decide("run")
    assert it.wait_end(turn) == "done"
    assert it.answer(turn).startswith("It says: 42")


def test_the_user_decides_about_the_agents_own_tools(
    answering: OpenAnswering, project: Path
) -> None:
    it = answering()
    turn = it.begin_question("write notes.txt")
    request = it.wait_approval()
    assert request.is_code is False
    assert request.text.startswith("# Write notes.txt\nnotes.txt:\n")
    assert request.text.endswith(" one\n+two")
    it.decide("run")
    assert it.wait_end(turn) == "done"
    # Never for good, although the agent offers that first.
    assert it.answer(turn) == "You chose allow_once."
    assert (project / "notes.txt").read_text() == "one\ntwo\n"
    written = it.tools["Write notes.txt"]
    assert (written.state, written.party) == ("ok", "other")
    assert "+two" in written.text
    assert written.text.startswith("Undo does not reach files that this agent's own tools change.")


def test_a_refusal_of_the_user_reaches_the_agent(answering: OpenAnswering, project: Path) -> None:
    it = answering()
    turn = it.begin_question("write notes.txt")
    it.wait_approval()
    it.decide("skip", reason="not there")
    assert it.wait_end(turn) == "done"
    assert it.answer(turn) == "You chose reject_once."
    # The protocol has no place for the reason.
    assert "The user did not allow Write notes.txt: not there\n\n" in it.ask("echo")
    assert not (project / "notes.txt").exists()
    refused = it.tools["Write notes.txt"]
    assert refused.state == "error"
    assert "Undo does not reach" not in refused.text


def test_stopping_withdraws_what_the_agent_asked(answering: OpenAnswering) -> None:
    it = answering()
    turn = it.begin_question("write notes.txt")
    request = it.wait_approval().request
    it.session.stop()
    assert it.wait_end(turn) == "stopped"
    assert it.store.wait(tags.APPROVAL, request=request, state="stopped")
    assert it.session.approvals.waiting == ()
    assert it.tools["Write notes.txt"].state == "stopped"
    assert it.ask("say again") == "again "


def test_the_answer_stop_about_a_cell_stops_the_agent(answering: OpenAnswering) -> None:
    it = answering()
    turn = it.begin_question("eval 6 * 7")
    it.wait_approval()
    it.decide("stop")
    assert it.wait_end(turn) == "stopped"


def test_a_cell_ends_with_the_agent_that_runs_it(answering: OpenAnswering) -> None:
    it = answering(approval="auto")
    turn = it.begin_question("eval import time; time.sleep(1000)")
    it.store.wait(tags.ASSISTANT_REPL_IN)
    outside_agent = it.session.agent._outside_agent
    assert outside_agent is not None
    assert outside_agent._live is not None
    outside_agent._live._process._transport.kill()
    assert it.wait_end(turn) == "failed"
    wait_for(lambda: not it.session.cells.running)


def test_stopping_interrupts_the_agents_cell(answering: OpenAnswering) -> None:
    it = answering(approval="auto")
    turn = it.begin_question("eval import time; time.sleep(1000)")
    it.store.wait(tags.ASSISTANT_REPL_IN)
    it.session.stop()
    assert it.wait_end(turn) == "stopped"
    wait_for(lambda: not it.session.cells.running)
    assert it.ask("eval 1 + 1").startswith("It says: 2")


def test_an_agent_does_nothing_once_its_answer_has_ended(
    answering: OpenAnswering, project: Path
) -> None:
    it = answering(approval="auto")
    it.run("mine = 1")
    calls = (
        'eval {"code": "late = 1"}',
        "reset",
        "undo",
        'rewind {"point": "cell 1", "dry_run": false}',
        'activate {"path": "."}',
        'pkg {"action": "status"}',
    )
    it.ask(f"later {' | '.join(calls)}")
    (project / "go").touch()
    wait_for((project / "said").exists)
    refusal = "No question is being answered, so nothing is done."
    assert (project / "said").read_text().splitlines() == [refusal] * len(calls)
    assert it.store.of(tags.ASSISTANT_REPL_IN) == []
    assert it.value("mine") == "1"


def test_an_agent_undoes_its_cell_while_it_answers(answering: OpenAnswering) -> None:
    it = answering(approval="auto")
    it.ask("eval theirs = 1")
    turn = it.begin_question("call undo")
    it.wait_approval()
    it.decide("run")
    assert it.wait_end(turn) == "done"
    assert it.answer(turn).startswith("The namespace is as it was before cell 1 ran")
    assert it.value("'theirs' in globals()") == "False"


def test_what_an_agent_runs_for_a_cell_that_asks_does_not_wait_for_it(
    answering: OpenAnswering,
) -> None:
    it = answering(approval="auto")
    assert it.run("print(ask('eval answer = 6 * 7; answer'))").text.startswith("It says: 42\n")
    assert it.value("answer") == "42"
    turn = it.session.agent.last + 1
    cell = start_thread("cell", it.run, """words = ask('call pkg {"action": "status"}')""")
    it.wait_approval()
    it.decide("run")
    cell.join()
    assert "agent-client-protocol" in it.answer(turn)


def test_a_cell_that_an_agent_runs_inside_another_one_can_be_stopped(
    answering: OpenAnswering,
) -> None:
    it = answering(approval="auto")
    cell = start_thread("cell", it.run, "words = ask('eval import time; time.sleep(1000)')")
    it.store.wait(tags.ASSISTANT_REPL_IN)
    it.session.stop()
    cell.join()
    assert it.store.wait(tags.ASSISTANT_REPL_OUT).status == "interrupted"
    assert it.value("words") == "''"


FIRST = (
    "import time; open('first', 'w').close(); [time.sleep(0.01) for _ in range({})]; print('one')"
)
"""Code that makes a file, and prints something once it has waited so many times."""


def both(first_code: str, second_code: str, timeout_s: float | None = None) -> str:
    """Return a question whose answer runs two cells at once. timeout_s: That of the first one."""
    first_arguments = json.dumps({"code": first_code, "timeout_s": timeout_s})
    second_arguments = json.dumps({"code": second_code})
    return f"both eval {first_arguments} | eval {second_arguments}"


def test_a_command_that_has_ended_does_not_disturb_a_cell_inside_another_one(
    answering: OpenAnswering, project: Path
) -> None:
    waiting = "import os, time\nwhile not os.path.exists({!r}): time.sleep(0.01)\n"
    command = "open('begun', 'w').close()\n" + waiting.format("finish")
    (project / "pytest.py").write_text(command)
    it = answering(approval="auto")
    code = f"open('first', 'w').close()\n{waiting.format('go')}print('one')"
    arguments = json.dumps({"code": code})
    question = f'both eval {arguments} | pkg {{"action": "test"}}'
    cell = start_thread("cell", it.run, f"words = ask({question!r})")
    it.wait_approval()
    it.decide("run")
    wait_for((project / "begun").exists)
    (agent,) = it.session.joined_agents._agents
    calls_meanwhile = set(agent.calls)
    (project / "finish").touch()
    # The server lets the kernel look for modules anew.
    wait_for(lambda: agent.calls - calls_meanwhile)
    (project / "go").touch()
    cell.join()
    assert it.answer(1).startswith("one")


def test_of_two_cells_that_an_agent_runs_inside_another_one_each_has_its_output(
    answering: OpenAnswering,
) -> None:
    it = answering(approval="auto")
    it.run(f"words = ask({both(FIRST.format(100), 'print(2)')!r})")
    outputs = it.store.of(tags.ASSISTANT_REPL_OUT)
    assert [(record.cell, record.text) for record in outputs] == [(2, "one\n"), (3, "2\n")]


def test_a_cell_inside_another_one_has_its_output_although_packages_are_installed_meanwhile(
    answering: OpenAnswering, project: Path
) -> None:
    it = answering(approval="auto")
    code = "import os, time\nwhile not os.path.exists('go'): time.sleep(0.01)\nprint('one')"
    cell = start_thread("cell", it.run, f"words = ask({f'eval exec({code!r})'!r})")
    wait_for(lambda: it.store.of(tags.ASSISTANT_REPL_IN))
    (agent,) = it.session.joined_agents._agents
    call = AgentCall(agent, lambda frame: None)
    serve = AgentCalls(it.session).serve
    installing = start_thread("install", serve, call, "invalidate_caches", {})
    wait_for(lambda: len(it.session.cells._nested_turns._places) == 2)
    (project / "go").touch()
    cell.join()
    installing.join()
    assert it.store.wait(tags.ASSISTANT_REPL_OUT).text == "one\n"


def test_two_cells_that_an_agent_runs_inside_another_one_can_be_stopped(
    answering: OpenAnswering,
) -> None:
    it = answering(approval="auto")
    question = both(FIRST.format(100_000), "second = 1")
    cell = start_thread("cell", it.run, f"words = ask({question!r})")
    wait_for(lambda: it.store.of(tags.ASSISTANT_REPL_IN))
    (agent,) = it.session.joined_agents._agents
    wait_for(lambda: len(agent.calls) == 2)
    it.session.stop()
    cell.join()
    assert it.store.wait(tags.ASSISTANT_REPL_OUT, cell=2).status == "interrupted"
    assert it.value("'second' in globals()") == "False"


def test_of_two_cells_that_an_agent_runs_inside_another_one_the_first_has_its_time_limit(
    answering: OpenAnswering,
) -> None:
    it = answering(approval="auto")
    it.run(f"words = ask({both(FIRST.format(100_000), 'second = 1', timeout_s=1)!r})")
    assert it.store.of(tags.ASSISTANT_REPL_OUT)[0].status == "interrupted"
    assert it.value("second") == "1"


def test_a_cell_for_a_thread_that_asks_does_not_print_into_the_users_cell(
    answering: OpenAnswering, project: Path
) -> None:
    it = answering(approval="auto")
    code = "import os, time\nwhile not os.path.exists('go'): time.sleep(0.01)\n"
    question = f"eval exec({code!r}); print('theirs')"
    it.run(f"import threading; thread = threading.Thread(target=ask, args=[{question!r}])")
    it.run("thread.start()")
    it.store.wait(tags.ASSISTANT_REPL_IN)
    it.session.submit("python", f"{code}print('mine')")
    # Where it waits, or begins although the other one runs.
    wait_for(lambda: it.session.inbox._items or len(it.store.of(tags.USER_REPL_IN)) == 3)
    (project / "go").touch()
    assert it.store.wait(tags.ASSISTANT_REPL_OUT).text == "theirs\n"
    assert it.store.wait(tags.USER_REPL_OUT, text="mine\n")


def test_a_queued_cell_of_an_agent_runs_once_the_running_cell_waits_for_the_agent(
    answering: OpenAnswering, project: Path
) -> None:
    it = answering(approval="auto")
    code = "import os, time\nwhile not os.path.exists('go'): time.sleep(0.01)\n"
    it.session.submit("python", f"{code}words = ask('say hello')")
    it.store.wait(tags.USER_REPL_IN)
    turn = it.begin_question("eval theirs = 1")
    wait_for(lambda: [item.party for item in it.session.inbox._items] == ["other"])
    (project / "go").touch()
    assert it.wait_end(turn) == "done"
    assert it.store.wait(tags.USER_REPL_OUT).status == "ok"
    assert it.value("theirs, words") == "(1, 'hello ')"


@pytest.mark.parametrize("nested", [False, True])
def test_code_of_a_call_that_was_cancelled_does_not_run(
    answering: OpenAnswering, monkeypatch: pytest.MonkeyPatch, *, nested: bool
) -> None:
    it = answering(approval="auto")
    it.ask("say hello")
    clear_code = CodeRules.clear_code

    def cancel_and_clear(rules: CodeRules, *args: Any, **options: Any) -> Permission:
        (agent,) = it.session.joined_agents._agents
        for call in agent.calls:
            call.cancel()
        return clear_code(rules, *args, **options)

    monkeypatch.setattr(CodeRules, "clear_code", cancel_and_clear)
    if nested:
        words = it.run("print(ask('eval late = 1'))").text
    else:
        words = it.ask("eval late = 1")
    assert "The call was cancelled." in words
    assert it.store.of(tags.ASSISTANT_REPL_IN) == []


def test_while_the_user_plans_an_agents_cells_change_nothing(
    answering: OpenAnswering, project: Path
) -> None:
    it = answering(approval="auto")
    it.session.info.set_planning(True)
    assert it.ask("eval count = 6 * 7; count").startswith("It says: 42")
    refusal = (
        "nothing changes until the user accepts it. This code may not run yet: wanted to write"
    )
    assert refusal in it.ask("eval open('written.txt', 'w')")
    assert not (project / "written.txt").exists()
    assert it.value("'count' in globals()") == "False"


def test_an_agent_that_answers_cannot_leave_the_session(answering: OpenAnswering) -> None:
    it = answering(approval="auto")
    tools = it.ask("tools").split()
    assert sorted(tools) == sorted(OWN_TOOLS)
    assert "mode" not in tools
    it.ask("eval 1")
    joined = it.session.joined_agents
    for name in ("other", ""):
        refusal = "other answers your questions. Esc stops it, /model chooses another one."
        assert joined.disconnect(name) == refusal
    joined.join("codex", lambda sentence: None, None)
    assert joined.disconnect("") == "Disconnected codex."
    assert joined.disconnect("nobody") == "Which one? In the session: codex."
    # The agent may have joined again before the session has noticed that it is gone.
    joined.join("other", lambda sentence: None, None, is_model=True)
    assert joined.disconnect("other") == refusal
    assert joined.names == ["other", "codex", "other"]


def test_a_cell_ends_with_its_answer_although_another_question_waits(
    answering: OpenAnswering, project: Path
) -> None:
    it = answering(approval="auto")
    turn = it.begin_question("abandon import time; time.sleep(1000)")
    it.store.wait(tags.ASSISTANT_REPL_IN)
    second = start_thread("second", it.session.agent.ask, "say hello")
    wait_for(lambda: it.session.agent.last == turn + 1)
    (project / "go").touch()
    assert it.wait_end(turn) == "done"
    second.join()
    assert it.answer(turn + 1) == "hello "
    assert it.store.wait(tags.ASSISTANT_REPL_OUT).status == "interrupted"


def test_a_cell_in_the_queue_ends_with_its_answer(answering: OpenAnswering, project: Path) -> None:
    it = answering(approval="auto")
    it.session.submit(
        "python", "import os, time\nwhile not os.path.exists('end'): time.sleep(0.01)"
    )
    it.store.wait(tags.USER_REPL_IN)
    turn = it.begin_question("abandon late = 1")
    wait_for(lambda: [item.party for item in it.session.inbox._items] == ["other"])
    (project / "go").touch()
    assert it.wait_end(turn) == "done"
    (project / "end").touch()
    wait_for(lambda: it.session.inbox.idle)
    assert it.value("'late' in globals()") == "False"


def test_a_command_of_an_agent_ends_with_its_answer(
    answering: OpenAnswering, project: Path
) -> None:
    (project / "pytest.py").write_text(
        "import os, time\n"
        "open('pid.part', 'w').write(str(os.getpid()))\n"
        "os.rename('pid.part', 'pid')\n"
        "time.sleep(1000)\n"
    )
    it = answering(approval="auto")
    turn = it.begin_question('leave pkg {"action": "test"}')
    it.wait_approval()
    it.decide("run")
    wait_for((project / "pid").exists)
    (project / "go").touch()
    assert it.wait_end(turn) == "done"
    pid = int((project / "pid").read_text())
    wait_for(lambda: not alive(pid))


def test_what_an_agent_has_asked_ends_with_its_answer(
    answering: OpenAnswering, project: Path
) -> None:
    it = answering()
    turn = it.begin_question("abandon late = 1")
    it.wait_approval()
    (project / "go").touch()
    assert it.wait_end(turn) == "done"
    assert it.store.wait(tags.APPROVAL, state="stopped")
    assert it.session.approvals.waiting == ()


def test_an_answer_that_is_stopped_keeps_its_words(answering: OpenAnswering) -> None:
    it = answering()
    turn = it.begin_question("wait")
    wait_for(lambda: it.unstored.records)
    it.session.stop()
    assert it.wait_end(turn) == "stopped"
    answer = it.store.wait(tags.ASSISTANT_CHAT, turn=turn)
    assert (answer.text, answer.stopped) == ("I wait. ", True)


def test_an_agent_that_fails_when_it_is_stopped_has_stopped(answering: OpenAnswering) -> None:
    it = answering("fails-at-stop", max_usd=1.0)
    turn = it.begin_question("wait")
    wait_for(lambda: it.unstored.records)
    it.session.stop()
    assert it.wait_end(turn) == "stopped"
    assert it.notices == []


def test_the_reason_why_the_program_stops_an_agent_is_said_although_it_fails(
    answering: OpenAnswering,
) -> None:
    it = answering("fails-at-stop", max_usd=1.0)
    assert it.wait_end(it.begin_question("spend 2")) == "failed"
    limit = "the session's limit of $1.00 (max_usd) is reached."
    assert it.notices == [f"other was stopped, because {limit}"]


class ContendedLock:
    """A lock that knows whether a thread has waited for it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.is_wanted = False

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            self.is_wanted = True
            self._lock.acquire()

    def __exit__(self, *error: object) -> None:
        self._lock.release()


def test_a_question_that_ends_while_it_is_cancelled_leaves_the_next_one(
    answering: OpenAnswering, monkeypatch: pytest.MonkeyPatch
) -> None:
    it = answering()
    answers: list[Future[str]] = [Future(), Future()]
    second_has_begun = threading.Event()
    turn_end_lock = ContendedLock()
    stop = OutsideAgent.stop

    def stop_late(agent: OutsideAgent) -> None:
        it.wait_end(1)
        wait_for(lambda: turn_end_lock.is_wanted or second_has_begun.is_set())
        stop(agent)

    def ask(number: int, cancellation: Cancellation | None = None) -> None:
        answer = it.session.agent.ask("spend 0.1", cancellation=cancellation)
        answers[number].set_result(answer)

    def watch_second() -> None:
        it.store.wait(tags.AGENT_SESSION, turn=2)
        second_has_begun.set()

    cancellation = Cancellation()
    start_thread("first", ask, 0, cancellation)
    it.store.wait(tags.AGENT_SESSION, turn=1)
    outside_agent = it.session.agent._outside_agent
    assert outside_agent is not None
    monkeypatch.setattr(outside_agent, "_turn_end_lock", turn_end_lock)
    start_thread("second", ask, 1)
    start_thread("watch", watch_second)
    with monkeypatch.context() as patch:
        patch.setattr(OutsideAgent, "stop", stop_late)
        cancellation.cancel()
    assert answers[0].result(60) == "Spent."
    assert answers[1].result(60) == "Spent."


def test_a_question_for_an_agent_that_was_closed_ends(answered: Answering) -> None:
    outside_agent = answered.session.agent._outside_agent
    assert outside_agent is not None
    outside_agent.close()
    assert answered.wait_end(answered.begin_question("say more")) == "stopped"


def test_two_questions_at_once_replace_an_idle_agent(
    answered: Answering, monkeypatch: pytest.MonkeyPatch
) -> None:
    answered.session.set_model("demo")
    both_have_begun = threading.Barrier(2)
    choose_answerer = SessionAgent._answerer

    def choose_later(agent: SessionAgent, **options: Any) -> Any:
        both_have_begun.wait(60)
        return choose_answerer(agent, **options)

    monkeypatch.setattr(SessionAgent, "_answerer", choose_later)
    with ThreadPoolExecutor() as threads:
        answers = [threads.submit(answered.session.agent.ask, "Which variables?") for _ in range(2)]
    assert all(answer.result() for answer in answers)


def test_an_agent_that_is_stopped_while_its_socket_is_made_leaves_none(
    answering: OpenAnswering, monkeypatch: pytest.MonkeyPatch
) -> None:
    it = answering()
    begun = threading.Event()
    can_open = threading.Event()
    opened = threading.Event()
    make_door = it.session.agent._open_door
    assert make_door is not None

    def open_late(name: str) -> Door:
        begun.set()
        can_open.wait(60)
        door = make_door(name)
        opened.set()
        return door

    monkeypatch.setattr(it.session.agent, "_open_door", open_late)
    turn = it.begin_question("say hello")
    assert begun.wait(60)
    it.session.stop()
    assert it.wait_end(turn) == "stopped"
    can_open.set()
    assert opened.wait(60)
    it.session.close()
    wait_for(lambda: not any(share_folder().iterdir()))


def test_an_agent_that_dies_is_started_again(answering: OpenAnswering) -> None:
    it = answering()
    turn = it.begin_question("die of boredom")
    assert it.wait_end(turn) == "failed"
    assert it.answer(turn) == "Half of an ans"
    assert (
        "other has ended with exit code 3: of boredom. The next question starts it again."
        in it.notices
    )
    assert it.ask("say again") == "again "


def test_an_agent_gets_no_keys_that_are_not_named_for_it(
    answering: OpenAnswering, monkeypatch: pytest.MonkeyPatch
) -> None:
    withheld = (
        "CLAUDECODE",
        "CLAUDECODE_ENTRY",
        "OPENAI_API_KEY",
        "GH_TOKEN",
        "OPENAI_KEY",
        "MYSQL_PWD",
        "GITHUB_PAT",
        "GITHUB_TOKENS",
        "MINIO_ACCESSKEY",
        "SESSION_COOKIE",
        "MAHTAB_OTHER",
    )
    inherited = (
        "EDITOR",
        "MAX_THINKING_TOKENS",
        "TOKENIZERS_PARALLELISM",
        "SSH_AUTH_SOCK",
        "PWD",
        "KEYBOARD",
        "AUTHOR",
    )
    for name in (*withheld, *inherited):
        monkeypatch.setenv(name, f"{name}-value")
    logins = {"DATABASE_URL": "postgres://me:pl/um@host/data", "FORK": "https://plum@host/fork"}
    for name, address in logins.items():
        monkeypatch.setenv(name, address)
    monkeypatch.setenv("HTTPS_PROXY", "http://me:pear@host")
    root = str(Path(__file__).parents[2])
    it = answering(agent={"env": {"PYTHONPATH": root, "MY_TOKEN": "${GH_TOKEN}"}})
    names = (*withheld, *inherited, *logins, "HTTPS_PROXY", "MY_TOKEN")
    answer = it.ask(f"environment {' '.join(names)}")
    for name in inherited:
        assert f'"{name}": "{name}-value"' in answer
    assert "pear" in answer
    assert answer.count("null") == len(withheld) + len(logins)
    # It has the one that is named, which nobody else sees.
    assert '"MY_TOKEN": "••••••••"' in answer
    assert os.environ["CLAUDECODE"]


def test_a_plan_is_shown_whole_and_changes_in_place(answering: OpenAnswering) -> None:
    it = answering()
    it.ask("plan Look,Write,Test")
    plan, words = entries(it)
    assert isinstance(plan, ToolUse)
    assert (plan.text, plan.collapsed) == ("✓ Look\n✓ Write\n✓ Test", False)
    assert isinstance(words, AnswerText)


def test_thoughts_stand_apart_from_the_answer(answering: OpenAnswering) -> None:
    it = answering()
    assert it.ask("think Hm") == "I have thought."
    assert it.store.wait(tags.ASSISTANT_THOUGHT).text == "Hm"


def test_the_answer_of_an_agent_counts_what_it_cost(answering: OpenAnswering) -> None:
    it = answering(max_usd=1.0)
    it.ask("spend 0.25")
    it.ask("spend 0.5")
    usages = it.store.of(tags.USAGE)
    assert [usage.cost for usage in usages] == [0.25, 0.5]
    assert (usages[0].input_tokens, usages[0].output_tokens) == (10, 5)
    assert it.session.spending.total.cost == 0.75
    turn = it.begin_question("spend 0.5")
    # It would have gone on.
    assert it.wait_end(turn) == "failed"
    limit = "because the session's limit of $1.00 (max_usd) is reached."
    assert f"other was stopped, {limit}" in it.notices
    turn = it.begin_question("say nothing")
    assert it.wait_end(turn) == "failed"
    assert it.notices[-1] == (
        "other was not asked: the session's limit of $1.00 (max_usd) is reached."
    )


def test_a_cost_that_falls_has_begun_anew(answering: OpenAnswering) -> None:
    it = answering()
    it.ask("report 0.5 0.7 0.2 0.3")
    it.ask("report 0.4")
    assert [round(usage.cost, 9) for usage in it.store.of(tags.USAGE)] == [1.0, 0.1]


def test_without_a_price_a_limit_cannot_be_kept(answering: OpenAnswering) -> None:
    it = answering(max_usd=1.0)
    it.ask("say hello")
    turn = it.begin_question("say hello")
    assert it.wait_end(turn) == "failed"
    assert "did not report its price" in it.notices[-1]


def test_the_user_sets_the_options_of_an_agent(answering: OpenAnswering) -> None:
    it = answering(agent={"options": {"mode": "default", "colour": "red"}})
    assert it.ask("recall").endswith("mode default")
    assert "other has no option colour. Options: model, mode." in it.notices
    agent = it.session.agent
    rows = "model is small (of small, large)\nmode is {} (of default, bold)"
    assert agent.change_options("") == rows.format("default")
    assert agent.change_options("mode bold") == rows.format("bold")
    assert (
        agent.change_options("mode loud") == "mode of other cannot be loud. Values: default, bold."
    )
    assert agent.change_options("model large").startswith("model is large ")
    assert it.ask("recall").endswith("mode bold")
    # What was set stays when it is started again.
    it.wait_end(it.begin_question("die"))
    assert it.ask("recall").endswith("mode bold")
    assert agent.change_options("").startswith("model is large ")


def test_an_agent_that_sets_no_option_answers_all_the_same(answering: OpenAnswering) -> None:
    it = answering("stubborn", agent={"options": {"model": "large"}})
    assert it.ask("say hello") == "hello "
    assert "other did not set model: Internal error: not on this plan." in it.notices


def test_a_picture_goes_along_if_the_agent_sees_it(answering: OpenAnswering, project: Path) -> None:
    (project / "dot.png").write_bytes(encoded(Image.new("RGB", (1, 1))))
    for abilities, count in ((("pictures",), 1), ((), 0)):
        it = answering(*abilities)
        it.session.submit("ask", "Look at @dot.png\necho")
        it.wait_end(1)
        assert it.answer(1).endswith(f"and {count} pictures")


def test_an_agent_is_told_of_the_users_variables(answering: OpenAnswering) -> None:
    it = answering()
    it.run("prices = {'apple': 3}")
    request_text = it.ask("echo")
    assert "The tools of the MCP server mahtab run Python" in request_text
    assert "prices" in request_text
    # Once.
    assert "The tools of the MCP server mahtab" not in it.ask("echo")


def test_a_private_key_of_the_settings_reaches_no_agent(answering: OpenAnswering) -> None:
    it = answering(api_keys={"openai": "sk-very-private-key"})
    it.run("key = 'sk-very-private-key'")
    assert "sk-very" not in it.ask("echo say sk-very-private-key")


def test_a_search_needs_a_model(answering: OpenAnswering) -> None:
    it = answering()
    search = "print(rlm('Which lines have errors?', 'one\\ntwo error'))"
    assert "acp:other is an agent, which only answers questions." in it.run(search).text
    it.session.change_setting("sub_model", "demo")
    assert "acp:other" not in it.run(search).text


def test_an_agent_is_told_of_the_users_cells_and_not_of_its_own(answering: OpenAnswering) -> None:
    it = answering(approval="auto")
    it.ask("eval theirs = 1")
    it.run("mine = 2")
    request_text = it.ask("echo")
    assert "mine = 2" in request_text
    assert "theirs = 1" not in request_text
    assert "another agent" not in request_text


def test_what_answers_has_its_own_name(answering: OpenAnswering) -> None:
    it = answering(approval="auto")
    it.session.set_model("demo")
    it.session.joined_agents.join("other", lambda sentence: None, None)
    it.session.set_model("acp:other")
    it.ask("eval 6 * 7")
    assert it.store.wait(tags.ASSISTANT_REPL_IN).party == "other"


def test_the_entry_of_a_tool_has_the_newest_name(answering: OpenAnswering) -> None:
    it = answering(approval="auto")
    it.ask("rename A better title")
    (use, words) = entries(it)
    assert isinstance(use, ToolUse)
    assert (use.name, use.arguments, use.state) == ("A better title", '{"command": "ls"}', "ok")
    assert isinstance(words, AnswerText)
