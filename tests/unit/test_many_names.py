"""Cells that change very many variables at once: what is drawn decides how much work that is."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mahtab_tui.bus import codec
from mahtab_tui.bus.entries import Cell
from mahtab_tui.bus.records import Namespace, Private, UserReplIn, encode
from mahtab_tui.bus.staleness import Staleness
from mahtab_tui.bus.values import Change, ChangeKind, Variable
from mahtab_tui.bus.variable_makers import VariableMakers
from mahtab_tui.kernel import messages
from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.messages import LIST_PART_ITEMS, CellEnd, checked
from mahtab_tui.session.variable_history import VariableHistory
from mahtab_tui.store import stored_records
from mahtab_tui.tui.namespace import variables
from mahtab_tui.tui.namespace.variables import MEASURED_ROWS, VariableRows
from mahtab_tui.tui.transcript.cell_rows import MAX_CHANGES, CellRows
from tests.unit.test_transcript_rows import PALETTE

NAME_COUNT = 5_000


def changes(kind: ChangeKind = "added", count: int = NAME_COUNT) -> tuple[Change, ...]:
    return tuple(
        Change(f"v{number}", kind, Variable(f"v{number}", "int", str(number), "data"))
        for number in range(count)
    )


def counted(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> list[Any]:
    """The first arguments of each call of a function."""
    arguments: list[Any] = []
    function = getattr(owner, name)

    def note_and_call(*args: Any, **kwargs: Any) -> Any:
        arguments.append(args[0])
        return function(*args, **kwargs)

    monkeypatch.setattr(owner, name, note_and_call)
    return arguments


def test_texts_are_made_only_for_measured_and_drawn_variables(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    texts = counted(monkeypatch, variables, "plain")
    rows = VariableRows()
    rows.fold([Namespace(cell=1, party="you", changes=changes())])
    assert not texts
    rows.lay_out(60, PALETTE)
    assert [rows[index].text.split()[0] for index in range(3)] == ["v4999", "v4998", "v4997"]
    assert len(texts) < 10 * MEASURED_ROWS


def test_very_many_changes_are_folded_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(variables, "MAX_FOLDED_CHANGES", 1_000)
    rows = VariableRows()
    old = Namespace(cell=1, party="you", changes=changes(count=3))
    fresh = Namespace(cell=0, party="you", fresh=True, changes=changes(count=2_500))
    again = Namespace(cell=2, party="you", changes=changes("rebound", count=1))
    waiting = [[old, fresh, Private(name="v1", private=True), again], [], []]
    folded = [
        (rows.fold(batch), rows.is_behind, "v996" in rows, "v997" in rows) for batch in waiting
    ]
    assert folded == [
        (False, True, True, False),
        (False, True, True, True),
        (True, False, True, True),
    ]
    assert len(rows) == 2_500
    assert not rows.fold([])
    assert [row.by for row in rows.visible[:2]] == ["❯ 2", "you"]
    assert rows.private == {"v1"}


def test_marks_do_not_cut_names() -> None:
    rows = VariableRows()
    variable = Variable("measurements", "int", "1", "data")
    added = Change("measurements", "added", variable)
    rows.fold([Namespace(cell=1, party="you", changes=(added,))])
    rows.watched.add("measurements")
    rows.lay_out(60, PALETTE)
    assert rows[0].text.startswith("● measurements ")
    rows.fold([Private(name="measurements", private=True)])
    assert rows[0].text.startswith("● ⊘ measurements ")


def test_size_is_of_the_same_time_as_the_summary() -> None:
    rows = VariableRows()
    for kind, summary, size in (("added", "18.4 M chars", 18_400_000), ("perhaps", "1 char", 0)):
        variable = Variable("text", "str", summary, "data", size)
        change = Change("text", kind, variable)  # type: ignore[arg-type]
        rows.fold([Namespace(cell=1, party="you", changes=(change,))])
    assert [(row.summary, row.size) for row in rows.visible] == [("1 char", "")]


def test_variables_that_are_changed_again_come_first() -> None:
    rows = VariableRows()
    rows.fold([Namespace(cell=1, party="you", changes=changes(count=4))])
    uncertain, again, *_ = changes(count=4)
    again = Change(again.name, "rebound", again.variable)
    uncertain = Change(uncertain.name, "perhaps", uncertain.variable)
    rows.fold([Namespace(cell=2, party="you", changes=(uncertain, again))])
    assert [(row.name, row.by) for row in rows.visible] == [
        ("v1", "❯ 2"),
        ("v3", "❯ 1"),
        ("v2", "❯ 1"),
        ("v0", "❯ 1?"),
    ]


class CountedTuple(tuple[Change, ...]):
    """Counts the items that are looked at."""

    looked_at = 0

    def __iter__(self) -> Iterator[Change]:
        for item in super().__iter__():
            CountedTuple.looked_at += 1
            yield item


def test_a_cell_looks_only_at_the_changes_that_it_lists() -> None:
    uncertain = Change("w", "perhaps", Variable("w", "list", "3 items", "data"))
    changed = CountedTuple((uncertain, *changes()))
    cell = Cell(author="you", person=True, code="1", number=1, changes=changed)
    CountedTuple.looked_at = 0
    rows = CellRows(cell, 80, PALETTE)
    rows.update()
    text = "".join(rows[index].text for index in range(len(rows)))
    # Certain changes come first.
    assert [f"v{number} " in text for number in (0, MAX_CHANGES - 1, MAX_CHANGES)] == [
        True,
        True,
        False,
    ]
    assert f"and {NAME_COUNT + 1 - MAX_CHANGES:,} more" in text
    assert CountedTuple.looked_at < 3 * MAX_CHANGES


def test_only_variables_that_cells_have_used_are_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    names = counted(monkeypatch, VariableMakers, "state_of")
    staleness = Staleness()
    staleness.start(1, "make()")
    assert not staleness.fold(Namespace(cell=1, changes=changes()))
    staleness.start(2, "v7 + 1")
    staleness.start(3, "make()")
    assert staleness.fold(Namespace(cell=3, changes=changes("rebound"))) == {2}
    assert [str(use) for use in staleness.inputs_of(2)] == ["`v7` from In 1, changed by In 3"]
    staleness.fold(Namespace(cell=1, changes=changes("rebound"), restored=True))
    assert staleness.inputs_of(2) == ()
    assert len(names) < 10


def message(change_count: int) -> dict[str, Any]:
    rows = [
        {
            "name": f"v{number}",
            "change": "added",
            "variable": {"name": f"v{number}", "type": "int", "summary": "1", "kind": "data"},
        }
        for number in range(change_count)
    ]
    return {
        "cell": 1,
        "status": "ok",
        "pieces": [],
        "changes": rows,
        "frames": [],
        "duration": 0.1,
        "cwd": "/",
    }


def test_a_long_list_of_a_kernel_is_checked_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    lengths: list[int] = []
    find_adapter = messages._adapter

    class NotingAdapter:
        def __init__(self, kind: Any) -> None:
            self._adapter = find_adapter(kind)

        def validate_python(self, value: Any) -> Any:
            rows: Sequence[Any] = value if isinstance(value, list) else value["changes"]
            lengths.append(sum(isinstance(row, dict) for row in rows))
            return self._adapter.validate_python(value)

    monkeypatch.setattr(messages, "_adapter", NotingAdapter)
    end = checked(CellEnd, message(NAME_COUNT))
    assert [change.name for change in end.changes] == [f"v{n}" for n in range(NAME_COUNT)]
    assert end.changes[-1] == Change("v4999", "added", Variable("v4999", "int", "1", "data"))
    assert sum(lengths) == NAME_COUNT
    assert max(lengths) == LIST_PART_ITEMS


def test_an_invalid_item_of_a_long_list_is_named() -> None:
    bad_message = message(NAME_COUNT)
    bad_message["changes"][4_321]["variable"] = 5
    with pytest.raises(KernelError, match=r"^CellEnd changes\.4321\.variable"):
        checked(CellEnd, bad_message)


@given(
    st.dictionaries(
        st.text(max_size=3),
        st.integers() | st.text(max_size=3) | st.lists(st.text(max_size=2), max_size=9),
        max_size=4,
    )
)
def test_json_in_parts_is_the_same(attributes: dict[str, Any]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stored_records, "LIST_PART_ITEMS", 3)
        assert stored_records._as_json(attributes) == json.dumps(attributes)


def test_a_long_list_is_stored_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    values = counted(monkeypatch, json, "dumps")
    stored_records.encode_row(Namespace(cell=1, changes=changes()))
    lists = [value for value in values if isinstance(value, list)]
    assert sum(map(len, lists)) == NAME_COUNT
    assert max(map(len, lists)) == stored_records.LIST_PART_ITEMS


def test_the_history_of_variables_looks_at_changes_when_it_is_asked() -> None:
    history = VariableHistory()
    CountedTuple.looked_at = 0
    for cell in (1, 2):
        history.fold(UserReplIn(f"make({cell})", cell=cell))
        history.fold(Namespace(cell=cell, changes=CountedTuple(changes("rebound"))))
    assert CountedTuple.looked_at == 0
    assert history.code_for("v7") == "# cell 2\nmake(2)"
    assert history.code_for("w") == ""


def test_how_changes_are_read_is_found_out_once() -> None:
    record = Namespace(cell=1, party="you", changes=changes(), time=1.0)
    attributes = json.loads(json.dumps(encode(record)))
    before = codec._make_reader.cache_info()
    assert codec.decode(record.tag, "", attributes, 1.0) == record
    after = codec._make_reader.cache_info()
    assert after.hits + after.misses - before.hits - before.misses < 50
