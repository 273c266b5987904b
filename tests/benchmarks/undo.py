"""Cost of being able to undo, and of an undo."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

from mahtab_tui.kernel.process import ProcessKernel
from mahtab_tui.kernel.values import Lock, Restoration
from tests.benchmarks import undo_peers
from tests.benchmarks.kernel import QuietHost
from tests.benchmarks.table import Row, median, timed

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


class Numbered:
    """Cells with numbers, in a kernel that can undo some."""

    def __init__(self, steps: int) -> None:
        self.kernel = ProcessKernel(undo_steps=steps, undo_memory=4096)
        self.kernel.start(QuietHost())
        self._numbers = itertools.count(1)
        self.last = 0

    def run(self, code: str, lock: Lock | None = None) -> None:
        """Run one cell, which must end well."""
        self.last = next(self._numbers)
        result = self.kernel.execute(
            code, cell=self.last, on_output=lambda kind, text: None, lock=lock
        )
        assert (result.status, result.needs) == ("ok", ""), result.output

    def undo(self) -> Restoration:
        return self.kernel.undo(self.last)


def rows() -> Iterator[Row]:
    """Cells without undo, with it and in a locked fork, in an empty namespace and with a gigabyte;
    undo of a frame of 100 MB."""
    without, with_undo = Numbered(0), Numbered(20)
    try:
        for code, times, reach in (("1+1", 500, "<= 1.3 x without"), ("x = [1]", 100, "")):
            for each in (without, with_undo):
                each.run(code)
            off, on = _alternately(
                lambda code=code: without.run(code),  # type: ignore[misc]
                lambda code=code: with_undo.run(code),  # type: ignore[misc]
                times,
            )
            yield Row(
                f"{code} there and back, empty namespace", on, "ms", reach, off, "undo_steps = 0"
            )
        for each in (without, with_undo):
            each.run(_GIGABYTE)
        off, on = _alternately(lambda: without.run("len(df)"), lambda: with_undo.run("len(df)"), 30)
        yield Row(
            "len(df) there and back, 1 GB of arrays and a frame",
            on,
            "ms",
            "<= 20 ms more",
            off,
            "undo_steps = 0",
        )
        live, locked = _alternately(
            lambda: with_undo.run("df.describe()"),
            lambda: with_undo.run("df.describe()", "keep"),
            10,
        )
        yield Row(
            "df.describe() in a locked fork, 1 GB of arrays and a frame",
            locked,
            "ms",
            "<= 60 ms more",
            live,
            "in the kernel",
        )
        for what, code in _CHANGES.items():
            previews, undos, redos = [], [], []
            for _ in range(5):
                with_undo.run(code)
                previews += timed(lambda: with_undo.kernel.preview_undo(with_undo.last), 1)
                undos += timed(with_undo.undo, 1)
                redos += timed(with_undo.kernel.redo, 1)
                with_undo.undo()
            yield Row(
                f"undo of a cell that {what} (frame of 100 MB, 1 GB in all)",
                median(undos),
                "ms",
                "<= 100 ms",
            )
            yield Row("  its preview", median(previews), "ms", "")
            yield Row("  redo", median(redos), "ms", "")
        needed = sum(step.bytes for step in with_undo.kernel.undo_steps()) / 2**20
        yield Row("memory of 20 checkpoints, 1 GB in all", needed, "MiB", "<= undo_memory")
    finally:
        without.kernel.close()
        with_undo.kernel.close()
    yield from undo_peers.rows()


def _alternately(
    one: Callable[[], object], other: Callable[[], object], times: int
) -> tuple[float, float]:
    ones, others = [], []
    for _ in range(times):
        ones += timed(one, 1)
        others += timed(other, 1)

    return median(ones), median(others)
