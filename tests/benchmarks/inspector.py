"""The inspector's figures: from the question to the answer in the host, and what the screen does
with it."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterator

from mahtab_tui.kernel.inspector_client import InspectorClient, ObjectPath, TableArrangement
from mahtab_tui.kernel.process import ProcessKernel
from mahtab_tui.tui.inspector.array import decode_picture
from mahtab_tui.tui.pictures import Picture, half_blocks
from tests.benchmarks.kernel import QuietHost, run
from tests.benchmarks.screen import BARE, OURS, key_echo
from tests.benchmarks.table import Row, median, p99, timed
from tests.e2e.terminal import Terminal

_COLUMNS = range(6)
_HUGE = 'del df, items, keys, text; huge = "a line of some length\\n" * (2_000_000_000 // 22)'
_FRAME = """
import numpy as np, pandas as pd
n = 10_000_000
rng = np.random.default_rng(0)
df = pd.DataFrame({"a": np.arange(n), "b": rng.random(n), "c": rng.integers(0, 99, n), "d": rng.random(n) < 0.5,
                   "e": pd.date_range("2020", periods=n, freq="s"), "f": rng.random(n)})
items = list(range(n))
keys = dict.fromkeys(range(n))
noise = rng.integers(0, 255, (600, 580, 3), dtype="uint8")
text = "a line of some length\\n" * 5_000_000
"""


def rows() -> Iterator[Row]:
    """A table of ten million rows, a list, a dict and a text as long."""
    kernel = ProcessKernel()
    kernel.start(QuietHost())
    try:
        run(kernel, _FRAME)
        look, frame = InspectorClient(kernel), _named("df")

        def opened() -> None:
            look.open(frame)
            look.headings(frame, _COLUMNS)
            look.rows(frame, 0, 100, _COLUMNS, TableArrangement())

        yield Row(
            "a table of 10,000,000 rows opens, the first time",
            median(timed(opened, 1)),
            "ms",
            "<= 150 ms",
        )
        yield Row(
            "a table of 10,000,000 rows opens, again", median(timed(opened, 20)), "ms", "<= 150 ms"
        )
        starts = itertools.cycle(range(0, 10_000_000, 499_900))

        def scrolled() -> None:
            start = next(starts)
            look.rows(frame, start, start + 100, _COLUMNS, TableArrangement())

        yield Row("a page of it", median(timed(scrolled, 100)), "ms", "<= 50 ms")
        for column, what in ((1, "floats"), (2, "small integers")):
            arranged = TableArrangement((column, True))
            took = median(timed(lambda a=arranged: look.rows(frame, 0, 100, _COLUMNS, a), 1))  # type: ignore[misc]
            yield Row(f"it is sorted by {what}", took, "ms", "-")
        sorted_page = timed(
            lambda: look.rows(frame, 5_000_000, 5_000_100, _COLUMNS, TableArrangement((2, True))),
            20,
        )
        yield Row("a page of it as sorted", median(sorted_page), "ms", "<= 50 ms")
        yield Row(
            "it is filtered",
            median(
                timed(
                    lambda: look.rows(
                        frame, 0, 100, _COLUMNS, TableArrangement(None, ((1, "> 0.5"),))
                    ),
                    1,
                )
            ),
            "ms",
            "-",
        )
        yield Row(
            "the figures of a column", median(timed(lambda: look.figures(frame, 1), 5)), "ms", "-"
        )
        for name in ("items", "keys"):
            path = _named(name)
            took = median(timed(lambda p=path: look.children(p, 9_999_900, 10_000_000), 10))  # type: ignore[misc]
            yield Row(f"the last page of 10,000,000 {name}", took, "ms", "<= 50 ms")
        size = f"a picture of {len(look.picture(_named('noise'))) / 1e6:.1f} MB, fetched, read and drawn in 100 x 30 cells"

        def pictured() -> None:
            image = decode_picture(look.picture(_named("noise"))).image
            half_blocks(Picture("noise", 100, 30, lambda: image))

        yield Row(size, median(timed(pictured, 5)), "ms", "<= 300 ms")
        yield Row(
            "the end of a text of 110 M characters",
            median(timed(lambda: look.text(_named("text"), 109_900_000, 109_960_000), 1)),
            "ms",
            "-",
        )
        yield Row(
            "a search through all of it",
            median(timed(lambda: look.find(_named("text"), "needle", 0, backwards=False), 1)),
            "ms",
            "-",
        )
        run(kernel, _HUGE)
        yield Row("the list with a text of 2 GB", median(timed(kernel.variables, 20)), "ms", "-")

        def opened_text() -> None:
            look.open(_named("huge"))
            look.text(_named("huge"), 0, 65_536)

        yield Row("a text of 2 GB opens", median(timed(opened_text, 20)), "ms", "-")
        yield Row(
            "its end, where the lines are counted",
            median(timed(lambda: look.text(_named("huge"), 1_999_934_464, 2_000_000_000), 1)),
            "ms",
            "-",
        )
    finally:
        kernel.close()
    yield from _echoes()


def _echoes() -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as home:
        with Terminal(BARE, env={"HOME": home}) as terminal:
            terminal.wait("ready to type")
            echo = key_echo(terminal)
        baseline = median(echo)
        yield Row("key echo of the bare app", baseline, "ms", "", note=f"p99 {p99(echo):.0f} ms")
        with Terminal([*OURS, "demo"], env={"HOME": home}) as terminal:
            terminal.wait("idle")
            terminal.paste(
                "import numpy as np, pandas as pd\nf = pd.DataFrame(np.random.default_rng(0).random((10_000_000, 6)))"
            )
            terminal.press("enter", "enter")
            terminal.wait(r"\+ f DataFrame")
            terminal.press("ctrl+o")
            terminal.type("n")
            terminal.press_until("enter", "10,000,000")
            for what, keys in (("is seen", ""), ("is sorted", "s")):
                terminal.type(f"{keys}/")
                terminal.wait("or a text")
                echo = key_echo(terminal)
                yield Row(
                    f"key echo while a table of 10,000,000 rows {what}",
                    median(echo),
                    "ms",
                    "median <= 1.5 x, p99 <= 50 ms",
                    baseline,
                    f"p99 {p99(echo):.0f} ms",
                )
                terminal.press("escape")
                terminal.wait("Filter")


def _named(name: str) -> ObjectPath:
    return (["name", name],)
