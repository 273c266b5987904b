"""Adds to a session the output of cells that ended while no screen was open."""

from __future__ import annotations

import time
from collections.abc import Sequence

from mahtab_tui.bus.masking import Secrets
from mahtab_tui.bus.records import Notice, Record, ReplIn, ReplOut
from mahtab_tui.bus.values import Status
from mahtab_tui.kernel.detached import recovered_output
from mahtab_tui.kernel.terminal_output import TerminalOutput
from mahtab_tui.session.cell_records import output_attrs, output_records, unfinished_cells
from mahtab_tui.store.sqlite import SqliteStore


def add_recovered_output(
    store: SqliteStore, past: Sequence[Record], secrets: Secrets
) -> list[Record]:
    """Add the output of cells that ended while no screen was open, because their kernel ended.

    Args:
        store: The resumed session's store, which gets the new records.
        past: The session's records; the last one is the notice that the conversation was
            restored.
        secrets: Masks the output.

    Returns:
        The session's records with the new ones.

    Raises:
        StoreError: The store cannot be written.
    """
    records = list(past)
    for recovered in recovered_output(store.session):
        # The previous screen stored the beginning of this output before it closed.
        other_records = [record for record in records if not _is_cut_output(record, recovered.cell)]
        cell_start = _find_unfinished(other_records, recovered.cell)
        if cell_start is not None:
            cell_end = _make_end(cell_start, recovered.output, secrets)
            end_notice = _make_end_notice(recovered.cell)
            store.cells_continue = True
            store.append(cell_end)
            store.append(end_notice)
            # The notice that the conversation was restored stays the last one.
            records = [*other_records[:-1], cell_end, end_notice, *other_records[-1:]]
        recovered.path.unlink(missing_ok=True)
    return records


def _is_cut_output(record: Record, cell: int) -> bool:
    """Return whether a record is the output of a cell during which the program was killed."""
    return isinstance(record, ReplOut) and record.cell == cell and record.cut


def _find_unfinished(records: Sequence[Record], cell: int) -> ReplIn | None:
    """Return the record of a cell's start; None if the cell has ended."""
    for cell_start in unfinished_cells(records):
        if cell_start.cell == cell:
            return cell_start
    return None


def _make_end(cell_start: ReplIn, output: bytes, secrets: Secrets) -> ReplOut:
    """Return the record of a cell's end.

    Args:
        cell_start: The record of the cell's start.
        output: All that the cell has printed.
        secrets: Masks the output.
    """
    terminal = TerminalOutput()
    terminal.add("stdout", output.decode(errors="replace"))
    text, kinds = terminal.text()
    return output_records(cell_start).whole(
        secrets.mask(text),
        **output_attrs(cell_start),
        status=str(Status.DIED),
        kinds=kinds,
        rewritten=terminal.rewritten,
        time=time.time(),
    )


def _make_end_notice(cell: int) -> Notice:
    """Return the notice that tells the user how a cell has ended."""
    text = f"The kernel ended in cell {cell} while no screen was open."
    return Notice(text, level="warning", time=time.time())
