"""Reads what a check compares with: the cells of a session or a notebook, with their results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from mahtab_tui.bus import records
from mahtab_tui.bus.entries import Cell
from mahtab_tui.bus.magic_code import read_code
from mahtab_tui.bus.masking import MASK
from mahtab_tui.bus.output_lines import LOCATION
from mahtab_tui.bus.pens import SGR
from mahtab_tui.bus.records import Record
from mahtab_tui.bus.sanitize import plain
from mahtab_tui.bus.staleness import Staleness
from mahtab_tui.bus.terminal_screen import collapse
from mahtab_tui.bus.values import Change, Status
from mahtab_tui.export.entries import ExportedConversation, has_run
from mahtab_tui.export.outputs import RICH_TEXT_MIMES, OutputPart, outputs
from mahtab_tui.export.reading import LoadedNotebook, Node, cell_outputs, cell_source
from mahtab_tui.export.selection import NothingToExport, select
from mahtab_tui.kernel.base import FRESH
from mahtab_tui.session.checking.foreign_outputs import (
    first_error_line,
    incomparable_reason,
    shared_form,
)
from mahtab_tui.worker.cells.compiling import bound_names

_KERNEL_ELSEWHERE = "Its kernel is elsewhere: only cells that ran on this machine in a kernel of mahtab-tui can be checked."


class CellOutcome(NamedTuple):
    """What a cell has shown, in a form that can be compared."""

    text: str
    """The output without colours. A traceback in it consists of the exception alone."""
    displays: tuple[tuple[str, str], ...] = ()
    """The MIME types and the data of pictures and formatted texts."""
    has_failed: bool = False
    """Whether the cell has ended with an error."""
    time: float | None = None
    """When it ran, in seconds since the epoch; None if that is not known."""


class VariableChange(NamedTuple):
    """When a variable was changed, and by what."""

    cell: int
    """The number of the cell that has changed it. After an undo, it is the cell that had made the value
    which came back."""
    time: float
    """In seconds since the epoch."""


UNCHANGED = VariableChange(0, 0.0)
"""The last change of a variable that no cell has changed."""


@dataclass(frozen=True)
class RecordedCell:
    """A cell, and what it has shown."""

    name: str
    """The name by which the user knows it, such as ``In 3``."""
    number: int
    """Its number in the session, or its position in the notebook, from 1."""
    code: str
    outcome: CellOutcome
    duration: float = 0.0
    """How long it ran, in seconds; 0 if that is not known."""
    is_private: bool = False
    """Whether it uses a private variable."""
    skip_reason: str = ""
    """A clause that says why it cannot run again; empty if it can."""
    unknown_reason: str = ""
    """A clause that says why its result cannot be compared; empty if it can be."""
    is_foreign: bool = False
    """Whether another program may have written its outputs. Such a program may draw pictures and
    formatted texts otherwise, and writes errors in another way."""


@dataclass(frozen=True)
class Recording:
    """A session or a notebook, as a check runs it again."""

    cells: Sequence[RecordedCell]
    """The cells that count, in their order."""
    private_names: frozenset[str] = frozenset()
    """The names of private variables."""
    session: str = ""
    """The id of the session whose saved variables are compared; empty for a notebook."""
    python: str | None = None
    """The interpreter that has run the cells; None for the interpreter of the settings."""
    staleness: Staleness | None = None
    """Knows which cells use what others have made; None if that is not known."""
    last_changes: Mapping[str, VariableChange] = field(default_factory=dict)
    """The last change of each variable, by its name."""
    unavailable_reason: str = ""
    """A sentence that says why it cannot be checked; empty if it can be."""
    forgotten_count: int = 0
    """How many further cells would count if the kernel had not been reset after them."""


def make_outcome(
    parts: Iterable[OutputPart],
    *,
    has_failed: bool,
    time: float | None = None,
    is_foreign: bool = False,
) -> CellOutcome:
    """Return the outcome of a cell.

    Args:
        parts: The parts of its output.
        has_failed: Whether it has ended with an error. A cell with a traceback has, in any case.
        time: When it ran, in seconds since the epoch; None if that is not known.
        is_foreign: Whether the outcome is compared with what another program may have written.
    """
    texts: list[str] = []
    displays: list[tuple[str, str]] = []
    for part in parts:
        text = plain(SGR.sub("", collapse(part.text)))
        if part.kind == "traceback":
            text = first_error_line(text) if is_foreign else _without_frames(text)
            has_failed = True
        elif is_foreign:
            text = shared_form(text, part.mime)
        texts.append(text)
        if part.mime in RICH_TEXT_MIMES:
            displays.append((part.mime, part.data))
        elif part.mime:
            # Programs break the lines of encoded pictures in different places.
            displays.append((part.mime, "".join(part.data.split())))
    return CellOutcome("".join(texts).rstrip("\n"), tuple(displays), has_failed, time)


def _without_frames(traceback: str) -> str:
    """Return the exception of a traceback without the frames, which depend on who prints it."""
    lines = traceback.rstrip("\n").split("\n")
    locations = [index for index, line in enumerate(lines) if LOCATION.match(line)]
    start = 0
    if locations:
        start = locations[-1] + 1
        # The source of the last frame is indented.
        while start < len(lines) - 1 and lines[start][:1].isspace():
            start += 1
    # Hints are added by this program, so they are not part of the exception.
    exception_lines = [line for line in lines[start:] if not line.startswith("Hint: ")]
    return "\n".join(exception_lines) + "\n"


def read_session(past: Sequence[Record], session: str) -> Recording:
    """Return the cells of a session that count.

    They are the cells that have run since the kernel was reset, without those that were undone, hidden
    or replaced.

    Args:
        past: The records of the session.
        session: The id of the session.
    """
    conversation = ExportedConversation(past)
    try:
        entries = select(conversation).entries
    except NothingToExport:
        entries = []
    end_times = {record.cell: record.time for record in past if isinstance(record, records.ReplOut)}
    nested_cells = _nested_cells(past)
    cells = [
        _read_cell(entry, end_times, nested_cells, is_private=conversation.private(entry))
        for entry in entries
        if has_run(entry)
    ]
    forgotten_cells = _find_forgotten_cells(past)
    current_cells = [cell for cell in cells if cell.number not in forgotten_cells]

    kernels = [record for record in past if isinstance(record, records.KernelRecord)]
    executables = [kernel.executable for kernel in kernels if kernel.executable]
    is_elsewhere = bool(kernels) and bool(kernels[-1].host or kernels[-1].address)
    return Recording(
        cells=current_cells,
        private_names=frozenset(conversation.hidden_entries.private),
        session=session,
        python=executables[-1] if executables else None,
        staleness=_follow_variables(past),
        last_changes=_find_last_changes(past),
        unavailable_reason=_KERNEL_ELSEWHERE if is_elsewhere else "",
        forgotten_count=len(cells) - len(current_cells),
    )


def _find_forgotten_cells(past: Iterable[Record]) -> set[int]:
    """Return the cells before the last reset of the kernel, whose variables are gone."""
    cells: set[int] = set()
    forgotten_cells: set[int] = set()
    for record in past:
        if isinstance(record, records.ReplIn) and record.cell is not None:
            cells.add(record.cell)
        elif isinstance(record, records.KernelRecord) and record.text == FRESH:
            forgotten_cells |= cells
    return forgotten_cells


def _nested_cells(past: Iterable[Record]) -> set[int]:
    """Return the cells that ran inside others."""
    running: set[int] = set()
    nested: set[int] = set()
    for record in past:
        if isinstance(record, records.ReplIn) and record.cell is not None:
            if running:
                nested.add(record.cell)
            running.add(record.cell)
        elif isinstance(record, records.ReplOut) and not record.late:
            running.discard(record.cell or 0)
        elif isinstance(record, records.KernelRecord) and record.state == "idle":
            running.clear()
    return nested


def _read_cell(
    cell: Cell, end_times: dict[int | None, float], nested_cells: set[int], *, is_private: bool
) -> RecordedCell:
    """Return a cell of a session.

    Args:
        cell: The cell, as the transcript shows it.
        end_times: When each cell ended, in seconds since the epoch, by its number.
        nested_cells: The numbers of the cells that ran inside others.
        is_private: Whether it uses a private variable.
    """
    assert cell.number is not None
    skip_reason = ""
    if MASK in cell.code:
        skip_reason = "a secret in it was masked"
    elif cell.number in nested_cells:
        skip_reason = "it ran inside another cell"
    elif cell.status not in (Status.OK, Status.ERROR):
        skip_reason = f"it did not end by itself ({cell.status or 'no end was recorded'})"
    # What threads print after the end of the cell is different each time.
    cell.late_output = None
    outcome = make_outcome(
        outputs(cell), has_failed=cell.status == Status.ERROR, time=end_times.get(cell.number)
    )
    return RecordedCell(
        name=f"In {cell.number}",
        number=cell.number,
        code=cell.code,
        outcome=outcome,
        duration=cell.duration or 0.0,
        is_private=is_private,
        skip_reason=skip_reason,
    )


def _follow_variables(past: Iterable[Record]) -> Staleness:
    """Return which cells of a session use what others have made."""
    staleness = Staleness()
    for record in past:
        if isinstance(record, records.ReplIn) and record.cell is not None:
            staleness.start(record.cell, record.text)
        elif isinstance(record, records.Namespace):
            staleness.fold(record)
        elif isinstance(record, records.Undo):
            staleness.undo(record.cells, undone=record.undone)
    return staleness


def _find_last_changes(past: Iterable[Record]) -> dict[str, VariableChange]:
    """Return the last change of each variable, by its name."""
    return {
        change.name: VariableChange(record.cell, record.time)
        for record in past
        if isinstance(record, records.Namespace) and record.cell
        for change in record.changes
    }


def read_cells(notebook: LoadedNotebook) -> Recording:
    """Return the code cells of a notebook, a script or a Markdown file."""
    cells: list[RecordedCell] = []
    for position, node in enumerate(notebook.cells, 1):
        code = cell_source(node)
        if node["cell_type"] != "code" or not code.strip():
            continue
        parts = _notebook_parts(node)
        # A cell without outputs may have run, too. Only its number shows that.
        has_run_before = bool(parts) or node.get("execution_count") is not None
        unknown_reason = "the file has no result of it"
        if has_run_before:
            unknown_reason = incomparable_reason(code, parts)
        cells.append(
            RecordedCell(
                name=f"Cell {position}",
                number=position,
                code=code,
                outcome=make_outcome(parts, has_failed=False, is_foreign=True),
                unknown_reason=unknown_reason,
                is_foreign=True,
            )
        )
    unavailable_reason = ""
    if notebook.language:
        unavailable_reason = f"It is for {notebook.language}, not for Python."
    return Recording(cells, staleness=_follow_names(cells), unavailable_reason=unavailable_reason)


def _follow_names(cells: Iterable[RecordedCell]) -> Staleness:
    """Return which cells of a notebook use what others have made, as far as their code shows it."""
    staleness = Staleness()
    for cell in cells:
        staleness.start(cell.number, cell.code)
        names = {
            name
            for part in read_code(cell.code)
            if part.tree is not None and not part.is_separate
            for name in bound_names(part.tree)
        }
        changes = tuple(Change(name, "rebound", None) for name in names)
        staleness.fold(records.Namespace(cell=cell.number, changes=changes))
    return staleness


def _notebook_parts(node: Node) -> list[OutputPart]:
    """Return the parts of a cell's output.

    The text of a traceback is only its error, because the form of a traceback depends on the
    program.
    """
    parts: list[OutputPart] = []
    errors = [output for output in node.get("outputs") or () if _is_error(output)]
    error_lines = iter([f"{error.get('ename')}: {error.get('evalue')}\n" for error in errors])
    for part in cell_outputs(node):
        if part.kind == "traceback":
            part = part._replace(text=next(error_lines, part.text))
        parts.append(part)
    return parts


def _is_error(output: object) -> bool:
    return isinstance(output, dict) and output.get("output_type") == "error"
