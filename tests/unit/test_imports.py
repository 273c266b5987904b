"""What is loaded when: the first picture must not wait for the model's libraries."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ("langgraph", "langchain_core", "mcp", "pandas", "numpy", "anthropic", "openai")


def loaded_after(code: str) -> set[str]:
    """The modules that a new interpreter has loaded after some code."""
    script = f"{code}\nimport sys\nprint('\\n'.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
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
    ],
)
def test_importing_does_not_load_the_models_libraries(module: str) -> None:
    assert not loaded_after(f"import {module}").intersection(HEAVY)


def test_the_first_picture_waits_neither_for_the_highlighter_nor_for_markdown() -> None:
    assert not loaded_after("import mahtab_tui.tui.open").intersection({"pygments.lexers", "markdown_it", "mahtab_tui.search.engine"})


def test_the_first_picture_does_not_wait_for_what_changes_settings() -> None:
    loaded = loaded_after("import mahtab_tui.cli.main, mahtab_tui.tui.open")
    late = ("tomlkit", "mahtab_tui.configuration", "mahtab_tui.tui.screens.settings", "mahtab_tui.tui.screens.models")
    assert not [name for name in loaded if name.startswith(late)]


@pytest.mark.parametrize("module", ["mahtab_tui.session", "mahtab_tui.agent.repl_agent", "mahtab_tui.kernel.process", "mahtab_tui.bus.setup"])
def test_nothing_below_the_screen_loads_textual(module: str) -> None:
    assert "textual" not in loaded_after(f"import {module}")


def test_the_kernel_side_loads_nothing_of_the_package_and_little_of_the_standard_library() -> None:
    from mahtab_tui.kernel.process import ProcessKernel
    from tests.integration.kernels import RecordingHost

    kernel = ProcessKernel()
    kernel.start(RecordingHost())
    try:
        output: list[str] = []
        code = "import sys; print('\\n'.join(sys.modules))"
        kernel.execute(code, cell=1, origin="user", on_output=lambda kind, text: output.append(text))
        modules = set("".join(output).split())
    finally:
        kernel.close()
    assert not any(name == "mahtab_tui" or name.startswith("mahtab_tui.") for name in modules)
    assert not modules & {"asyncio", "inspect", "subprocess", "difflib", "tempfile", "pydantic", "textual", "decimal"}
