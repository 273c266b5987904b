"""Cost of being able to undo, and of an undo."""

from __future__ import annotations

from collections.abc import Iterator

from mahtab_tui.kernel.process import ProcessKernel
from mahtab_tui.kernel.values import Lock
from tests.benchmarks.table import Row, timed, timed_in_turns
from tests.integration.kernels import RecordingHost

_GIGABYTE = (
    "import numpy as np, pandas as pd\n"
    "arrays = [np.random.rand(12_500_000) for _ in range(9)]\n"
    "df = pd.DataFrame(np.random.rand(1_250_000, 10), columns=list('abcdefghij'))"
)
_CHANGES = {
    "changes all of it in place": "df.iloc[:] = 0.5",
    "replaces a column": "df['a'] = 1.0",
    "sorts it in place": "df.sort_values('b', inplace=True)",
}


class _Numbered:
    """Numbers the cells of a kernel that keeps so many undo steps."""

    def __init__(self, steps: int) -> None:
        self.kernel = ProcessKernel(undo_steps=steps, undo_memory=4096)
        self.kernel.start(RecordingHost())
        self.last = 0

    def run(self, code: str, lock: Lock | None = None) -> None:
        self.last += 1
        result = self.kernel.execute(
            code, cell=self.last, on_output=lambda kind, text: None, lock=lock
        )
        assert (result.status, result.needs) == ("ok", ""), result.output

    def undo(self) -> None:
        self.kernel.undo(self.last)


def rows() -> Iterator[Row]:
    without = _Numbered(0)
    with_undo = _Numbered(20)

    def compared(label: str, code: str, times: int, reach: str) -> Row:
        off, on = timed_in_turns(times, lambda: without.run(code), lambda: with_undo.run(code))
        return Row(f"{code} there and back, {label}", on, reach, off, "undo_steps = 0")

    try:
        for code, times, reach in (("1+1", 500, "<= 1.3 x without"), ("x = [1]", 100, "")):
            for kernel in (without, with_undo):
                kernel.run(code)
            yield compared("empty namespace", code, times, reach)
        for kernel in (without, with_undo):
            kernel.run(_GIGABYTE)
        large = "1 GB of arrays and a frame"
        yield compared(large, "len(df)", 30, "<= 20 ms more")
        code = "df.describe()"
        live, locked = timed_in_turns(
            10, lambda: with_undo.run(code), lambda: with_undo.run(code, "keep")
        )
        label = f"{code} in a locked fork, {large}"
        yield Row(label, locked, "<= 60 ms more", live, "in the kernel")
        for label, code in _CHANGES.items():
            previews = []
            undos = []
            redos = []
            for _ in range(5):
                with_undo.run(code)
                previews += timed(with_undo.kernel.preview_undo, 1, with_undo.last)
                undos += timed(with_undo.undo)
                redos += timed(with_undo.kernel.redo)
                with_undo.undo()
            label = f"undo of a cell that {label} (frame of 100 MB, 1 GB in all)"
            yield Row(label, undos, "<= 100 ms")
            yield Row("  its preview", previews)
            yield Row("  redo", redos)
        needed = sum(step.bytes for step in with_undo.kernel.undo_steps()) / 2**20
        yield Row("memory of 20 checkpoints, 1 GB in all", needed, "<= undo_memory", unit="MiB")
    finally:
        without.kernel.close()
        with_undo.kernel.close()
