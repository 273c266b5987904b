"""Where an agent's code runs, called as the server calls it: several calls at once, drawing without end, a disk that is full."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from pathlib import Path
from typing import Any

import anyio
import pytest

from mahtab_tui.bus.masking import Secrets
from mahtab_tui.kernel.base import KernelHost
from mahtab_tui.mcp import journal, shared
from mahtab_tui.mcp.evaluation import EvalArguments, answer
from mahtab_tui.mcp.formatting import AnswerFormat
from mahtab_tui.mcp.handlers import AttachOptions, ModeArguments, ToolHandlers
from mahtab_tui.mcp.journal import Journal
from mahtab_tui.mcp.place import PlaceError
from mahtab_tui.mcp.private import PrivatePlace
from mahtab_tui.mcp.shared import SharedPlace
from mahtab_tui.session.shared_sessions import RunningSession
from tests.mcp.clients import agent
from tests.secrecy import KEY, SAY, assert_masked

PID = "__import__('os').getpid()"
ENDLESS = "class Endless:\n    def _repr_png_(self):\n        while True: pass\nEndless()"


async def report(seconds: float, sentence: str) -> None:
    """Nobody listens."""


def counting(project: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[PrivatePlace, list[PrivatePlace]]:
    """A place, and a list that grows with each start of its worker."""
    place = PrivatePlace(None, str(project), False, Journal())
    starts: list[PrivatePlace] = []
    start = place._kernel.start

    def counted(host: KernelHost) -> None:
        starts.append(place)
        start(host)

    monkeypatch.setattr(place._kernel, "start", counted)
    return place, starts


async def test_calls_that_come_at_once_share_one_worker(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place, starts = counting(project, monkeypatch)
    try:
        done, inside, _ = await asyncio.gather(place.evaluate(PID, None, report), place.contents(seen=True), place.kernel())
    finally:
        await place.close()
    assert (len(starts), done.result.output) == (1, f"{inside.kernel.pid}\n")


async def test_a_call_that_is_cancelled_while_the_worker_starts_leaves_one_worker(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place, starts = counting(project, monkeypatch)
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(place.evaluate, "x = 1", None, report)
            while not starts:
                await anyio.sleep(0)
            group.cancel_scope.cancel()
        done = await place.evaluate("2", None, report)
    finally:
        await place.close()
    assert (len(starts), done.result.output) == (1, "2\n")


async def test_the_time_limit_of_a_cell_is_that_of_its_pictures_too(project: Path) -> None:
    place = PrivatePlace(None, str(project), False, Journal())
    try:
        before = (await place.kernel()).pid
        done = await place.evaluate(ENDLESS, 0.2, report)
        after = await place.evaluate(PID, None, report)
    finally:
        await place.close()
    assert (done.result.status, done.timed_out, done.pictures) == ("interrupted", True, [])
    assert after.result.output == f"{before}\n"


async def test_the_time_of_a_cell_begins_when_the_one_before_it_has_ended(project: Path) -> None:
    place = PrivatePlace(None, str(project), False, Journal())
    try:
        await place.kernel()
        _, second = await asyncio.gather(place.evaluate("import time; time.sleep(3.5)", None, report), place.evaluate("'in time'", 3.0, report))
    finally:
        await place.close()
    assert (second.result.output, second.timed_out) == ("'in time'\n", False)


async def test_what_a_thread_prints_between_cells_comes_with_the_next_answer(project: Path) -> None:
    place = PrivatePlace(None, str(project), False, Journal())
    code = "import os, threading, time\ndef late():\n    while not os.path.exists('go'): time.sleep(0.01)\n    print('late words')\n"
    try:
        await place.evaluate(f"{code}threading.Thread(target=late).start()", None, report)
        (project / "go").touch()
        while "late words" not in place._host._late:
            await anyio.sleep(0.01)
        first, second = [await place.evaluate("0", None, report) for _ in range(2)]
    finally:
        await place.close()
    assert (first.late, second.late) == ("late words\n", "")
    told = answer(first, EvalArguments(code="0", timeout_s=None, max_output=1_000), AnswerFormat("plain"))
    assert told.text == "0\nPrinted since the last call:\nlate words"


async def test_a_log_that_cannot_be_written_ends_and_the_cells_go_on(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("this system has no /dev/full")
    monkeypatch.setattr(journal, "log_file", lambda: full)
    log = Journal("file")
    place = PrivatePlace(None, str(project), False, log)
    try:
        done = await place.evaluate("print('printed'); 42", None, report)
    finally:
        await place.close()
    assert done.result.output == "printed\n42\n"
    assert log.mode == "off"
    assert capsys.readouterr().err == f"mahtab-tui: /dev/full cannot be written: {os.strerror(28)}. Logging has stopped.\n"


async def test_two_calls_that_join_a_session_join_once(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    handlers = ToolHandlers(None, str(project), AnswerFormat("plain"), Journal(), AttachOptions(), Secrets())
    joins: list[str | None] = []

    class Joined:
        name, session, pid, over = "codex", "moon", 1, False

        async def close(self) -> None:
            """There is no connection."""

    async def join(session: str | None) -> Any:
        joins.append(session)
        await asyncio.sleep(0)
        return Joined()

    monkeypatch.setattr(handlers, "_join", join)
    await asyncio.gather(*(handlers.set_mode(ModeArguments(mode="shared", session=None), report) for _ in range(2)))
    assert joins == [None]
    await handlers.close()


async def test_a_worker_that_cannot_start_is_said_to_each_call(project: Path) -> None:
    place = PrivatePlace("/nowhere/python", str(project), False, Journal())
    for _ in range(2):
        with pytest.raises(PlaceError, match="There is no file /nowhere/python"):
            await place.kernel()
    await place.close()


@pytest.mark.parametrize("answer", [b"", b"no frame at all"])
async def test_a_session_that_closes_while_it_is_joined_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: bytes) -> None:
    path = tmp_path / "moon.sock"
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(path))
    listening.listen()

    def close() -> None:
        connection, _ = listening.accept()
        connection.recv(1, socket.MSG_PEEK)  # what is there and was not read makes the end a reset
        connection.send(answer)
        connection.close()

    monkeypatch.setattr(shared, "session_for", lambda session, project: RunningSession("moon", str(tmp_path), 1, [], path))
    with listening:
        closing = asyncio.get_running_loop().run_in_executor(None, close)
        with pytest.raises(PlaceError, match="The session closed the connection"):
            await SharedPlace.join(None, tmp_path, "codex", Journal())
        await closing


async def test_an_agents_own_worker_its_log_and_its_answers_have_no_key(project: Path, home: Path) -> None:
    (project / "key.txt").write_text(KEY)
    (home / ".mahtab").mkdir()
    (home / ".mahtab" / "config.toml").write_text(f"[api_keys]\nopenai = {json.dumps(KEY)}\n")
    async with agent("--private", cwd=project) as a:
        await a.text("log_viewer", mode="file")
        assert_masked(str(await a.call("eval", code=f"{SAY}\nkey")))
        assert_masked(str(await a.call("eval", code=f"mine = {KEY!r}\nraise ValueError(mine)")))
        assert_masked(str(await a.call("info")))
        assert_masked(str(await a.client.read_resource("mahtab://variable/mine")))
    assert_masked((home / ".mahtab" / "logs" / "repl.log").read_text())
