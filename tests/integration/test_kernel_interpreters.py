"""The kernel side runs in every Python from 3.9 on that is found here."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mahtab_tui.kernel.process import ProcessKernel
from mahtab_tui.kernel.values import Status
from tests.integration.kernels import Cells, RecordingHost, interpreters

FOUND = interpreters()


def test_at_least_the_interpreter_of_the_tests_is_found() -> None:
    assert FOUND


@pytest.fixture(params=FOUND)
def any_python(request: pytest.FixtureRequest, project: Path) -> Iterator[Cells]:
    host = RecordingHost()
    kernel = ProcessKernel(python=request.param)
    kernel.start(host)
    yield Cells(kernel, host)
    kernel.close()


def test_cells_run_the_same_on_all_interpreters(any_python: Cells) -> None:
    assert any_python.text("print('a')\n6 * 7") == "a\n42\n"
    assert any_python.text("import asyncio\nawait asyncio.sleep(0, 'slept')") == "'slept'\n"
    assert any_python.text("asyncio.run(asyncio.sleep(0, 'ran'))") == "'ran'\n"
    assert any_python.text("import os; os.system('echo child'); print('after')") == "child\nafter\n"
    assert any_python.run("return").status is Status.ERROR
    result = any_python.run("def f(n): return g(n)\ndef g(n): return f(n)\nf(1)")
    assert result.output.rstrip().splitlines()[-1].startswith("RecursionError")
    assert "frames left out" in result.output
    failed = any_python.run("try:\n    {}['a']\nexcept KeyError:\n    1 / 0")
    assert "worker" not in failed.output
    assert [frame.line for frame in failed.frames] == [2, 4]
    assert all(
        failed.output.split("\n")[-1 - frame.row].startswith(f'  File "{frame.file}", line')
        for frame in failed.frames
    )
    assert any_python.run("d = {'Fare': 1}\nd['fare']").output.endswith(
        "\nHint: there is no key 'fare'. Did you mean 'Fare'? Keys of d: Fare\n"
    )
    assert "  … 3 frames in json\n" in any_python.run("import json\njson.loads('{')").output
    assert (
        any_python.text(
            "if os.fork() == 0: print('forked')\nelse: print('parent' * bool(os.wait()))"
        )
        == "forked\nparent\n"
    )
    assert any_python.run("import os; os._exit(3)").status is Status.DIED
    assert any_python.text("1 + 1") == "2\n"


@pytest.mark.parametrize(
    "code",
    [
        "while True: pass",
        "import time; time.sleep(1000)",
        "import asyncio; await asyncio.sleep(1000)",
        "import asyncio; asyncio.run(asyncio.sleep(1000))",
        "import os; os.system('sleep 1000')",
    ],
)
def test_interrupts_work_the_same_on_all_interpreters(any_python: Cells, code: str) -> None:
    assert any_python.interrupt_after("go", "print('go')\n" + code).status is Status.INTERRUPTED
    assert any_python.text("1 + 1") == "2\n"


def test_debugger_and_input_work_the_same_on_all_interpreters(any_python: Cells) -> None:
    lines = ["p x", "q", "y"]
    any_python.host.answer = lambda name, args: lines.pop(0) if lines else None
    result = any_python.run("x = 41\nbreakpoint()\nprint('not reached')")
    assert result.status is Status.OK
    assert "p x\n41\n" in result.output
    assert any_python.run("input('?')").output.startswith("?")


def test_limits_and_details_work_the_same_on_all_interpreters(any_python: Cells) -> None:
    assert "OutputLimitError" in any_python.run("print('x' * 20_000)", limit=10_000).output
    any_python.run("x = {'a': [1, 2]}\nimport math\ndef f(): pass")
    assert {"x", "math", "f"} <= {variable.name for variable in any_python.kernel.variables()}
    assert any_python.kernel.inspect("x").text == "{'a': [1, 2]}"
    assert any_python.kernel.describe(["x", "f"], 100) == {
        "x": "x: dict, 1 item: {'a': [1, 2]}",
        "f": "def f()",
    }
