"""Who may have a kernel that waits: its user, with the key, and nobody else; and nobody can keep
the holder from its work."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from mahtab_tui.kernel.base import KernelState
from mahtab_tui.kernel.detached import attach, sockets_folder, waiting_kernels
from mahtab_tui.worker.frames import encode
from mahtab_tui.worker.holder import KEY_SUFFIX, MAX_VISITORS
from tests.integration.detached import OPEN, SESSION, Screen, holder_of

pytestmark = pytest.mark.usefixtures("project")


@pytest.fixture(autouse=True)
def closed_in_the_end() -> Iterator[None]:
    yield
    while OPEN:
        OPEN.pop().close()


@pytest.fixture
def path() -> Path:
    first = Screen()
    first.run(1, "n = 41")
    first.leave()
    (kernel,) = waiting_kernels(SESSION)
    return kernel.path


def connected(path: Path) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(60)
    connection.connect(os.path.relpath(path))
    return connection


def still_there() -> bool:
    second = Screen(again=True)
    return second.run(2, "n + 1").output == "42\n"


def test_only_the_user_can_reach_the_files(path: Path) -> None:
    modes = [os.stat(each).st_mode & 0o777 for each in (path.parent, path, f"{path}{KEY_SUFFIX}")]
    assert modes == [0o700, 0o600, 0o600]


@pytest.mark.parametrize("key", ["", "0" * 64, None, 7, ["x"], "\ud800"])
@pytest.mark.parametrize("op", ["status", "attach", "stop"])
def test_nothing_is_answered_without_the_key(path: Path, key: object, op: str) -> None:
    ours, theirs = socket.socketpair()
    with connected(path) as connection, ours, theirs:
        socket.send_fds(
            connection, [encode({"op": op, "key": key, "by_force": True})], [theirs.fileno()]
        )
        assert connection.recv(1) == b""
    assert still_there()


HOSTILE = [
    b"GET / HTTP/1.1\r\n\r\n",
    b"\xff" * 100_000,
    struct.pack("!I", 4000),
    struct.pack("!I", 4) + b"null",
    struct.pack("!I", 2) + b"[]",
    struct.pack("!I", 11) + b'{"op":[{}]}',
    struct.pack("!I", 3000) + b"[" * 3000,
    encode({"op": "status"}) * 1000,
    b"",
]


@pytest.mark.parametrize("data", HOSTILE, ids=range(len(HOSTILE)))
def test_malformed_request_ends_only_its_connection(path: Path, data: bytes) -> None:
    with connected(path) as connection:
        try:
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(65536):
                pass
        except (BrokenPipeError, ConnectionResetError):
            pass
    assert still_there()


def test_silent_connections_do_not_lock_anyone_out(path: Path) -> None:
    silent = [connected(path) for _ in range(3 * MAX_VISITORS)]
    half = connected(path)
    half.send(encode({"op": "status", "key": "x"})[:-1])
    (kernel,) = waiting_kernels(SESSION)
    assert len(os.listdir(f"/proc/{holder_of(kernel.pid)}/fd")) < 2 * MAX_VISITORS
    assert still_there()
    for connection in (*silent, half):
        connection.close()


def test_unclaimed_descriptors_are_closed(path: Path) -> None:
    key = Path(f"{path}{KEY_SUFFIX}").read_text()
    ours, theirs = socket.socketpair()
    with connected(path) as connection:
        socket.send_fds(connection, [encode({"op": "status", "key": key})], [theirs.fileno()])
        assert connection.recv(65536)
    theirs.close()
    ours.settimeout(60)
    assert ours.recv(1) == b""
    assert still_there()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_another_user_gets_nothing_even_with_the_key(path: Path) -> None:
    key = Path(f"{path}{KEY_SUFFIX}").read_text()
    path.chmod(0o777)
    child = f"""
import os, socket
folder = os.open({str(path.parent)!r}, os.O_RDONLY)
os.fchmod(folder, 0o711)
os.fchdir(folder)
os.setuid(65534)
c = socket.socket(socket.AF_UNIX)
c.settimeout(60)
c.connect({path.name!r})
try:
    c.sendall({encode({"op": "status", "key": key})!r})
    print("answer", c.recv(65536))
except OSError as error:
    print("answer", type(error).__name__)
"""
    done = subprocess.run(
        [sys.executable, "-c", child], capture_output=True, text=True, timeout=60, check=False
    )
    path.parent.chmod(0o700)
    assert done.stdout.strip() in (
        "answer b''",
        "answer BrokenPipeError",
        "answer ConnectionResetError",
    ), done.stderr
    assert still_there()


@pytest.mark.parametrize("how", ["a link", "a file", "of another user"])
def test_folder_created_by_another_user_is_not_used(home: Path, how: str) -> None:
    run = home / ".mahtab" / "run"
    run.mkdir(parents=True)
    folder = run / "kernels"
    if how == "a link":
        (home / "elsewhere").mkdir()
        folder.symlink_to(home / "elsewhere")
    elif how == "a file":
        folder.write_text("")
    elif os.getuid() == 0:
        folder.mkdir()
        os.chown(folder, 65534, 65534)
    else:
        pytest.skip("only root can give a folder to another user")
    screen = Screen()
    assert "This kernel ends with its screen" in screen.host.wait_for_state(KernelState.IDLE)
    assert waiting_kernels() == []
    assert not how.startswith("a link") or list((home / "elsewhere").iterdir()) == []


def test_folder_open_to_others_is_made_private(home: Path) -> None:
    folder = home / ".mahtab" / "run" / "kernels"
    folder.mkdir(parents=True)
    folder.chmod(0o777)
    assert sockets_folder() == folder
    assert folder.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"garbage",
        encode({"op": "kernel"}),
        encode(
            {
                "op": "attached",
                "pid": "x",
                "cell": [],
                "since": "nan",
                "host": 0,
                "has_run": 0,
                "hello": {},
            }
        ),
        encode(
            {
                "op": "kernel",
                "pid": 1,
                "cell": 0,
                "since": 1e300,
                "host": False,
                "has_run": True,
                "hello": {"python": 3},
            }
        ),
    ],
    ids=range(5),
)
def test_reply_of_a_holder_is_not_trusted(answer: bytes) -> None:
    path = sockets_folder() / f"{SESSION}.00000000.sock"
    Path(f"{path}{KEY_SUFFIX}").write_text("key")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(os.path.relpath(path))
    listener.listen()

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            connection.recv(65536)
            connection.sendall(answer)
            connection.close()

    threading.Thread(target=serve, daemon=True).start()
    try:
        assert waiting_kernels() == []
        assert attach(SESSION) is None
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
