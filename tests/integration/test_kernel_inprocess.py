"""The kernel inside the caller's process: the same cells, over the caller's own dict."""

from __future__ import annotations

import builtins
import io
import sys
import threading
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.inprocess import InProcessKernel
from mahtab_tui.kernel.values import Status
from tests.integration.kernels import Cells, RecordingHost


@pytest.fixture
def namespace() -> dict[str, Any]:
    return {"given": [1, 2]}


@pytest.fixture
def embedded(namespace: dict[str, Any]) -> Iterator[Cells]:
    host = RecordingHost()
    kernel = InProcessKernel(namespace)
    kernel.start(host)
    yield Cells(kernel, host)
    kernel.close()


def test_cells_work_on_the_callers_own_dict_and_objects(
    embedded: Cells, namespace: dict[str, Any]
) -> None:
    given = namespace["given"]
    assert embedded.text("given.append(3)\nmade = len(given)\nmade") == "3\n"
    assert namespace["made"] == 3
    assert namespace["given"] is given


def test_output_values_and_tracebacks_match_a_kernel_process(embedded: Cells) -> None:
    result = embedded.run("import sys\nprint('out')\nprint('err', file=sys.stderr)\n1 / 0")
    assert result.kinds[0] == ("stdout", len("out\nerr\n"))
    assert result.status is Status.ERROR
    assert result.output.count("File ") == 1
    assert embedded.text("await __import__('asyncio').sleep(0, 'slept')") == "'slept'\n"
    assert embedded.run("import sys; sys.exit(3)").output == "SystemExit: 3\n"


def test_prints_of_host_threads_are_not_attributed_to_the_cell(
    embedded: Cells, monkeypatch: pytest.MonkeyPatch
) -> None:
    screen = io.StringIO()
    monkeypatch.setattr(sys, "stdout", screen)
    result = embedded.run_until(
        "go", lambda: print("of the host"), "import time\nprint('go', flush=True)\ntime.sleep(0.1)"
    )
    assert result.output == "go\n"
    assert screen.getvalue() == "of the host\n"
    assert sys.stdout is screen


def test_process_is_restored_when_the_kernel_is_closed(namespace: dict[str, Any]) -> None:
    def state() -> tuple[object, ...]:
        return (
            sys.stdout,
            sys.stderr,
            sys.stdin,
            builtins.input,
            set(dir(builtins)) - {"_"},
            threading.active_count(),
        )

    before = state()
    kernel = InProcessKernel(namespace)
    kernel.start(RecordingHost())
    Cells(kernel, RecordingHost()).text("1 + 1")
    kernel.close()
    assert state() == before


@pytest.mark.parametrize(
    "code", ["while True: pass", "await __import__('asyncio').sleep(1000)", "input('?')"]
)
def test_interrupt_stops_computing_awaiting_or_asking_code(embedded: Cells, code: str) -> None:
    release = threading.Event()

    def answer(name: str, args: Mapping[str, Any]) -> None:
        embedded.kernel.interrupt()
        release.wait()

    embedded.host.answer = answer
    embedded.run("await __import__('asyncio').sleep(0)")
    first = "" if code.startswith("input") else "print('go')\n"
    result = embedded.interrupt_after("go", first + code)
    release.set()
    assert result.status is Status.INTERRUPTED
    assert embedded.text("1 + 1") == "2\n"
    assert embedded.kernel.interrupt() is False


def test_cells_nest_while_the_outer_one_waits_for_input(
    embedded: Cells, namespace: dict[str, Any]
) -> None:
    embedded.host.answer = lambda name, args: (
        embedded.run("y = x + 1\nprint(y)", limit=100, nested=True).output
    )
    assert embedded.text("x = 1\na = input()\na, y") == "2\n\n('2\\n', 2)\n"


def test_output_limit_stops_a_models_cell(embedded: Cells) -> None:
    result = embedded.run("print('x' * 20_000)", limit=10_000)
    assert result.status is Status.ERROR
    assert result.kinds[0] == ("stdout", 10_000)
    assert result.output.count("File ") == 1


def test_reset_removes_only_what_cells_created(embedded: Cells, namespace: dict[str, Any]) -> None:
    embedded.run("made = 1\ngiven = 2")
    embedded.kernel.reset()
    assert "made" not in namespace
    assert namespace["given"] == 2


def test_unsupported_operations_of_an_embedded_kernel_are_explained(embedded: Cells) -> None:
    with pytest.raises(KernelError, match="cannot be killed"):
        embedded.kernel.kill()
    with pytest.raises(KernelError, match="interpreter"):
        embedded.kernel.activate("python3")


def test_variables_and_details_come_from_the_callers_namespace(embedded: Cells) -> None:
    assert "given" in [variable.name for variable in embedded.kernel.variables()]
    assert embedded.kernel.inspect("given").text == "[1, 2]"
    assert embedded.kernel.describe(["given", "nothing"], 100) == {
        "given": "given: list, 2 items of int: 1, 2"
    }
    with pytest.raises(KernelError, match="no variable named nothing"):
        embedded.kernel.inspect("nothing")
