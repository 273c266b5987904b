"""What a check compares with: the cells of a session or a notebook."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output

from mahtab_tui.bus.masking import MASK
from mahtab_tui.bus.records import KernelRecord, Namespace, Record, Undo, UserReplIn, UserReplOut
from mahtab_tui.bus.values import Change, Status
from mahtab_tui.export.reading import read_notebook
from mahtab_tui.session.checking.recorded import Recording, read_cells, read_session


def ran(cell: int, code: str, output: str = "", status: Status = Status.OK) -> list[Record]:
    return [UserReplIn(code, cell=cell), UserReplOut(output, cell=cell, status=str(status))]


def rebound(cell: int, name: str) -> Namespace:
    return Namespace(cell=cell, changes=(Change(name, "rebound", None),))


def skip_reasons(recording: Recording) -> dict[str, str]:
    return {cell.name: cell.skip_reason for cell in recording.cells}


def notebook_cells(folder: Path, *cells: Any, **metadata: Any) -> Recording:
    notebook = new_notebook(cells=list(cells), metadata=metadata)
    path = folder / "n.ipynb"
    nbformat.write(notebook, str(path))
    return read_cells(read_notebook(path))


def test_cells_that_cannot_run_again_say_why() -> None:
    inner_cell = ran(3, "inner")
    outer_cell = ran(2, "outer()")
    past = [
        *ran(1, f"key = '{MASK}'"),
        *(outer_cell[0], *inner_cell, outer_cell[1]),
        *ran(4, "wait()", status=Status.INTERRUPTED),
        *ran(5, "1 / 0", status=Status.ERROR),
        UserReplIn("os.abort()", cell=6),
        KernelRecord(state="idle"),
        *ran(7, "7"),
    ]
    assert skip_reasons(read_session(past, "s")) == {
        "In 1": "a secret in it was masked",
        "In 2": "",
        "In 3": "it ran inside another cell",
        "In 4": "it did not end by itself (interrupted)",
        "In 5": "",
        "In 6": "it did not end by itself (no end was recorded)",
        "In 7": "",
    }


def test_late_output_is_not_compared() -> None:
    late = UserReplOut("later\n", cell=1, late=True)
    (cell,) = read_session([*ran(1, "start()", "now\n"), late], "s").cells
    assert cell.outcome.text == "now"


def test_undone_cells_rest_on_nothing() -> None:
    past = [*ran(1, "x = input()"), rebound(1, "x"), *ran(2, "len(x)"), *ran(3, "x")]
    undo = Undo(cells=(2,), undone=True)
    for records, resting_cells in ((past, {1: 1, 2: 1, 3: 1}), ([*past, undo], {1: 1, 3: 1})):
        recording = read_session(records, "s")
        assert [cell.number for cell in recording.cells] == list(resting_cells)
        assert recording.staleness is not None
        assert recording.staleness.cells_resting_on([1]) == resting_cells


@pytest.mark.parametrize(
    "kernel",
    [
        KernelRecord(state="idle", host="far"),
        KernelRecord(state="idle", address="jupyter:python3"),
    ],
)
def test_a_kernel_elsewhere_cannot_be_checked(kernel: KernelRecord) -> None:
    here = KernelRecord(state="idle", executable="/usr/bin/python3")
    recording = read_session([here, kernel], "s")
    assert recording.unavailable_reason.startswith("Its kernel is elsewhere")
    recording = read_session([kernel, here], "s")
    assert (recording.unavailable_reason, recording.python) == ("", here.executable)


def test_cells_of_a_notebook_have_a_result_if_they_have_run(tmp_path: Path) -> None:
    output = new_output("stream", text="1\n")
    recording = notebook_cells(
        tmp_path,
        new_code_cell("print(1)", outputs=[output], execution_count=1),
        new_code_cell("x = 1", execution_count=2),
        new_code_cell("x = 2"),
        new_code_cell("print(1)", outputs=[output]),
        new_code_cell(" \n"),
    )
    assert {cell.name: cell.unknown_reason for cell in recording.cells} == {
        "Cell 1": "",
        "Cell 2": "",
        "Cell 3": "the file has no result of it",
        "Cell 4": "",
    }


def test_a_notebook_in_another_language_cannot_be_checked(tmp_path: Path) -> None:
    kernel = {"name": "ir", "display_name": "R", "language": "R"}
    recording = notebook_cells(tmp_path, new_code_cell("x <- 1"), kernelspec=kernel)
    assert recording.unavailable_reason.endswith(", not for Python.")


def test_tracebacks_are_compared_without_their_frames(tmp_path: Path) -> None:
    traceback = 'Traceback (most recent call last):\n  File "a.py", line 1, in <module>\n    1 / 0\nZeroDivisionError: division by zero\nHint: no\n'
    kinds = (("traceback", len(traceback)),)
    end = UserReplOut(traceback, cell=1, status="error", kinds=kinds)
    (cell,) = read_session([UserReplIn("1 / 0", cell=1), end], "s").cells
    assert cell.outcome.text == "ZeroDivisionError: division by zero"
    assert cell.outcome.has_failed

    error = new_output(
        "error", ename="ZeroDivisionError", evalue="division by zero", traceback=["other words"]
    )
    (cell,) = notebook_cells(
        tmp_path, new_code_cell("1 / 0", outputs=[error], execution_count=1)
    ).cells
    assert cell.outcome.text == "ZeroDivisionError: division by zero"
    assert cell.outcome.has_failed
