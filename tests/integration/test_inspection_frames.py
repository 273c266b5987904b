"""The variables of the frames of an error, as long as the kernel has them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.inspector_client import InspectorClient
from mahtab_tui.kernel.process import ProcessKernel
from mahtab_tui.kernel.values import CellResult, TracebackFrame
from mahtab_tui.tui.screens.output import variables_path
from tests.integration.kernels import RecordingHost

FAILS = """
class Early(Exception):
    pass
def inner(rows):
    part = [1, 2]
    raise Early
def outer():
    name = "x"
    try:
        inner({"a": 3})
    except Early:
        again = True
        raise ValueError("late")
outer()
"""


@pytest.fixture(scope="module")
def kernel() -> Iterator[ProcessKernel]:
    kernel = ProcessKernel()
    kernel.start(RecordingHost())
    yield kernel
    kernel.close()


def run(kernel: ProcessKernel, cell: int, code: str) -> list[TracebackFrame]:
    result: CellResult = kernel.execute(code, cell=cell, on_output=lambda kind, text: None)
    return list(result.frames)


def variables(
    kernel: ProcessKernel, cell: int, frames: list[TracebackFrame], at: int
) -> dict[str, str]:
    _, children = InspectorClient(kernel).children(variables_path(cell, frames, at), 0, 100)
    return {child.label.strip("'"): child.summary for child in children}


def test_each_frame_has_its_own_variables_even_for_chained_errors(
    kernel: ProcessKernel,
) -> None:
    frames = run(kernel, 1, FAILS)
    assert [frame.function for frame in frames] == ["outer", "inner", "<module>", "outer"]
    assert variables(kernel, 1, frames, 1) == {"rows": "1 item", "part": "2 items"}
    assert variables(kernel, 1, frames, 3)["again"] == "True"
    with pytest.raises(KernelError, match="those of the namespace"):
        variables(kernel, 1, frames, 2)


def test_frames_of_an_older_error_are_refused(kernel: ProcessKernel) -> None:
    first = run(kernel, 2, "def f(n):\n    return n / 0\nf(1)")
    assert variables(kernel, 2, first, 1) == {"n": "1"}
    second = run(kernel, 3, "f(2)")
    assert variables(kernel, 3, second, 1) == {"n": "2"}
    with pytest.raises(KernelError, match="other code has failed since"):
        variables(kernel, 2, first, 1)


def test_frames_at_the_same_line_have_their_own_variables(kernel: ProcessKernel) -> None:
    frames = run(kernel, 4, "def down(n):\n    return down(n - 1) if n else 1 / 0\ndown(1)")
    assert [variables(kernel, 4, frames, at)["n"] for at in (1, 2)] == ["1", "0"]
    deep = run(kernel, 5, "down(100)")
    with pytest.raises(KernelError, match="more often than shown"):
        variables(kernel, 5, deep, 3)


def test_class_body_variables_are_listed_without_running_user_code(
    kernel: ProcessKernel,
) -> None:
    frames = run(
        kernel,
        90,
        """
ran = []
class Spying(dict):
    def keys(self): ran.append("keys"); return super().keys()
    def __getitem__(self, name): ran.append(name); return super().__getitem__(name)
class Meta(type):
    @classmethod
    def __prepare__(cls, name, bases): return Spying()
class Body(metaclass=Meta):
    x = 1
    ran.clear()
    1 / 0
""",
    )
    assert variables(kernel, 90, frames, 1)["x"] == "1"
    result = kernel.execute("ran", cell=91, on_output=lambda kind, text: None)
    assert result.output == "['ZeroDivisionError']\n" or "keys" not in result.output
