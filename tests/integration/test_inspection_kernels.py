"""Looking inside objects of a kernel inside the program, of an old interpreter, and of one that is
busy or gone."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.inprocess import InProcessKernel
from mahtab_tui.kernel.inspector_client import InspectorClient, TableArrangement
from mahtab_tui.kernel.process import ProcessKernel
from tests.integration.inspection import looking, named
from tests.integration.kernels import Cells, RecordingHost, interpreters

CODE = """
class Point:
    def __init__(self): self.x = [1, 2]
    @property
    def p(self): return 'asked'
point, rows, text = Point(), [{'a': 2}, {'a': 1}], 'one\\ntwo'
def far(days): return days
"""


def look_at_all(look: InspectorClient) -> None:
    """A little of everything that needs no library."""
    assert look.open(named("point")).views[0] == "tree"
    _, children = look.children(named("point"), 0, 10)
    assert [(child.label, child.state) for child in children] == [("x", ""), ("p", "property")]
    assert look.evaluate(named("point"), "p").summary == "'asked'"
    assert look.rows(named("rows"), 0, 10, [0], TableArrangement((0, False))).cells == (("1", "2"),)
    assert look.text(named("text"), 4, 9).line == 1
    assert look.find(named("text"), "two", 0, backwards=True) == (4, 7)
    assert look.source(named("far")).signature == "far(days)"
    assert look.representation(named("rows")) == ("[{'a': 2}, {'a': 1}]", False)
    with pytest.raises(KernelError, match="There is no variable named nothing"):
        look.open(named("nothing"))
    look.close()


def test_inspection_works_in_the_program_itself() -> None:
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(CODE, "mine.py", "exec"), names)
    kernel = InProcessKernel(names)
    kernel.start(RecordingHost())
    try:
        look_at_all(InspectorClient(kernel))
    finally:
        kernel.close()


@pytest.mark.parametrize("python", interpreters())
def test_inspection_works_under_each_interpreter(python: str) -> None:
    host = RecordingHost()
    kernel = ProcessKernel(python)
    kernel.start(host)
    try:
        Cells(kernel, host).run(CODE)
        look_at_all(InspectorClient(kernel))
    finally:
        kernel.close()


def test_slow_request_does_not_delay_the_others() -> None:
    with looking() as found:
        found.run(
            "import threading\nclass Slow:\n    go = threading.Event()\n    @property\n    def p(self): return self.go.wait(1.5)\nslow, quick = Slow(), 5"
        )
        with ThreadPoolExecutor(1) as pool:
            slow = pool.submit(found.look.evaluate, named("slow"), "p")
            while not slow.done():
                assert found.look.open(named("quick")).summary == "5"
                found.run("slow.go.set()")
            assert slow.result().summary == "True"


def test_closed_kernel_is_reported() -> None:
    with looking() as found:
        found.cells.kernel.close()
        with pytest.raises(KernelError, match="closed"):
            found.look.open(named("x"))
