"""Code that runs by rules, and what it is asked about while it runs."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path

import pytest

from mahtab_tui.bus.records import Approval, AssistantReplOut, Decision
from mahtab_tui.kernel.process import ProcessKernel
from mahtab_tui.session.agent_calls import AgentCall, AgentCalls
from tests import tags
from tests.integration.sessions import Opened

OpenSession = Callable[..., Opened]
READ_ONLY = ("allow: read_only",)


@pytest.fixture(autouse=True)
def _user(monkeypatch: pytest.MonkeyPatch) -> None:
    from mahtab_tui.session.info import HeadlessFrontend

    monkeypatch.setattr(HeadlessFrontend, "can_ask", True)


def asked(it: Opened, **attrs: str) -> Approval:
    record = it.store.wait(tags.APPROVAL, state="waiting", **attrs)
    assert isinstance(record, Approval)
    return record


def output(it: Opened, cell: int) -> AssistantReplOut:
    record = it.store.wait(tags.ASSISTANT_REPL_OUT, cell=cell)
    assert isinstance(record, AssistantReplOut)
    return record


def approvals(it: Opened) -> list[str]:
    return [record.state for record in it.store.records if isinstance(record, Approval)]


def test_read_only_code_runs_without_a_question(open_session: OpenSession) -> None:
    it = open_session("The sum.\n\n```python\nsum([1, 2])\n```\n", "3.", approval_rules=READ_ONLY)
    it.session.submit("ask", "how much?")
    assert output(it, 1).text == "3\n"
    it.store.wait(tags.AGENT, state="done")
    assert approvals(it) == []


def test_code_needing_more_asks_with_the_reason_and_runs_when_allowed(
    open_session: OpenSession,
) -> None:
    it = open_session(
        "Written.\n\n```python\nprint('a')\nopen('x', 'w').close()\n```\n",
        "Done.",
        approval_rules=READ_ONLY,
    )
    it.session.submit("ask", "write it")
    approval = asked(it)
    assert (approval.text, approval.why) == (
        "print('a')\nopen('x', 'w').close()",
        "wanted to write x",
    )
    assert output(it, 1).text == "a\nstopped: wanted to write x; nothing was kept\n"
    assert not Path("x").exists()
    it.session.decide(approval.request, Decision("run"))
    assert (output(it, 2).text, output(it, 2).status) == ("a\n", "ok")
    assert Path("x").exists()
    assert approvals(it) == ["waiting", "run"]


@pytest.mark.parametrize("action", ["skip", "stop"])
def test_code_needing_more_does_not_run_when_refused(
    open_session: OpenSession, action: str
) -> None:
    it = open_session(
        "Written.\n\n```python\nwriter('x', mode)\n```\n", "Done.", approval_rules=READ_ONLY
    )
    it.run("writer, mode = open, 'w'")
    it.session.submit("ask", "write it")
    it.session.decide(asked(it).request, Decision(action))  # type: ignore[arg-type]
    it.store.wait(tags.AGENT, state="stopped" if action == "stop" else "done")
    assert not Path("x").exists()
    assert approvals(it) == ["waiting", "skipped" if action == "skip" else "stopped"]


def test_model_learns_of_discarded_changes(open_session: OpenSession) -> None:
    it = open_session(
        "Added.\n\n```python\nitems.append(2)\n```\n", "Done.", approval_rules=READ_ONLY
    )
    it.run("items = [1]")
    it.session.submit("ask", "add it")
    assert output(it, 2).text == "ran apart: changes to `items` were not kept\n"
    it.store.wait(tags.AGENT, state="done")
    assert it.value("items") == "[1]"
    assert "ran apart: changes to `items` were not kept" in str(it.session.agent.agent.messages)


def test_read_only_asks_once_with_the_reason_where_locking_is_impossible(
    open_session: OpenSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        ProcessKernel, "cannot_lock", property(lambda kernel: "only Linux can lock a process")
    )
    block = "The sum.\n\n```python\n{}\n```\n"
    it = open_session(
        block.format("sum([1, 2])"), block.format("sum([3, 4])"), "Done.", approval_rules=READ_ONLY
    )
    it.session.submit("ask", "how much?")
    first = asked(it)
    assert first.why == "allow: read_only cannot be enforced here: only Linux can lock a process"
    it.session.decide(first.request, Decision("run"))
    second = asked(it, text="sum([3, 4])")
    assert second.why is None
    it.session.decide(second.request, Decision("run"))
    it.store.wait(tags.AGENT, state="done")


def test_rule_denies_before_anybody_is_asked(open_session: OpenSession) -> None:
    it = open_session(
        "Ended.\n\n```python\nimport os\nos.system('touch x')\n```\n",
        "Not allowed.",
        approval_rules=("deny: os.system(*)",),
        approval="auto",
    )
    it.session.submit("ask", "touch it")
    refused = it.store.wait(tags.APPROVAL, state="refused")
    assert isinstance(refused, Approval)
    assert refused.reason == "The user's rule deny: os.system(*) forbids it."
    it.store.wait(tags.AGENT, state="done")
    assert not Path("x").exists()


def test_ask_rule_applies_in_other_modes_too(open_session: OpenSession) -> None:
    it = open_session(
        "Run.\n\n```python\nopen('x', 'w').close()\n```\n",
        "Done.",
        approval_rules=('ask: open(*, "w")',),
        approval="auto",
    )
    it.session.submit("ask", "write it")
    approval = asked(it)
    assert approval.why == 'the rule ask: open(*, "w") asks'
    it.session.decide(approval.request, Decision("run"))
    assert output(it, 1).status == "ok"
    assert approvals(it) == ["waiting", "run"]


def test_a_rule_for_one_call_allows_it_and_no_other(open_session: OpenSession) -> None:
    block = "Written.\n\n```python\n{}\n```\n"
    code = "create('x', 'a')"
    it = open_session(
        block.format(code),
        block.format("create('y', 'a')"),
        "Done.",
        approval_rules=('allow: create("x", "a")',),
    )
    it.session.submit("ask", "write it")
    assert output(it, 1).status == "ok"
    assert asked(it).text == "create('y', 'a')"
    assert Path("x").exists()


def test_code_needing_more_is_refused_when_nobody_can_be_asked(
    open_session: OpenSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mahtab_tui.session.info import HeadlessFrontend

    monkeypatch.setattr(HeadlessFrontend, "can_ask", False)
    it = open_session(
        "Saved.\n\n```python\nopen('x', 'w')\n```\n", "Done.", approval_rules=READ_ONLY
    )
    it.session.submit("ask", "save it")
    refused = it.store.wait(tags.APPROVAL, state="refused")
    assert isinstance(refused, Approval)
    assert refused.reason == "Wanted to write x, and no one is here to approve it."
    assert not Path("x").exists()


def by_an_agent(it: Opened, code: str) -> Future[dict[str, object]]:
    """Let an agent run code, on a thread."""
    agent = it.session.joined_agents.join("codex", lambda sentence: None, None)
    done: Future[dict[str, object]] = Future()
    call = AgentCall(lambda message: None)
    threading.Thread(
        target=lambda: done.set_result(
            AgentCalls(it.session).serve(agent, call, "run", {"code": code})
        ),
        daemon=True,
    ).start()
    return done


def test_agent_code_follows_the_same_rules(open_session: OpenSession) -> None:
    it = open_session(approval_rules=("allow: read_only", "deny: os.system(*)"))
    assert by_an_agent(it, "import os\nos.system('touch x')").result(60) == {
        "declined": "declined: the user's rule deny: os.system(*) forbids it"
    }
    assert "'output': '1\\n'" in str(by_an_agent(it, "print(1)").result(60)["result"])
    assert approvals(it) == []
    running = by_an_agent(it, "print(1)\nopen('x', 'w')")
    approval = asked(it)
    assert (approval.party, approval.why) == ("codex-3", "wanted to write x")
    it.session.decide(approval.request, Decision("skip"))
    assert "declined" in running.result(60)
    assert not Path("x").exists()
