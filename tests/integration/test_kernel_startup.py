"""State of each new kernel, and modules that are loaded anew."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mahtab_tui.kernel.base import KernelState
from mahtab_tui.kernel.process import ProcessKernel
from mahtab_tui.session.kernel import startup_code
from tests.integration.kernels import Cells, RecordingHost

Make = Callable[..., Cells]


@pytest.fixture
def begin(project: Path, home: Path) -> Iterator[Make]:
    """Start a kernel with a startup file of the given text."""
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


def test_no_startup_file_runs_nothing(begin: Make) -> None:
    assert startup_code() == ""
    assert begin(None).kernel.variables() == []


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


def test_startup_file_ending_the_process_ends_only_one(begin: Make) -> None:
    cells = begin("import os; os._exit(3)")
    assert cells.text("40 + 2") == "42\n"


def write(path: Path, text: str, age: int) -> None:
    """A file of an age that grows with each change, however coarse the clock of the disk is."""
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
    cells = begin(None)
    write(project / "mine.py", "x = 1\n", 1_000)
    cells.run("import mine")
    write(project / "mine.py", "x = 2\n", 2_000)
    assert cells.text("mine.x") == "1\n"
