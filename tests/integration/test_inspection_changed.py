"""A variable that is bound anew, changed or deleted while its pages are fetched: pages of two
objects are never mixed."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.inspector_client import TableArrangement
from tests.integration.inspection import Looking, looking, named


@pytest.fixture(scope="module")
def kernel() -> Iterator[Looking]:
    with looking() as found:
        found.run("import numpy as np, pandas as pd")
        yield found


def test_path_leads_only_to_the_object_that_was_opened(kernel: Looking) -> None:
    kernel.run("df = pd.DataFrame({'a': range(1000)}); old = df")
    opened = kernel.look.open(named("df"))
    kernel.run("df = pd.DataFrame({'b': range(1000)})")
    for path in (opened.path, (*opened.path, ["cell", 5, 0])):
        with pytest.raises(
            KernelError, match=r"^df is now a different object; press r to reload\.$"
        ):
            kernel.look.open(path)
    with pytest.raises(KernelError, match="a different object"):
        kernel.look.rows(opened.path, 100, 200, [0], TableArrangement())
    again = kernel.look.open((*opened.path, ["column", 0]), again=True)
    assert kernel.look.headings(again.path, [0])[0].name == "b"


def test_deleted_variable_is_reported(kernel: Looking) -> None:
    kernel.run("gone = [1]")
    opened = kernel.look.open(named("gone"))
    kernel.run("del gone")
    with pytest.raises(KernelError, match="There is no variable named gone"):
        kernel.look.children(opened.path, 0, 10)


@pytest.mark.parametrize("ask", ["text", "find", "array", "rows", "plot", "picture"])
def test_object_of_a_changed_kind_gives_one_sentence(kernel: Looking, ask: str) -> None:
    kernel.run("held = {'k': 5}")
    path = (*kernel.look.open(named("held")).path, ["item", 0])
    look = kernel.look
    questions: dict[str, Callable[[], object]] = {
        "text": lambda: look.text(path, 0, 5),
        "find": lambda: look.find(path, "a", 0, backwards=False),
        "array": lambda: look.array(path),
        "rows": lambda: look.rows(path, 0, 5, [0], TableArrangement()),
        "plot": lambda: look.plot(path, "line", 5, 5),
        "picture": lambda: look.picture(path),
    }
    with pytest.raises(
        KernelError,
        match=r"^This is no longer (a text|an array|a table|a picture); press r to reload\.$",
    ):
        questions[ask]()


def test_text_is_not_bytes(kernel: Looking) -> None:
    kernel.run("b = b'bytes'")
    with pytest.raises(KernelError, match="no longer a text"):
        kernel.look.text(named("b"), 0, 5)


def test_page_reports_the_current_number_of_columns(kernel: Looking) -> None:
    kernel.run("wider = pd.DataFrame({'a': [1], 'b': [2]})")
    path = kernel.look.open(named("wider")).path
    kernel.run("wider.insert(0, 'new', 0)")
    assert kernel.look.rows(path, 0, 5, [0], TableArrangement()).columns == 3
