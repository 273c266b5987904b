"""Starting, dying, replacing, ending: nothing hangs, and nothing is left behind."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mahtab_tui.kernel.base import KernelError, KernelState
from mahtab_tui.kernel.process import ProcessKernel
from mahtab_tui.kernel.values import Status
from mahtab_tui.session.kernel import startup_code
from tests.integration.kernels import Cells, RecordingHost, executable, running
from tests.waiting import alive, wait_for


@pytest.mark.parametrize(
    ("code", "how"),
    [
        ("import os; os._exit(3)", "it exited with code 3"),
        ("import ctypes; ctypes.string_at(0)", "segmentation fault (SIGSEGV)"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "SIGKILL"),
        ("import os; os.abort()", "(SIGABRT)"),
        ("import os; os.execv('/bin/true', ['true'])", "it exited with code 0"),
    ],
    ids=["exit", "segfault", "kill", "abort", "exec"],
)
def test_cell_ending_the_kernel_is_reported_and_a_new_kernel_starts(
    cells: Cells, code: str, how: str
) -> None:
    before = cells.kernel.info().pid
    result = cells.run(f"print('last words', flush=True)\n{code}")
    assert result.status is Status.DIED
    assert result.output == "last words\n"
    assert how in result.detail
    assert how in cells.host.wait_for_state(KernelState.DEAD)
    assert cells.text("1 + 1") == "2\n"
    assert cells.kernel.info().pid != before


def test_a_kernel_killed_from_outside_while_idle_is_replaced(cells: Cells) -> None:
    before = cells.kernel.info().pid
    cells.run("x = 1")
    os.kill(before, signal.SIGKILL)
    assert "SIGKILL" in cells.host.wait_for_state(KernelState.DEAD)
    assert "new kernel" in cells.host.wait_for_state(KernelState.IDLE)
    assert "NameError" in cells.run("x").output


@pytest.mark.parametrize("how", ["kill", "reset", "close"])
def test_ending_the_kernel_ends_its_cell_as_killed(cells: Cells, how: str) -> None:
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
        assert cells.text("1 + 1") == "2\n"


def test_reset_forgets_the_namespace_and_keeps_the_directory(cells: Cells) -> None:
    Path("inner").mkdir()
    cells.kernel.change_directory("inner")
    cells.run("x = 1")
    cells.kernel.reset()
    assert "NameError" in cells.run("x").output
    assert cells.text("import os; os.path.basename(os.getcwd())") == "'inner'\n"


def test_exit_handlers_run_when_the_kernel_is_closed(cells: Cells) -> None:
    cells.run("import atexit, pathlib\natexit.register(pathlib.Path('ran').touch)")
    cells.kernel.close()
    assert Path("ran").exists()


def test_close_leaves_no_process_thread_or_descriptor(project: Path) -> None:
    threads, descriptors = set(threading.enumerate()), len(os.listdir("/dev/fd"))
    kernel = ProcessKernel()
    kernel.start(host := RecordingHost())
    cells = Cells(kernel, host)
    child = int(cells.text("import subprocess\np = subprocess.Popen(['sleep', '1000'])\np.pid"))
    pids = [kernel.info().pid, child]
    cells.run("import threading, time; threading.Thread(target=time.sleep, args=[1000]).start()")
    kernel.close()
    wait_for(lambda: not any(map(alive, pids)))
    assert set(threading.enumerate()) <= threads
    assert len(os.listdir("/dev/fd")) <= descriptors
    result = cells.run("1 + 1")
    assert (result.status, result.detail) == (Status.DIED, "The session was closed.")


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a process with its parent")
def test_kernel_ends_with_its_host_even_in_c_code(project: Path) -> None:
    import subprocess

    host = subprocess.Popen(
        [sys.executable, "-c", HOST_THAT_WAITS],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ},
    )
    assert host.stdout is not None
    pid = int(host.stdout.readline())
    host.kill()
    host.wait()
    wait_for(lambda: not alive(pid))
    host.stdout.close()


HOST_THAT_WAITS = """
from mahtab_tui.kernel.process import ProcessKernel
from tests.integration.kernels import RecordingHost, executable
kernel = ProcessKernel()
kernel.start(RecordingHost())
def on_output(kind, text):
    print(text.strip(), flush=True)
# A sort that never gives the interpreter away.
code = "import os; print(os.getpid(), flush=True)\\nimport time; time.sleep(0.1); sum(range(10**12))"
kernel.execute(code, cell=1, on_output=on_output)
"""


@pytest.mark.parametrize(
    ("make", "wanted"),
    [
        (lambda folder: str(folder / "nothing"), "There is no program"),
        (lambda folder: "no-such-python", "There is no no-such-python on the PATH"),
        (lambda folder: str(folder), "There is no program .*/bin/python"),
        (
            lambda folder: str((folder / "text").write_text("x") and folder / "text"),
            "There is no program",
        ),
        (
            lambda folder: executable(folder / "sh", "#!/bin/sh\necho I am a shell; exit 4"),
            "saying: I am a shell",
        ),
        (
            lambda folder: executable(folder / "old", "#!/bin/sh\necho -n 2.7.18; exit 86"),
            "is Python 2.7.18; a kernel needs",
        ),
        (lambda folder: executable(folder / "junk", "\x7fELF junk"), "cannot be started"),
        (lambda folder: executable(folder / "dies", "#!/bin/sh\nkill -9 $$"), "SIGKILL"),
    ],
    ids=["missing", "not on the PATH", "folder", "text", "shell", "old", "junk", "dies"],
)
def test_non_interpreter_is_refused_with_a_sentence(
    project: Path, make: object, wanted: str
) -> None:
    assert callable(make)
    kernel = ProcessKernel(python=make(project))
    with pytest.raises(KernelError, match=wanted) as caught:
        kernel.start(RecordingHost())
    assert str(caught.value).endswith(".")
    assert "\n" not in str(caught.value)
    assert Cells(kernel, RecordingHost()).run("1").status is Status.DIED
    kernel.close()


def test_virtual_environment_folder_is_accepted_as_an_interpreter(cells: Cells) -> None:
    import venv

    venv.create("env", with_pip=False, symlinks=True)
    cells.kernel.activate("env")
    assert cells.text("import sys; sys.prefix != sys.base_prefix") == "True\n"
    assert cells.kernel.info().executable.endswith("env/bin/python")


def test_kernel_dying_at_each_start_stays_dead_and_reports_it(project: Path) -> None:
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
        assert cells.text("1 + 1") == "2\n"


def test_user_modules_do_not_shadow_the_stdlib_in_our_code(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("queue", "json", "ast", "asyncio", "traceback", "pdb"):
        (project / f"{name}.py").write_text("theirs = True")
    (project / "other").mkdir()
    (project / "other" / "signal.py").write_text("theirs = True")
    monkeypatch.setenv("PYTHONPATH", str(project / "other"))
    with running(ProcessKernel()) as cells:
        assert cells.text("async def f(): return 5\nawait f()") == "5\n"
        code = "import pathlib, sys; str(pathlib.Path('other').absolute()) in sys.path"
        assert cells.text(code) == "True\n"


def test_listener_exception_reaches_the_caller_and_the_kernel_lives(
    cells: Cells,
) -> None:
    def on_output(kind: str, text: str) -> None:
        raise LookupError("in the listener")

    with pytest.raises(LookupError, match="in the listener"):
        cells.kernel.execute("print('x' * 100_000)", cell=1, on_output=on_output)
    assert cells.text("1 + 1") == "2\n"


@pytest.mark.parametrize("how", ["dies", "is reset", "is activated"])
def test_a_kernel_whose_working_directory_was_deleted_is_replaced_above_it(
    cells: Cells, tmp_path: Path, how: str
) -> None:
    gone = tmp_path / "a" / "b"
    gone.mkdir(parents=True)
    cells.kernel.change_directory(str(gone))
    assert cells.run("import os; os.rmdir('../b'); os.rmdir('../../a')").status is Status.OK
    assert cells.kernel.info().cwd == str(gone)
    if how == "dies":
        assert cells.run("os._exit(3)").status is Status.DIED
        cells.host.wait_for_state(KernelState.DEAD)
    elif how == "is reset":
        cells.kernel.reset()
    else:
        cells.kernel.activate(sys.executable)
    while "The working directory" not in (message := cells.host.wait_for_state(KernelState.IDLE)):
        pass
    assert message.endswith(
        f"The working directory {gone} can no longer be used; it is now {tmp_path}."
    )
    assert cells.text("import os; print(os.getcwd())") == f"{tmp_path}\n"


Make = Callable[..., Cells]


@pytest.fixture
def begin(project: Path, home: Path) -> Iterator[Make]:
    kernels: list[ProcessKernel] = []

    def make(text: str | None, reload: bool = False) -> Cells:
        if text is not None:
            (home / ".mahtab").mkdir()
            (home / ".mahtab" / "startup.py").write_text(text, "utf-8")
        host = RecordingHost()
        kernels.append(ProcessKernel(startup=startup_code(), reload=reload))
        kernels[-1].start(host)
        return Cells(kernels[-1], host)

    yield make
    for kernel in kernels:
        kernel.close()


def test_startup_file_runs_in_each_new_kernel(begin: Make) -> None:
    cells = begin("import math\ndef area(r):\n    return math.pi * r * r\nprint('hello')\n")
    assert cells.host.wait_for_late("hello") == "hello\n"
    assert {variable.name for variable in cells.kernel.variables()} == {"math", "area"}
    cells.run("del area")
    cells.kernel.reset()
    assert cells.text("round(area(1))") == "3\n"
    cells.kernel.kill()
    assert cells.text("round(area(1))") == "3\n"


def test_startup_error_is_shown_and_the_kernel_lives(begin: Make) -> None:
    cells = begin("x = 1\n1 / 0\n")
    text = cells.host.wait_for_state(KernelState.IDLE)
    assert text.startswith("The code that every kernel starts with failed:\n")
    assert "ZeroDivisionError: division by zero" in text
    assert 'startup.py", line 2' in text
    assert cells.text("x") == "1\n"
    assert {variable.name for variable in cells.kernel.variables()} == {"x"}
    assert cells.text("'_' in globals()") == "False\n"


def write(path: Path, text: str, age: int) -> None:
    path.write_text(text, "utf-8")
    os.utime(path, (age, age))


def test_changed_module_is_reloaded(begin: Make, project: Path) -> None:
    cells = begin(None, reload=True)
    write(project / "mine.py", "def f():\n    return 1\n", 1_000)
    assert cells.text("import mine\nfrom mine import f as g\nmine.f(), g()") == "(1, 1)\n"
    write(project / "mine.py", "def f():\n    return 2\n", 2_000)
    assert cells.text("mine.f(), g()") == "mine has changed and was reloaded\n(2, 2)\n"
    assert cells.text("mine.f(), g()") == "(2, 2)\n"
    write(project / "mine.py", "def f(:\n", 3_000)
    assert "cannot be reloaded: SyntaxError" in cells.text("g()")


def test_disabled_setting_leaves_modules_loaded(begin: Make, project: Path) -> None:
    assert startup_code() == ""
    cells = begin(None)
    assert cells.kernel.variables() == []
    write(project / "mine.py", "x = 1\n", 1_000)
    cells.run("import mine")
    write(project / "mine.py", "x = 2\n", 2_000)
    assert cells.text("mine.x") == "1\n"


def test_activating_a_non_interpreter_leaves_the_kernel_and_its_names(cells: Cells) -> None:
    cells.run("x = 1")
    with pytest.raises(KernelError):
        cells.kernel.activate(executable(Path("sh").absolute(), "#!/bin/sh\nexit 4"))
    assert cells.text("x") == "1\n"


def test_cells_of_several_threads_run_one_after_another(cells: Cells) -> None:
    outputs: list[str] = []
    code = "for i in range(2000): print({0})"
    threads = [
        threading.Thread(target=lambda n=n: outputs.append(cells.text(code.format(n))))
        for n in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outputs) == [f"{n}\n" * 2000 for n in range(4)]
