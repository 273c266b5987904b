"""An agent's own session, called as the server calls it; streams and signals of the server."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from mahtab_tui.bus.masking import Secrets
from mahtab_tui.bus.records import ReplIn
from mahtab_tui.kernel.values import KernelInfo
from mahtab_tui.mcp import connection
from mahtab_tui.mcp.answers import format_answer
from mahtab_tui.mcp.arguments import EvalArguments, ModeArguments
from mahtab_tui.mcp.code_log import CodeLog
from mahtab_tui.mcp.connection import SessionConnection
from mahtab_tui.mcp.handlers import AttachOptions, ToolHandlers
from mahtab_tui.mcp.own_session import OwnSession
from mahtab_tui.mcp.tools import McpToolError
from mahtab_tui.session.agent_view import SessionContents
from mahtab_tui.session.joined_agents import JoinedAgents
from mahtab_tui.session.running_sessions import RunningSession
from mahtab_tui.session.sharing import AgentService
from mahtab_tui.settings.model import load_settings
from mahtab_tui.store.resume import OpenedSession, database, new_store
from mahtab_tui.store.session_list import list_sessions
from mahtab_tui.store.session_lock import lock_session
from mahtab_tui.store.sqlite import load_records
from mahtab_tui.worker.link.frames import encode
from tests import tags
from tests.mcp.clients import agent, requests
from tests.secrecy import KEY, PRINT_KEY, assert_masked
from tests.waiting import alive, run_python, wait_for
from tests.warm import Piped, piped

PATIENCE_S = 30.0
PID = "__import__('os').getpid()"
ENDLESS = "class Endless:\n    def _repr_png_(self):\n        while True: pass\nEndless()"


pytestmark = pytest.mark.usefixtures("project")

SERVER = """
import os
from mahtab_tui.protocol_streams import take_stdio
streams = take_stdio()
print("printed", flush=True)
os.system("echo child; cat")
os.write(streams.stdout, b"read " + os.read(streams.stdin, 100))
"""

CODES = {
    "waits": "time.sleep(1000)",
    "computes": "while True: pass",
    "ignores interrupts": "import signal; signal.signal(signal.SIGINT, lambda *_: None)\nwhile True: pass",
}


async def report(seconds: float, sentence: str) -> None: ...


@asynccontextmanager
async def own_session(**settings: Any) -> AsyncIterator[OwnSession]:
    agent_sessions = OwnSession(load_settings(**settings), CodeLog(Secrets()))
    try:
        yield agent_sessions
    finally:
        await agent_sessions.close()


async def test_concurrent_calls_share_one_session() -> None:
    async with own_session() as agent_sessions:
        first_session, second_session = await asyncio.gather(
            agent_sessions.connection("codex"), agent_sessions.connection("codex")
        )
        assert first_session is second_session
        await first_session.evaluate("total = 1", None, report)
        assert (await first_session.call("contents", SessionContents, seen=True)).cells == 1
    assert [row.heading for row in list_sessions(database(), None)] == ["total = 1"]


async def test_only_cells_and_what_they_change_are_stored() -> None:
    async with own_session() as agent_sessions:
        session = await agent_sessions.connection("codex")
        await session.evaluate("total = 1", None, report)
        await session.evaluate("total", None, report)
    (row,) = list_sessions(database(), None)
    stored_records = [record for _, record in load_records(database(), row.id).records]
    first_cell = next(
        index for index, record in enumerate(stored_records) if isinstance(record, ReplIn)
    )
    tags_of_cells = [record.tag for record in stored_records[first_cell:]]
    assert tags_of_cells[:5] == [
        tags.ASSISTANT_REPL_IN,
        tags.ASSISTANT_REPL_OUT,
        tags.NAMESPACE,
        tags.ASSISTANT_REPL_IN,
        tags.ASSISTANT_REPL_OUT,
    ]


async def test_call_cancelled_during_startup_leaves_one_session(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with own_session() as agent_sessions:
        starts: list[object] = []
        start = agent_sessions._start

        def counted() -> AgentService:
            starts.append(agent_sessions)
            return start()

        monkeypatch.setattr(agent_sessions, "_start", counted)
        async with anyio.create_task_group() as group:
            group.start_soon(agent_sessions.connection, "codex")
            while not starts:
                await anyio.sleep(0)
            group.cancel_scope.cancel()
        done = await (await agent_sessions.connection("codex")).evaluate("2", None, report)
    assert (len(starts), done.result.output) == (1, "2\n")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
async def test_session_that_cannot_be_joined_is_closed_and_the_next_call_starts_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object, **options: object) -> None:
        raise RuntimeError("can't start new thread")

    async with own_session() as agent_sessions:
        with monkeypatch.context() as patch:
            patch.setattr(JoinedAgents, "join", fail)
            with pytest.raises(McpToolError, match="The session closed the connection"):
                await asyncio.wait_for(agent_sessions.connection("codex"), PATIENCE_S)
        assert agent_sessions._resources is None
        session = await agent_sessions.connection("codex")
        assert (await session.evaluate("2", None, report)).result.output == "2\n"


async def test_calls_that_are_open_when_their_session_is_left_fail(project: Path) -> None:
    code = "import pathlib, time; pathlib.Path('runs').touch(); time.sleep(1000)"
    async with own_session() as agent_sessions:
        session = await agent_sessions.connection("codex")
        call = asyncio.create_task(session.evaluate(code, None, report))
        while not (project / "runs").exists():
            await anyio.sleep(0.01)
        await session.close()
        with pytest.raises(McpToolError, match="session has ended"):
            await asyncio.wait_for(call, PATIENCE_S)


async def test_time_limit_of_a_cell_includes_its_pictures() -> None:
    async with own_session() as agent_sessions:
        session = await agent_sessions.connection("codex")
        pid_before = (await session.call("kernel", KernelInfo)).pid
        done = await session.evaluate(ENDLESS, 0.2, report)
        pid_result = await session.evaluate(PID, None, report)
    assert (done.result.status, done.timed_out, done.result.displays) == ("interrupted", True, ())
    assert pid_result.result.output == f"{pid_before}\n"


async def test_thread_output_between_cells_comes_with_the_next_answer(project: Path) -> None:
    code = "import os, threading, time\ndef late():\n    while not os.path.exists('go'): time.sleep(0.01)\n    print('late words')\n"
    async with own_session() as agent_sessions:
        session = await agent_sessions.connection("codex")
        await session.evaluate(f"{code}threading.Thread(target=late).start()", None, report)
        (project / "go").touch()
        late = ""
        while "late words\n" not in late:
            late += agent_sessions.take_late_output()
            await anyio.sleep(0.01)
        done = replace(await session.evaluate("0", None, report), late=late)
    result = format_answer(done, EvalArguments(code="0", timeout_s=None, max_output=1_000))
    assert result.text == "0\nPrinted since the last call:\nlate words"


async def test_ask_rule_refuses_when_nobody_can_be_asked() -> None:
    async with own_session(
        approval_rules=("ask: os.remove(*)", "deny: os.rmdir(*)")
    ) as agent_sessions:
        session = await agent_sessions.connection("codex")
        evaluation = await session.evaluate("import os; os.remove('x')", None, report)
        denied = await session.evaluate("import os; os.rmdir('x')", None, report)
    assert "no one is here to approve it" in evaluation.declined
    assert "forbids it" in denied.declined


async def test_two_concurrent_calls_join_a_session_once(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    handlers = ToolHandlers(load_settings(), AttachOptions())
    joins: list[str | None] = []

    class Joined:
        name = "codex"
        session = "moon"
        pid = 1
        has_ended = False

        async def close(self) -> None: ...

    async def join(session: str | None) -> Any:
        joins.append(session)
        await asyncio.sleep(0)
        return Joined()

    monkeypatch.setattr(handlers, "_join", join)
    await asyncio.gather(
        *(handlers.set_mode(ModeArguments(mode="shared", session=None), report) for _ in range(2))
    )
    assert joins == [None]
    await handlers.close()


async def test_unstartable_worker_is_reported_to_each_call() -> None:
    async with own_session(python="/nowhere/python") as agent_sessions:
        for _ in range(2):
            with pytest.raises(McpToolError, match="There is no program /nowhere/python"):
                await agent_sessions.connection("codex")


async def test_session_whose_kernel_does_not_start_is_closed_and_unlocked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_python = tmp_path / "python"
    no_python.write_text("#!/bin/sh\nexit 3\n")
    no_python.chmod(0o755)
    opened: list[OpenedSession] = []

    def open_session(folder: Path) -> OpenedSession:
        opened.append(new_store(folder))
        return opened[0]

    monkeypatch.setattr("mahtab_tui.mcp.own_session.new_store", open_session)
    threads_before = set(threading.enumerate())
    async with own_session(python=str(no_python)) as agent_sessions:
        with pytest.raises(McpToolError):
            await agent_sessions.connection("codex")
    new_threads = set(threading.enumerate()) - threads_before
    assert [thread.name for thread in new_threads if "asyncio" not in thread.name] == []
    lock = lock_session(opened[0].store.session)
    assert lock is not None
    lock.release()


@pytest.mark.parametrize("answer", [b"", b"no frame at all"])
async def test_session_closing_while_being_joined_gives_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: bytes
) -> None:
    path = tmp_path / "moon.sock"
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(path))
    listening.listen()

    def close() -> None:
        with listening.accept()[0] as connection:
            connection.recv(1, socket.MSG_PEEK)  # unread data makes the end a reset
            connection.send(answer)

    monkeypatch.setattr(
        connection,
        "find_session",
        lambda session, project: RunningSession("moon", str(tmp_path), 1, [], path),
    )
    with listening:
        closing = asyncio.get_running_loop().run_in_executor(None, close)
        with pytest.raises(McpToolError, match="The session closed the connection"):
            await SessionConnection.join(None, tmp_path, "codex", CodeLog(Secrets()))
        await closing


async def test_agents_answers_do_not_contain_the_key(project: Path, home: Path) -> None:
    (project / "key.txt").write_text(KEY)
    (home / ".mahtab").mkdir()
    (home / ".mahtab" / "config.toml").write_text(f"[api_keys]\nopenai = {json.dumps(KEY)}\n")
    async with agent("--private") as a:
        await a.text("log_viewer", mode="file")
        assert_masked(str(await a.call("eval", code=f"{PRINT_KEY}\nkey")))
        assert_masked(str(await a.call("eval", code=f"mine = {KEY!r}\nraise ValueError(mine)")))
        assert_masked(str(await a.call("info")))
    assert_masked((home / ".mahtab" / "logs" / "repl.log").read_text())


def test_nothing_but_the_protocol_reaches_its_streams() -> None:
    done = run_python("-c", SERVER, input="a line\n")
    assert (done.stdout, done.stderr) == ("read a line\n", "printed\nchild\n")


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    "number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name
)
@pytest.mark.parametrize("code", CODES.values(), ids=CODES)
def test_signal_ends_a_server_with_running_code(number: signal.Signals, code: str) -> None:
    with piped("mcp") as server:
        pid = worker_of(server, code)
        os.kill(server.pid, number)
        assert server.wait() == -number
        wait_for(lambda: not alive(pid))


def worker_of(server: Piped, code: str) -> int:
    code = f"import os, time, pathlib; pathlib.Path('pid.new').write_text(str(os.getpid())); os.replace('pid.new', 'pid')\n{code}"
    server.stdin.write(requests(code))
    server.stdin.flush()
    pid_file = Path("pid")
    wait_for(pid_file.exists)
    return int(pid_file.read_text())


async def test_answer_in_another_form_gives_one_sentence() -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        welcome = {"op": "session", "name": "moon", "you": "codex", "pid": 1}
        await asyncio.to_thread(theirs.sendall, encode(welcome))
        joined = await SessionConnection.connect(ours, "codex", CodeLog(Secrets()))
        assert b"join" in await asyncio.to_thread(theirs.recv, 65536)
        call = asyncio.create_task(joined.call("kernel", KernelInfo))
        assert b"kernel" in await asyncio.to_thread(theirs.recv, 65536)
        theirs.sendall(encode({"op": "answer", "id": 1, "value": {"python": 3}}))
        with pytest.raises(McpToolError, match="The session's answer is invalid: KernelInfo"):
            await call
        await joined.close()


async def test_exit_ends_an_agents_own_session_and_the_next_call_starts_another() -> None:
    async with agent() as a:
        pid = await a.eval(PID)
        reply = await a.eval("x = 1; exit()")
        assert "Your session has ended, and its variables are gone." in reply
        assert await a.eval("'x' in globals()") == "False"
        assert await a.eval(PID) != pid
        assert "Your session has ended" in await a.eval("exit")
