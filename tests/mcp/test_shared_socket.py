"""The socket of a live session: who may connect, and the end of either side."""

from __future__ import annotations

import errno
import os
import select
import socket
import stat
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import anyio
import pytest

from mahtab_tui.session.running_sessions import SharingError, running_sessions, share_folder
from mahtab_tui.session.sharing import _SocketPeer
from mahtab_tui.worker.link.frames import FrameReader, encode
from tests import tags
from tests.mcp.clients import agent, requests
from tests.mcp.conftest import Share, waited
from tests.waiting import wait_for


@contextmanager
def connected() -> Iterator[socket.socket]:
    (path,) = share_folder().glob("*.sock")
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(20)
        connection.connect(str(path))
        yield connection


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
    with connected() as client:
        client.sendall(encode({"op": "join", "name": "x"}))
        reader = FrameReader(100_000)
        assert next(reader.feed(client.recv(65536)))["op"] == "session"
        it.session.joined_agents.disconnect()
        hangup_poll = select.poll()
        hangup_poll.register(client, select.POLLRDHUP)
        assert hangup_poll.poll(60_000)
        arguments = {"code": "1", "timeout": None}
        client.sendall(encode({"op": "call", "id": 1, "what": "evaluate", "args": arguments}))
        (frame,) = reader.feed(client.recv(65536))
    assert frame["op"] == "bye"
    assert not it.session.cells.finished


def test_another_users_connection_is_closed(share: Share, monkeypatch: pytest.MonkeyPatch) -> None:
    share()
    monkeypatch.setattr("mahtab_tui.session.sharing.peer_uid", lambda connection: os.getuid() + 1)
    with connected() as connection:
        assert connection.recv(1) == b""


@pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_failing_connection_does_not_keep_others_out(
    share: Share, monkeypatch: pytest.MonkeyPatch
) -> None:
    share()
    failures = [OSError(107, "not connected"), RuntimeError("can't start new thread")]

    def failing_uid(connection: socket.socket) -> int:
        if failures:
            raise failures.pop()
        return os.getuid()

    monkeypatch.setattr("mahtab_tui.session.sharing.peer_uid", failing_uid)
    for _ in range(2):
        with connected() as connection:
            assert connection.recv(1) == b""
    assert [session.name for session in running_sessions()] == ["moon"]


def test_a_connection_accepted_while_the_session_closes_is_not_served(share: Share) -> None:
    it = share()
    it.server.close()
    accepted, client = socket.socketpair()
    with client:
        it.server.serve(accepted)
        client.settimeout(20)
        assert client.recv(1) == b""


@contextmanager
def reading_frames(connection: socket.socket) -> Iterator[Iterator[dict[str, Any]]]:
    """Yield the frames that come on a connection."""
    reader = FrameReader(100_000)

    def frames() -> Iterator[dict[str, Any]]:
        while data := connection.recv(65536):
            yield from reader.feed(data)

    yield frames()


def test_all_agents_learn_of_the_end_before_any_is_cut_off(
    share: Share, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mahtab_tui.session.sharing.CLOSE_TIMEOUT_S", 60.0)
    it = share()
    with ExitStack() as stack:
        clients = [stack.enter_context(connected()) for _ in range(4)]
        for client in clients:
            client.sendall(encode({"op": "probe"}))
        all_frames = [stack.enter_context(reading_frames(client)) for client in clients]
        assert [next(frames)["op"] for frames in all_frames] == ["session"] * 4
        closing = threading.Thread(target=it.server.close)
        closing.start()
        # None of them closes its end yet.
        last_frames = [next(frames) for frames in all_frames]
        assert last_frames == [{"op": "bye", "text": "The session has closed."}] * 4
        for client in clients:
            client.close()
        closing.join()


def test_an_agent_that_reads_a_frame_too_slowly_is_disconnected(
    share: Share, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mahtab_tui.session.sharing.SEND_TIMEOUT_S", 1)
    it = share()
    sent_bytes = 5_000_000
    with connected() as client:
        client.sendall(encode({"op": "probe"}))
        client.recv(65536)
        (peer,) = it.server._list_peers()
        sending = threading.Thread(target=peer._send, args=({"op": "x", "text": "a" * sent_bytes},))
        sending.start()
        received_bytes = 0
        while data := client.recv(4096):
            received_bytes += len(data)
            if sending.is_alive():
                sending.join(0.05)
        sending.join()
    assert received_bytes < sent_bytes


def test_impossible_requests_are_answered(share: Share) -> None:
    it = share()
    with connected() as client, reading_frames(client) as frames:
        client.sendall(encode({"op": "call", "id": 7, "what": "evaluate", "args": {}}))
        assert next(frames) == {"op": "answer", "id": 7, "error": "Join the session first."}
        client.sendall(encode({"op": "join", "name": "x"}))
        assert next(frames)["you"] == "x"
        client.sendall(encode({"op": "join", "name": "y"}))
        sentence = "A connection can join or watch a session only once."
        assert list(frames) == [{"op": "bye", "text": sentence}]
    with connected() as client, reading_frames(client) as frames:
        client.sendall(encode({"op": "\x1b[2J" + "x" * 1000}))
        (frame,) = frames
        assert frame["op"] == "bye"
        assert frame["text"].startswith("The session does not know the request '\\x1b[2Jxxx")
        assert len(frame["text"]) < 100
    wait_for(lambda: it.session.joined_agents.names == [])


def test_a_local_agent_leaves_only_once(share: Share) -> None:
    it = share()
    frames: list[dict[str, Any]] = []
    peer = it.server.connect(frames.append)
    feeds_before = set(it.session.broadcast._feeds)
    peer.handle({"op": "watch"})
    (feed,) = it.session.broadcast._feeds - feeds_before
    peer.disconnect("Bye.")
    # Its records have ended, so that nothing takes a second end from the queue.
    wait_for(lambda: feed.empty())
    peer.close()
    assert feed.empty()
    assert frames[-1] == {"op": "bye", "text": "Bye."}


def test_a_socket_that_cannot_be_made_is_reported_and_leaves_nothing(
    share: Share, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path, mode: int) -> None:
        raise OSError("odd")

    share_folder()
    monkeypatch.setattr(Path, "chmod", refuse)
    with pytest.raises(SharingError, match=r"\.sock cannot be created: odd\."):
        share()
    assert list(share_folder().iterdir()) == []
    no_descriptors = OSError(errno.EMFILE, os.strerror(errno.EMFILE))
    monkeypatch.setattr(socket, "socket", Mock(side_effect=no_descriptors))
    with pytest.raises(SharingError, match="Too many open files"):
        share()


def test_connections_not_speaking_the_protocol_do_no_harm(share: Share) -> None:
    it = share()
    for words in (
        b"GET / HTTP/1.1\r\n\r\n",
        b"\xff\xff\xff\xff",
        b"\x00\x00\x00\x02{}",
        b'\x00\x00\x00\x0d{"op":"call"}',
    ):
        with connected() as connection:
            connection.sendall(words)
            connection.shutdown(socket.SHUT_WR)
            assert connection.recv(1) == b""
    assert [session.name for session in running_sessions()] == ["moon"]
    assert it.run("1").text == "1\n"


def test_socket_left_by_a_crash_is_removed(project: Path) -> None:
    stale_socket = share_folder() / "999999.sock"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(stale_socket))
    assert stale_socket.exists()
    assert running_sessions() == []
    assert not stale_socket.exists()


async def test_private_server_joins_no_session(share: Share) -> None:
    share()
    async with agent("--private") as a:
        assert "--private" in await a.text("mode", mode="shared")


async def test_agent_learns_of_the_screens_end_and_private_mode_works(share: Share) -> None:
    it = share()
    async with agent("--attach") as a:
        await a.eval("1")
        async with anyio.create_task_group() as group:
            group.start_soon(a.answer, "import time; time.sleep(600)")
            await waited(it, tags.ASSISTANT_REPL_IN, cell=2)
            await anyio.to_thread.run_sync(it.server.close)
        assert "The session has closed" in a.answers[0]
        assert "Call mode with private" in a.answers[0]
        await a.text("mode", mode="private")
        assert await a.eval("3") == "3"
        assert "No session on a screen" in await a.text("mode", mode="shared")


async def test_server_of_an_agent_that_answers_stays_in_its_session(share: Share) -> None:
    it = share()
    async with agent("--attach", str(it.server.path)) as a:
        assert await a.eval("1") == "1\n[In 1]"
        for tool, mode in (("mode", "private"), ("log_viewer", "file")):
            assert f"There is no tool '{tool}'." in await a.text(tool, mode=mode)
        # It may have been cut off because it was slow.
        (peer,) = it.server._list_peers()
        assert isinstance(peer, _SocketPeer)
        peer._socket.shutdown(socket.SHUT_RDWR)
        while it.session.joined_agents.names:
            await anyio.sleep(0.01)
        assert await a.eval("2") == "2\n[In 2]"
        async with anyio.create_task_group() as group:
            group.start_soon(a.answer, "import time; time.sleep(600)")
            await waited(it, tags.ASSISTANT_REPL_IN, cell=3)
            await anyio.to_thread.run_sync(it.server.close)
        assert a.answers == ["The session has closed."]
        assert await a.text("eval", code="3") == "The session has closed."


async def test_agent_that_the_user_disconnected_does_not_join_again(share: Share) -> None:
    it = share()
    async with agent("--attach", str(it.server.path)) as a:
        assert await a.eval("1") == "1\n[In 1]"
        await anyio.to_thread.run_sync(it.session.joined_agents.disconnect)
        while it.session.joined_agents.names:
            await anyio.sleep(0.01)
        refusal = "The user disconnected you from the session."
        assert [await a.text("eval", code="2") for _ in range(2)] == [refusal] * 2
    assert len(it.session.cells.finished) == 1


async def test_agent_learns_why_a_socket_cannot_be_used(project: Path) -> None:
    async with agent("--attach", str(project / ("x" * 200 + ".sock"))) as a:
        reason = "The session cannot be reached: AF_UNIX path too long."
        assert await a.text("eval", code="1") == reason


async def test_dying_agent_leaves_its_cell_running(share: Share, project: Path) -> None:
    it = share()
    code = "import os, time\nprint('pid', flush=True)\nwhile not os.path.exists('go'): time.sleep(0.01)"
    server = await anyio.open_process(
        [sys.executable, "-m", "mahtab_tui", "mcp", "--attach"], cwd=project
    )
    assert server.stdin is not None
    await server.stdin.send(requests(code).encode())
    await waited(it, tags.ASSISTANT_REPL_IN)
    server.kill()
    await server.aclose()
    while it.session.joined_agents.names:
        await anyio.sleep(0.01)
    Path("go").touch()
    output = await waited(it, tags.ASSISTANT_REPL_OUT)
    assert output.attrs["status"] == "ok"
    await waited(it, tags.NOTICE, text="plain has left the session. Its cell keeps running.")


async def test_several_agents_do_not_lose_or_mix_anything(share: Share) -> None:
    it = share()
    it.run("log = []")

    async def work(number: int) -> None:
        async with agent("--attach") as a:
            for turn in range(10):
                code = f"log.append(({number}, {turn})); print('out', {number}, {turn}); ({number}, {turn})"
                assert (await a.eval(code)).startswith(f"({number}, {turn})\nout {number} {turn}")

    async with anyio.create_task_group() as group:
        for number in range(3):
            group.start_soon(work, number)
    code = "len(log), all([t for n, t in log if n == k] == list(range(10)) for k in range(3))"
    assert it.run(code).text == "(30, True)\n"
    outputs = [record.text for record in it.store.records if record.tag == tags.ASSISTANT_REPL_OUT]
    assert len(set(outputs)) == 30


def test_program_short_of_descriptors_still_lets_agents_in_later(share: Share) -> None:
    it = share()
    assert it.server._listener is not None
    listener: socket.socket = it.server._listener

    class Exhausted:
        failed = False

        def accept(self) -> tuple[socket.socket, Any]:
            if not self.failed:
                self.failed = True
                raise OSError(24, "Too many open files")
            return listener.accept()

        def __getattr__(self, name: str) -> Any:
            return getattr(listener, name)

    it.server._listener = exhausted = Exhausted()  # type: ignore[assignment]
    for _ in range(2):
        assert [session.name for session in running_sessions()] == ["moon"]
    assert exhausted.failed


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
