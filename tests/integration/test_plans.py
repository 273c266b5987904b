"""Plan mode: the model only reads, and its answer is the plan."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from mahtab_tui.bus.records import Approval
from tests import tags
from tests.integration.sessions import Opened
from tests.waiting import wait_for

OpenSession = Callable[..., Opened]
PROPOSED = "I have looked. My plan:\n\n- [ ] load the file\n- [ ] plot it\n"
DIGEST = (
    "sorted((name, repr(value)) for name, value in globals().items() if not name.startswith('_'))"
)
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
    from mahtab_tui.session.info import HeadlessFrontend

    monkeypatch.setattr(HeadlessFrontend, "can_ask", True)


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
    wait_for(lambda: not it.session.turn_runs)
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


def test_plan_code_needing_more_is_refused_with_the_reason(
    open_session: OpenSession,
) -> None:
    it = open_session("Write.\n\n```python\nopen('made', 'w')\n```\n", PROPOSED, undo_steps=0)
    it.session.info.set_planning(True)
    it.session.submit("ask", "plan it")
    refused = it.store.wait(tags.APPROVAL, state="refused")
    assert isinstance(refused, Approval)
    assert refused.reason.endswith("This code may not run in it: wanted to write made.")
    it.store.wait(tags.ASSISTANT_CHAT, PROPOSED)
    assert not Path("made").exists()
