"""Modules and when they are loaded, from the first line of the package to the first picture."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import os
import pkgutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence, Set
from concurrent.futures import Future, ThreadPoolExecutor, wait
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

import mahtab_tui
from mahtab_tui import run_repl
from mahtab_tui.kernel.process import ProcessKernel
from mahtab_tui.llm.base import ModelError
from mahtab_tui.system import ImportOrder, Lazy
from mahtab_tui.worker import stdlib
from mahtab_tui.worker.link.frames import TOKEN_BYTES
from tests.e2e.terminal import Terminal
from tests.integration.kernels import running
from tests.waiting import run_python

HEAVY = ("langgraph", "langchain_core", "mcp", "acp", "pandas", "numpy", "anthropic", "openai")


MODULES = {info.name for info in pkgutil.walk_packages(mahtab_tui.__path__, "mahtab_tui.")}
MOST_OWN = 60
"""Limit of our modules that are loaded before the first picture. Never raise it."""
FIRST_PICTURE = """
import os, sys
from mahtab_tui.tui.terminal_app import LateImports

def drawn(self):
    with open(os.environ["LOADED"], "w") as file:
        file.write("\\n".join(sys.modules))
    os._exit(0)

LateImports._step = drawn
sys.argv[1:] = ["--model", "demo"]
from mahtab_tui.__main__ import main
main()
"""
"""A program that ends when the first picture is drawn."""

SCREENS = (
    "mahtab_tui.tui.screens",
    "mahtab_tui.tui.inspector.screen",
    "mahtab_tui.tui.search.call_screen",
)

LIGHT = "cli.main cli.acp cli.client_files acp.server tui.open session session.api agent agent.host llm.providers llm.chat_client"

TOGETHER = 0.5
"""Seconds after which the other thread waits for its turn, and not for a module."""

SLOW = f"""
import sys
test = sys.modules[{__name__!r}]
test.begun.set()
test.go.wait(20)
READY = True
"""

MODULE = ["-m", "mahtab_tui"]
SCRIPT = ["-c", "from mahtab_tui.__main__ import main; main()"]
INTERRUPTED = "import os, signal, time\nos.kill(os.getpid(), signal.SIGINT)\n"


def loaded_after(code: str) -> set[str]:
    done = run_python("-c", f"{code}\nimport sys\nprint(*sys.modules)", check=True)
    return set(done.stdout.split())


@pytest.mark.sample(3)
@pytest.mark.parametrize("module", ["mahtab_tui", *(f"mahtab_tui.{x}" for x in LIGHT.split())])
def test_importing_does_not_load_the_model_libraries(module: str) -> None:
    assert not loaded_after(f"import {module}").intersection(HEAVY)


@pytest.fixture(scope="module")
def loaded_at_first_picture(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    home = tmp_path_factory.mktemp("home")
    loaded = home / "loaded"
    with Terminal(
        [sys.executable, "-c", FIRST_PICTURE],
        env={"HOME": str(home), "LOADED": str(loaded)},
        cwd=home,
    ) as terminal:
        terminal.wait_end()
    return set(loaded.read_text().split())


def test_first_screen_waits_only_for_what_it_shows(loaded_at_first_picture: set[str]) -> None:
    late = (
        "settings.values tui.screens. tui.pictures agent knowledge search session.components"
        " bus.records kernel store.sqlite tui.transcript.view"
        " cli.config cli.skills cli.mcp cli.manual cli.doctor"
    )
    names = ("tomlkit", *(f"mahtab_tui.{name}" for name in late.split()))
    assert not [name for name in loaded_at_first_picture if name.startswith(names)]
    own_modules = [
        name for name in loaded_at_first_picture if name.partition(".")[0] == "mahtab_tui"
    ]
    assert len(own_modules) <= MOST_OWN


@pytest.mark.sample(1)
@pytest.mark.parametrize("module", ["session", "agent.repl_agent", "kernel.process", "bus.logger"])
def test_nothing_below_the_screen_imports_textual(module: str) -> None:
    assert "textual" not in loaded_after(f"import mahtab_tui.{module}")


def test_kernel_side_imports_nothing_of_the_package_and_little_of_stdlib() -> None:
    with running(ProcessKernel()) as cells:
        modules = set(cells.text("import sys; print(*sys.modules)").split())
    assert not any(name.partition(".")[0] == "mahtab_tui" for name in modules)
    late = "asyncio inspect subprocess difflib tempfile pydantic textual decimal"
    assert not modules & set(late.split())


READY = """
import os, sys
from mahtab_tui.worker.worker import Worker

def announce(worker):
    os.write(1, " ".join(sys.modules).encode())
    os._exit(0)

Worker.announce = announce
from mahtab_tui.worker.__main__ import main
main(0)
"""
"""A kernel that ends when the host would hear that it is ready."""


def test_a_start_does_not_wait_for_what_reads_shell_commands() -> None:
    modules = set(run_python("-c", READY, input="0" * TOKEN_BYTES, check=True).stdout.split())
    assert "mahtab_tui.worker.cells.executor" in modules
    assert not [name for name in modules if name.startswith("mahtab_tui.worker.guard.")]


def imported(module: str) -> Iterator[str]:
    """Yield the names that a module imports: also in functions, and for types alone."""
    spec = importlib.util.find_spec(module)
    assert spec is not None
    assert spec.origin is not None
    package = module if spec.submodule_search_locations else module.rpartition(".")[0]
    for node in ast.walk(ast.parse(Path(spec.origin).read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            source = importlib.util.resolve_name("." * node.level + (node.module or ""), package)
            yield from (
                (name if (name := f"{source}.{alias.name}") in MODULES else source)
                for alias in node.names
            )


def in_circles(graph: Mapping[str, Set[str]]) -> set[str]:
    """Remove modules that import none of the others, or that none imports, until none is left or
    all import each other."""
    unresolved = set(graph)
    while leaves := unresolved - {
        module
        for module in unresolved
        if graph[module] & unresolved and any(module in graph[importer] for importer in unresolved)
    }:
        unresolved -= leaves
    return unresolved


@pytest.fixture(scope="module")
def import_graph() -> dict[str, Set[str]]:
    """What each of our modules imports of the others."""
    return {module: (set(imported(module)) & MODULES) - {module} for module in MODULES}


def test_no_files_know_each_other(import_graph: Mapping[str, Set[str]]) -> None:
    """Python locks a module while it is imported, so a circle could block two threads. To a reader,
    an import in a function or for types alone is a circle, too."""
    assert in_circles(import_graph) == set()


def test_only_navigation_knows_the_screens(import_graph: Mapping[str, Set[str]]) -> None:
    screens = {module for module in MODULES if module.startswith(SCREENS)}
    importers = {module for module in MODULES - screens if import_graph[module] & screens}
    assert importers == {"mahtab_tui.tui.navigation"}


# A package and a part of it, imported by the main thread and by another one.


class Package(SourceFileLoader):
    """Finds a package, and creates it when another thread waits for it while it imports a part."""

    def __init__(self, name: str, file: Path) -> None:
        super().__init__(name, str(file))
        self.locked = threading.Event()  # set when its import has begun

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return spec_from_file_location(name, self.path, loader=self) if name == self.name else None

    def create_module(self, spec: ModuleSpec) -> None:
        self.locked.set()
        end = time.monotonic() + TOGETHER
        while time.monotonic() < end and not importlib._bootstrap._blocking_on:  # type: ignore[attr-defined]
            time.sleep(0.001)


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Package]:
    """A package that imports a part of itself."""
    name = "package_with_a_part"
    (tmp_path / name).mkdir()
    (tmp_path / name / "__init__.py").write_text(f"import {name}.part")
    (tmp_path / name / "part.py").write_text("")
    package = Package(name, tmp_path / name / "__init__.py")
    monkeypatch.setattr(sys, "meta_path", [package, *sys.meta_path])
    yield package
    for loaded in (name, f"{name}.part"):
        sys.modules.pop(loaded, None)


def test_import_lock_makes_concurrent_imports_succeed(package: Package) -> None:
    order = ImportOrder()

    def import_part() -> None:
        package.locked.wait(60)
        with order.turn():
            importlib.import_module(f"{package.name}.part")

    order.screen_begins()
    with ThreadPoolExecutor() as pool:
        importing = pool.submit(import_part)
        try:
            importlib.import_module(package.name)
        finally:
            order.screen_ends()
        importing.result()


def test_import_lock_is_exclusive_and_reentrant() -> None:
    order = ImportOrder()
    inside = list[int]()

    def load(number: int) -> int:
        with order.turn(), order.turn():
            inside.append(number)
            time.sleep(0.01)  # others may come in now
            count = len(inside)
            inside.pop()
            return count

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(load, range(8))) == [1] * 8


def test_threads_share_a_value_that_is_created_once() -> None:
    created: list[int] = []

    def make() -> list[int]:
        time.sleep(0.01)
        created.append(1)
        return created

    later = Lazy(make)
    assert not later.made
    with ThreadPoolExecutor(8) as pool:
        got = list(pool.map(lambda number: later.get(), range(8)))
    assert later.made
    assert created == [1]
    assert all(value is created for value in got)


begun = threading.Event()
go = threading.Event()


def test_threads_wait_for_a_module_and_the_path_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "slowly_imported.py").write_text(SLOW)
    monkeypatch.setattr(stdlib, "_PATH", [str(tmp_path), *stdlib._PATH])
    path_before = sys.path
    with ThreadPoolExecutor(4) as pool:

        def load() -> Future[object]:
            return pool.submit(lambda: stdlib.late_import("slowly_imported").READY)

        loading = [load()]
        assert begun.wait(20)
        loading += [load() for _ in range(3)]
        wait(loading[1:2], 0.2)  # without waiting it would now have a module without READY
        go.set()
        assert [future.result() for future in loading] == [True] * 4
    assert sys.path is path_before
    del sys.modules["slowly_imported"]


def test_modules_next_to_the_users_data_are_not_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "beside_the_data.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="beside_the_data"):
        stdlib.late_import("beside_the_data")


def run(arguments: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a Python that finds modules in a folder first."""
    path = os.pathsep.join([str(folder), *sys.path])
    return run_python(*arguments, env={**os.environ, "PYTHONPATH": path})


@pytest.mark.parametrize("entry", [MODULE, SCRIPT], ids=["module", "script"])
@pytest.mark.parametrize(
    ("module", "code"),
    [
        ("typer", INTERRUPTED),
        (
            "typer",
            f"try:\n    {INTERRUPTED.replace(chr(10), chr(10) + '    ')}\nexcept BaseException:\n    raise RuntimeError('in other words')\n",
        ),
        ("signal", "raise KeyboardInterrupt\n"),
    ],
    ids=["in a library", "in a library that catches it", "at the very beginning"],
)
def test_interrupt_during_loading_exits_silently(
    tmp_path: Path, entry: list[str], module: str, code: str
) -> None:
    (tmp_path / f"{module}.py").write_text(code)
    done = run([*entry, "doctor"], tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_ignored_interrupt_stays_ignored(tmp_path: Path) -> None:
    (tmp_path / "typer.py").write_text(INTERRUPTED + "print('went on'); os._exit(0)\n")
    previous = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        done = run(MODULE, tmp_path)
    finally:
        signal.signal(signal.SIGINT, previous)
    assert (done.returncode, done.stdout) == (0, "went on\n")


@pytest.mark.thorough
def test_collection_is_off_while_loading_and_on_afterwards(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import atexit, gc\natexit.register(lambda: print('ran', gc.isenabled()))\n"
    )
    (tmp_path / "typer.py").write_text(
        "import gc, importlib, sys\nsys.path.remove(__file__.rpartition('/')[0])\nprint('loads', gc.isenabled())\n"
        "del sys.modules['typer']\nsys.modules['typer'] = importlib.import_module('typer')\n"
    )
    done = run(["-m", "mahtab_tui", "sessions"], tmp_path)
    assert done.stdout.split("\n")[0] == "loads False"
    assert done.stdout.rstrip().endswith("ran True"), done.stderr


async def test_running_loop_is_refused_with_alternatives() -> None:
    with pytest.raises(RuntimeError, match="event loop is running") as refusal:
        run_repl(ns={})
    assert "create_repl_agent" in str(refusal.value)


def test_unknown_model_is_reported_before_the_screen_opens() -> None:
    with pytest.raises(ModelError, match="There is no model 'nope'"):
        run_repl(ns={}, model="nope")


def test_missing_terminal_is_reported() -> None:
    with pytest.raises(RuntimeError, match="needs a terminal"):
        run_repl(ns={})
