"""Agents in a live session, and what the user decides about their code."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any

import anyio
import pytest
from pydantic_core import to_jsonable_python

from mahtab_tui.bus.change_words import MAX_CHANGES
from mahtab_tui.bus.records import Decision, Queue, Record, UserChat, emit, get_record
from mahtab_tui.kernel.cell_results import MAX_PICTURES
from mahtab_tui.kernel.values import CellResult
from mahtab_tui.session import agent_calls
from mahtab_tui.session.agent_cell import Evaluation
from tests import tags
from tests.mcp.clients import agent, text_of, until
from tests.mcp.conftest import Share, Shared, waited


async def test_agent_sees_and_changes_the_users_variables(share: Share) -> None:
    it = share()
    it.run("mine = [1, 2]")
    async with agent("--attach") as a:
        output = await a.eval("mine.append(3); theirs = sum(mine); theirs")
        assert output == "6\n[In 2: ~mine list 3 items, +theirs int 6]"
    ran = it.store.wait(tags.ASSISTANT_REPL_OUT)
    for record in (ran, it.store.wait(tags.NAMESPACE, cell=2)):
        assert (record.attrs["party"], record.attrs["guest"]) == ("mcp", 0)
    assert it.run("theirs").text == "6\n"


def note_results(monkeypatch: pytest.MonkeyPatch) -> list[CellResult]:
    """The results of cells that are sent to agents."""
    results: list[CellResult] = []

    def note_and_convert(answer: Any) -> Any:
        if isinstance(answer, Evaluation):
            results.append(answer.result)
        return to_jsonable_python(answer)

    monkeypatch.setattr(agent_calls, "to_jsonable_python", note_and_convert)
    return results


async def test_of_many_displays_an_agent_gets_the_first_pictures(
    share: Share, monkeypatch: pytest.MonkeyPatch
) -> None:
    share()
    sent_results = note_results(monkeypatch)
    async with agent("--attach") as a:
        code = "class P:\n    def _repr_png_(self): return b'picture'\n    def __repr__(self): return 'P'\n"
        code += "class T:\n    def _repr_html_(self): return '<table><tr><td>1</td></tr></table>'\n    def __repr__(self): return 'T'\n"
        code += "for _ in range(20): display(T(), P())"
        result = await a.call("eval", code=code)
    assert text_of(result).startswith("T\nP\n" * 20)
    assert [part.type for part in result.content] == ["text", *["image"] * MAX_PICTURES]
    assert [len(result.displays) for result in sent_results] == [MAX_PICTURES]


async def test_of_many_changed_names_an_agent_gets_the_first(
    share: Share, monkeypatch: pytest.MonkeyPatch
) -> None:
    it = share()
    sent_results = note_results(monkeypatch)
    async with agent("--attach") as a:
        output = await a.eval("globals().update({f'v{n}': n for n in range(1_000)})")
        assert output.startswith("[In 1: +v0 int 0, +v1 int 1, ")
        assert output.endswith(", +v19 int 19, and 980 more]")
    assert [len(result.changes) for result in sent_results] == [MAX_CHANGES]
    assert len(it.store.wait(tags.NAMESPACE, cell=1).changes) == 1_000


def others(listed: str) -> list[str]:
    lines = listed.partition("run by others since you last asked:\n")[2].splitlines()
    return [line.split(":")[-1].strip() for line in lines]


async def test_info_lists_cells_run_by_others_since_the_last_call(share: Share) -> None:
    it = share()
    async with agent("--attach") as a, agent("--attach") as b:
        await a.eval("from_a = 1")
        await b.eval("from_b = 2")
        it.run("from_me = 3\nfrom_me")
        listed = await a.text("info")
        assert others(listed) == ["from_b = 2", "from_me = 3 …"]
        assert others(await a.text("info")) == []
        for name in ("from_a", "from_b", "from_me"):
            assert f"\n  {name}: int" in listed
        it.run("secret = 4", "known = 5")
        it.session.entries.hide("cell 4", True)
        assert others(await a.text("info")) == ["known = 5"]


async def test_info_names_stale_cells_and_what_they_have_made(share: Share) -> None:
    it = share()
    async with agent("--attach") as a:
        it.run("price = 2")
        await a.eval("total = price * 3\ntotal")
        assert "stale, because" not in await a.text("info")
        it.run("price = 5")
        listed = await a.text("info")
        assert "\n  total: int 6 · from In 2 (stale)\n" in listed
        stale = "  In [2] total = price * 3 …: uses `price` from In 1, changed by In 3\n"
        assert f"stale, because a variable is different now:\n{stale}" in listed
        it.session.entries.hide("cell 2", True)
        assert "In [2]" not in await a.text("info")
        await a.eval("total = price * 3\ntotal")
        assert "stale, because" not in await a.text("info")


async def test_agent_cannot_end_the_users_session(share: Share) -> None:
    share()
    async with agent("--attach") as a:
        for code in ("exit()", "quit()", "exit"):
            assert "does not end it" in await a.eval(code)
        died = await a.eval("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)")
        assert "SIGSEGV" in died
        assert "All variables are gone" in died
        assert await a.value("1") == "1"


async def test_rejoining_the_current_session_changes_nothing(share: Share) -> None:
    it = share()
    async with agent("--attach") as a:
        await a.eval("1")
        for session in ("moon", str(os.getpid())):
            assert "You are mcp in" in await a.text("mode", mode="shared", session=session)
        assert it.session.joined_agents.names == ["mcp"]


async def test_cells_wait_in_one_queue_and_the_users_go_first(share: Share) -> None:
    it = share()
    waits = "import os, time\nwhile not os.path.exists('go'): time.sleep(0.01)"
    it.session.submit("python", waits)
    it.store.wait(tags.USER_REPL_IN, cell=1)
    queues: list[list[str]] = []

    class Watch(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if isinstance(event := get_record(record), Queue):
                queues.append([item.party or "you" for item in event.items])

    it.session.log.addHandler(Watch())
    async with (
        agent("--attach") as a,
        agent("--attach") as b,
        anyio.create_task_group() as group,
    ):
        group.start_soon(a.eval, "'a'")
        await until(lambda: ["mcp"] in queues)
        group.start_soon(b.eval, "'b'")
        await until(lambda: ["mcp", "mcp-2"] in queues)
        it.session.submit("python", "'me'")
        await until(lambda: ["you", "mcp", "mcp-2"] in queues)
        Path("go").touch()
    order = [
        record.attrs["party"]
        for record in it.store.records
        if record.tag in (tags.USER_REPL_IN, tags.ASSISTANT_REPL_IN)
    ]
    assert order == ["you", "you", "mcp", "mcp-2"]


async def test_user_removes_code_from_the_queue_and_stops_the_running_one(share: Share) -> None:
    it = share()
    async with agent("--attach") as a:
        async with anyio.create_task_group() as group:
            group.start_soon(a.answer, "import time\nprint('on', flush=True)\ntime.sleep(600)")
            await waited(it, tags.ASSISTANT_REPL_IN)
            group.start_soon(a.answer, "'waits'")
            await until(lambda: it.session.inbox._items)
            it.session.inbox.cancel(it.session.inbox._items[0].id)
            await until(lambda: a.answers)
            assert "removed the code from the queue" in a.answers[0]
            await until(lambda: it.session.stop() is not None)
        assert a.answers[1].startswith("The code was interrupted. Variables are as it left them.\n")


async def test_disconnected_agent_is_notified(share: Share) -> None:
    it = share()
    async with agent("--attach") as a:
        assert await a.eval("after = 1; after") == "1\n[In 1: +after int 1]"
        assert "Which one" in it.session.joined_agents.disconnect("nobody")
        it.session.joined_agents.disconnect()
        while (text := await a.text("eval", code="1")) == "1":
            await anyio.sleep(0.01)
        assert "The user disconnected you" in text
        assert await a.text("mode", mode="private") == "Code now runs in your own session."
        assert await a.value("2") == "2"
        assert "You are mcp in the user's session moon" in await a.text("mode", mode="shared")
        assert await a.value("after") == "1"


async def test_cancelling_interrupts_a_running_cell_and_withdraws_waiting_ones(
    share: Share,
) -> None:
    it = share()
    async with agent("--attach") as a:
        code = "import time; time.sleep(600)"
        async with anyio.create_task_group() as group:
            group.start_soon(a.eval, code)
            await waited(it, tags.ASSISTANT_REPL_IN)
            group.cancel_scope.cancel()
        assert (await waited(it, tags.ASSISTANT_REPL_OUT)).attrs["status"] == "interrupted"
        it.session.info.set_approval("ask")
        async with anyio.create_task_group() as group:
            group.start_soon(a.eval, code)
            await waited(it, tags.APPROVAL, state="waiting")
            group.cancel_scope.cancel()
        await waited(it, tags.APPROVAL, state="stopped")
    assert sum(record.tag == tags.ASSISTANT_REPL_IN for record in it.store.records) == 1


async def test_time_limit_counts_from_the_start_and_never_kills_the_users_kernel(
    share: Share,
) -> None:
    it = share()
    code = "import os, time\nwhile not os.path.exists('go'): time.sleep(0.01)\nkept = 1"
    it.session.submit("python", code)
    async with agent("--attach") as a:
        it.store.wait(tags.USER_REPL_IN)
        async with anyio.create_task_group() as group:
            group.start_soon(lambda: a.answer("kept", timeout_s=1))
            await until(lambda: it.session.inbox._items)
            await anyio.sleep(1.2)  # longer than its limit, in the queue
            Path("go").touch()
        assert a.answers == ["1\n[In 2]"]
        code = "import signal\nold = signal.signal(signal.SIGINT, lambda *a: None)\nprint('stubborn')\nwhile kept: time.sleep(0.01)"
        output = await a.eval(code, timeout_s=1)
        ending = "the code was interrupted, but did not end within 2 s and is still running."
        assert output.startswith(f"Timed out after 1 s: {ending}")
        assert output.endswith("Output so far:\nstubborn\n[In 3]")
        it.session.kernel_control.kill()
        await waited(it, tags.ASSISTANT_REPL_OUT, status="killed")


async def decide(it: Shared, decision: Decision, **attrs: str) -> Record:
    waiting = await waited(it, tags.APPROVAL, state="waiting", **attrs)
    assert it.session.approvals.answer(waiting.attrs["request"], decision)
    return waiting


async def test_code_waits_for_the_user_and_the_decision_is_returned(share: Share) -> None:
    it = share("ask")
    async with agent("--attach") as a:
        async with anyio.create_task_group() as group:
            group.start_soon(a.answer, "x = 1")
            await waited(it, tags.APPROVAL, state="waiting")
            await until(lambda: any("approval" in sentence for sentence in a.reports))
            await decide(it, Decision("skip", reason="not now"), request="guest-1")
        assert a.answers[-1] == "The code did not run: declined: not now."
        async with anyio.create_task_group() as group:
            group.start_soon(a.answer, "x = 2\nx")
            await decide(it, Decision("run", code="x = 22\nx"), request="guest-2")
        edited = (
            "The user edited the code. What ran:\n```python\nx = 22\nx\n```\n22\n[In 1: +x int 22]"
        )
        assert a.answers[-1] == edited
        async with anyio.create_task_group() as group:
            group.start_soon(a.answer, "x = 3\nx")
            await decide(it, Decision("all"), request="guest-3")
        await a.answer("x = 4\nx")
        assert a.answers[2:] == ["3\n[In 2: ~x int 3]", "4\n[In 3: ~x int 4]"]
        assert it.session.info.approval == "ask"


async def test_code_that_is_too_long_to_be_shown_is_refused(share: Share) -> None:
    it = share()
    async with agent("--attach") as a:
        code = f"x = 1  # {'word ' * (agent_calls.MAX_CODE_CHARS // 5)}"
        answer = await a.eval(code)
        assert answer.startswith(
            f"The code was not run. It has {len(code):,} characters, and 200,000"
        )
        action = await a.call("pkg", action="add", packages=["word" * (len(code) // 4)])
        assert await a.eval("'x' in globals()") == "False\n[In 1]"
    assert "200,000 is the most" in text_of(action)
    assert it.store.wait(tags.NOTICE, level="warning").text.startswith("Code from mcp was not run.")


async def test_code_of_any_length_runs_in_an_agents_own_session() -> None:
    async with agent() as a:
        answer = await a.eval(f"# {'word ' * (agent_calls.MAX_CODE_CHARS // 5)}\n1 + 1")
    assert answer == "2"


async def test_environment_tools_always_ask(share: Share) -> None:
    it = share("auto")
    tools: dict[str, dict[str, Any]] = {
        "undo": {},
        "rewind": {"point": "cell 1", "dry_run": False},
        "reset": {},
        "activate": {"path": "."},
        "pkg": {"action": "status"},
    }
    async with agent("--attach") as a:
        await a.eval("kept = 1")
        for number, (tool, arguments) in enumerate(tools.items(), 2):

            async def refuse(request: str = f"guest-{number}") -> None:
                waiting = await decide(it, Decision("skip", reason="no"), request=request)
                assert waiting.attrs["is_code"] is False

            async with anyio.create_task_group() as group:
                group.start_soon(refuse)
                answer = await a.call(tool, **arguments)
            assert answer.is_error
            assert text_of(answer) == "declined: no"
        assert await a.value("kept") == "1"


async def test_undo_of_many_names_asks_with_the_first(share: Share) -> None:
    it = share("auto")
    async with agent("--attach") as a, anyio.create_task_group() as group:
        await a.eval("globals().update({f'v{n}': n for n in range(1_000)})")

        async def refuse() -> None:
            waiting = await decide(it, Decision("skip"), request="guest-2")
            assert waiting.text.startswith("# undo cell 1: v0, v1, ")
            assert waiting.text.endswith(", v19 and 980 more")

        group.start_soon(refuse)
        assert "declined" in await a.text("undo")


async def test_an_agent_rewinds_after_a_dry_run_if_the_user_allows_it(share: Share) -> None:
    it = share("auto")
    async with agent("--attach") as a, anyio.create_task_group() as group:
        await a.eval("items = [1]")
        await a.eval("items.append(2); other = 1")
        points = (await a.text("rewind_points")).splitlines()
        assert len(points) == 2
        assert points[0].startswith("cell 2 (")
        assert points[0].endswith("): items.append(2); other = 1 [~items, +other; 1 entry]")
        would_go = await a.text("rewind", point="cell 2")
        assert would_go.startswith(
            "Back to before cell 2 would go: 1 entry of the conversation; cell 2; variables items, other."
        )
        assert await a.value("items") == "[1, 2]"

        async def allow() -> None:
            waiting = await decide(it, Decision("run"), request="guest-4")
            assert waiting.text.startswith("# rewind to before cell 2: ")

        group.start_soon(allow)
        answer = await a.text("rewind", point="cell 2", dry_run=False)
        assert answer.splitlines() == [
            "Gone from the conversation: 2 entries.",
            "The namespace is as it was before cell 2 ran. Files stay as they are.",
        ]
        assert await a.value("items, 'other' in globals()") == "([1], False)"
        assert "no point" in await a.text("rewind", point="cell 77")


async def test_an_agent_does_not_see_the_users_questions_and_private_cells(share: Share) -> None:
    it = share("auto")
    async with agent("--attach") as a:
        it.run("key = 'opensesame'", "private('key')", "print(key)")
        it.session.agent.new_turn()
        emit(it.session.log, UserChat("what do I think of codex?", turn=1))
        points = await a.text("rewind_points")
        assert "question 1 (you)" in points
        assert "think" not in points
        assert "opensesame" not in points


async def test_undo_and_reset_allowed_by_the_user_work(share: Share) -> None:
    it = share("auto")
    async with agent("--attach") as a, anyio.create_task_group() as group:
        await a.eval("items = [1]")
        await a.eval("items.append(2); other = 1")

        async def allow() -> None:
            waiting = await decide(it, Decision("run"), request="guest-3")
            assert waiting.text == "# undo cell 2: items, other"

        group.start_soon(allow)
        assert await a.text("undo") == "The namespace is as it was before cell 2 ran."
        assert await a.value("items, 'other' in globals()") == "([1], False)"

        async def allow_reset() -> None:
            await decide(it, Decision("run"), request="guest-5")

        group.start_soon(allow_reset)
        message = await a.text("reset")
        assert message.startswith("The namespace is empty.")
        assert "NameError" in await a.eval("items")
        assert "s since you joined" in text_of(await a.call("info"))
