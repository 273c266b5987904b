"""Code that runs by rules, and what it is asked about while it runs."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path

import pytest

from mahtab_tui.bus import tags
from mahtab_tui.bus.decision import Decision
from mahtab_tui.bus.records import Approval, AssistantReplOut
from mahtab_tui.session.agent_calls import AgentCalls
from mahtab_tui.session.joined_agents import AgentCall
from tests.integration.sessions import Opened

OpenSession = Callable[..., Opened]
READ_ONLY = ("allow: read_only",)
HIDDEN = "The code.\n\n```python\nitems.append(1)\nsave()\n```\n"
SAVE = "items = []\ndef save(name='x'):\n    with open(name, 'w') as file: file.write('a')"


@pytest.fixture(autouse=True)
def _user(monkeypatch: pytest.MonkeyPatch) -> None:
    from mahtab_tui.session.face import NoFace

    monkeypatch.setattr(NoFace, "can_ask", True)


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


def test_code_that_only_reads_runs_without_a_question(open_session: OpenSession) -> None:
    it = open_session("The sum.\n\n```python\nsum([1, 2])\n```\n", "3.", approval_rules=READ_ONLY)
    it.session.submit("ask", "how much?")
    assert output(it, 1).text == "3\n"
    it.store.wait(tags.AGENT, state="done")
    assert approvals(it) == []


def test_code_with_an_effect_asks_as_before(open_session: OpenSession) -> None:
    it = open_session("Written.\n\n```python\nopen('x', 'w').close()\n```\n", "Done.", approval_rules=READ_ONLY)
    it.session.submit("ask", "write it")
    approval = asked(it)
    assert (approval.text, approval.effect, approval.is_code) == ("open('x', 'w').close()", None, None)
    it.session.decide(approval.request, Decision("run"))
    assert output(it, 1).status == "ok"
    assert Path("x").exists()
    assert approvals(it) == ["waiting", "run"]


@pytest.mark.parametrize("action", ["run", "all", "skip", "stop"])
def test_an_effect_that_the_text_does_not_tell_asks_when_it_happens(open_session: OpenSession, action: str) -> None:
    it = open_session("Saved.\n\n```python\nfor name in ('x\\x1b', 'y'):\n    writer(name, mode)\n```\n", "Done.", approval_rules=READ_ONLY)
    it.run("writer, mode = open, 'w'")
    it.session.submit("ask", "save it")
    approval = asked(it)
    assert approval.text == f"open('{os.getcwd()}/x\\x1b', 'w')"
    assert approval.why == "cell 2 of replay, line 2, changes a file"
    assert (approval.effect, approval.is_code, approval.party) == ("files", False, "replay")
    assert not Path("x\x1b").exists()
    it.session.decide(approval.request, Decision(action, reason="no" if action == "skip" else ""))  # type: ignore[arg-type]
    if action == "run":
        it.session.decide(asked(it, request="effect-2").request, Decision("run"))
    ended = output(it, 2)
    if action in ("run", "all"):
        assert ended.status == "ok"
        assert Path("x\x1b").exists()
        assert Path("y").exists()
        assert approvals(it) == ["waiting", "run"] * (2 if action == "run" else 1)
        return
    assert not Path("y").exists()
    if action == "skip":
        assert f"NotAllowedError: The user did not allow open('{os.getcwd()}/x\\x1b', 'w'): no" in ended.text
    it.store.wait(tags.AGENT, state="stopped" if action == "stop" else "done")
    assert approvals(it) == ["waiting", "skipped" if action == "skip" else "stopped"]


def test_an_interrupt_ends_the_wait(open_session: OpenSession) -> None:
    it = open_session("Saved.\n\n```python\nwriter('x', mode)\n```\n", "Done.", approval_rules=READ_ONLY)
    it.run("writer, mode = open, 'w'")
    it.session.submit("ask", "save it")
    asked(it)
    it.session.kernel.interrupt()
    assert output(it, 2).status == "interrupted"
    it.store.wait(tags.APPROVAL, state="stopped")
    assert it.session.approvals.waiting == ()
    assert not Path("x").exists()


def test_a_rule_denies_before_anybody_is_asked(open_session: OpenSession) -> None:
    it = open_session(
        "Ended.\n\n```python\nimport os\nos.system('touch x')\n```\n", "Not allowed.", approval_rules=("deny: os.system(*)",), approval="auto"
    )
    it.session.submit("ask", "touch it")
    refused = it.store.wait(tags.APPROVAL, state="refused")
    assert isinstance(refused, Approval)
    assert refused.reason == "The user's rule deny: os.system(*) forbids it."
    it.store.wait(tags.AGENT, state="done")
    assert not Path("x").exists()


def test_a_rule_denies_what_the_text_does_not_tell_also_in_approved_code(open_session: OpenSession) -> None:
    it = open_session("Run.\n\n```python\nrun('touch x')\n```\n", "Not allowed.", approval_rules=("deny: os.system(*)",))
    it.run("import os; run = os.system")
    it.session.submit("ask", "touch it")
    it.session.decide(asked(it).request, Decision("run"))
    assert "NotAllowedError: os.system('touch x') was not run. The rule deny: os.system(*) forbids this." in output(it, 2).text
    assert not Path("x").exists()


def test_a_rule_asks_in_the_other_modes_too(open_session: OpenSession) -> None:
    it = open_session("Run.\n\n```python\nopen('x', 'w').close()\n```\n", "Done.", approval_rules=('ask: open(*, "w")',), approval="auto")
    it.session.submit("ask", "write it")
    approval = asked(it)
    assert approval.why == 'the rule ask: open(*, "w") asks'
    it.session.decide(approval.request, Decision("run"))
    assert output(it, 1).status == "ok"
    assert approvals(it) == ["waiting", "run"]


def test_a_rule_about_a_folder_allows_no_other(open_session: OpenSession) -> None:
    rules = ("allow: read_only", 'allow: *.to_csv("out/*", *)')
    code = "import pandas as pd\npd.DataFrame({'a': [1]}).to_csv('out/a.csv')\nwriter('x', mode)"
    it = open_session(f"Both.\n\n```python\n{code}\n```\n", "Done.", approval_rules=rules)
    Path("out").mkdir()
    it.run("writer, mode = open, 'w'")
    it.session.submit("ask", "save both")
    approval = asked(it)
    assert approval.text == f"open('{os.getcwd()}/x', 'w')"
    assert Path("out/a.csv").exists()
    it.session.decide(approval.request, Decision("skip"))
    assert output(it, 2).status == "error"


def test_the_users_own_cells_and_their_functions_are_not_asked_about(open_session: OpenSession) -> None:
    it = open_session("The sum.\n\n```python\nsum([1, 2])\n```\n", "3.", approval_rules=READ_ONLY)
    it.session.submit("ask", "how much?")
    it.store.wait(tags.AGENT, state="done")
    it.run(SAVE, "import threading; t = threading.Thread(target=save); t.start(); t.join()", "import subprocess; subprocess.run(['true'])")
    assert Path("x").read_text() == "a"
    assert approvals(it) == []


def test_a_function_of_the_model_stays_limited_in_a_cell_of_the_user(open_session: OpenSession) -> None:
    it = open_session("A function.\n\n```python\ndef save():\n    writer('x', mode)\n```\n", "Done.", approval_rules=READ_ONLY)
    it.run("writer, mode = open, 'w'")
    it.session.submit("ask", "make it")
    it.store.wait(tags.AGENT, state="done")
    it.session.submit("python", "save()")
    it.session.decide(asked(it).request, Decision("skip"))
    assert "NotAllowedError" in it.store.wait(tags.USER_REPL_OUT, cell=3).text
    assert not Path("x").exists()


def test_without_somebody_to_ask_what_no_rule_allows_is_refused(open_session: OpenSession, monkeypatch: pytest.MonkeyPatch) -> None:
    from mahtab_tui.session.face import NoFace

    monkeypatch.setattr(NoFace, "can_ask", False)
    it = open_session("Saved.\n\n```python\nwriter('x', mode)\n```\n", "Done.", approval_rules=READ_ONLY)
    it.run("writer, mode = open, 'w'")
    it.session.submit("ask", "save it")
    assert "the rules do not allow it, and there is nobody to ask." in output(it, 2).text


def by_an_agent(it: Opened, code: str) -> Future[dict[str, object]]:
    """Let an agent run code, on a thread."""
    agent = it.session.joined_agents.join("codex", lambda sentence: None, None)
    done: Future[dict[str, object]] = Future()
    call = AgentCall(lambda told: None)
    threading.Thread(target=lambda: done.set_result(AgentCalls(it.session).serve(agent, call, "run", {"code": code})), daemon=True).start()
    return done


def test_an_agents_code_runs_by_the_same_rules(open_session: OpenSession) -> None:
    it = open_session(approval_rules=("allow: read_only", "deny: os.system(*)"))
    it.run("writer, mode = open, 'w'")
    assert by_an_agent(it, "import os\nos.system('touch x')").result(60) == {"declined": "declined: the user's rule deny: os.system(*) forbids it"}
    assert approvals(it) == []
    running = by_an_agent(it, "print(1)\nwriter('x', mode)")
    approval = asked(it)
    assert (approval.party, approval.why) == ("codex-2", "cell 2 of codex-2, line 2, changes a file")
    it.session.decide(approval.request, Decision("skip"))
    assert "NotAllowedError" in str(running.result(60)["result"])
    assert not Path("x").exists()


def test_threads_of_limited_code_run_and_ask_about_what_they_do(open_session: OpenSession) -> None:
    it = open_session(
        "In threads.\n\n```python\nprint(in_thread(len, 'ab'), in_pool(len, 'abc'))\nin_thread(remove, 'kept')\n```\n",
        "Done.",
        approval_rules=READ_ONLY,
    )
    Path("kept").write_text("kept")
    thread = "def in_thread(f, x):\n    found = []\n    t = threading.Thread(target=lambda: found.append(f(x))); t.start(); t.join(); return found"
    pool = "def in_pool(f, x):\n    with ThreadPoolExecutor(1) as pool: return pool.submit(f, x).result()"
    it.run(f"import os, threading\nfrom concurrent.futures import ThreadPoolExecutor\nremove = os.remove\n{thread}\n{pool}")
    it.session.submit("ask", "go")
    approval = asked(it)
    assert approval.text == "os.remove('kept', -1)".replace("kept", f"{os.getcwd()}/kept")
    it.session.decide(approval.request, Decision("skip"))
    assert output(it, 2).text.startswith("[2] 3\n")
    assert Path("kept").exists()


def test_what_code_leaves_for_the_end_of_the_kernel_is_refused(open_session: OpenSession) -> None:
    it = open_session("Later.\n\n```python\nregister(remove, 'kept')\n```\n", "Done.", approval_rules=READ_ONLY)
    Path("kept").write_text("kept")
    it.run("import atexit, os; register, remove = (lambda *args: atexit.register(*args)), os.remove")
    it.session.submit("ask", "remove it later")
    it.store.wait(tags.AGENT, state="done")
    it.session.close()
    assert Path("kept").read_text() == "kept"
    assert approvals(it) == []
