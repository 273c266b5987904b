"""The program starts in a folder of files with modules' names and with slow imports, and leaves no
process when it is killed."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from mahtab_tui.cli.client_files import program_command
from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.launch import find_interpreter
from mahtab_tui.knowledge.code import CodeSearcher
from mahtab_tui.mcp.packages import plan_commands
from mahtab_tui.worker.magic.programs import PIP
from tests.integration.kernels import Cells, executable
from tests.waiting import alive, descendants, run_python, ticks, wait_for

# In a folder whose files have the names of modules, the program, its helpers and the kernel's own
# parts import none of them.

OTHERS = (
    "anyio click dotenv langchain_core mcp mahtab_worker PIL pathspec pip pydantic pydantic_settings pygments rich sitecustomize textual tomlkit typer"
).split()

ASK = "ask --model demo 'which variables are there?'"

SEARCH = "from mahtab_tui.knowledge.code import CodeSearcher; CodeSearcher('code').search('(a|a)+$', seconds=1000)"


@pytest.fixture
def poisoned(project: Path) -> Path:
    imported = project / "imported.txt"
    imported.touch()
    for name in [*(name for name in sys.stdlib_module_names if name != "__main__"), *OTHERS]:
        (project / f"{name}.py").write_text(
            f"open({str(imported)!r}, 'a').write({name + ' '!r})\nraise ImportError('from the folder')\n"
        )
    return imported


@pytest.mark.sample(2)
@pytest.mark.parametrize("words", ["config", "doctor", ASK, "skills list", "mcp install --print"])
def test_command_imports_nothing_from_the_folder(poisoned: Path, words: str) -> None:
    program = Path(sys.executable).with_name("mahtab-tui")
    command = [str(program), *shlex.split(words)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (poisoned.read_text(), done.returncode) == ("", 0), done.stderr
    assert "does not answer" not in done.stdout


@pytest.mark.sample(1)
@pytest.mark.parametrize("command", ["config", "doctor"])
def test_module_imports_nothing_from_the_folder_once_found(poisoned: Path, command: str) -> None:
    # Python itself imports modules for `-m` before our first line.
    loaded = "import runpy, pkgutil, sys; print(*sorted(sys.modules))"
    for name in run_python("-P", "-c", loaded).stdout.split():
        poisoned.with_name(f"{name}.py").unlink(missing_ok=True)
    assert poisoned.with_name("__future__.py").exists()
    assert not poisoned.with_name("pkgutil.py").exists()
    done = run_python("-m", "mahtab_tui", command)
    assert (poisoned.read_text(), done.returncode) == ("", 0), done.stderr


def test_a_search_imports_nothing_from_the_folder(poisoned: Path, project: Path) -> None:
    (project / "notes.txt").write_text("sugar\n")
    assert "sugar" in CodeSearcher(project).search("sugar", "*.txt").as_text()
    assert poisoned.read_text() == ""


def test_kernel_components_import_nothing_from_the_folder(poisoned: Path, cells: Cells) -> None:
    assert cells.text("numbers = {'a': [1, 2.5]}; numbers") == "{'a': [1, 2.5]}\n"
    assert cells.complete("numbers.it")
    assert cells.kernel.inspect("numbers").text
    assert cells.run("1 / 0").status == "error"
    for code in ("%timeit -n1 -r1 1", "numbers?", "!true"):
        cells.run(code)
    assert "pip " in cells.text("%pip --version")
    assert poisoned.read_text() == ""
    # A cell may import the user's files.
    assert "from the folder" in cells.run("import colorsys").output


def test_pip_for_an_agent_imports_nothing_from_the_folder(poisoned: Path, project: Path) -> None:
    listing = plan_commands("status", [], sys.executable, project, uv="").commands[0]
    assert listing[:3] == [sys.executable, "-c", PIP]
    done = run_python(*listing[1:])
    assert poisoned.read_text() == ""
    assert "Package" in done.stdout or "No module named pip" in done.stderr


def test_client_starts_the_server_without_modules_of_the_folder(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", "")
    assert program_command("mcp")[:2] == [sys.executable, "-P"]


@pytest.mark.parametrize("path", [None, "", ".", ":/usr/bin", "bin"])
@pytest.mark.parametrize("name", ["python", "python3", "python3.12", "pypy3"])
def test_interpreter_name_never_means_a_file_of_the_folder(
    project: Path, monkeypatch: pytest.MonkeyPatch, name: str, path: str | None
) -> None:
    for directory in (project, project / "bin"):
        directory.mkdir(exist_ok=True)
        executable(directory / name, "#!/bin/sh\n")
    if path is not None:
        monkeypatch.setenv("PATH", path)
    interpreter = ""
    with suppress(KernelError):
        interpreter = find_interpreter(name)
    assert not interpreter.startswith(str(project))
    assert find_interpreter(f"./{name}") == str(project / name)


def test_interpreter_name_never_means_a_subfolder_but_other_names_may(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", os.defpath)
    for name in ("python9", "env"):
        (project / name / "bin").mkdir(parents=True)
        executable(project / name / "bin" / "python", "#!/bin/sh\n")
    with pytest.raises(KernelError, match="no python9 on the PATH"):
        find_interpreter("python9")
    assert find_interpreter("env") == str(project / "env" / "bin" / "python")


@pytest.mark.thorough
def test_slow_imports_on_several_threads_succeed() -> None:
    (line,) = run_python("-m", "tests.slow_imports", "1").stdout.splitlines()
    report = json.loads(line)
    assert not report["failures"]
    assert not report["of_two"], "two threads import a library at the same time"
    assert {*report["early"]} <= {"yaml"}, "others do not wait until the screen has its libraries"
    assert report["others"] > 20, "other threads import the model's libraries"


def is_searching(pid: int) -> bool:
    command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    return b"mahtab_tui.knowledge.code_search_process" in command and ticks(pid) > 50


@pytest.mark.skipif(
    sys.platform != "linux", reason="other systems cannot end a process with another"
)
def test_processes_started_by_a_killed_program_end(project: Path) -> None:
    (project / "code").mkdir()
    (project / "code" / "some.py").write_text("a" * 60 + "b")
    with subprocess.Popen([sys.executable, "-c", SEARCH], cwd=project) as program:
        started: list[int] = []
        try:
            wait_for(
                lambda: (
                    program.poll() is not None or any(map(is_searching, descendants(program.pid)))
                )
            )
            assert program.poll() is None
            started = descendants(program.pid)
            program.kill()
            wait_for(lambda: not any(map(alive, started)), 20)
        finally:
            program.kill()
            for pid in filter(alive, started):
                os.kill(pid, signal.SIGKILL)
