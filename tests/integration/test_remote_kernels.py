"""Kernels on another machine, reached by a command."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from mahtab_tui.bus.values import Status
from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.process import ProcessKernel
from mahtab_tui.kernel.remote import process
from mahtab_tui.kernel.remote.address import parse_address
from mahtab_tui.kernel.remote.launcher import RemoteLauncher
from mahtab_tui.kernel.values import KernelState, OutputKind, SaveTarget
from mahtab_tui.worker.link import spool
from tests.integration.kernels import RecordingHost, executable, interpreters, running
from tests.integration.remote import RemoteMachine
from tests.integration.saving import listed, restored
from tests.waiting import alive, run_python, wait_for

_COUNTED = """
import time
runs = globals().get('runs', 0) + 1
for i in range(40):
    print(runs, i, 'x' * 200, flush=True)
    time.sleep(0.001)
"""

HOSTILE = {
    "a list": r"printf 'have\n[]\n'; sleep 100",
    "no number": r"""printf 'have\n{"received": "x"}\n'; sleep 100""",
    "infinite": r"""printf 'have\n{"received": 1e999}\n'; sleep 100""",
    "more than was sent": r"""printf 'have\n{"received": 5}\n'; sleep 100""",
    "zeros": r"""printf 'have\n{"received": 0}\n'; head -c 100000 /dev/zero; sleep 100""",
    "a long message": r"""printf 'have\n{"received": 0}\nf\0\0\0\0\0\0\0\1\377\377\377\377'; sleep 100""",
    "a signal for the host": r"""printf 'have\n{"received": 0}\ns\0\0\0\0\0\0\0\1\0\0\0\0019'; sleep 100""",
    "no line end": "head -c 3000000 /dev/zero; sleep 100",
}


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[RemoteMachine]:
    machine = RemoteMachine(tmp_path)
    yield machine
    machine.close()


@pytest.fixture
def quick_tries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "RECONNECT_PAUSES_S", (0.01,))


@pytest.mark.parametrize("python", interpreters())
def test_remote_cells_run_without_anything_installed_there(tmp_path: Path, python: str) -> None:
    machine = RemoteMachine(tmp_path, python)
    cells = machine.kernel()
    assert cells.text("import os; os.path.expanduser('~')") == f"'{machine.home}'\n"
    printed = cells.text("print('out'); import sys; print('err', file=sys.stderr); 6 * 7")
    assert printed == "out\nerr\n42\n"
    assert cells.text("import subprocess; _ = subprocess.run(['echo', 'a child'])") == "a child\n"
    assert any(item.text == "path" for item in cells.complete("os.pa"))
    assert cells.interrupt_after("go", "print('go')\nwhile True: pass").status is Status.INTERRUPTED
    assert cells.kernel.info().host == machine.address.label
    previous_umask = os.umask(0o027)
    os.umask(previous_umask)
    assert cells.text("os.umask(0)") == f"{previous_umask}\n"
    assert cells.kernel.info().cwd == os.getcwd()
    cells.host.answer = lambda name, args: "typed"
    assert cells.text("input('your name? ')") == "your name? typed\n'typed'\n"
    cells.text("rows = [1, 2]")
    cells.text("rows.append(3)")
    cells.kernel.undo(cells.number)
    assert cells.text("rows") == "[1, 2]\n"
    machine.close()
    wait_for(lambda: machine.sockets() == [])


def test_variables_are_saved_remotely_with_their_own_key(
    machine: RemoteMachine, tmp_path: Path
) -> None:
    above = tmp_path / "namespaces"
    above.mkdir(mode=0o700)
    location = SaveTarget(str(above / "session-1"), os.urandom(32).hex(), 100)
    cells = machine.kernel(keep=location)
    cells.text("df = {'a': [1, 2, 3]}\nclass Point: pass\npoint = Point()")
    assert cells.kernel.keep((), (), 60.0).error == ""
    cells.kernel.close()
    assert list(above.iterdir()) == []
    assert RemoteLauncher(machine.address, 1.0).keep_settings(location)["key"] != location.key
    remote_folder = machine.home / ".mahtab" / "elsewhere" / "session-1"
    assert location.key.encode() not in b"".join(
        file.read_bytes() for file in remote_folder.iterdir()
    )
    again = machine.kernel(keep=location)
    assert listed(again).files
    assert restored(again) == {}
    assert again.text("df, type(point).__name__") == "({'a': [1, 2, 3]}, 'Point')\n"


@pytest.mark.sample(1)
@pytest.mark.parametrize("times", [6, pytest.param(100, marks=pytest.mark.slow)])
def test_disconnections_during_cells_lose_nothing_and_repeat_nothing(
    machine: RemoteMachine, quick_tries: None, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    monkeypatch.setattr(process, "MAX_SILENCE_S", 0.25)
    monkeypatch.setattr(process, "HEARTBEAT_S", 0.05)
    cells = machine.kernel()
    received = hashlib.sha256()
    expected = hashlib.sha256()
    for turn in range(1, times + 1):
        how = ("cut", "half", "freeze")[turn % 3]
        wires = len(machine.wires())
        result = cells.run_until(f"{turn} {turn % 30} ", partial(machine.break_wire, how), _COUNTED)
        assert result.status is Status.OK
        received.update(result.output.encode())
        expected.update("".join(f"{turn} {i} {'x' * 200}\n" for i in range(40)).encode())
        machine.wait_for_wire(wires + 1)
    assert received.digest() == expected.digest()
    texts = [cells.host.states.get_nowait()[1] for _ in range(cells.host.states.qsize())]
    for sentence in ("Lost the connection", "Reconnected to"):
        assert any(sentence in text for text in texts)
    assert cells.text("runs") == f"{times}\n"


def test_cell_sent_while_disconnected_runs_once(machine: RemoteMachine, quick_tries: None) -> None:
    cells = machine.kernel()
    cells.text("runs = 0")
    machine.disconnect()
    wait_for(lambda: cells.kernel.info().next_try > 0)
    threading.Timer(0.3, machine.accept).start()
    assert cells.text("runs += 1; runs") == "1\n"
    assert cells.kernel.info().next_try == 0


def test_kernel_killed_while_disconnected_is_gone_after_reconnecting(
    machine: RemoteMachine, quick_tries: None
) -> None:
    cells = machine.kernel()
    pid = int(cells.text("import os; os.getpid()"))
    machine.disconnect()
    wait_for(lambda: cells.kernel.info().next_try > 0)
    killing = threading.Thread(target=cells.kernel.kill)
    killing.start()
    machine.accept()
    killing.join()
    wait_for(lambda: not alive(pid))


@pytest.mark.thorough
def test_output_while_disconnected_is_limited_with_a_note(
    machine: RemoteMachine, quick_tries: None
) -> None:
    cells = machine.kernel()
    output_pieces: list[str] = []

    def on_output(kind: OutputKind, text: str) -> None:
        if not output_pieces:
            machine.disconnect()
            threading.Timer(4.0, machine.accept).start()
        output_pieces.append(text)

    code = "import time; print('go', flush=True); time.sleep(1)\nfor i in range(100): print('x' * 999_999)\nprint('the end')"
    result = cells.kernel.execute(code, cell=1, on_output=on_output)
    assert result.status is Status.OK
    assert result.output.endswith("the end\n")
    assert "bytes left out …" in "".join(output_pieces)
    assert (
        spool.HEAD_BYTES + spool.TAIL_BYTES
        <= len("".join(output_pieces))
        <= spool.HEAD_BYTES + 2 * spool.TAIL_BYTES + 8 * 2**20
    )


def test_abandoned_kernel_ends(machine: RemoteMachine) -> None:
    cells = machine.kernel(keep_hours=1.0 / 3600)
    pid = int(cells.text("import os; os.getpid()"))
    machine.disconnect()
    wait_for(lambda: not alive(pid))
    wait_for(lambda: machine.sockets() == [])
    machine.accept()
    assert "not there any more" in cells.host.wait_for_late("not there any more")
    while "Started a new kernel" not in cells.host.wait_for_state(KernelState.IDLE):
        pass
    assert "NameError" in cells.run("x").output


def test_abandoned_kernel_is_not_ended_during_a_cell(
    machine: RemoteMachine, quick_tries: None
) -> None:
    cells = machine.kernel(keep_hours=0.2 / 3600)
    machine.refuse()
    threading.Timer(3.0, machine.accept).start()
    code = "import time; print('go', flush=True); time.sleep(4); 'done'"
    result = cells.run_until("go", machine.break_wire, code)
    assert (result.status, result.output) == (Status.OK, "go\n'done'\n")


def test_login_banner_and_existing_files_do_not_matter(project: Path) -> None:
    wrapper = executable(
        project / "enter",
        "#!/bin/sh\necho Welcome; echo 'to the machine'; printf 'no line'\nexec \"$@\"\n",
    )
    for name in ("json", "re", "struct", "socket", "selectors"):
        (project / f"{name}.py").write_text("raise SystemExit('the user has a file of this name')")
    remote_home = project / "there"
    command = (
        f"{wrapper} env HOME={remote_home} XDG_CACHE_HOME={remote_home}/.cache {sys.executable}"
    )
    with running(
        ProcessKernel(launcher=RemoteLauncher(parse_address(f"command: {command}"), 0.01))
    ):
        pass


def test_a_python_that_does_not_know_its_own_file_starts_a_kernel(project: Path) -> None:
    remote_home = project / "there"
    command = f"env -u PATH HOME={remote_home} XDG_CACHE_HOME={remote_home}/.cache python3"
    with running(
        ProcessKernel(launcher=RemoteLauncher(parse_address(f"command: {command}"), 0.01))
    ):
        pass


def test_a_python_in_which_no_kernel_starts_is_named(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "sitecustomize.py").write_text(
        "import sys\nif any('mahtab_worker' in word for word in sys.orig_argv): sys.exit('broken')"
    )
    monkeypatch.setenv("PYTHONPATH", str(project))
    launcher = RemoteLauncher(parse_address(f"command: {sys.executable}"), 1.0)
    with pytest.raises(KernelError, match=f"^Python on {launcher.label} does not work as"):
        ProcessKernel(launcher=launcher).start(RecordingHost())


@pytest.mark.timeout(40)  # less than the time for which the other machine may be silent
def test_closing_does_not_wait_for_an_unresponsive_machine(project: Path) -> None:
    (project / "hang.sh").write_text("echo $$ > new; mv new pid; exec sleep 600")
    kernel = ProcessKernel(launcher=RemoteLauncher(parse_address("command: sh hang.sh"), 1.0))
    with ThreadPoolExecutor() as pool:
        starting = pool.submit(kernel.start, RecordingHost())
        wait_for((project / "pid").exists)
        kernel.close()
        assert isinstance(starting.exception(), KernelError)
    pid = int((project / "pid").read_text())
    wait_for(lambda: not alive(pid))


@pytest.mark.sample(5)
@pytest.mark.parametrize(
    ("address", "sentence"),
    [
        ("command: /no/such", "/no/such cannot be started: No such file or directory."),
        ("command: false", "did not start a kernel"),
        (
            r"""command: sh -c 'printf "\nmahtab-far-1 2.7.18\n"'""",
            "has Python 2.7.18; a kernel needs Python 3.9 or later",
        ),
        (
            r"""command: sh -c 'printf "\nmahtab-far-1 3.²\n"'""",
            "has Python 3.²; a kernel needs Python 3.9 or later",
        ),
        ("command: sh -c 'echo it is closed >&2; exit 3'", "it is closed"),
        ("command: sh -c yes", "prints something, but does not run Python"),
        ("command: sh -c 'echo Try --help. >&2'", r"did not start a kernel: Try --help.$"),
        (
            "command: sh -c 'echo Welcome; echo no module python; exit 1'",
            "did not start a kernel: Welcome; no module python.",
        ),
        ("command: sh -c 'printf begun; exit 1'", "did not start a kernel: begun."),
        (
            "command: sh -c 'echo no environment; sleep 60 & exit 1'",
            "did not start a kernel: no environment.",
        ),
        ("command:", "names no program"),
        ("command: 'a", "cannot be read"),
        ("ssh://", "is not a kernel address"),
        ("ssh://-oProxyCommand=x", "is not a kernel address"),
        ("ssh://host:99999", "is not a kernel address"),
        ("ssh://host:0", "is not a kernel address"),
        ("http://host", "is not a kernel address"),
    ],
)
def test_unusable_address_is_refused_with_a_sentence(address: str, sentence: str) -> None:
    with pytest.raises(KernelError, match=sentence.replace(".", r"\.")):
        ProcessKernel(launcher=RemoteLauncher(parse_address(address), 1.0)).start(RecordingHost())


@pytest.mark.parametrize("python_path", [":/nowhere", "theirs:"])
def test_files_beside_the_data_do_not_become_modules_of_the_loader(
    tmp_path: Path, python_path: str
) -> None:
    (tmp_path / "theirs").mkdir()
    for name in ("base64", "hashlib", "theirs/io"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('theirs')")
    loader = subprocess.run(
        parse_address(f"command: {sys.executable}").argv,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": python_path},
        input="",
        capture_output=True,
        text=True,
    )
    assert "mahtab-far-1" in loader.stdout, loader.stderr


def test_full_remote_disk_gives_one_sentence_and_leaves_nothing(tmp_path: Path) -> None:
    if subprocess.run(["sh", "-c", "unshare -rm true"], capture_output=True).returncode:
        pytest.skip("needs mount namespaces")
    leftovers = tmp_path / "left"
    remote_home = tmp_path / "home-there"
    full = f'mount -t tmpfs -o size=100k none {remote_home} && "$@"; find {remote_home} -type f > {leftovers}'
    machine = RemoteMachine(tmp_path, behind=["unshare", "-rm", "sh", "-c", full, "sh"])
    with pytest.raises(
        KernelError, match="mahtab-tui cannot be written there: No space left on device"
    ):
        machine.kernel()
    wait_for(leftovers.exists)
    assert leftovers.read_text() == ""


def test_station_that_cannot_start_gives_one_sentence() -> None:
    request = '{"session": "name", "start": {"cwd": ""}}\n'
    code = "from mahtab_tui.worker.link.station import main; main('', '/proc')"
    reply = run_python("-c", code, input=request).stdout
    assert '{"error": "no kernel can be started there: ' in reply


def test_failed_kernel_start_is_reported_once() -> None:
    for kernel in (
        ProcessKernel(launcher=RemoteLauncher(parse_address("command: false"), 1.0)),
        ProcessKernel("/no/such/python"),
    ):
        host = RecordingHost()
        with pytest.raises(KernelError):
            kernel.start(host)
        assert host.wait_for_state(KernelState.DEAD) == ""
        assert kernel.info().state is KernelState.DEAD


@pytest.mark.sample(3)
@pytest.mark.parametrize("answer", HOSTILE.values(), ids=HOSTILE)
def test_hostile_machine_receives_only_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: str
) -> None:
    monkeypatch.setattr(process, "RECONNECT_PAUSES_S", (0.01,))
    monkeypatch.setattr(process, "MAX_SILENCE_S", 0.5)
    monkeypatch.setattr(process, "HEARTBEAT_S", 0.1)
    monkeypatch.setattr("mahtab_tui.kernel.worker_process.START_TIMEOUT_S", 1.0)
    hostile = executable(
        tmp_path / "python", f"#!/bin/sh\nprintf '\\nmahtab-far-1 3.12.1\\n'\n{answer}\n"
    )
    kernel = ProcessKernel(launcher=RemoteLauncher(parse_address(f"command: {hostile}"), 1.0))
    threads_before = set(threading.enumerate())
    with pytest.raises(KernelError):
        kernel.start(RecordingHost())
    kernel.close()
    wait_for(lambda: set(threading.enumerate()) <= threads_before)  # it does not reconnect


def test_strangers_get_no_connection(
    machine: RemoteMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    cells = machine.kernel()
    (name,) = machine.sockets()
    folder = machine.home / ".cache" / "mahtab-tui"
    assert folder.stat().st_mode & 0o077 == 0
    silent = socket.socket(socket.AF_UNIX)
    monkeypatch.chdir(folder)  # because a socket's path may only be short
    silent.connect(name)
    wrong = b'{"token": "wrong", "received": 0}\n'
    for data in (wrong, b"\xff" * 10_000, b"[]\n", b"\n", b"{" * 4000 + b"\n"):
        with socket.socket(socket.AF_UNIX) as stranger:
            stranger.connect(name)
            stranger.settimeout(10)
            stranger.sendall(data)
            with contextlib.suppress(ConnectionError):
                assert stranger.recv(100) == b""
    assert cells.text("1 + 1") == "2\n"
    silent.close()


def test_folder_writable_by_others_is_not_used(machine: RemoteMachine, tmp_path: Path) -> None:
    cache = machine.home / ".cache" / "mahtab-tui"
    temporary_folder = machine.temporary / f"mahtab-tui-{os.getuid()}"
    cache.mkdir(parents=True)
    cache.chmod(0o777)
    cells = machine.kernel()
    assert cells.text("1 + 1") == "2\n"
    assert list(cache.iterdir()) == []
    assert stat.S_IMODE(temporary_folder.stat().st_mode) == 0o700
    machine.close()
    temporary_folder.chmod(0o750)
    with pytest.raises(KernelError, match="can be written that belongs to you alone"):
        machine.kernel()
    shutil.rmtree(temporary_folder)
    temporary_folder.symlink_to(tmp_path)
    with pytest.raises(KernelError, match="can be written that belongs to you alone"):
        machine.kernel()
