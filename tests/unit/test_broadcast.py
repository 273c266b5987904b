"""What those get who begin to watch a long session."""

from __future__ import annotations

import logging

from mahtab_tui.bus.records import Namespace, Notice, Private, Record, emit
from mahtab_tui.bus.values import Change, ChangeKind, Variable
from mahtab_tui.session.broadcast import MAX_PAST_RECORDS, Broadcast
from mahtab_tui.tui.namespace.variables import VariableRows


def report(cell: int, party: str, **kinds: ChangeKind) -> Namespace:
    """Return the record of a cell. kinds: of the changes, by the variable's name."""
    changes = []
    for name, kind in kinds.items():
        variable = Variable(name, "int", str(cell), "data")
        changes.append(Change(name, kind, variable))
    return Namespace(cell=cell, party=party, changes=tuple(changes))


OLD_RECORDS: tuple[Record, ...] = (
    report(1, "you", gone="added"),
    Namespace(cell=1, fresh=True),
    report(2, "you", kept="added", removed="added", moved="added", doubtful="added"),
    Private(name="kept", private=True),
    Private(name="moved", private=True),
    report(3, "model", removed="deleted", moved="rebound"),
    report(4, "model", doubtful="perhaps"),
    Private(name="moved", private=False),
)


def fold_variables(records: list[Record]) -> VariableRows:
    rows = VariableRows()
    rows.fold(records)
    return rows


def test_watcher_of_a_long_session_knows_the_variables_of_its_first_cells() -> None:
    log = logging.Logger("session")
    broadcast = Broadcast()
    log.addHandler(broadcast)
    notices = [Notice(text=str(number)) for number in range(MAX_PAST_RECORDS)]
    newer_records = [report(5, "you", newest="added"), *notices[1:]]
    for record in (*OLD_RECORDS, *newer_records):
        emit(log, record)

    all_rows = fold_variables([*OLD_RECORDS, *newer_records])
    rows = fold_variables(broadcast.recent_records())
    assert [row.name for row in rows.visible] == ["newest", "moved", "doubtful", "kept"]
    for row, expected_row in zip(rows.visible, all_rows.visible, strict=True):
        assert (row.name, row.by, row.value) == (
            expected_row.name,
            expected_row.by,
            expected_row.value,
        )
    assert rows.private == {"kept"}
    feed = broadcast.watch()
    watched_records = [feed.get_nowait() for _ in range(feed.qsize())]
    assert watched_records == broadcast.recent_records()
