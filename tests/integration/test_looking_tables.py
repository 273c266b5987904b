"""Tables of the real libraries, looked at a page at a time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mahtab_tui.kernel.base import KernelError
from tests.integration.looks import Looking, looking, named

FRAME = """
import pandas as pd, numpy as np
df = pd.DataFrame({
    "city": ["Bonn", "ulm", None, "Aachen", "bonn"],
    "people": [330, 126, 5, 249, 330],
    "share": [0.5, float("nan"), 0.25, 1.0, 0.125],
    "day": pd.to_datetime(["2026-03-02", "2026-03-01", None, "2026-03-04", "2026-03-03"]),
    "open": [True, False, True, True, False],
}, index=list("abcde"))
"""


@pytest.fixture(scope="module")
def frame() -> Iterator[Looking]:
    with looking() as found:
        found.run(FRAME)
        yield found


def test_a_frame_opens_as_a_table_with_names_types_labels_and_texts(frame: Looking) -> None:
    opened = frame.look.open(named("df"))
    assert (opened.type, opened.rows, opened.columns, opened.views[0], opened.expression) == ("DataFrame", 5, 5, "table", "df")
    headings = frame.look.headings(named("df"), range(5))
    assert [heading.name for heading in headings] == ["city", "people", "share", "day", "open"]
    assert [heading.right for heading in headings] == [False, True, True, False, False]
    page = frame.table("df", 0, 2, 3, start=1, stop=3)
    assert page.labels == ("b", "c")
    assert page.positions == (1, 2)
    assert page.cells == (("ulm", None), (None, "0.250"), ("2026-03-01", None))


@pytest.mark.parametrize(
    ("column", "descending", "order"),
    [(0, False, "daebc"), (1, False, "cbdae"), (1, True, "aedbc"), (2, False, "ecadb"), (2, True, "dace b"), (3, True, "deabc"), (4, False, "beacd")],
)
def test_it_is_sorted_by_value_with_missing_ones_last(frame: Looking, column: int, descending: bool, order: str) -> None:
    assert frame.table("df", 0, sort=(column, descending)).labels == tuple(order.replace(" ", ""))


def test_filters_of_several_columns_hold_at_once(frame: Looking) -> None:
    assert frame.table("df", 0, c1="> 200").labels == ("a", "d", "e")
    assert frame.table("df", 0, c1="> 200", c4="= true").labels == ("a", "d")
    assert frame.table("df", 0, c0="bonn").labels == ("a", "e")
    assert frame.table("df", 0, c0="Bonn").labels == ("a",)
    assert frame.table("df", 0, c2="missing").labels == ("b",)
    assert frame.table("df", 0, c3="> 2026-03-02").labels == ("d", "e")
    page = frame.table("df", 0, sort=(2, False), c1="!= 5")
    assert page.labels == ("e", "a", "d", "b")
    assert (page.rows, page.of) == (4, 5)


def test_a_condition_that_does_not_fit_the_column_is_told_in_a_sentence(frame: Looking) -> None:
    with pytest.raises(KernelError, match="many cannot be compared with values of int64"):
        frame.table("df", 0, c1="> many")
