"""What a check compares with: the cells of a session or a notebook, with their results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from mahtab_tui.bus import records
from mahtab_tui.bus.entries import Cell
from mahtab_tui.bus.magic_code import read_code
from mahtab_tui.bus.masking import MASK
from mahtab_tui.bus.output import LOCATION
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


class CellOutcome(NamedTuple):
    """What a cell has shown, in a form that can be compared."""

    text: str
    """The text without colours; of a traceback, only the exception."""
    displays: tuple[tuple[str, str], ...] = ()
    """MIME type and data of pictures and formatted texts."""
    has_failed: bool = False
    time: float | None = None
    """When it ran, in seconds since the epoch; None if that is not known."""


class VariableChange(NamedTuple):
    """When a variable was changed, and by what."""

    cell: int
    """The cell that has changed it; after an undo, the one that had made what came back."""
    time: float
    """In seconds since the epoch."""


UNCHANGED = VariableChange(0, 0.0)
"""The last change of a variable that no cell has changed."""


@dataclass(frozen=True)
class RecordedCell:
    """A cell, and what it has shown."""

    name: str
    """Such as ``In 3``."""
    number: int
    code: str
    outcome: CellOutcome
    duration: float = 0.0
    """In seconds; 0 if it is not known."""
    is_private: bool = False
    """Whether it uses a private variable."""
    skip_reason: str = ""
    """Why it cannot run again, as a clause; empty if it can."""
    unknown_reason: str = ""
    """Why its result cannot be compared, as a clause; empty if it can."""
    is_foreign: bool = False
    """Whether another program may have written its outputs: its pictures and formatted texts may be
    others, and it writes errors in another way."""


@dataclass(frozen=True)
class Recording:
    """The cells that count, in order."""

    cells: Sequence[RecordedCell]
    private_names: frozenset[str] = frozenset()
    session: str = ""
    """The id of the session whose saved variables are compared; empty for a notebook."""
    python: str | None = None
    """The interpreter; None for that of the settings."""
    staleness: Staleness | None = None
    """Knows which cells use what others have made; None if that is not known."""
    last_changes: Mapping[str, VariableChange] = field(default_factory=dict)
    """The last change of each variable."""
    unavailable_reason: str = ""
    """Why it cannot be checked, as a sentence; empty if it can."""
    forgotten_count: int = 0
    """Cells that would count if the kernel had not been reset after them."""


def make_outcome(
    parts: Iterable[OutputPart],
    *,
    has_failed: bool,
    time: float | None = None,
    is_foreign: bool = False,
) -> CellOutcome:
    """Return the outcome of a cell.

    Args:
        parts: Its outputs.
        has_failed: Whether it has ended with an error; also true if it has a traceback.
        time: When it ran, in seconds since the epoch; None if that is not known.
        is_foreign: Whether it is compared with what another program may have written.
    """
    texts: list[str] = []
    displays: list[tuple[str, str]] = []
    for part in parts:
        text = plain(SGR.sub("", collapse(part.text)))
        if part.kind == "traceback":
            text = first_error_line(text) if is_foreign else _exception(text)
            has_failed = True
        elif is_foreign:
            text = shared_form(text, part.mime)
        texts.append(text)
        if part.mime:
            data = part.data
            if part.mime not in RICH_TEXT_MIMES:
                data = "".join(data.split())
            displays.append((part.mime, data))
    return CellOutcome("".join(texts).rstrip("\n"), tuple(displays), has_failed, time)


def _exception(text: str) -> str:
    """Return a traceback without its frames, which depend on who prints it."""
    lines = text.rstrip("\n").split("\n")
    start = max((index + 1 for index, line in enumerate(lines) if LOCATION.match(line)), default=0)
    # The source of the frame is indented.
    while start < len(lines) - 1 and start and lines[start][:1].isspace():
        start += 1
    # Hints of this program are no part of the error.
    exception_lines = [line for line in lines[start:] if not line.startswith("Hint: ")]
    return "\n".join(exception_lines) + "\n"


def read_session(past: Sequence[Record], session: str) -> Recording:
    """Return the cells of a session that have run since the kernel was reset, and were not undone, hidden
    or replaced."""
    conversation = ExportedConversation(past)
    try:
        entries = select(conversation).entries
    except NothingToExport:
        entries = []
    times = {record.cell: record.time for record in past if isinstance(record, records.ReplOut)}
    nested_cells = _nested_cells(past)
    cells = [
        _read_cell(entry, times, nested_cells, is_private=conversation.private(entry))
        for entry in entries
        if has_run(entry)
    ]
    forgotten_cells = _find_forgotten_cells(past)
    current_cells = [cell for cell in cells if cell.number not in forgotten_cells]
    kernels = [record for record in past if isinstance(record, records.KernelRecord)]
    python = next((kernel.executable for kernel in reversed(kernels) if kernel.executable), None)
    unavailable_reason = ""
    if kernels and (kernels[-1].host or kernels[-1].address):
        unavailable_reason = "Its kernel is elsewhere: only cells that ran on this machine in a kernel of mahtab-tui can be checked."
    return Recording(
        current_cells,
        frozenset(conversation.hidden_entries.private),
        session,
        python,
        _follow_variables(past),
        _find_last_changes(past),
        unavailable_reason,
        len(cells) - len(current_cells),
    )


def _find_forgotten_cells(past: Iterable[Record]) -> set[int]:
    """Return the cells of which a new kernel without variables knows nothing."""
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
    cell: Cell, times: dict[int | None, float], nested_cells: set[int], *, is_private: bool
) -> RecordedCell:
    """Return a cell of a session.

    Args:
        cell: The cell as the transcript shows it.
        times: When cells ended, by number, in seconds since the epoch.
        nested_cells: The cells that ran inside others.
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
    # What threads print later is another text each time.
    cell.late_output = None
    outcome = make_outcome(
        outputs(cell), has_failed=cell.status == Status.ERROR, time=times.get(cell.number)
    )
    return RecordedCell(
        f"In {cell.number}",
        cell.number,
        cell.code,
        outcome,
        cell.duration or 0.0,
        is_private,
        skip_reason,
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
    """Return the last change of each variable."""
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
        # Cells without outputs may have run, which only their number shows.
        has_run_before = bool(parts) or node.get("execution_count") is not None
        unknown_reason = "the file has no result of it"
        if has_run_before:
            unknown_reason = incomparable_reason(code, parts)
        cells.append(
            RecordedCell(
                f"Cell {position}",
                position,
                code,
                make_outcome(parts, has_failed=False, is_foreign=True),
                unknown_reason=unknown_reason,
                is_foreign=True,
            )
        )
    unavailable_reason = ""
    if notebook.language:
        unavailable_reason = f"It is for {notebook.language}, not for Python."
    return Recording(cells, staleness=_follow_names(cells), unavailable_reason=unavailable_reason)


def _follow_names(cells: Iterable[RecordedCell]) -> Staleness:
    """Return which cells use names that others bind, as far as their code shows it."""
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
    """Return the outputs of a cell; of a traceback, whose form depends on the program, only the
    error."""
    parts: list[OutputPart] = []
    errors = [output for output in node.get("outputs") or () if _is_error(output)]
    error_lines = iter(f"{error.get('ename')}: {error.get('evalue')}\n" for error in errors)
    for part in cell_outputs(node):
        if part.kind == "traceback":
            part = part._replace(text=next(error_lines, part.text))
        parts.append(part)
    return parts


def _is_error(output: object) -> bool:
    return isinstance(output, dict) and output.get("output_type") == "error"
