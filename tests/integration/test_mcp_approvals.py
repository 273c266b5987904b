"""Who is asked before a tool of an MCP server is called."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from typing import Any

import pytest

from mahtab_tui.bus.records import Approval, Decision
from mahtab_tui.kernel.values import CellResult
from mahtab_tui.session.info import SessionInfo
from mahtab_tui.settings.approval_rules import parse_rules
from tests import tags
from tests.integration.sessions import Opened
from tests.integration.test_mcp_servers import Open, open_with
from tests.servers import plain
from tests.waiting import wait_for

__all__ = ["open_with"]
WRITE = "echo.write('a\\x1b[31m\\u202eb', )"


def by_the_model(it: Opened, code: str, **attrs: Any) -> Future[CellResult]:
    """Run a cell of the model's on a thread."""
    done: Future[CellResult] = Future()
    threading.Thread(
        target=lambda: done.set_result(
            it.session.cells.run(code, origin="assistant", party="demo", **attrs)
        ),
        daemon=True,
    ).start()
    return done


def asked(it: Opened) -> Approval:
    """The approval that waits."""
    record = it.store.wait(tags.APPROVAL, state="waiting")
    assert isinstance(record, Approval)
    return record


def test_user_is_not_asked_about_their_own_cells(open_with: Open) -> None:
    it = open_with(echo=plain())
    assert it.value("echo.write('x')") == "x"
    assert (
        it.value(
            "import threading; r = []; t = threading.Thread(target=lambda: r.append(echo.write('y'))); t.start(); t.join(); r"
        )
        == "['y']"
    )
    assert not [record for record in it.store.records if record.tag == tags.APPROVAL]


def test_read_only_tool_runs_with_the_models_cell(open_with: Open) -> None:
    it = open_with(echo=plain())
    assert by_the_model(it, "echo.say('x')").result(60).output == "x\n"
    assert not [record for record in it.store.records if record.tag == tags.APPROVAL]


@pytest.mark.parametrize("guest", [None, 2])
def test_user_is_asked_about_other_tools_with_every_character_visible(
    open_with: Open, guest: int | None
) -> None:
    it = open_with(echo=plain())
    running = by_the_model(it, WRITE, **({} if guest is None else {"guest": guest}))
    approval = asked(it)
    assert approval.text == "echo.write(\n    text='a\\x1b[31m\\u202eb',\n)"
    assert (approval.is_code, approval.why) == (
        False,
        "demo calls a tool of the MCP server echo that may change something",
    )
    assert it.session.decide(approval.request, Decision("run"))
    assert running.result(60).status == "ok"
    assert it.store.wait(tags.APPROVAL, state="run").text == approval.text


def test_refusal_is_an_error_of_the_cell_with_the_reason(open_with: Open) -> None:
    it = open_with(echo=plain())
    running = by_the_model(
        it, "try:\n    echo.write('x')\nexcept ToolFailed as error:\n    print(error)"
    )
    it.session.decide(asked(it).request, Decision("skip", reason="not now"))
    assert running.result(60).output == "The user did not allow the call of echo.write: not now\n"


def test_auto_mode_asks_nobody(open_with: Open) -> None:
    it = open_with(echo=plain())
    it.session.set_approval("auto")
    assert by_the_model(it, "echo.write('x')").result(60).output == "x\n"


@pytest.mark.parametrize("mode", ["ask", "auto"])
def test_rules_take_precedence_over_the_approval_mode(
    open_with: Open, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    rules = parse_rules(
        (
            'allow: echo.write(*, text="fine*")',
            'deny: echo.write(*, text="never")',
            'ask: *.write(*, text="perhaps")',
        )
    )
    monkeypatch.setattr(SessionInfo, "rules", property(lambda profile: rules))
    it = open_with(echo=plain())
    it.session.set_approval(mode)  # type: ignore[arg-type]
    assert by_the_model(it, "echo.write('fine by me')").result(60).output == "fine by me\n"
    denied = by_the_model(it, "echo.write('never')").result(60).output
    assert (
        'echo.write was not called: the rule deny: echo.write(*, text="never") forbids it.'
        in denied
    )
    assert not [record for record in it.store.records if record.tag == tags.APPROVAL]
    assert it.value("echo.write('never')") == "never"  # the user's own cell
    running = by_the_model(it, "echo.write('perhaps')")
    approval = asked(it)
    assert 'the rule ask: *.write(*, text="perhaps") asks' in (approval.why or "")
    it.session.decide(approval.request, Decision("run"))
    assert running.result(60).output == "perhaps\n"


def test_cell_in_a_locked_fork_cannot_call_tools(open_with: Open) -> None:
    it = open_with(echo=plain())
    it.session.set_approval("auto")
    assert (
        by_the_model(it, "echo.write('x')", lock="keep").result(60).needs
        == "wanted to call mcp_tools()"
    )


def test_wrong_arguments_fail_without_asking(open_with: Open) -> None:
    it = open_with(echo=plain())
    assert "The argument text is wrong" in by_the_model(it, "echo.write(3)").result(60).output


def test_an_interrupt_withdraws_the_question(open_with: Open) -> None:
    it = open_with(echo=plain())
    running = by_the_model(it, "echo.write('x')")
    asked(it)
    it.session.kernel.interrupt()
    assert running.result(60).status == "interrupted"
    it.store.wait(tags.APPROVAL, state="stopped")
    assert it.session.approvals.waiting == ()


@pytest.mark.parametrize("while_a_cell_of_the_user_runs", [False, True])
def test_models_thread_is_asked_about_after_its_cell(
    open_with: Open, while_a_cell_of_the_user_runs: bool
) -> None:
    it = open_with(echo=plain())
    code = "import threading; go = threading.Event(); t = threading.Thread(target=lambda: (go.wait(), echo.write('x')), daemon=True); t.start()"
    by_the_model(it, code).result(60)
    it.session.submit(
        "python",
        "go.set(); t.join()"
        if while_a_cell_of_the_user_runs
        else "threading.Timer(0.2, go.set).start()",
    )
    approval = asked(it)
    assert approval.why == "demo calls a tool of the MCP server echo that may change something"
    it.session.decide(approval.request, Decision("skip"))


TASK = "import asyncio; go = asyncio.Event()\nasync def later(): await go.wait(); return echo.write('x')\nt = asyncio.create_task(later()); await asyncio.sleep(0); ok = True"


def test_models_task_is_asked_about_while_a_user_cell_runs(open_with: Open) -> None:
    it = open_with(echo=plain())
    by_the_model(it, TASK).result(60)
    it.session.submit("python", "go.set(); await t")
    it.session.decide(asked(it).request, Decision("run"))
    assert it.store.wait(tags.USER_REPL_OUT).text == "x\n"


def test_user_threads_and_tasks_are_not_asked_about_after_their_cell(
    open_with: Open,
) -> None:
    it = open_with(echo=plain())
    it.run(
        "import threading; r = []; go = threading.Event(); t = threading.Thread(target=lambda: (go.wait(), r.append(echo.write('x')))); t.start()"
    )
    by_the_model(it, "1").result(60)
    it.run("threading.Timer(0.1, go.set).start()")
    wait_for(lambda: it.value("r") == "['x']")
    it.run(TASK)
    assert it.run("go.set(); await t").text == "x\n"
    assert not [record for record in it.store.records if record.tag == tags.APPROVAL]


def test_dying_kernel_withdraws_the_question(open_with: Open) -> None:
    it = open_with(echo=plain())
    by_the_model(it, "echo.write('x')")
    asked(it)
    it.session.kernel.kill()
    it.store.wait(tags.APPROVAL, state="stopped")
    wait_for(lambda: it.session.approvals.waiting == ())
    assert it.value("echo.say('again')") == "again"
