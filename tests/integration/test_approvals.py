"""Code that waits, runs by rules, is reviewed, or only plans."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future
from pathlib import Path

import pytest

from mahtab_tui.bus import records
from mahtab_tui.bus.conversation import Cell
from mahtab_tui.bus.records import Approval, AssistantReplOut, Decision
from mahtab_tui.kernel.process import ProcessKernel
from mahtab_tui.session.agent_calls import AgentCall, AgentCalls
from mahtab_tui.tui.transcript.fold import Transcript
from tests import tags
from tests.agents import Desk, code
from tests.integration.sessions import Opened, OpenSession
from tests.waiting import wait_for

# Code that runs by rules, and what it is asked about while it runs.

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
    it.session.approvals.answer(approval.request, Decision("run"))
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
    it.session.approvals.answer(asked(it).request, Decision(action))  # type: ignore[arg-type]
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


def test_read_only_asks_with_the_reason_where_locking_is_impossible(
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
    it.session.approvals.answer(first.request, Decision("run"))
    second = asked(it, text="sum([3, 4])")
    assert second.why == first.why
    it.session.approvals.answer(second.request, Decision("run"))
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
    it.session.approvals.answer(approval.request, Decision("run"))
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
    agent = it.session.joined_agents.join("codex", lambda sentence: None, None)
    done: Future[dict[str, object]] = Future()
    call = AgentCall(agent, lambda message: None)
    threading.Thread(
        target=lambda: done.set_result(
            AgentCalls(it.session).serve(call, "evaluate", {"code": code})
        ),
        daemon=True,
    ).start()
    return done


def test_agent_code_follows_the_same_rules(open_session: OpenSession) -> None:
    it = open_session(approval_rules=("allow: read_only", "deny: os.system(*)"))
    assert by_an_agent(it, "import os\nos.system('touch x')").result(60)["declined"] == (
        "declined: the user's rule deny: os.system(*) forbids it"
    )
    assert "'output': '1\\n'" in str(by_an_agent(it, "print(1)").result(60)["result"])
    assert approvals(it) == []
    running = by_an_agent(it, "print(1)\nopen('x', 'w')")
    approval = asked(it)
    assert (approval.party, approval.why) == ("codex-3", "wanted to write x")
    it.session.approvals.answer(approval.request, Decision("skip"))
    assert running.result(60)["declined"]
    assert not Path("x").exists()


# Plan mode: the model only reads, and its answer is the plan.

PROPOSED = "I have looked. My plan:\n\n- [ ] load the file\n- [ ] plot it\n"
DIGEST = (
    "sorted((name, repr(value)) for name, value in globals().items() if not name.startswith('_'))"
)
HOSTILE = [
    "items.append(3)\nitems = None\nnew = 1",
    "writer('made', mode)",
    "globals()['items'].clear()",
    "import asyncio\nawait asyncio.sleep(0)\nasync def later():\n    items.clear()\nt = asyncio.create_task(later())",
    "table['a'] = 2\ndel table\nholder.value = 5",
    "class A:\n    def __del__(self): items.append(9)\na = A()\ndel a",
    "!touch made",
    "save()",
    "items.sort(reverse=True)\n1/0",
]
SETUP = "items, table, writer, mode = [1, 2], {'a': 1}, open, 'w'\nclass Holder:\n    value = 1\n    def __repr__(self): return str(vars(self))\nholder = Holder()\ndef save(): writer('made', mode)"


def files(folder: Path) -> dict[str, bytes]:
    return {
        str(path): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and "replay" not in path.name
    }


@pytest.mark.parametrize("code", HOSTILE)
def test_plan_turn_changes_neither_namespace_nor_files(
    open_session: OpenSession, project: Path, code: str
) -> None:
    it = open_session(
        f"Look.\n\n```python\n{code}\n```\n",
        "Look again.\n\n```python\nlen(items)\n```\n",
        PROPOSED,
        approval="auto",
    )
    (project / "kept").write_text("kept")
    it.run(SETUP)
    before, there = it.value(DIGEST), files(project)
    it.session.info.set_planning(True)
    it.session.submit("ask", "plan it")
    it.store.wait(tags.ASSISTANT_CHAT, PROPOSED)
    wait_for(lambda: not it.session.agent.in_turn)
    it.run("import asyncio; await asyncio.sleep(0.15); del asyncio")
    assert it.value(DIGEST) == before
    assert files(project) == there
    assert not [
        record
        for record in it.store.records
        if isinstance(record, Approval) and record.state == "waiting"
    ]


def test_read_only_code_runs_while_the_model_plans(open_session: OpenSession) -> None:
    it = open_session("Look.\n\n```python\ntotal = sum(items)\ntotal\n```\n", PROPOSED)
    it.run("items = [1, 2]")
    it.session.info.set_planning(True)
    it.session.submit("ask", "plan it")
    assert it.store.wait(tags.ASSISTANT_REPL_OUT).text == "3\nran apart: `total` was not kept\n"
    it.store.wait(tags.ASSISTANT_CHAT, PROPOSED)
    assert it.value("'total' in globals()") == "False"


def test_plan_code_needing_more_is_refused_with_the_reason(open_session: OpenSession) -> None:
    it = open_session("Write.\n\n```python\nopen('made', 'w')\n```\n", PROPOSED, undo_steps=0)
    it.session.info.set_planning(True)
    it.session.submit("ask", "plan it")
    refused = it.store.wait(tags.APPROVAL, state="refused")
    assert isinstance(refused, Approval)
    assert refused.reason.endswith("This code may not run in it: wanted to write made.")
    it.store.wait(tags.ASSISTANT_CHAT, PROPOSED)
    assert not Path("made").exists()


# The approval mode review: the model's code runs at once, and its changes wait until the user keeps
# or undoes them.

APPEND = "One step.\n\n```python\nitems.append(2)\ndel old\nnew = 'three'\n```\n"
TWO = "Two steps.\n\n```python\nitems.append(2)\n```\n\n```python\nitems.append(3)\n```\n"


def ask(it: Opened, setup: str = "items = [1]; old = 1") -> None:
    it.run(setup)
    it.session.submit("ask", "change it")


def waiting(it: Opened, cells: tuple[int, ...] = (2,)) -> records.Review:
    review = it.store.wait(tags.REVIEW, state="waiting", cells=list(cells))
    assert isinstance(review, records.Review)
    return review


def end(it: Opened, state: str = "done") -> None:
    it.store.wait(tags.AGENT, state=state)
    while it.session.agent.in_turn:
        time.sleep(0.001)


def reviews(it: Opened) -> list[str]:
    return [record.state for record in it.store.records if isinstance(record, records.Review)]


def test_reviewed_changes_are_shown_and_accepted(open_session: OpenSession) -> None:
    it = open_session(APPEND, "Done.", approval="review")
    ask(it)
    review = waiting(it)
    assert [
        (row.name, row.change, row.type, row.summary, row.was) for row in sorted(review.changes)
    ] == [
        ("items", "changed", "list", "2 items", "1 item"),
        ("new", "added", "str", "'three'", None),
        ("old", "deleted", "int", "1", None),
    ]
    assert review.not_restored == ()
    assert it.session.approvals.answer(review.request, Decision("keep"))
    end(it)
    assert reviews(it) == ["waiting", "kept"]
    assert it.value("items, new, 'old' in globals()") == "([1, 2], 'three', False)"
    assert not any(record.tag in (tags.APPROVAL, tags.USER_UNDO) for record in it.store.records)


def test_undone_changes_are_reported_to_the_model_and_later_blocks_skipped(
    open_session: OpenSession,
) -> None:
    expected = r"The person undid this code \(block 1\) after it had run: not so(.|\n)*Block 2 of your code was not run, because the one before it was undone"
    it = open_session(TWO, {"text": "Then not.", "match": expected}, approval="review")
    ask(it)
    it.session.approvals.answer(waiting(it).request, Decision("undo", reason="not so"))
    end(it)
    it.store.wait(tags.ASSISTANT_CHAT, text="Then not.")
    assert reviews(it) == ["waiting", "undone"]
    undone = it.store.wait(tags.USER_UNDO)
    assert isinstance(undone, records.Undo)
    assert undone.cells == (2,)
    assert it.value("items") == "[1]"
    transcript = Transcript(0.0)
    transcript.fold(it.store.records)
    assert [
        entry.undone
        for entry in transcript.entries
        if isinstance(entry, Cell) and entry.number == 2
    ] == [True]


def test_each_block_is_reviewed_and_keep_all_ends_reviews(open_session: OpenSession) -> None:
    it = open_session(TWO, "Done.", approval="review")
    ask(it)
    it.session.approvals.answer(waiting(it).request, Decision("all"))
    end(it)
    assert (reviews(it), it.session.info.approval) == (["waiting", "kept"], "auto")
    assert it.value("items") == "[1, 2, 3]"


@pytest.mark.parametrize("in_the_row", [True, False])
def test_stop_keeps_the_changes_which_can_still_be_undone(
    open_session: OpenSession, in_the_row: bool
) -> None:
    it = open_session(TWO, "Never said.", approval="review")
    ask(it)
    request = waiting(it).request
    if in_the_row:
        it.session.approvals.answer(request, Decision("stop"))
    else:
        assert it.session.stop() == "model"
    end(it, "stopped")
    assert reviews(it) == ["waiting", "stopped"]
    assert it.value("items") == "[1, 2]"
    it.session.undo.undo(2)
    assert it.value("items") == "[1]"


@pytest.mark.parametrize("block", ["1 + 1", "print(len(items))", "items[:]"])
def test_cell_without_changes_needs_no_review(open_session: OpenSession, block: str) -> None:
    it = open_session(f"Look.\n\n```python\n{block}\n```\n", "Done.", approval="review")
    ask(it)
    end(it)
    assert reviews(it) == []


def test_external_side_effects_are_named_in_the_review(open_session: OpenSession) -> None:
    hidden = "import os\ngetattr(os, 'mk' + 'dir')('made')"
    it = open_session(f"Make.\n\n```python\n{hidden}\n```\n", "Done.", approval="review")
    ask(it)
    review = waiting(it)
    assert [(each.name.rpartition("/")[2], each.reason) for each in review.not_restored] == [
        ("made", "this folder was created and stays")
    ]
    it.session.approvals.answer(review.request, Decision("keep"))
    end(it)


def test_cell_run_meanwhile_is_shown_before_both_are_undone(open_session: OpenSession) -> None:
    it = open_session(APPEND, "Then not.", approval="review")
    ask(it)
    request = waiting(it).request
    it.run("mine = 5")
    it.session.approvals.answer(request, Decision("undo"))
    review = waiting(it, (2, 3))
    assert "mine" in [row.name for row in review.changes]
    assert it.value("mine") == "5", "nothing was undone yet"
    it.session.approvals.answer(request, Decision("undo"))
    review = waiting(it, (2, 3, 4))
    it.session.approvals.answer(request, Decision("undo"))
    end(it)
    assert it.value("items, 'mine' in globals()") == "([1], False)"


def test_undo_during_another_cell_is_refused_and_asks_again(open_session: OpenSession) -> None:
    it = open_session(APPEND, "Done.", approval="review")
    ask(it)
    request = waiting(it).request
    it.session.submit("python", "import time\ntime.sleep(600)")
    it.store.wait(tags.USER_REPL_IN, cell=3)
    it.session.approvals.answer(request, Decision("undo"))
    review = waiting(it, (2, 3))
    assert review.changes == ()
    assert review.not_restored[0].reason.startswith("The changes are unknown. A cell is running.")
    it.session.approvals.answer(request, Decision("undo"))
    it.store.wait(tags.NOTICE, level="error")
    it.session.approvals.answer(request, Decision("keep"))
    end(it)
    assert reviews(it)[-2:] == ["waiting", "kept"]
    while not it.session.kernel.interrupt():
        time.sleep(0.001)
    it.store.wait(tags.USER_REPL_OUT, cell=3)
    assert it.value("items") == "[1, 2]"


def test_undo_from_elsewhere_is_refused_during_a_review(open_session: OpenSession) -> None:
    it = open_session(APPEND, "Done.", approval="review")
    ask(it)
    review = waiting(it)
    with pytest.raises(Exception, match="Something is running"):
        it.session.undo.undo(2)
    it.session.approvals.answer(review.request, Decision("keep"))
    end(it)


def test_all_code_asks_first_when_undo_is_off(open_session: OpenSession) -> None:
    it = open_session(APPEND, "Done.", approval="review", undo_steps=0)
    ask(it)
    asked = it.store.wait(tags.APPROVAL, state="waiting")
    assert isinstance(asked, records.Approval)
    assert asked.why == "undo is off (undo_steps is 0)"
    it.session.approvals.answer(asked.request, Decision("run"))
    end(it)
    assert reviews(it) == []


def test_code_awaited_by_a_cell_asks_first(open_session: OpenSession) -> None:
    it = open_session(APPEND, "Done.", approval="review")
    it.run("items = [1]; old = 1")
    it.session.submit("python", "answer = ask('change it')")
    asked = it.store.wait(tags.APPROVAL, state="waiting")
    assert isinstance(asked, records.Approval)
    assert asked.why == "another cell waits for this answer"
    it.session.approvals.answer(asked.request, Decision("run"))
    it.store.wait(tags.USER_REPL_OUT, cell=2)


def test_in_process_kernel_asks_first(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.decide(Decision("run"))
    desk.host.info.approval = "review"
    desk.run(code("a = 1"), {"text": "Done."}, reflection="never")
    asked = desk.of(tags.APPROVAL)[0]
    assert (
        asked.attrs["why"]
        == "the kernel cannot be forked, because it runs inside the program that opened this session"
    )
    assert desk.namespace["a"] == 1
    desk.session.close()


def test_kernel_reset_during_a_review_leaves_nothing_to_undo(open_session: OpenSession) -> None:
    it = open_session(APPEND, "Done.", approval="review")
    ask(it)
    request = waiting(it).request
    it.session.kernel.reset()
    it.session.approvals.answer(request, Decision("undo"))
    it.store.wait(tags.NOTICE, level="error")
    it.session.approvals.answer(request, Decision("keep"))
    end(it)
    assert reviews(it)[-2:] == ["waiting", "kept"]


def test_agent_code_asks_first(open_session: OpenSession) -> None:
    it = open_session(approval="review")
    it.run("items = [1]")
    answer = by_an_agent(it, "items.append(2)")
    asked = it.store.wait(tags.APPROVAL, state="waiting")
    assert isinstance(asked, records.Approval)
    assert asked.why == "changes of agents are not reviewed afterwards"
    it.session.approvals.answer(asked.request, Decision("run"))
    assert answer.result(60)
    assert reviews(it) == []
