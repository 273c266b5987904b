"""Detached kernels on another machine: their notes, their end, and failures to attach them."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from mahtab_tui.bus.values import Status
from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.detached import recovered_output
from mahtab_tui.kernel.holder_connection import sockets_folder
from mahtab_tui.kernel.process_parts import RELEASE_SIZE
from mahtab_tui.kernel.remote import attaching, process
from mahtab_tui.kernel.remote.notes import KernelNote, noted_kernels
from mahtab_tui.kernel.remote.remote_output import RemoteOutput
from mahtab_tui.kernel.remote.transport import KernelGone
from mahtab_tui.kernel.values import KernelState
from mahtab_tui.kernel.worker_process import CLAIMED
from mahtab_tui.worker.link.spool import format_omission
from tests.integration.detached import ELSEWHERE, SESSION, Screen, close_kernels, no_answer
from tests.integration.remote import RemoteMachine
from tests.waiting import alive, wait_for

__all__ = ["close_kernels"]
pytestmark = pytest.mark.usefixtures("project", "close_kernels")


@pytest.fixture(autouse=True)
def machine(tmp_path: Path) -> RemoteMachine:
    machine = RemoteMachine(tmp_path / "road")
    ELSEWHERE.append(machine.address)
    return machine


def the_note() -> KernelNote:
    (noted,) = noted_kernels(SESSION)
    return noted


def run_pid(screen: Screen) -> int:
    """Run a cell, and return the kernel's process id."""
    return int(screen.run(1, "import os, pathlib, time; print(os.getpid())").output)


def test_note_is_private_and_is_removed_with_the_kernel(machine: RemoteMachine) -> None:
    screen = Screen()
    noted = the_note()
    assert stat.S_IMODE(noted.path.stat().st_mode) == 0o600
    assert noted.station.address == machine.address.text
    assert json.loads(noted.path.read_text()).keys() == {"address", "label", "name", "token"}
    assert noted_kernels("another") == []
    screen.kernel.close()
    wait_for(lambda: not noted_kernels())
    wait_for(lambda: machine.sockets() == [])


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", "[" * 50_000, '{"address": 1, "label": 2, "name": 3, "token": 4}', "\0\xff"],
)
def test_foreign_notes_are_skipped(text: str) -> None:
    (sockets_folder() / "session.x.far").write_text(text, "latin-1")
    assert noted_kernels() == []


@pytest.mark.parametrize("busy", [False, True])
def test_detached_kernel_is_ended_from_another_machine(machine: RemoteMachine, busy: bool) -> None:
    screen = Screen()
    pid = run_pid(screen)
    if busy:
        screen.begin(2, "print('begun', flush=True); time.sleep(1000)")
    screen.leave()
    attaching.stop_remote(the_note(), no_answer)
    assert not alive(pid)
    assert noted_kernels() == []
    assert [(cell, output) for cell, output, _ in recovered_output(SESSION)] == (
        [(2, b"begun\n")] if busy else []
    )
    wait_for(lambda: machine.sockets() == [])


def test_kernel_that_ended_meanwhile_is_gone(machine: RemoteMachine) -> None:
    screen = Screen(hours=0.5 / 3600)
    pid = run_pid(screen)
    screen.leave()
    wait_for(lambda: not alive(pid))
    with pytest.raises(
        KernelGone, match=r"the kernel (has ended in the meantime|is not there any more)"
    ):
        attaching.attach_remote(the_note(), no_answer)
    attaching.stop_remote(the_note(), no_answer)


def test_station_ending_during_a_connection_attempt_is_gone(tmp_path: Path) -> None:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(tmp_path / "s.sock"))
    listener.listen(1)
    code = "import sys; from mahtab_tui.worker.link.station import main; main('', sys.argv[1])"
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as relay:
        assert relay.stdin is not None
        assert relay.stdout is not None
        relay.stdin.write(b'{"session": "s", "token": "t"}\n')
        relay.stdin.flush()
        assert select.select([listener], [], [], 60)[0]
        listener.close()
        assert json.loads(relay.stdout.readline()) == {"error": "the kernel is not there any more"}


def test_output_of_a_kernel_that_ended_during_a_cell_is_fetched_once(
    machine: RemoteMachine,
) -> None:
    screen = Screen()
    pid = run_pid(screen)
    cell = "print('begun', flush=True)\nwhile not pathlib.Path('go').exists(): time.sleep(0.01)\nfor n in range(100_000): print('line', n)\nimport sys; sys.stdout.flush(); os._exit(3)"
    screen.begin(2, cell)
    screen.leave()
    Path("go").touch()
    wait_for(lambda: not alive(pid))
    with pytest.raises(KernelGone, match="has ended in the meantime"):
        attaching.attach_remote(the_note(), no_answer)
    ((number, output, path),) = recovered_output(SESSION)
    assert number == 2
    assert output.decode().splitlines() == ["begun", *(f"line {n}" for n in range(100_000))]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    wait_for(lambda: machine.sockets() == [])


def test_wrong_token_gets_nothing_and_changes_nothing() -> None:
    screen = Screen()
    noted = the_note()
    stranger = noted._replace(station=noted.station._replace(token="0" * 32))
    with pytest.raises(KernelError):
        attaching.attach_remote(stranger, no_answer)
    with pytest.raises(KernelError):
        attaching.stop_remote(stranger, no_answer)
    assert screen.run(1, "6 * 7").output == "42\n"


def test_disconnected_host_learns_that_another_claimed_the_kernel(
    machine: RemoteMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "RECONNECT_PAUSES_S", (0.01,))
    first_screen = Screen()
    running = first_screen.begin(
        1,
        "import pathlib, time; print('begun', flush=True)\nwhile not pathlib.Path('go').exists(): time.sleep(0.01)\nname = 'Ada'",
    )
    machine.disconnect()
    wait_for(lambda: first_screen.kernel.info().next_try)
    machine.accept()
    second = Screen(again=True)
    assert running.result(60).status is Status.KILLED
    assert first_screen.host.wait_for_state(KernelState.DEAD) == CLAIMED
    Path("go").touch()
    assert second.go_on(1).output == "begun\n"
    assert len(noted_kernels(SESSION)) == 1
    first_screen.kernel.close()
    assert second.run(2, "name").output == "'Ada'\n"


def test_unused_kernel_ends_when_detached(machine: RemoteMachine) -> None:
    screen = Screen()
    pid = screen.kernel.info().pid
    assert pid
    screen.leave()
    wait_for(lambda: not alive(pid))


def test_station_survives_data_from_a_connection_being_replaced(machine: RemoteMachine) -> None:
    first_screen = Screen()
    parent = int(first_screen.run(1, "import os; print(os.getppid())").output)
    noted = the_note()
    with socket.socket(socket.AF_UNIX) as new:
        folder = os.open(machine.home / ".cache" / "mahtab-tui", os.O_RDONLY)
        new.connect(f"/proc/self/fd/{folder}/{noted.station.name}.sock")
        os.close(folder)
        time.sleep(0.2)  # it is accepted
        os.kill(parent, signal.SIGSTOP)
        request = {"host": "another", "received": 0, "attach": "0" * 32}
        new.sendall(json.dumps({"token": noted.station.token, **request}).encode() + b"\n")
        time.sleep(0.1)
        first_screen.kernel.interrupt()
        threading.Thread(target=first_screen.run, args=(2, "1"), daemon=True).start()
        time.sleep(0.5)
        os.kill(parent, signal.SIGCONT)
        assert b'"hello"' in new.recv(4096)
        assert alive(parent)
    assert Screen(again=True).run(3, "6 * 7").output == "42\n"


def test_output_that_waits_before_an_offset_is_read_without_further_output() -> None:
    output = RemoteOutput(lambda offset: None)
    output.write(b"0123456789")
    output.end()
    assert b"".join(output.until(4)) == b"0123"
    assert output.read() == b"456789"
    assert output.read() == b""


def test_output_is_read_by_offset_and_gaps_are_noted() -> None:
    released_offsets: list[int] = []
    output = RemoteOutput(released_offsets.append)
    output.skip_to(10)
    output.write(b"0123456789")
    output.skip_to(25)
    output.write(b"abc")
    output.go_to(12)
    assert b"".join(output.until(15)) == b"234"
    assert output.position == 15
    assert b"".join(output.until(25)) == b"56789"[:5] + format_omission(5)
    assert b"".join(output.available()) == b"abc"
    output.write(b"d")
    assert output.read() == b"d"
    threading.Timer(0.05, lambda: output.write(b"late")).start()
    assert b"".join(output.until(33)) == b"late"
    for offset in (5, RELEASE_SIZE, RELEASE_SIZE + 5):
        output.release(offset)
    assert released_offsets == [RELEASE_SIZE]
    output.end()
    assert output.read() == b""
    assert list(output.until(100)) == []
