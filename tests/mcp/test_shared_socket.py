"""The way into a live session: its socket, who comes in by it, and what is left when either side
goes."""

from __future__ import annotations

import json
import os
import select
import socket
import stat
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

from mahtab_tui.session.sharing import running_sessions, share_folder
from mahtab_tui.worker.frames import FrameReader, encode
from tests import tags
from tests.mcp.clients import agent
from tests.mcp.conftest import Share, waited

HELLO: dict[str, Any] = {
    "method": "initialize",
    "id": 1,
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "dies", "version": "1"},
    },
}
INITIALIZED: dict[str, Any] = {"method": "notifications/initialized"}


def test_listing_sessions_creates_no_folder(home: Path) -> None:
    assert running_sessions() == []
    assert list(home.iterdir()) == []


def test_only_the_user_can_reach_the_socket(share: Share) -> None:
    share()
    folder = share_folder()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    (path,) = folder.glob("*.sock")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    folder.chmod(0o755)
    assert stat.S_IMODE(share_folder().stat().st_mode) == 0o700


def test_agent_disconnected_while_sending_still_reads_the_reason(share: Share) -> None:
    it = share()
    (path,) = share_folder().glob("*.sock")
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(path))
        client.sendall(encode({"op": "join", "name": "x"}))
        reader = FrameReader(100_000)
        assert reader.feed(client.recv(65536))[0]["op"] == "session"
        it.session.joined_agents.disconnect()
        ended = select.poll()
        ended.register(client, select.POLLRDHUP)
        assert ended.poll(60_000)
        client.sendall(
            encode(
                {
                    "op": "call",
                    "id": 1,
                    "what": "evaluate",
                    "args": {"code": "1", "timeout": None},
                }
            )
        )
        (frame,) = reader.feed(client.recv(65536))
    assert frame["op"] == "bye"
    assert not it.session.cells.finished


def test_another_users_connection_is_closed(share: Share, monkeypatch: pytest.MonkeyPatch) -> None:
    share()
    (path,) = share_folder().glob("*.sock")
    monkeypatch.setattr("mahtab_tui.session.sharing.peer_uid", lambda connection: os.getuid() + 1)
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(20)
        connection.connect(str(path))
        assert connection.recv(1) == b""


@pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")
def test_connections_not_speaking_the_protocol_do_no_harm(share: Share) -> None:
    it = share()
    (path,) = share_folder().glob("*.sock")
    for words in (
        b"GET / HTTP/1.1\r\n\r\n",
        b"\xff\xff\xff\xff",
        b"\x00\x00\x00\x02{}",
        b'\x00\x00\x00\x0d{"op":"call"}',
    ):
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(20)
            connection.connect(str(path))
            connection.sendall(words)
            connection.shutdown(socket.SHUT_WR)
            assert connection.recv(1) == b""
    assert [session.name for session in running_sessions()] == ["moon"]
    it.session.submit("python", "1")
    assert it.store.wait(tags.USER_REPL_OUT).text == "1\n"


def test_socket_left_by_a_crash_is_removed(project: Path) -> None:
    left = share_folder() / "999999.sock"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(left))
    assert left.exists()
    assert running_sessions() == []
    assert not left.exists()


async def test_private_server_joins_no_session(share: Share, project: Path) -> None:
    share()
    async with agent("--private", cwd=project) as a:
        assert "--private" in await a.text("mode", mode="shared")


async def test_agent_learns_of_the_screens_end_and_private_mode_works(
    share: Share, project: Path
) -> None:
    it = share()
    async with agent("--attach", cwd=project) as a:
        await a.eval("1")
        async with anyio.create_task_group() as group:
            texts: list[str] = []

            async def run() -> None:
                texts.append(await a.text("eval", code="import time; time.sleep(600)"))

            group.start_soon(run)
            await waited(it, tags.ASSISTANT_REPL_IN, cell=2)
            await anyio.to_thread.run_sync(it.server.close)
        assert "its screen is gone" in texts[0]
        assert "Call mode with private" in texts[0]
        await a.text("mode", mode="private")
        assert await a.eval("3") == "3"
        assert "No session on a screen" in await a.text("mode", mode="shared")


async def test_dying_agent_leaves_its_cell_running(share: Share, project: Path) -> None:
    it = share()
    code = "import os, time\nprint('pid', flush=True)\nwhile not os.path.exists('go'): time.sleep(0.01)"
    server = await anyio.open_process(
        [sys.executable, "-m", "mahtab_tui", "mcp", "--attach"], cwd=project
    )
    assert server.stdin is not None
    for message in (
        HELLO,
        INITIALIZED,
        {"method": "tools/call", "id": 2, "params": {"name": "eval", "arguments": {"code": code}}},
    ):
        await server.stdin.send(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
    await waited(it, tags.ASSISTANT_REPL_IN)
    server.kill()
    await server.aclose()
    while it.session.joined_agents.names:
        await anyio.sleep(0.01)
    (project / "go").touch()
    ended = await waited(it, tags.ASSISTANT_REPL_OUT)
    assert ended.attrs["status"] == "ok"
    await waited(it, tags.NOTICE, text="dies has left the session. Its cell keeps running.")


async def test_several_agents_do_not_lose_or_mix_anything(share: Share, project: Path) -> None:
    it = share()
    it.session.submit("python", "log = []")
    it.store.wait(tags.USER_REPL_OUT)

    async def work(number: int) -> None:
        async with agent("--attach", cwd=project) as a:
            for turn in range(10):
                code = f"log.append(({number}, {turn})); print('out', {number}, {turn}); ({number}, {turn})"
                assert (await a.eval(code)).startswith(f"({number}, {turn})\nout {number} {turn}")

    async with anyio.create_task_group() as group:
        for number in range(3):
            group.start_soon(work, number)
    it.session.submit(
        "python",
        "len(log), all([t for n, t in log if n == k] == list(range(10)) for k in range(3))",
    )
    while not (
        ended := [record for record in it.store.records if record.tag == tags.USER_REPL_OUT]
    )[1:]:
        await anyio.sleep(0.01)
    assert ended[1].text == "(30, True)\n"
    outputs = [record.text for record in it.store.records if record.tag == tags.ASSISTANT_REPL_OUT]
    assert len(set(outputs)) == 30


def test_listing_sessions_does_not_remove_a_socket_being_opened(
    share: Share, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Slow(socket.socket):
        def listen(self, backlog: int = 0, /) -> None:
            assert running_sessions() == []
            super().listen(backlog)

    monkeypatch.setattr(socket, "socket", Slow)
    share()
    assert [session.name for session in running_sessions()] == ["moon"]
    assert [path.suffix for path in share_folder().iterdir()] == [".sock"]
