"""Kernels on another machine: what is no way to one, what fails there, and who gets none."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from mahtab_tui.kernel.base import KernelError, KernelState
from mahtab_tui.kernel.process import ProcessKernel
from mahtab_tui.kernel.remote import process
from mahtab_tui.kernel.remote.process import RemoteLauncher
from mahtab_tui.kernel.remote.transport import parse
from tests.integration.kernels import RecordingHost, executable
from tests.integration.remote import Road
from tests.waiting import wait_for


@pytest.mark.parametrize(
    ("address", "sentence"),
    [
        (
            "command: /no/such/program",
            "/no/such/program cannot be started: No such file or directory.",
        ),
        ("command: false", "did not start a kernel"),
        ("command: sh -c 'echo it is closed >&2; exit 3'", "it is closed"),
        ("command: sh -c yes", "prints something, but does not run Python"),
        ("command: sh -c 'echo Try --help. >&2'", r"did not start a kernel: Try --help.$"),
        ("command:", "names no program"),
        ("command: 'a", "cannot be read"),
        ("ssh://", "is not a kernel address"),
        ("ssh://-oProxyCommand=x", "is not a kernel address"),
        ("http://host", "is not a kernel address"),
    ],
)
def test_unusable_address_is_refused_with_a_sentence(address: str, sentence: str) -> None:
    with pytest.raises(KernelError, match=sentence.replace(".", r"\.")):
        ProcessKernel(launcher=RemoteLauncher(parse(address), 1.0)).start(RecordingHost())


def test_older_python_is_refused_with_a_sentence(tmp_path: Path) -> None:
    old = executable(tmp_path / "python", "#!/bin/sh\nprintf '\\nmahtab-far-1 2.7.18\\n'\n")
    with pytest.raises(
        KernelError, match=r"has Python 2\.7\.18; a kernel needs Python 3\.9 or later"
    ):
        ProcessKernel(launcher=RemoteLauncher(parse(f"command: {old}"), 1.0)).start(RecordingHost())


def test_full_remote_disk_gives_one_sentence_and_leaves_nothing(tmp_path: Path) -> None:
    if (
        shutil.which("unshare") is None
        or subprocess.run(["unshare", "-rm", "true"], capture_output=True).returncode
    ):
        pytest.skip("needs mount namespaces")
    left = tmp_path / "left"
    full = f'mount -t tmpfs -o size=100k none {tmp_path / "home-there"} && "$@"; find {tmp_path / "home-there"} -type f > {left}'
    road = Road(tmp_path, behind=["unshare", "-rm", "sh", "-c", full, "sh"])
    with pytest.raises(
        KernelError, match="mahtab-tui cannot be written there: No space left on device"
    ):
        road.kernel()
    wait_for(left.exists)
    assert left.read_text() == ""


def test_station_that_cannot_start_gives_one_sentence() -> None:
    """A folder in which no socket can be made stands for a disk that is full by now."""
    asked = b'{"session": "name", "start": {"cwd": ""}}\n'
    run = "from mahtab_tui.worker.station.relay import main; main('', '/proc')"
    done = subprocess.run(
        [sys.executable, "-c", run], input=asked, capture_output=True, check=False
    )
    assert b'{"error": "no kernel can be started there: ' in done.stdout


def test_failed_kernel_start_is_reported_once() -> None:
    """The caller of `start` tells it."""
    for kernel in (
        ProcessKernel(launcher=RemoteLauncher(parse("command: false"), 1.0)),
        ProcessKernel("/no/such/python"),
    ):
        host = RecordingHost()
        with pytest.raises(KernelError):
            kernel.start(host)
        assert host.wait_for_state(KernelState.DEAD) == ""
        assert kernel.info().state is KernelState.DEAD


@pytest.mark.parametrize(
    "answer",
    [
        r"printf 'have\n[]\n'",
        r"""printf 'have\n{"received": "x"}\n'""",
        r"""printf 'have\n{"received": 5}\n'; sleep 100""",
        r"""printf 'have\n{"received": 0}\n'; head -c 100000 /dev/zero; sleep 100""",
        r"""printf 'have\n{"received": 0}\n'; printf 'f\0\0\0\0\0\0\0\1\377\377\377\377'; sleep 100""",
        r"""printf 'have\n{"received": 0}\n'; printf 's\0\0\0\0\0\0\0\1\0\0\0\0019'; sleep 100""",
        "head -c 3000000 /dev/zero; sleep 100",
    ],
    ids=[
        "a list",
        "no number",
        "more than was sent",
        "zeros",
        "a long message",
        "a signal for the host",
        "no line end",
    ],
)
def test_hostile_machine_receives_only_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: str
) -> None:
    monkeypatch.setattr(process, "PAUSES", (0.01,))
    monkeypatch.setattr(process, "SILENT", 0.5)
    monkeypatch.setattr(process, "_BEAT", 0.1)
    monkeypatch.setattr("mahtab_tui.kernel.worker_process.START_TIMEOUT", 1.0)
    hostile = executable(
        tmp_path / "python", f"#!/bin/sh\nprintf '\\nmahtab-far-1 3.12.1\\n'\n{answer}\n"
    )
    kernel = ProcessKernel(launcher=RemoteLauncher(parse(f"command: {hostile}"), 1.0))
    before = set(threading.enumerate())
    with pytest.raises(KernelError):
        kernel.start(RecordingHost())
    kernel.close()
    wait_for(lambda: set(threading.enumerate()) <= before)  # it is not connected to again and again


def test_strangers_get_no_connection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection without the token, with a wrong one, with garbage, or that says nothing is
    refused, and the kernel goes on."""
    road = Road(tmp_path)
    cells = road.kernel()
    (name,) = road.sockets()
    path = str(road.home / ".cache" / "mahtab-tui" / name)
    assert os.stat(os.path.dirname(path)).st_mode & 0o077 == 0
    silent = socket.socket(socket.AF_UNIX)
    monkeypatch.chdir(os.path.dirname(path))  # because a socket's path may only be short
    silent.connect(name)
    for data in (
        b'{"token": "wrong", "received": 0}\n',
        b"\xff" * 10_000,
        b"[]\n",
        b"\n",
        b"{" * 4000 + b"\n",
    ):
        with socket.socket(socket.AF_UNIX) as other:
            other.connect(name)
            other.settimeout(10)
            other.sendall(data)
            with contextlib.suppress(ConnectionError):
                assert other.recv(100) == b""
    assert cells.text("1 + 1") == "2\n"
    silent.close()
    road.close()


def test_folder_writable_by_others_is_not_used(tmp_path: Path) -> None:
    road = Road(tmp_path)
    cache, other = road.home / ".cache" / "mahtab-tui", road.temporary / f"mahtab-tui-{os.getuid()}"
    cache.mkdir(parents=True)
    cache.chmod(0o777)
    cells = road.kernel()
    assert cells.text("1 + 1") == "2\n"
    assert list(cache.iterdir()) == []
    assert stat.S_IMODE(other.stat().st_mode) == 0o700
    road.close()
    other.chmod(0o750)
    with pytest.raises(
        KernelError, match="No folder there can be written that belongs to you alone"
    ):
        road.kernel()
    shutil.rmtree(other)
    other.symlink_to(tmp_path)
    with pytest.raises(
        KernelError, match="No folder there can be written that belongs to you alone"
    ):
        road.kernel()
