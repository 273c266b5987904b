"""Agents that break the protocol: a clear sentence, nothing lost, and the next question works."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import pytest

from mahtab_tui.acp_client import agent as outside_agent
from mahtab_tui.acp_client import live_agent, permissions, process
from mahtab_tui.acp_client.agent import OutsideAgent
from mahtab_tui.acp_client.live_agent import LiveAgent
from mahtab_tui.bus.entry_names import question_entry
from mahtab_tui.bus.hidden_characters import visible
from mahtab_tui.bus.records import encode
from mahtab_tui.bus.sanitize import plain
from mahtab_tui.system import start_thread
from tests import tags
from tests.acp_client.conftest import ROOT, Answering, OpenAnswering
from tests.waiting import alive, wait_for

T = TypeVar("T")
END_OF_SENTENCE = " The next question starts it again."


def read_pid(name: str) -> int:
    """Return the id of a process, which it or its parent writes into a file."""
    wait_for(lambda: Path(name).exists() and Path(name).read_text())
    return int(Path(name).read_text())


@pytest.fixture
def hostile(answering: OpenAnswering) -> OpenAnswering:
    """Open a session in which an agent of `hostile_agent.py` answers."""

    def open_it(how: str, **options: object) -> Answering:
        command = [sys.executable, str(ROOT / "tests/servers/hostile_agent.py"), how]
        return answering(command=command, **options)

    return open_it


def test_what_is_no_message_is_ignored(hostile: OpenAnswering) -> None:
    it = hostile("garbage")
    assert it.ask("Hello?") == "Still here."
    assert it.ask("Again?") == "Still here."
    assert it.notices == []


def test_no_files_and_no_terminals_are_served(hostile: OpenAnswering) -> None:
    it = hostile("unknown")
    assert it.ask("Hello?") == "refused " * 6
    assert it.notices == []


def test_escape_sequences_are_not_drawn(hostile: OpenAnswering) -> None:
    it = hostile("escapes")
    it.ask("Hello?")
    assert {record.state for record in it.store.of(tags.ASSISTANT_TOOL)} == {"ok"}
    for record in it.store.of(tags.ASSISTANT_TOOL):
        assert "\x1b" not in plain(record.text + record.name + record.arguments)


def test_texts_that_cannot_be_encoded_are_stored(hostile: OpenAnswering) -> None:
    it = hostile("broken_texts", max_usd=5.0)
    turn = it.begin_question("Hello?")
    it.wait_approval()
    it.decide("run")
    assert it.wait_end(turn) == "done", it.notices
    for record in it.store.records:
        json.dumps(encode(record), ensure_ascii=False).encode()
        record.text.encode()
        assert len(record.text) < 20_000
    assert it.session.spending.total.cost == 0.0
    assert it.store.of(tags.USAGE)[-1].cost is None


@pytest.mark.parametrize(
    ("how", "max_chars", "sentence"),
    [
        ("tools", 10_000, "it has made more than 1,000 tool calls."),
        ("renames", 1_100_000, "it has said too much about its tool calls and plans."),
        ("plans", 1_100_000, "it has said too much about its tool calls and plans."),
        ("long_results", 240_000, "it has said too much about its tool calls and plans."),
        ("words", 20_000, "its answer has more than 10,000 characters (max_answer_chars)."),
    ],
)
def test_an_answer_that_is_too_much_is_stopped(
    hostile: OpenAnswering,
    monkeypatch: pytest.MonkeyPatch,
    how: str,
    max_chars: int,
    sentence: str,
) -> None:
    monkeypatch.setattr(live_agent, "CANCEL_TIMEOUT_S", 0.2)
    monkeypatch.setattr(live_agent, "MAX_TOOL_CHARS", 1_000_000)
    it = hostile(how, max_answer_chars=10_000)
    assert it.wait_end(it.begin_question("Hello?")) == "failed"
    assert f"other was stopped: {sentence}" in it.notices
    texts = [f"{record.text}{record.attrs.get('arguments', '')}" for record in it.store.records]
    assert sum(map(len, texts)) < max_chars


def test_only_a_part_of_a_piece_that_is_too_long_is_kept(hostile: OpenAnswering) -> None:
    it = hostile("long_piece", max_answer_chars=10_000)
    assert it.wait_end(it.begin_question("Hello?")) == "failed"
    sentence = "its answer has more than 10,000 characters (max_answer_chars)."
    assert it.notices == [f"other was stopped: {sentence}"]
    assert [len(record.text) for record in it.unstored.records] == [10_001]


def test_long_files_are_not_compared(hostile: OpenAnswering) -> None:
    it = hostile("long_diffs")
    it.ask("Hello?")
    lines = "\n".join(f"-{number}" for number in range(1_000))
    compared, of_many_lines, of_many_chars = it.store.of(tags.ASSISTANT_TOOL)[:3]
    assert compared.text.endswith("\nfile:\n@@ -29,2 +29,3 @@\n 28\n 29\n+new")
    assert f"\nfile:\n{lines}" in of_many_lines.text
    assert "\nfile:\n-" + "x" * 1_000 in of_many_chars.text


def test_what_is_too_wide_to_be_read_is_left_out_or_ends_the_agent(
    hostile: OpenAnswering,
) -> None:
    it = hostile("wide_update")
    assert it.ask("Hello?") == "Still here."
    assert it.notices == []
    it.session.close()
    it = hostile("wide-end")
    assert it.wait_end(it.begin_question("Hello?")) == "failed"
    sentence = "other has sent a message that is too long, and was ended."
    assert it.notices == [sentence + END_OF_SENTENCE]


def test_hidden_characters_are_looked_for_beside_the_loop_of_the_agent(
    hostile: OpenAnswering, monkeypatch: pytest.MonkeyPatch
) -> None:
    lengths: list[int] = []

    def look(text: str) -> str:
        assert threading.current_thread().name != "acp"
        lengths.append(len(text))
        return visible(text)

    monkeypatch.setattr(permissions, "visible", look)
    it = hostile("marks")
    assert it.ask("Hello?") == "refused refused "
    # Not of the text that is longer than what may be asked.
    assert lengths == [150_000]
    problem = "other was refused what it asked for: it is too long to be shown whole."
    assert it.notices == [problem]


def test_results_of_ended_calls_are_not_kept_whole(
    hostile: OpenAnswering, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_agent, "MAX_TOOL_CHARS", 1_000_000)
    it = hostile("ended_results")
    it.ask("Hello?")
    results = it.store.of(tags.ASSISTANT_TOOL)
    assert len(results) == 20
    assert "\n[… 88,000 characters left out …]\n" in results[-1].text


def test_what_says_nothing_new_about_a_tool_is_not_stored(hostile: OpenAnswering) -> None:
    it = hostile("repeats")
    it.ask("Hello?")
    records = it.store.of(tags.ASSISTANT_TOOL)
    assert [record.state for record in records] == ["running", "stopped"]


def test_only_some_permissions_are_asked_at_once(
    hostile: OpenAnswering, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_agent, "CANCEL_TIMEOUT_S", 0.2)
    it = hostile("permissions")
    turn = it.begin_question("Hello?")
    limit = permissions.MAX_OPEN_PERMISSIONS
    wait_for(lambda: len(it.session.approvals.waiting) == limit)
    for request in it.store.of(tags.APPROVAL, state="waiting"):
        assert "\x1b" not in request.text + "".join(map(plain, request.answers))
    assert len(it.store.of(tags.APPROVAL, state="waiting")) == limit
    it.session.stop()
    it.wait_end(turn)
    assert it.session.approvals.waiting == ()


def test_a_permission_ends_with_the_answer(hostile: OpenAnswering) -> None:
    it = hostile("forgotten_permission")
    it.ask("Hello?")
    assert it.store.wait(tags.APPROVAL, state="stopped")
    assert it.session.approvals.waiting == ()


def test_a_permission_ends_with_the_agent(hostile: OpenAnswering, project: Path) -> None:
    it = hostile("dying_permission")
    turn = it.begin_question("Hello?")
    it.wait_approval()
    (project / "go").touch()
    assert it.wait_end(turn) == "failed"
    assert it.store.wait(tags.APPROVAL, state="stopped")
    assert it.session.approvals.waiting == ()


@pytest.mark.parametrize("how", ["permissions", "words"])
def test_an_answer_that_must_not_go_on_runs_nothing_more(
    hostile: OpenAnswering, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    # The agent goes on for so long.
    monkeypatch.setattr(live_agent, "CANCEL_TIMEOUT_S", 600.0)
    it = hostile(how, max_answer_chars=100_000)
    turn = it.begin_question("Hello?")
    if how == "permissions":
        it.wait_approval()
        it.decide("stop")
    wait_for(it.session.agent.cancelled.is_set)
    assert it.session.agent.in_turn
    assert not it.session.agent.is_answering
    assert [record.state for record in it.store.of(tags.AGENT, turn=turn)] == ["thinking"]


def test_a_permission_for_good_is_refused_and_said_once(hostile: OpenAnswering) -> None:
    it = hostile("standing_permissions")
    refusal = "other was refused what it asked for: it could only have been allowed for good."
    for question_count in (1, 2):
        assert it.ask("Hello?") == '{"outcome": {"outcome": "cancelled"}}' * 2
        assert it.notices == [refusal] * question_count


def test_an_error_does_not_repeat_the_request(hostile: OpenAnswering) -> None:
    it = hostile("long_request")
    assert int(it.ask("Hello?")) < 200


def test_a_request_of_too_many_values_is_refused(hostile: OpenAnswering) -> None:
    it = hostile("wide_request")
    assert it.ask("Hello?") == "Invalid params"


def test_a_request_that_is_nested_deeply_is_answered(
    hostile: OpenAnswering, caplog: pytest.LogCaptureFixture
) -> None:
    it = hostile("deep_requests")
    assert it.ask("Hello?") == "I have asked."
    assert [record for record in caplog.records if record.name == "root"] == []


def test_nothing_beside_the_protocol_replaces_what_is_asked(hostile: OpenAnswering) -> None:
    it = hostile("replaced_parameters")
    turn = it.begin_question("Hello?")
    request = it.wait_approval()
    assert (request.text, request.answers) == ("# The tool\n", ("Yes", ""))
    it.decide("run")
    assert it.wait_end(turn) == "done"
    # The agent's own id.
    assert '"id": 7, "result": {"outcome": {"optionId": "yes"' in it.answer(turn)


def test_an_agent_that_does_not_read_is_ended(
    hostile: OpenAnswering, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "READ_TIMEOUT_S", 0.5)
    it = hostile("unread_replies")
    assert it.wait_end(it.begin_question("Hello?")) == "failed"
    assert it.notices == ["other does not read what it is sent, and was ended." + END_OF_SENTENCE]


@pytest.mark.parametrize("limit", ["MAX_OPEN_REQUESTS", "MAX_OPEN_REQUEST_BYTES"])
def test_requests_wait_until_earlier_ones_are_answered(
    hostile: OpenAnswering, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    monkeypatch.setattr(process, limit, 1)
    it = hostile("crowded_requests")
    turn = it.begin_question("Hello?")
    for number in (1, 2, 3):
        request = f"{turn}.permission-{number}"
        it.wait_approval(request=request)
        it.decide("run", request)
    assert it.wait_end(turn) == "done"
    states = [record.state for record in it.store.of(tags.APPROVAL)]
    assert states == ["waiting", "run"] * 3


def test_only_some_options_are_kept(hostile: OpenAnswering) -> None:
    it = hostile("many_options")
    it.ask("Hello?")
    rows = it.session.agent.change_options("").splitlines()
    names = [f"option {number}" for number in range(live_agent.MAX_OPTIONS)]
    assert rows == [f"{name} is small (of small, large)" for name in names]


def test_numbers_that_nobody_can_calculate_with_are_not_believed(hostile: OpenAnswering) -> None:
    it = hostile("long_numbers")
    it.ask("Hello?")
    assert [window.tokens for window in it.unstored.records] == [10**12]


def test_the_name_of_our_tool_in_a_title_allows_nothing(hostile: OpenAnswering) -> None:
    it = hostile("disguise")
    turn = it.begin_question("Hello?")
    for number in range(1, 14):
        request = f"{turn}.permission-{number}"
        it.wait_approval(request=request)
        it.decide("skip", request)
    assert it.wait_end(turn) == "done"
    assert it.answer(turn) == "I have asked."


@pytest.mark.parametrize(
    ("how", "sentence"),
    [
        ("flood", "other has sent more than 2,000 messages, and was ended."),
        ("endless_line", "other has sent a message that is too long, and was ended."),
        ("crowd", "other has ended with exit code 5."),
        ("orphan", "other has ended with exit code 5."),
        ("closed_pipe", "other has closed its connection, and was ended."),
    ],
)
def test_a_flood_ends_the_agent(
    hostile: OpenAnswering, monkeypatch: pytest.MonkeyPatch, how: str, sentence: str
) -> None:
    monkeypatch.setattr("mahtab_tui.acp_client.process.MAX_MESSAGES", 2_000)
    it = hostile(how)
    for _ in range(2):
        assert it.wait_end(it.begin_question("Hello?")) == "failed"
        assert not alive(read_pid("agent.pid"))
    assert it.notices == [sentence + END_OF_SENTENCE] * 2


@pytest.mark.parametrize("how", ["dies-at-resume", "hangs-at-resume"])
def test_an_earlier_session_that_cannot_go_on_is_left(
    hostile: OpenAnswering, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    it = hostile(how)
    it.ask("Hello?")
    it.session.close()
    if how == "hangs-at-resume":
        monkeypatch.setattr(live_agent, "REOPEN_TIMEOUT_S", 2.0)
    later = hostile(how, past=it.store.records)
    later.ask("Hello again?")
    assert later.notices == []


def test_an_agent_that_does_not_start_is_not_started_again_without_its_earlier_session(
    hostile: OpenAnswering, monkeypatch: pytest.MonkeyPatch
) -> None:
    it = hostile("slow")
    it.ask("Hello?")
    it.session.close()
    monkeypatch.setattr(outside_agent, "START_TIMEOUT_S", 2.0)
    Path("starts").unlink()
    for how in ("hangs-at-start", "dead"):
        later = hostile(how, past=it.store.records)
        assert later.wait_end(later.begin_question("Hello again?")) == "failed"
        later.session.close()
    assert Path("starts").read_text().split() == ["hangs-at-start", "dead"]


@pytest.mark.parametrize(
    ("how", "sentence"),
    [
        ("dies-at-option", "other has ended with exit code 9."),
        ("hangs-at-option", "other did not set size within 2 seconds."),
    ],
)
def test_an_option_that_ends_the_agent_is_a_sentence(
    hostile: OpenAnswering, monkeypatch: pytest.MonkeyPatch, how: str, sentence: str
) -> None:
    it = hostile(how)
    it.session.agent.change_options("")
    if how == "hangs-at-option":
        monkeypatch.setattr(live_agent, "OPTION_TIMEOUT_S", 2.0)
    assert it.session.agent.change_options("size large") == sentence


def test_a_question_waits_for_the_one_of_a_cell(hostile: OpenAnswering) -> None:
    it = hostile("slow")
    cell = start_thread("cell", it.run, "words = ask('Hello?')")
    it.store.wait(tags.AGENT_SESSION)
    assert it.ask("And now?") == "At last."
    cell.join()
    assert it.value("words") == "At last."


def test_looking_at_options_stops_no_answer_of_another_model(hostile: OpenAnswering) -> None:
    it = hostile("slow")
    turn = it.begin_question("Hello?")
    it.store.wait(tags.AGENT_SESSION)
    it.session.set_model("demo")
    it.session.agent.change_options("")
    assert it.wait_end(turn) == "done"
    assert it.answer(turn) == "At last."


def test_no_agent_is_left_by_a_question_after_the_end_of_the_session(
    hostile: OpenAnswering,
) -> None:
    it = hostile("slow")
    it.session.close()
    for _ in range(2):
        assert it.session.agent.change_options("") == "other was ended with its session."
    wait_for(lambda: "acp" not in [thread.name for thread in threading.enumerate()])
    assert not Path("agent.pid").exists()


def test_children_of_an_agent_end_with_the_session(hostile: OpenAnswering) -> None:
    it = hostile("stubborn")
    it.ask("Hello?")
    it.session.close()
    agent = read_pid("agent.pid")
    child = read_pid("child.pid")
    wait_for(lambda: not alive(agent) and not alive(child))


def test_children_end_when_the_end_of_the_agent_is_noticed(hostile: OpenAnswering) -> None:
    it = hostile("leaves-a-child")
    it.ask("Hello?")
    child = read_pid("child.pid")
    wait_for(lambda: not alive(child))


@pytest.mark.parametrize("how", ["close", "stop"])
def test_an_agent_that_is_not_wanted_any_more_ends_although_it_does_not_listen(
    hostile: OpenAnswering, how: str
) -> None:
    it = hostile("stubborn-at-start")
    turn = it.begin_question("Hello?")
    pids = (read_pid("agent.pid"), read_pid("child.pid"))
    if how == "stop":
        it.session.stop()
        wait_for(Path("terminated").exists)
        it.session.stop()
        assert it.wait_end(turn) == "stopped"
    else:
        it.session.close()
    wait_for(lambda: not any(map(alive, pids)))


def test_a_session_that_is_closed_while_an_agent_is_ended_leaves_no_child(
    hostile: OpenAnswering, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_agent, "CANCEL_TIMEOUT_S", 0.1)
    it = hostile("stubborn_and_deaf")
    it.begin_question("Hello?")
    it.store.wait(tags.AGENT_SESSION)
    pids = (read_pid("agent.pid"), read_pid("child.pid"))
    it.session.stop()
    wait_for(Path("terminated").exists)
    it.session.agent.close()
    wait_for(lambda: not any(map(alive, pids)))


def test_an_agent_can_be_closed_by_two_threads_at_once(hostile: OpenAnswering) -> None:
    it = hostile("stubborn")
    it.ask("Hello?")
    pids = (read_pid("agent.pid"), read_pid("child.pid"))
    agent = it.session.agent._outside_agent
    assert agent is not None
    with ThreadPoolExecutor() as threads:
        first = threads.submit(agent.close)
        wait_for(Path("terminated").exists)
        second = threads.submit(agent.close)
    assert (first.result(), second.result()) == (None, None)
    wait_for(lambda: not any(map(alive, pids)))


def test_a_stop_while_an_agent_is_replaced_starts_none(
    hostile: OpenAnswering, monkeypatch: pytest.MonkeyPatch
) -> None:
    it = hostile("stubborn")
    it.ask("Hello?")
    pid = read_pid("agent.pid")
    # The agent cannot forget it.
    it.session.entries.hide(question_entry(1), hidden=True)
    close = LiveAgent.close

    async def stop_and_close(agent: LiveAgent) -> None:
        it.session.stop()
        await close(agent)

    with monkeypatch.context() as patch:
        patch.setattr(LiveAgent, "close", stop_and_close)
        assert it.wait_end(it.begin_question("And now?")) == "stopped"
    wait_for(lambda: not alive(pid))
    assert read_pid("agent.pid") == pid


def test_a_start_that_hangs_ends_with_the_session(hostile: OpenAnswering) -> None:
    it = hostile("hangs-at-start")
    it.session.agent.warm_up()
    agent = read_pid("agent.pid")
    it.session.close()
    wait_for(lambda: not alive(agent))


def test_an_agent_that_does_not_stop_is_ended(
    hostile: OpenAnswering, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_agent, "CANCEL_TIMEOUT_S", 0.2)
    it = hostile("deaf")
    for turn in (1, 2):
        it.begin_question("Hello?")
        it.store.wait(tags.AGENT_SESSION, turn=turn)
        it.session.stop()
        assert it.wait_end(turn) == "stopped"
    assert it.notices == ["other did not stop, and was ended." + END_OF_SENTENCE] * 2


@pytest.mark.parametrize(
    ("how", "sentence"),
    [
        ("dead", "other has ended with exit code 4: cannot start "),
        ("bad-initialize", "other could not be started: its answer cannot be read."),
        ("old", "other speaks version 0 of the protocol, and not 1."),
        ("bad-session", "other could not begin a session: its answer cannot be read."),
        ("bad-end", "other could not answer: its answer cannot be read."),
        ("no-end", "other could not answer: its answer cannot be read."),
    ],
)
def test_a_bad_answer_fails_the_question(hostile: OpenAnswering, how: str, sentence: str) -> None:
    it = hostile(how)
    for _ in range(2):
        assert it.wait_end(it.begin_question("Hello?")) == "failed"
    assert len(it.notices) == 2
    for notice in it.notices:
        assert notice.startswith(sentence)
        assert "\x1b" not in notice


def test_an_agent_that_hangs_at_its_start_is_ended(
    answering: OpenAnswering, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outside_agent, "START_TIMEOUT_S", 1.0)
    it = answering("hang")
    assert it.wait_end(it.begin_question("say hello")) == "failed"
    assert it.notices == ["other did not start within 1 seconds, and was ended."]


def test_a_start_can_be_stopped(answering: OpenAnswering) -> None:
    it = answering("hang")
    turn = it.begin_question("say hello")
    wait_for(lambda: it.session.agent._outside_agent is not None)
    it.session.stop()
    assert it.wait_end(turn) == "stopped"


def test_a_stop_while_a_question_is_handed_to_the_agent_counts(
    answering: OpenAnswering, monkeypatch: pytest.MonkeyPatch
) -> None:
    it = answering("hang")
    ask_sync = OutsideAgent.ask_sync

    def stop_and_ask(agent: OutsideAgent, *arguments: Any, **options: Any) -> str:
        it.session.stop()
        return ask_sync(agent, *arguments, **options)

    monkeypatch.setattr(OutsideAgent, "ask_sync", stop_and_ask)
    assert it.wait_end(it.begin_question("say hello")) == "stopped"


def test_a_stop_before_the_loop_begins_the_answer_counts(
    answering: OpenAnswering, monkeypatch: pytest.MonkeyPatch
) -> None:
    it = answering("hang")
    submit = OutsideAgent._submit

    def stop_and_submit(agent: OutsideAgent, work: Coroutine[Any, Any, T]) -> Future[T]:
        it.session.stop()
        return submit(agent, work)

    monkeypatch.setattr(OutsideAgent, "_submit", stop_and_submit)
    assert it.wait_end(it.begin_question("say hello")) == "stopped"


def test_a_stop_that_the_loop_takes_too_late_leaves_the_next_question(
    answered: Answering, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit = OutsideAgent._submit

    def submit_after_stop(agent: OutsideAgent, work: Coroutine[Any, Any, T]) -> Future[T]:
        assert agent._live is not None
        agent._loop.call_soon_threadsafe(agent._live.stop)
        return submit(agent, work)

    monkeypatch.setattr(OutsideAgent, "_submit", submit_after_stop)
    assert answered.ask("say again") == "again "


def test_an_agent_without_a_login_says_what_to_do(answering: OpenAnswering) -> None:
    it = answering("login")
    assert it.wait_end(it.begin_question("say hello")) == "failed"
    assert it.notices == ["other needs a login. It says: Run outside login."]


def test_an_agent_that_is_missing_is_named(answering: OpenAnswering) -> None:
    it = answering(command=["no-such-agent"])
    turn = it.begin_question("say hello")
    assert it.wait_end(turn) == "failed"
    wait_for(lambda: it.notices)
    needed = "The agent other needs the program no-such-agent, which is not on the PATH."
    assert it.notices == [f"{needed} /model chooses another one."]


def test_a_variable_that_is_not_set_is_named(answering: OpenAnswering) -> None:
    it = answering(agent={"env": {"KEY": "${NO_SUCH_VARIABLE}"}})
    assert it.wait_end(it.begin_question("say hello")) == "failed"
    reason = "The variable NO_SUCH_VARIABLE is not set in the environment."
    assert it.notices == [f"other could not be started: {reason}"]


def test_an_agent_that_fails_says_why(answering: OpenAnswering) -> None:
    it = answering()
    assert it.wait_end(it.begin_question("fail for want of money")) == "failed"
    assert it.notices == ["other could not answer: Internal error: for want of money."]
    it.ask("refuse")
    assert it.notices[1:] == ["other does not answer this question."]
    assert Path.cwd().exists()
