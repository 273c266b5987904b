"""Modules and when they are loaded: the first picture must not wait for the model's libraries."""

from __future__ import annotations

import ast
import importlib.util
import pkgutil
import subprocess
import sys
from collections.abc import Iterator, Set
from pathlib import Path

import pytest

import mahtab_tui
from tests.e2e.terminal import Terminal

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


def test_first_screen_waits_for_neither_highlighter_nor_markdown() -> None:
    assert not loaded_after("import mahtab_tui.tui.open").intersection(
        {"pygments.lexers", "markdown_it", "mahtab_tui.search.engine"}
    )


def test_first_screen_does_not_wait_for_settings_writing(
    loaded_at_first_picture: set[str],
) -> None:
    late = (
        "tomlkit",
        "mahtab_tui.settings.values",
        "mahtab_tui.tui.screens.settings",
        "mahtab_tui.tui.screens.listing",
    )
    assert not [name for name in loaded_at_first_picture if name.startswith(late)]


def test_first_screen_waits_for_no_dialog_menu_or_terminal_graphics(
    loaded_at_first_picture: set[str],
) -> None:
    late = (
        "mahtab_tui.tui.screens.",
        "mahtab_tui.tui.palette",
        "mahtab_tui.tui.graphics.overlay",
    )
    assert not [name for name in loaded_at_first_picture if name.startswith(late)]


def test_first_screen_waits_for_no_session_workers_or_shell_commands(
    loaded_at_first_picture: set[str],
) -> None:
    late = (
        "mahtab_tui.agent",
        "mahtab_tui.knowledge",
        "mahtab_tui.search",
        "mahtab_tui.session.components",
        "mahtab_tui.bus.records",
        "mahtab_tui.kernel",
        "mahtab_tui.store.sqlite",
        "mahtab_tui.tui.transcript.view",
        "mahtab_tui.cli.admin",
        "mahtab_tui.kernel.worker_process",
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


def test_import_cycle_is_detected() -> None:
    assert in_circles({"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": set(), "e": {"a"}}) == {
        "a",
        "b",
        "c",
    }


def test_no_files_import_each_other() -> None:
    assert (
        in_circles({module: (set(imported(module)) & MODULES) - {module} for module in MODULES})
        == set()
    )
