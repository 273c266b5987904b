"""Converts variables and their changes for `namespace` records."""

from __future__ import annotations

from mahtab_tui.bus import records
from mahtab_tui.kernel.values import Change, ChangeKind, Variable


def change_row(change: Change, before: Variable | None) -> records.Change:
    """Convert a change for the `namespace` record. before: the previous description of the name."""
    now = change.variable
    if now is None:
        return records.Change(change.name, change.change)
    row = variable_row(now, change.change)
    if before is not None and (before.type, before.summary) != (now.type, now.summary):
        row = row._replace(was_type=before.type, was=before.summary)
    return row


def variable_row(variable: Variable, change: ChangeKind = "added") -> records.Change:
    return records.Change(
        variable.name, change, type=variable.type, summary=variable.summary, kind=variable.kind
    )
