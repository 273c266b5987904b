"""Figures of the inspector: a table of ten million rows, a list and a dict as long, a picture."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterator

from mahtab_tui.kernel.inspector_client import InspectorClient, ObjectPath, TableArrangement
from mahtab_tui.kernel.process import ProcessKernel
from mahtab_tui.tui.inspector.picture import decode_picture
from mahtab_tui.tui.pictures.block_cache import draw_blocks
from mahtab_tui.tui.pictures.picture import SizedPicture
from tests.benchmarks.screen import bare_echo, echo_row, key_echo, our_terminal
from tests.benchmarks.table import Row, timed
from tests.integration.kernels import running

_COLUMNS = range(6)
_FRAME = """
import numpy as np, pandas as pd
n = 10_000_000
rng = np.random.default_rng(0)
df = pd.DataFrame({"a": np.arange(n), "b": rng.random(n), "c": rng.integers(0, 99, n), "d": rng.random(n) < 0.5,
                   "e": pd.date_range("2020", periods=n, freq="s"), "f": rng.random(n)})
items = list(range(n))
keys = dict.fromkeys(range(n))
noise = rng.integers(0, 255, (600, 580, 3), dtype="uint8")
"""


def rows() -> Iterator[Row]:
    kernel = ProcessKernel()
    look = InspectorClient(kernel)
    frame = _named("df")

    def page(start: int = 0, arranged: TableArrangement | None = None) -> None:
        look.rows(frame, start, start + 100, _COLUMNS, arranged or TableArrangement())

    def open_table() -> None:
        look.open(frame)
        look.headings(frame, _COLUMNS)
        page()

    def draw_picture() -> None:
        image = decode_picture(look.picture(_named("noise"))).image
        draw_blocks(SizedPicture("noise", 100, 30, lambda: image))

    with running(kernel) as cells:
        cells.text(_FRAME)
        label = "a table of 10,000,000 rows opens"
        yield Row(f"{label}, the first time", timed(open_table), "<= 150 ms")
        yield Row(f"{label}, again", timed(open_table, 20), "<= 150 ms")
        starts = itertools.cycle(range(0, 10_000_000, 499_900))
        yield Row("a page of it", timed(lambda: page(next(starts)), 100), "<= 50 ms")
        page(0, as_sorted := TableArrangement((2, True)))
        took = timed(page, 20, 5_000_000, as_sorted)
        yield Row("a page of it as sorted", took, "<= 50 ms")
        for name in ("items", "keys"):
            took = timed(look.children, 10, _named(name), 9_999_900, 10_000_000)
            yield Row(f"the last page of 10,000,000 {name}", took, "<= 50 ms")
        megabytes = len(look.picture(_named("noise"))) / 1e6
        label = f"a picture of {megabytes:.1f} MB, fetched, read and drawn in 100 x 30 cells"
        yield Row(label, timed(draw_picture, 5), "<= 300 ms")
    yield from _echoes()


def _echoes() -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as home:
        baseline = bare_echo(home)
        with our_terminal(home) as terminal:
            terminal.paste(
                "import numpy as np, pandas as pd\nf = pd.DataFrame(np.random.default_rng(0).random((10_000_000, 6)))"
            )
            terminal.press("enter", "enter")
            terminal.wait(r"\+ f DataFrame")
            terminal.press("ctrl+o")
            terminal.type("n")
            terminal.press_until("enter", "row 1 of 10,000,000", prompt_pattern="Look inside")
            for load_state, keys in (("is seen", ""), ("is sorted", "s")):
                terminal.type(f"{keys}/")
                terminal.wait("or a text")
                load = f"a table of 10,000,000 rows {load_state}"
                yield echo_row(load, key_echo(terminal), baseline)
                terminal.press("escape")
                terminal.wait_gone("filter 0:")


def _named(name: str) -> ObjectPath:
    return (["name", name],)
