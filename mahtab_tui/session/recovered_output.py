"""Output of cells whose kernel ended while there was no screen: it becomes a record of the
session."""

from __future__ import annotations

import time
from collections.abc import Sequence

from mahtab_tui.bus.masking import Secrets
from mahtab_tui.bus.records import (
    AssistantReplOut,
    Notice,
    Record,
    ReplOut,
    UserReplIn,
    UserReplOut,
)
from mahtab_tui.kernel.detached.waiting import last_outputs
from mahtab_tui.kernel.output import TerminalOutput
from mahtab_tui.kernel.values import Status
from mahtab_tui.session.reattach import attrs_of, unfinished
from mahtab_tui.store.sqlite import SqliteStore


def with_last_outputs(store: SqliteStore, past: Sequence[Record], secrets: Secrets) -> list[Record]:
    """Return the past records of a resumed session, with the whole output of a cell in which its
    kernel ended. Raises `StoreError`."""
    told = list(past)
    for cell, output, path in last_outputs(store.session):
        # What the screen has stored of it before it went is its beginning.
        kept = [
            record
            for record in told
            if not (isinstance(record, ReplOut) and record.cell == cell and record.cut)
        ]
        started = next((each for each in unfinished(kept) if each.cell == cell), None)
        if started is not None:
            text = TerminalOutput()
            text.add("stdout", output.decode(errors="replace"))
            whole, kinds = text.text()
            kind = UserReplOut if isinstance(started, UserReplIn) else AssistantReplOut
            record = kind(
                secrets.mask(whole),
                **attrs_of(started),
                status=str(Status.DIED),
                kinds=kinds,
                rewritten=text.rewritten,
                time=time.time(),
            )
            ended = Notice(
                f"The kernel ended in cell {cell} while no screen was open.",
                level="warning",
                time=time.time(),
            )
            store.cells_go_on = True
            store.append(record)
            store.append(ended)
            told = [*kept[:-1], record, ended, *kept[-1:]]  # the last one says what has come back
        path.unlink(missing_ok=True)
    return told
