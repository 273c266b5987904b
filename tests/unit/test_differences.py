"""What changed between two descriptions of an object."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mahtab_tui.bus.change_words import format_changes
from mahtab_tui.bus.differences import changed_fields
from mahtab_tui.bus.values import Change, StoredChange, Variable


@pytest.mark.parametrize(
    ("before", "after", "changed"),
    [
        ("(balance=100)", "(balance=50)", "balance=100 → 50"),
        ("(id=7, total=3.5)", "(id=7, total=4.0)", "total=3.5 → 4.0"),
        ("(a='x, y=1', b=[1, 2])", "(a='x, y=1', b=[1, 3])", "b=[1, 2] → [1, 3]"),
        ("(a=1, b=2, …)", "(a=3, b=4, …)", "a=1 → 3, b=2 → 4"),
        (r"(a='\', \"', b=1)", r"(a='\', \"', b=2)", "b=1 → 2"),
        ("(3, a=1)", "(3, a=2)", "a=1 → 2"),
        ("(3, a=1)", "(4, a=2)", ""),
        ("(a=1)", "(a=1)", ""),
        ("(a=1)", "(b=1)", ""),
        ("100 × 5", "98 × 5", ""),
        ("", "", ""),
    ],
)
def test_only_the_fields_that_differ_are_named(before: str, after: str, changed: str) -> None:
    assert changed_fields(before, after) == changed


@given(st.text(), st.text())
def test_any_texts_can_be_compared(before: str, after: str) -> None:
    changed_fields(before, after)
    changed_fields(f"({before})", f"({after})")


def test_an_agent_is_told_only_the_fields_that_changed() -> None:
    before, after = (
        Variable("a", "Account", f"(owner='Ada', balance={balance})", "data")
        for balance in (100, 50)
    )
    table = Variable("df", "DataFrame", "9 × 3", "data")
    changes = [
        Change("a", "changed", after, before),
        Change("df", "changed", table, None, "+ column `z`"),
    ]
    assert format_changes(changes) == (
        "[~a Account(balance=100 → 50), ~df DataFrame 9 × 3 + column `z`]"
    )


def test_an_agent_is_told_how_many_changes_are_left_out() -> None:
    changes = [Change("x", "deleted", None)]
    assert format_changes(changes, 49_980) == "[−x, and 49,980 more]"


@pytest.mark.parametrize("kind", ["restoring", "absent", "a kind of a newer version"])
def test_changes_of_other_kinds_are_formatted(kind: str) -> None:
    stored_change = StoredChange("x", kind, type="int", summary="3")
    assert format_changes([stored_change.as_change()]) == "[~x int 3]"
