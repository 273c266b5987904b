"""Starts, deaths, replacements and ends of a kernel: no hangs, no leftovers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import venv
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from unittest.mock import Mock

import pytest

from mahtab_tui.bus.values import Status
from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.process import ProcessKernel
from mahtab_tui.kernel.values import KernelState
from mahtab_tui.session.kernel import startup_code
from tests.integration.kernels import Cells, RecordingHost, executable, running
from tests.waiting import alive, wait_for

HOST_THAT_WAITS = """
from mahtab_tui.kernel.process import ProcessKernel
from tests.integration.kernels import RecordingHost
kernel = ProcessKernel()
kernel.start(RecordingHost())
# A sum that never releases the interpreter.
code = "import os; print(os.getpid(), flush=True)\\nimport time; time.sleep(0.1); sum(range(10**12))"
kernel.execute(code, cell=1, on_output=lambda kind, text: print(text.strip(), flush=True))
"""

HOST_THAT_BLOCKS_SIGNALS = """
import signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
from mahtab_tui.kernel.process import ProcessKernel
from mahtab_tui.kernel.values import FileWatching
from tests.integration.kernels import RecordingHost
kernel = ProcessKernel(watching=FileWatching((".",), (), "copies", 200))
kernel.start(RecordingHost())
witness_pid = kernel.execute("import os; os.getppid()", cell=1, on_output=lambda kind, text: None)
print(witness_pid.output.strip(), kernel.info().pid, flush=True)
sys.stdin.read()
kernel.close()
"""


@pytest.mark.parametrize(
    ("code", "how"),
    [
        ("import os; os._exit(3)", "it exited with code 3"),
        ("import ctypes; ctypes.string_at(0)", "segmentation fault (SIGSEGV)"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "SIGKILL"),
        ("import os; os.abort()", "(SIGABRT)"),
        ("import os; os.execv('/bin/true', ['true'])", "it exited with code 0"),
    ],
)
def test_dead_kernel_is_reported_and_replaced(cells: Cells, code: str, how: str) -> None:
    pid_before = cells.kernel.info().pid
    result = cells.run(f"print('last words', flush=True)\n{code}")
    assert result.status is Status.DIED
    assert result.output == "last words\n"
    assert how in result.detail
    assert how in cells.host.wait_for_state(KernelState.DEAD)
    cells.expect("1 + 1", "2\n")
    assert cells.kernel.info().pid != pid_before


def test_kernel_killed_while_idle_is_replaced(cells: Cells) -> None:
    pid_before = cells.kernel.info().pid
    cells.run("x = 1")
    os.kill(pid_before, signal.SIGKILL)
    assert "SIGKILL" in cells.host.wait_for_state(KernelState.DEAD)
    assert "new kernel" in cells.host.wait_for_state(KernelState.IDLE)
    assert "NameError" in cells.run("x").output


@pytest.mark.parametrize("how", ["kill", "reset", "close"])
def test_ended_kernel_kills_its_cell(cells: Cells, how: str) -> None:
    end = threading.Thread(target=getattr(cells.kernel, how))
    code = (
        "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\nprint('go')\nwhile True: pass"
    )
    result = cells.run_until("go", end.start, code)
    end.join()
    assert result.status is Status.KILLED
    if how == "kill":
        assert result.detail == "The kernel was killed."
    if how != "close":
        cells.expect("1 + 1", "2\n")


def test_reset_keeps_only_the_directory(cells: Cells) -> None:
    Path("inner").mkdir()
    cells.kernel.change_directory("inner")
    cells.run("x = 1")
    cells.kernel.reset()
    assert "NameError" in cells.run("x").output
    cells.expect("import os; os.path.basename(os.getcwd())", "'inner'\n")


def test_exit_handlers_run_at_close(cells: Cells) -> None:
    cells.run("import atexit, pathlib\natexit.register(pathlib.Path('ran').touch)")
    cells.kernel.close()
    assert Path("ran").exists()


def test_close_leaves_nothing(project: Path) -> None:
    threads = set(threading.enumerate())
    descriptors = len(os.listdir("/dev/fd"))
    with running(ProcessKernel()) as cells:
        child = cells.text("import subprocess\np = subprocess.Popen(['sleep', '1000'])\np.pid")
        pids = [cells.kernel.info().pid, int(child)]
        cells.run(
            "import threading, time; threading.Thread(target=time.sleep, args=[1000]).start()"
        )
    wait_for(lambda: not any(map(alive, pids)))
    wait_for(lambda: set(threading.enumerate()) <= threads)
    wait_for(lambda: len(os.listdir("/dev/fd")) <= descriptors)
    result = cells.run("1 + 1")
    assert (result.status, result.detail) == (Status.DIED, "The session was closed.")


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a process with its parent")
def test_kernel_ends_with_its_host_even_in_c_code(project: Path) -> None:
    command = [sys.executable, "-c", HOST_THAT_WAITS]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as host:
        assert host.stdout is not None
        pid = int(host.stdout.readline())
        host.kill()
    wait_for(lambda: not alive(pid))


@pytest.mark.parametrize(
    ("python", "text", "message"),
    [
        ("{}/nothing", "", "There is no program"),
        ("no-such-python", "", "There is no no-such-python on the PATH"),
        ("{}", "", "There is no program .*/bin/python"),
        ("{}/file", "not executable", "There is no program"),
        ("{}/file", "#!/bin/sh\necho I am a shell; exit 4", "saying: I am a shell"),
        ("{}/file", "#!/bin/sh\necho -n 2.7.18; exit 86", "is Python 2.7.18; a kernel needs"),
        ("{}/file", "\x7fELF junk", "cannot be started"),
        ("{}/file", "#!/bin/sh\nkill -9 $$", "SIGKILL"),
    ],
    ids=["missing", "not on the PATH", "folder", "text", "shell", "old", "junk", "dies"],
)
def test_non_interpreter_is_refused_with_a_sentence(
    project: Path, python: str, text: str, message: str
) -> None:
    (project / "file").write_text(text)
    (project / "file").chmod(0o644 if text == "not executable" else 0o755)
    kernel = ProcessKernel(python=python.format(project))
    with pytest.raises(KernelError, match=message) as caught:
        kernel.start(RecordingHost())
    assert str(caught.value).endswith(".")
    assert "\n" not in str(caught.value)
    assert Cells(kernel, RecordingHost()).run("1").status is Status.DIED
    kernel.close()


def test_environment_folder_is_an_interpreter(cells: Cells) -> None:
    venv.create("env", with_pip=False, symlinks=True)
    cells.kernel.activate("env")
    cells.expect("import sys; sys.prefix != sys.base_prefix", "True\n")
    assert cells.kernel.info().executable.endswith("env/bin/python")


def test_kernel_dying_at_each_start_stays_dead(project: Path) -> None:
    switch = project / "broken"
    python = executable(
        project / "python", f'#!/bin/sh\n[ -e {switch} ] && exit 9\nexec {sys.executable} "$@"'
    )
    with running(ProcessKernel(python=python)) as cells:
        switch.touch()
        cells.run("import os; os._exit(1)")
        assert cells.host.wait_for_state(KernelState.DEAD)
        assert "3 times in a row" in cells.host.wait_for_state(KernelState.DEAD)
        assert cells.run("1 + 1").status is Status.DIED
        switch.unlink()
        cells.kernel.reset()
        cells.expect("1 + 1", "2\n")


@pytest.mark.parametrize("entries", ["{0}/other", ":{0}/other"])
def test_user_modules_do_not_shadow_the_stdlib(
    project: Path, monkeypatch: pytest.MonkeyPatch, entries: str
) -> None:
    (project / "other").mkdir()
    for name in ("queue", "json", "ast", "asyncio", "traceback", "pdb", "other/signal"):
        (project / f"{name}.py").write_text("theirs = True")
    monkeypatch.setenv("PYTHONPATH", entries.format(project))
    with running(ProcessKernel()) as cells:
        cells.expect("async def f(): return 5\nawait f()", "5\n")
        code = "import pathlib, sys; str(pathlib.Path('other').absolute()) in sys.path"
        cells.expect(code, "True\n")


def test_listener_exception_reaches_the_caller(cells: Cells) -> None:
    listener = Mock(side_effect=LookupError("in the listener"))
    with pytest.raises(LookupError, match="in the listener"):
        cells.kernel.execute("print('x' * 100_000)", cell=1, on_output=listener)
    cells.expect("1 + 1", "2\n")


@pytest.mark.parametrize("how", ["dies", "is reset", "is activated"])
def test_deleted_directory_is_left(cells: Cells, tmp_path: Path, how: str) -> None:
    deleted_folder = tmp_path / "a" / "b"
    deleted_folder.mkdir(parents=True)
    cells.kernel.change_directory(str(deleted_folder))
    assert cells.run("import os; os.rmdir('../b'); os.rmdir('../../a')").status is Status.OK
    assert cells.kernel.info().cwd == str(deleted_folder)
    if how == "dies":
        assert cells.run("os._exit(3)").status is Status.DIED
        cells.host.wait_for_state(KernelState.DEAD)
    elif how == "is reset":
        cells.kernel.reset()
    else:
        cells.kernel.activate(sys.executable)
    notice = f"The working directory {deleted_folder} can no longer be used; it is now {tmp_path}."
    while "The working directory" not in (message := cells.host.wait_for_state(KernelState.IDLE)):
        pass
    assert message.endswith(notice)
    cells.expect("import os; print(os.getcwd())", f"{tmp_path}\n")


Begin = Callable[..., Cells]


@pytest.fixture
def begin(project: Path, home: Path) -> Iterator[Begin]:
    """Start a kernel with this text in the user's startup file."""
    with ExitStack() as stack:

        def begin(text: str = "", reload: bool = False) -> Cells:
            if text:
                (home / ".mahtab").mkdir()
                (home / ".mahtab" / "startup.py").write_text(text, "utf-8")
            kernel = ProcessKernel(startup=startup_code(), reload=reload)
            return stack.enter_context(running(kernel))

        yield begin


def test_startup_file_runs_in_each_new_kernel(begin: Begin) -> None:
    cells = begin("import math\ndef area(r):\n    return math.pi * r * r\nprint('hello')\n")
    assert cells.host.wait_for_late("hello") == "hello\n"
    assert cells.names() == {"math", "area"}
    cells.run("del area")
    cells.kernel.reset()
    cells.expect("round(area(1))", "3\n")
    cells.kernel.kill()
    cells.expect("round(area(1))", "3\n")


def test_startup_error_is_shown(begin: Begin) -> None:
    cells = begin("x = 1\n1 / 0\n")
    text = cells.host.wait_for_state(KernelState.IDLE)
    assert text.startswith("The code that every kernel starts with failed:\n")
    assert "ZeroDivisionError: division by zero" in text
    assert 'startup.py", line 2' in text
    cells.expect("x", "1\n")
    assert cells.names() == {"x"}
    cells.expect("'_' in globals()", "False\n")


def write(path: Path, text: str, age: int) -> None:
    path.write_text(text, "utf-8")
    os.utime(path, (age, age))


def test_changed_module_is_reloaded(begin: Begin, project: Path) -> None:
    cells = begin(reload=True)
    write(project / "mine.py", "def f():\n    return 1\n", 1_000)
    cells.expect("import mine\nfrom mine import f as g\nmine.f(), g()", "(1, 1)\n")
    write(project / "mine.py", "def f():\n    return 2\n", 2_000)
    cells.expect("mine.f(), g()", "mine has changed and was reloaded\n(2, 2)\n")
    cells.expect("mine.f(), g()", "(2, 2)\n")
    write(project / "mine.py", "def f(:\n", 3_000)
    assert "cannot be reloaded: SyntaxError" in cells.text("g()")


def test_disabled_setting_leaves_modules_loaded(begin: Begin, project: Path) -> None:
    assert startup_code() == ""
    cells = begin()
    assert cells.names() == set()
    write(project / "mine.py", "x = 1\n", 1_000)
    cells.run("import mine")
    write(project / "mine.py", "x = 2\n", 2_000)
    cells.expect("mine.x", "1\n")


def test_failed_activation_keeps_the_kernel(cells: Cells) -> None:
    cells.run("x = 1")
    with pytest.raises(KernelError):
        cells.kernel.activate(executable(Path("sh").absolute(), "#!/bin/sh\nexit 4"))
    cells.expect("x", "1\n")


def test_cells_of_threads_run_one_by_one(cells: Cells) -> None:
    codes = [f"for i in range(2000): print({number})" for number in range(4)]
    outputs = ThreadPoolExecutor(4).map(cells.text, codes)
    assert list(outputs) == [f"{number}\n" * 2000 for number in range(4)]


def test_startup_file_may_end_the_process(begin: Begin) -> None:
    cells = begin("import os; os._exit(3)")
    cells.expect("40 + 2", "42\n")


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_children_of_cells_have_the_signals_of_the_users_shell() -> None:
    """Except SIGCHLD and SIGINT, which the kernel needs itself: what it handles is the default in a
    program that it starts."""
    start = (
        "from mahtab_tui.kernel.process import ProcessKernel\n"
        "from tests.integration.kernels import RecordingHost\n"
        "kernel = ProcessKernel()\n"
        "kernel.start(RecordingHost())\n"
        'code = \'import subprocess; print(subprocess.run(["grep", "SigIgn", "/proc/self/status"], capture_output=True, text=True).stdout)\'\n'
        "print(kernel.execute(code, cell=1, on_output=lambda kind, text: None).output)\n"
        "kernel.close()\n"
    )
    ignored = {}
    for names in ("", "HUP USR1 QUIT CHLD INT"):
        trap = f"trap '' {names}; " if names else ""
        shell = ["sh", "-c", f'{trap}exec "$0" -c "$1"', sys.executable, start]
        printed = subprocess.run(shell, capture_output=True, text=True, timeout=120, check=True)
        ignored[names] = int(printed.stdout.split()[-1], 16)

    hangup_quit_user1 = (signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1)
    added = sum(1 << (number - 1) for number in hangup_quit_user1)
    assert ignored["HUP USR1 QUIT CHLD INT"] == ignored[""] | added


@pytest.mark.skipif(sys.platform != "linux", reason="files are watched on Linux only")
@pytest.mark.parametrize("is_killed", [False, True], ids=["closing", "killed"])
def test_watched_kernel_ends_with_a_host_that_blocks_all_signals(
    project: Path, is_killed: bool
) -> None:
    command = [sys.executable, "-c", HOST_THAT_BLOCKS_SIGNALS]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as host:
        assert host.stdin is not None
        assert host.stdout is not None
        pids = [int(number) for number in host.stdout.readline().split()]
        try:
            if not is_killed:
                host.stdin.close()
                assert host.wait(60) == 0
        finally:
            host.kill()
    wait_for(lambda: not any(map(alive, pids)))
