"""The model's cells and other agents' in one kernel."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from mahtab_tui.session.agent_calls import AgentCall, AgentCallRefused, AgentCalls
from tests import tags
from tests.integration.sessions import DEADLINE, Opened

CODE = "Here.\n\n```python\nmade = 1\n```\n"


def test_turn_stopped_during_an_agents_cell_leaves_it_and_runs_nothing(
    open_session: Callable[..., Opened], project: Path
) -> None:
    it = open_session(CODE, approval="auto")
    code = "import os, time\nwhile not os.path.exists('go'): time.sleep(0.01)\n'whole'"
    agent = threading.Thread(
        target=lambda: it.session.cells.run(code, origin="assistant", party="codex", guest=0)
    )
    agent.start()
    it.store.wait(tags.ASSISTANT_REPL_IN, party="codex")
    it.session.submit("ask", "make it")
    it.store.wait(tags.ASSISTANT_CHAT)
    assert it.session.stop() == "model"
    (project / "go").touch()
    agent.join(DEADLINE)
    it.store.wait(tags.AGENT, state="stopped")
    ran = [
        (record.attrs["party"], record.attrs["status"])
        for record in it.store.records
        if record.tag == tags.ASSISTANT_REPL_OUT
    ]
    assert ran == [("codex", "ok")]


def test_call_served_after_its_agent_left_runs_nothing(
    open_session: Callable[..., Opened],
) -> None:
    it = open_session(approval="auto")
    guest = it.session.joined_agents.join("codex", lambda sentence: None, None)
    it.session.joined_agents.remove(guest, stop=False)
    with pytest.raises(AgentCallRefused):
        AgentCalls(it.session).serve(
            guest, AgentCall(lambda message: None), "run", {"code": "x = 1"}
        )
    assert not any(record.tag == tags.ASSISTANT_REPL_IN for record in it.store.records)


@pytest.mark.parametrize("approval", ["ask", "review", "auto"])
@pytest.mark.parametrize(
    "code",
    ["a = '\x1bP'\nhidden = 1\nb = '\x1b\\'", "x = 1 #ok\rhidden = 1", "x = 1 # \u202ehidden"],
)
def test_agent_code_with_hidden_characters_is_not_run(
    open_session: Callable[..., Opened], approval: str, code: str
) -> None:
    it = open_session(approval=approval)
    guest = it.session.joined_agents.join("codex", lambda sentence: None, None)
    for what, args in (("run", {"code": code}), ("permit", {"action": code})):
        with pytest.raises(
            AgentCallRefused,
            match=r"^The code was not run\. Line 1 contains the character U\+.*escape \\",
        ):
            AgentCalls(it.session).serve(guest, AgentCall(lambda message: None), what, args)
        it.store.wait(tags.NOTICE, level="warning")
    assert not any(
        record.tag in (tags.ASSISTANT_REPL_IN, tags.APPROVAL) for record in it.store.records
    )


def test_agent_code_has_line_ends_as_python_reads_them(
    open_session: Callable[..., Opened],
) -> None:
    it = open_session(approval="auto")
    guest = it.session.joined_agents.join("codex", lambda sentence: None, None)
    answer = AgentCalls(it.session).serve(
        guest, AgentCall(lambda message: None), "run", {"code": "x = 1\r\nx"}
    )
    assert answer["result"]["status"] == "ok"
    assert answer["edited"] == ""
    assert it.store.wait(tags.ASSISTANT_REPL_IN).text == "x = 1\nx"


def test_inspecting_a_variable_runs_no_code_of_its_class(
    open_session: Callable[..., Opened],
) -> None:
    it = open_session(approval="ask")
    made = "class A:\n    def __repr__(self):\n        ran.append(1)\n        return 'A'\n    __hash__ = __eq__ = __len__ = __repr__"
    it.session.cells.run(
        f"ran = []\n{made}\na, many, plain = A(), [1, A()], {{'k': [1, 'x']}}", origin="user"
    )
    guest = it.session.joined_agents.join("codex", lambda sentence: None, None)

    def inspect(name: str) -> str:
        return str(
            AgentCalls(it.session).serve(
                guest, AgentCall(lambda message: None), "inspect", {"name": name}
            )["text"]
        )

    assert inspect("a").startswith("a: A")
    assert inspect("many") == "[1, <A>]"
    assert inspect("plain") == "{'k': [1, 'x']}"
    assert inspect("ran") == "[]"
