"""Modules and when they are loaded: from the first line of the package to the first picture, on any
thread."""

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
from collections.abc import Iterator, Sequence, Set
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

import mahtab_tui
from mahtab_tui import run_repl
from mahtab_tui.llm.base import ModelError
from mahtab_tui.system import ImportOrder, Lazy
from mahtab_tui.worker import stdlib
from tests.e2e.terminal import Terminal

# Modules and when they are loaded: the first picture must not wait for the model's libraries.

HEAVY = ("langgraph", "langchain_core", "mcp", "pandas", "numpy", "anthropic", "openai")


MODULES = {info.name for info in pkgutil.walk_packages(mahtab_tui.__path__, "mahtab_tui.")}
MOST_OWN = 60
"""Files of the package that are loaded before the first picture, packages included. It only ever
becomes less."""
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
"""Opens the screen, and ends when the first picture is drawn."""


def loaded_after(code: str) -> set[str]:
    """The modules that a new interpreter has loaded after some code."""
    script = f"{code}\nimport sys\nprint('\\n'.join(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


@pytest.mark.parametrize(
    "module",
    [
        "mahtab_tui",
        "mahtab_tui.cli.main",
        "mahtab_tui.tui.open",
        "mahtab_tui.session",
        "mahtab_tui.session.api",
        "mahtab_tui.agent",
        "mahtab_tui.agent.host",
        "mahtab_tui.llm.providers",
        "mahtab_tui.llm.chat_client",
    ],
)
def test_importing_does_not_load_the_model_libraries(module: str) -> None:
    assert not loaded_after(f"import {module}").intersection(HEAVY)


@pytest.fixture(scope="module")
def loaded_at_first_picture(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The modules that the program has loaded when it has drawn its first picture."""
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
        "tomlkit",
        "mahtab_tui.settings.values",
        "mahtab_tui.tui.screens.",
        "mahtab_tui.tui.pictures",
        "mahtab_tui.agent",
        "mahtab_tui.knowledge",
        "mahtab_tui.search",
        "mahtab_tui.session.components",
        "mahtab_tui.bus.records",
        "mahtab_tui.kernel",
        "mahtab_tui.store.sqlite",
        "mahtab_tui.tui.transcript.view",
        "mahtab_tui.cli.admin",
    )
    assert not [name for name in loaded_at_first_picture if name.startswith(late)]
    assert (
        sum(name.partition(".")[0] == "mahtab_tui" for name in loaded_at_first_picture) <= MOST_OWN
    )


@pytest.mark.parametrize(
    "module",
    [
        "mahtab_tui.session",
        "mahtab_tui.agent.repl_agent",
        "mahtab_tui.kernel.process",
        "mahtab_tui.bus.logger",
    ],
)
def test_nothing_below_the_screen_imports_textual(module: str) -> None:
    assert "textual" not in loaded_after(f"import {module}")


def test_kernel_side_imports_nothing_of_the_package_and_little_of_stdlib() -> None:
    from mahtab_tui.kernel.process import ProcessKernel
    from tests.integration.kernels import RecordingHost

    kernel = ProcessKernel()
    kernel.start(RecordingHost())
    try:
        output: list[str] = []
        code = "import sys; print('\\n'.join(sys.modules))"
        kernel.execute(code, cell=1, on_output=lambda kind, text: output.append(text))
        modules = set("".join(output).split())
    finally:
        kernel.close()
    assert not any(name == "mahtab_tui" or name.startswith("mahtab_tui.") for name in modules)
    assert not modules & {
        "asyncio",
        "inspect",
        "subprocess",
        "difflib",
        "tempfile",
        "pydantic",
        "textual",
        "decimal",
    }


def imported(module: str) -> Iterator[str]:
    """Return the names that a module imports while it is imported itself: Python locks both then,
    so that two threads could wait for each other in a circle."""
    spec = importlib.util.find_spec(module)
    assert spec is not None
    assert spec.origin is not None
    package = module if spec.submodule_search_locations else module.rpartition(".")[0]
    for node in executed(ast.parse(Path(spec.origin).read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            source = importlib.util.resolve_name("." * node.level + (node.module or ""), package)
            yield from (
                (name if (name := f"{source}.{alias.name}") in MODULES else source)
                for alias in node.names
            )


def executed(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes that run on import: none in functions, or for types alone."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        yield node
        yield from executed(node)


def in_circles(graph: dict[str, Set[str]]) -> set[str]:
    """The modules that stay when those that import none of the others, and those that none of them
    imports, are taken away again and again."""
    left = set(graph)
    while gone := left - {
        module
        for module in left
        if graph[module] & left and any(module in graph[other] for other in left)
    }:
        left -= gone
    return left


def test_no_files_import_each_other() -> None:
    assert (
        in_circles({module: (set(imported(module)) & MODULES) - {module} for module in MODULES})
        == set()
    )


# A package and a part of it, imported by the main thread and by another one.

TOGETHER = 0.5
"""Seconds after which the other thread waits for its turn, and not for a module."""


class Package(SourceFileLoader):
    """Finds a package, and makes it when another thread, which holds a part of it, waits for it."""

    def __init__(self, name: str, file: Path) -> None:
        super().__init__(name, str(file))
        self.locked = threading.Event()
        """Set when its import has begun."""

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


def failures(order: ImportOrder, package: Package) -> list[str]:
    """Failures where the main thread imports a package, and another thread a part of it, in its
    turn."""
    failed: list[str] = []

    def load(name: str) -> None:
        try:
            importlib.import_module(name)
        except Exception as error:
            failed.append(type(error).__name__)

    def import_in_thread() -> None:
        package.locked.wait(60)
        with order.turn():
            load(f"{package.name}.part")

    order.screen_begins()
    thread = threading.Thread(target=import_in_thread)
    thread.start()
    load(package.name)
    order.screen_ends()
    thread.join()
    return failed


def test_import_lock_makes_concurrent_imports_succeed(package: Package) -> None:
    assert failures(ImportOrder(), package) == []


def test_import_lock_is_exclusive_and_reentrant() -> None:
    order, inside, most = ImportOrder(), list[int](), list[int]()

    def load() -> None:
        with order.turn(), order.turn():
            inside.append(1)
            most.append(len(inside))
            inside.pop()

    threads = [threading.Thread(target=load) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1] * 8


# Values that are made when they are first wanted.


def test_threads_share_a_value_that_is_created_once() -> None:
    made: list[int] = []

    def make() -> list[int]:
        time.sleep(0.01)
        made.append(1)
        return made

    later, got = Lazy(make), list[list[int]]()
    assert not later.made
    threads = [threading.Thread(target=lambda: got.append(later.get())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert later.made
    assert made == [1]
    assert all(each is made for each in got)


# Imports that happen when something is first used, perhaps on several threads at once.

begun, go = threading.Event(), threading.Event()

SLOW = f"""
import sys
test = sys.modules[{__name__!r}]
test.begun.set()
test.go.wait(20)
READY = True
"""


def test_threads_wait_for_a_module_and_the_path_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "slowly_imported.py").write_text(SLOW)
    monkeypatch.setattr(stdlib, "_PATH", [str(tmp_path), *stdlib._PATH])
    before = sys.path
    found: list[bool] = []
    threads = [
        threading.Thread(target=lambda: found.append(stdlib.late_import("slowly_imported").READY))
        for _ in range(4)
    ]
    threads[0].start()
    assert begun.wait(20)
    for thread in threads[1:]:
        thread.start()
    threads[1].join(0.2)  # one that does not wait has its module by now, without READY
    go.set()
    for thread in threads:
        thread.join()
    assert found == [True] * 4
    assert sys.path is before
    del sys.modules["slowly_imported"]


def test_modules_next_to_the_users_data_are_not_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "beside_the_data.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="beside_the_data"):
        stdlib.late_import("beside_the_data")


# From the first line of the package to the command: an interrupt is no failure, and loading is not
# held up by the collector.

MODULE = ["-m", "mahtab_tui"]
SCRIPT = ["-c", "from mahtab_tui.__main__ import main; main()"]
INTERRUPTED = "import os, signal, time\nos.kill(os.getpid(), signal.SIGINT)\n"


def run(arguments: list[str], loads: Path) -> subprocess.CompletedProcess[str]:
    """A new interpreter that finds modules in a folder first."""
    path = os.pathsep.join([str(loads), *sys.path])
    env = {**os.environ, "PYTHONPATH": path}
    return subprocess.run(
        [sys.executable, *arguments],
        env=env,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


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
    ids=["while a library is loaded", "in a library that catches it", "at the very beginning"],
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


def test_collection_is_off_while_loading_and_on_afterwards(
    tmp_path: Path,
) -> None:
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


# A screen over a caller's namespace that cannot open says why.


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
