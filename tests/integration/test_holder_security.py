"""Only the user with the key reaches a detached kernel, and nobody can block its holder."""

from __future__ import annotations

import os
import socket
import struct
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from mahtab_tui.kernel.detached import attach, detached_kernels
from mahtab_tui.kernel.holder_connection import sockets_folder
from mahtab_tui.kernel.values import KernelState
from mahtab_tui.worker.link.frames import encode
from mahtab_tui.worker.link.holder import MAX_VISITORS
from mahtab_tui.worker.link.holder_protocol import KEY_SUFFIX
from tests.integration.detached import SESSION, Screen, close_kernels, holder_of
from tests.waiting import run_python

__all__ = ["close_kernels"]
pytestmark = pytest.mark.usefixtures("project", "close_kernels")

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

FIELDS = ("op", "pid", "cell", "since", "host", "has_run", "hello")
FORGED: list[tuple[object, ...]] = [
    ("attached", "x", [], "nan", 0, 0, {}),
    ("kernel", 1, 0, 1e300, False, True, {"python": 3}),
]
ANSWERS = [
    b"",
    b"garbage",
    encode({"op": "kernel"}),
    *(encode(dict(zip(FIELDS, values, strict=True))) for values in FORGED),
]


@pytest.fixture
def path() -> Path:
    first_screen = Screen()
    first_screen.run(1, "n = 41")
    first_screen.leave()
    (kernel,) = detached_kernels(SESSION)
    return kernel.path


def read_key(path: Path) -> str:
    return Path(f"{path}{KEY_SUFFIX}").read_text()


def connected(path: Path) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(60)
    connection.connect(os.path.relpath(path))
    return connection


def can_attach() -> bool:
    return Screen(again=True).run(2, "n + 1").output == "42\n"


def test_only_the_user_can_reach_the_files(path: Path) -> None:
    files = path.parent, path, f"{path}{KEY_SUFFIX}"
    assert [os.stat(file).st_mode & 0o777 for file in files] == [0o700, 0o600, 0o600]


@pytest.mark.sample(6)
@pytest.mark.parametrize("key", ["", "0" * 64, None, 7, ["x"], "\ud800"])
@pytest.mark.parametrize("op", ["status", "attach", "stop"])
def test_nothing_is_answered_without_the_key(path: Path, key: object, op: str) -> None:
    ours, theirs = socket.socketpair()
    with connected(path) as connection, ours, theirs:
        socket.send_fds(
            connection, [encode({"op": op, "key": key, "by_force": True})], [theirs.fileno()]
        )
        assert connection.recv(1) == b""
    assert can_attach()


@pytest.mark.parametrize("data", HOSTILE, ids=range(len(HOSTILE)))
def test_malformed_request_ends_only_its_connection(path: Path, data: bytes) -> None:
    with connected(path) as connection, suppress(BrokenPipeError, ConnectionResetError):
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
        while connection.recv(65536):
            pass
    assert can_attach()


def test_silent_connections_do_not_lock_anyone_out(path: Path) -> None:
    silent = [connected(path) for _ in range(3 * MAX_VISITORS)]
    half = connected(path)
    half.send(encode({"op": "status", "key": "x"})[:-1])
    (kernel,) = detached_kernels(SESSION)
    assert len(os.listdir(f"/proc/{holder_of(kernel.pid)}/fd")) < 2 * MAX_VISITORS
    assert can_attach()
    for connection in (*silent, half):
        connection.close()


def test_unclaimed_descriptors_are_closed(path: Path) -> None:
    status = encode({"op": "status", "key": read_key(path)})
    ours, theirs = socket.socketpair()
    with connected(path) as connection:
        socket.send_fds(connection, [status], [theirs.fileno()])
        assert connection.recv(65536)
    theirs.close()
    ours.settimeout(60)
    assert ours.recv(1) == b""
    assert can_attach()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_another_user_gets_nothing_even_with_the_key(path: Path) -> None:
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
    c.sendall({encode({"op": "status", "key": read_key(path)})!r})
    print(c.recv(65536))
except OSError as error:
    print(type(error).__name__)
"""
    done = run_python("-c", child)
    path.parent.chmod(0o700)
    assert done.stdout in ("b''\n", "BrokenPipeError\n", "ConnectionResetError\n"), done.stderr
    assert can_attach()


@pytest.mark.parametrize("how", ["a link", "a file", "of another user"])
def test_folder_created_by_another_user_is_not_used(home: Path, how: str) -> None:
    folder = home / ".mahtab" / "run" / "kernels"
    folder.parent.mkdir(parents=True)
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
    assert detached_kernels() == []
    assert not how.startswith("a link") or list((home / "elsewhere").iterdir()) == []


def test_folder_open_to_others_is_made_private(home: Path) -> None:
    folder = home / ".mahtab" / "run" / "kernels"
    folder.mkdir(parents=True)
    folder.chmod(0o777)
    assert sockets_folder() == folder
    assert folder.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("answer", ANSWERS, ids=range(5))
def test_reply_of_a_holder_is_not_trusted(answer: bytes) -> None:
    path = sockets_folder() / f"{SESSION}.00000000.sock"
    Path(f"{path}{KEY_SUFFIX}").write_text("key")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(os.path.relpath(path))
    listener.listen()

    def serve() -> None:
        with suppress(OSError):
            while True:
                connection, _ = listener.accept()
                with connection:
                    connection.recv(65536)
                    connection.sendall(answer)

    threading.Thread(target=serve, daemon=True).start()
    try:
        assert detached_kernels() == []
        assert attach(SESSION) is None
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
