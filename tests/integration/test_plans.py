"""Plan mode: the model reads and proposes, nothing changes, and the steps that the user accepts are done one after the other."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from mahtab_tui.bus import tags
from mahtab_tui.bus.records import Approval, Plan, UserChat
from mahtab_tui.session.plans import steps_in
from tests.integration.sessions import Opened
from tests.waiting import wait_for

OpenSession = Callable[..., Opened]
PROPOSED = "I have looked. My plan:\n\n- [ ] load the file\n- [ ] plot it\n"
DIGEST = "sorted((name, repr(value)) for name, value in globals().items() if not name.startswith('_'))"
HOSTILE = [
    "items.append(3)\nitems = None\nnew = 1",
    "open('made', 'w').write('x')",
    "writer('made', mode)",
    "import os\nos.remove('kept')",
    "globals()['items'].clear()",
    "import threading\nthreading.Timer(0.1, items.clear).start()",
    "import asyncio\nawait asyncio.sleep(0)\nasync def later():\n    items.clear()\nt = asyncio.create_task(later())",
    "table['a'] = 2\ndel table\nholder.value = 5",
    "class A:\n    def __del__(self): items.append(9)\na = A()\ndel a",
    "import json\njson.dumps = items.clear",
    "!touch made",
    "save()",
    "items.sort(reverse=True)\n1/0",
    "import ctypes\nctypes.CDLL(None).unlink(b'kept')",
    "import os, signal\nos.kill(os.getppid(), signal.SIGTERM)",
    "import sqlite3\nsqlite3.connect('made').execute('create table a (b)')",
    "import socket\nsocket.create_server(('127.0.0.1', 0))",
]
SETUP = "items, table, writer, mode = [1, 2], {'a': 1}, open, 'w'\nclass Holder:\n    value = 1\n    def __repr__(self): return str(vars(self))\nholder = Holder()\ndef save(): writer('made', mode)"


@pytest.fixture(autouse=True)
def _user(monkeypatch: pytest.MonkeyPatch) -> None:
    from mahtab_tui.session.face import NoFace

    monkeypatch.setattr(NoFace, "can_ask", True)


def plan(it: Opened, **attrs: object) -> Plan:
    record = it.store.wait(tags.PLAN, **attrs)  # type: ignore[arg-type]
    assert isinstance(record, Plan)
    return record


def files(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file() and "replay" not in path.name}


@pytest.mark.parametrize("code", HOSTILE)
def test_a_plan_turn_changes_neither_namespace_nor_files(open_session: OpenSession, project: Path, code: str) -> None:
    it = open_session(f"Look.\n\n```python\n{code}\n```\n", "Look again.\n\n```python\nlen(items)\n```\n", PROPOSED, approval="auto")
    (project / "kept").write_text("kept")
    it.run(SETUP)
    before, there = it.value(DIGEST), files(project)
    it.session.plans.toggle()
    it.session.submit("ask", "plan it")
    assert plan(it).steps == ("load the file", "plot it")
    wait_for(lambda: not it.session.turn_runs)
    it.run("import asyncio; await asyncio.sleep(0.15); del asyncio")
    assert it.value(DIGEST) == before
    assert files(project) == there
    assert not [record for record in it.store.records if isinstance(record, Approval) and record.state == "waiting"]


def test_code_that_reads_runs_while_the_model_plans(open_session: OpenSession) -> None:
    it = open_session("Look.\n\n```python\ntotal = sum(items)\ntotal\n```\n", PROPOSED)
    it.run("items = [1, 2]")
    it.session.plans.toggle()
    it.session.submit("ask", "plan it")
    assert it.store.wait(tags.ASSISTANT_REPL_OUT).text == "3\nran apart: `total` was not kept\n"
    plan(it)
    assert it.value("'total' in globals()") == "False"


def test_the_steps_run_one_after_the_other_and_are_ticked_off(open_session: OpenSession) -> None:
    it = open_session(PROPOSED, "Loaded.", "Plotted.")
    it.session.plans.toggle()
    it.session.submit("ask", "plan it")
    assert plan(it).state == "proposed"
    wait_for(lambda: not it.session.turn_runs)
    it.session.plans.run()
    plan(it, state="done")
    assert not it.session.profile.planning
    steps = [(record.state, record.done) for record in it.store.records if isinstance(record, Plan)]
    assert steps == [("proposed", 0), ("running", 0), ("running", 1), ("running", 1), ("running", 2), ("done", 2)]
    asked = [record.text for record in it.store.records if isinstance(record, UserChat)]
    assert asked[1] == "Do step 1 of 2 of the plan, and only that: load the file\n\n- [ ] load the file\n- [ ] plot it"
    assert asked[2] == "Do step 2 of 2 of the plan, and only that: plot it\n\n- [x] load the file\n- [ ] plot it"


def test_a_stop_keeps_the_rest_of_the_plan(open_session: OpenSession) -> None:
    it = open_session(PROPOSED, "Loading.\n\n```python\nx = 1\n```\n", "Loaded.", "Plotted.")
    it.session.plans.toggle()
    it.session.submit("ask", "plan it")
    plan(it)
    wait_for(lambda: not it.session.turn_runs)
    it.session.plans.run()
    it.store.wait(tags.APPROVAL, state="waiting")
    it.session.stop()
    assert plan(it, state="stopped").done == 0
    assert it.session.plans.as_text() == "- [ ] load the file\n- [ ] plot it"
    wait_for(lambda: not it.session.turn_runs)
    it.session.plans.run()
    plan(it, state="done")


def test_the_user_changes_the_plan_and_a_resumed_session_has_it(open_session: OpenSession) -> None:
    it = open_session(PROPOSED)
    it.session.plans.toggle()
    it.session.submit("ask", "plan it")
    plan(it)
    it.session.plans.replace("- [ ] only plot it\nsomething else")
    assert plan(it, steps=["only plot it"]).steps == ("only plot it",)
    again = open_session("Plotted.", past=list(it.store.records))
    assert again.session.plans.as_text() == "- [ ] only plot it"
    again.session.plans.run()
    assert plan(again, state="done").done == 1


def test_a_step_attaches_nothing(open_session: OpenSession) -> None:
    it = open_session("- [ ] read !`touch made` and @secret.txt", "Done.")
    Path("secret.txt").write_text("secret")
    it.session.plans.toggle()
    it.session.submit("ask", "plan it")
    plan(it)
    wait_for(lambda: not it.session.turn_runs)
    it.session.plans.run()
    plan(it, state="done")
    assert not Path("made").exists()
    assert not [record for record in it.store.records if record.tag == tags.USER_ATTACHMENT]


def test_code_of_a_plan_that_needs_more_is_refused_with_the_reason(open_session: OpenSession) -> None:
    it = open_session("Write.\n\n```python\nopen('made', 'w')\n```\n", PROPOSED, undo_steps=0)
    it.session.plans.toggle()
    it.session.submit("ask", "plan it")
    refused = it.store.wait(tags.APPROVAL, state="refused")
    assert isinstance(refused, Approval)
    assert refused.reason.endswith("This code may not run in it: wanted to write made.")
    plan(it)
    assert not Path("made").exists()


def test_an_answer_without_steps_is_said_to_have_none(open_session: OpenSession) -> None:
    it = open_session("I do not know.")
    it.session.plans.toggle()
    it.session.submit("ask", "plan it")
    it.store.wait(tags.NOTICE, 'The answer has no plan: none of its lines begins with "- [ ] ".')


def test_steps_are_lines_that_begin_with_a_box() -> None:
    assert steps_in("a\n- [ ] one\n  - [x] two \n- three\n- [ ]\n- [ ] \x1b[31mred\n1. [ ] four") == ("one", "two", "red")
    assert len(steps_in("- [ ] a\n" * 1_000)) == 50
