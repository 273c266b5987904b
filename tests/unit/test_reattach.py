"""Known contents of a kernel that has waited, from the records of its session."""

from __future__ import annotations

from mahtab_tui.bus.records import Change, Namespace
from mahtab_tui.session.cells import last_changes


def record(cell: int, party: str, *changes: tuple[str, str], fresh: bool = False) -> Namespace:
    return Namespace(
        cell=cell,
        party=party,
        changes=tuple(Change(name, kind) for name, kind in changes),
        fresh=fresh,
    )


def test_last_cell_that_bound_a_name_is_its_author() -> None:
    first = record(1, "you", ("a", "added"), ("b", "added"), ("c", "added"))
    second = record(2, "claude", ("a", "rebound"), ("b", "perhaps"), ("c", "deleted"))
    assert last_changes([first, second]) == {"a": second, "b": first}


def test_names_of_an_earlier_kernel_or_without_a_cell_have_no_author() -> None:
    old, start = record(1, "you", ("a", "added")), record(0, "you", ("b", "added"), fresh=True)
    assert last_changes([old, start]) == {}
    assert last_changes([start, record(2, "you", ("b", "changed"))]).keys() == {"b"}


def test_detaching_from_the_kernel_does_not_lose_the_names() -> None:
    made, left = record(1, "you", ("a", "added")), record(1, "you", fresh=True)
    assert last_changes([made, left]) == {"a": made}
    assert last_changes([made, left, record(2, "you", ("b", "added"))]).keys() == {"b"}
