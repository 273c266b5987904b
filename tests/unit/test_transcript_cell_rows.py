"""Rows of a cell beside its code and output: how it ended, what it changed."""

from __future__ import annotations

import pytest

from mahtab_tui.bus.conversation import Cell
from mahtab_tui.bus.records import Change
from mahtab_tui.tui.transcript.layout import CellRows, duration
from tests.unit.test_transcript_rows import PALETTE, lines


def test_changes_are_limited_and_counted() -> None:
    cell = Cell(author="you", person=True, code="x", number=1)
    cell.changes = [Change(f"n{number}", "added", type="int", summary="1") for number in range(24)]
    rows = CellRows(cell, 1_000, PALETTE)
    rows.update()
    assert "+ n0 int 1" in lines(rows)[-1]
    assert "+ n11 int 1" in lines(rows)[-1]
    assert "and 12 more" in lines(rows)[-1]


def test_changes_wrap_between_names() -> None:
    cell = Cell(author="you", person=True, code="x", number=1)
    cell.changes = [
        Change(name, "added", type="Series", summary="(31,)") for name in ("a", "b", "c")
    ]
    rows = CellRows(cell, 40, PALETTE)
    rows.update()
    assert [line.strip() for line in lines(rows)[-2:]] == [
        "+ a Series (31,)   + b Series (31,)",
        "+ c Series (31,)",
    ]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"change": "added", "type": "int", "summary": "3"}, "+ x int 3"),
        (
            {
                "change": "rebound",
                "type": "DataFrame",
                "summary": "98 × 5",
                "was_type": "DataFrame",
                "was": "100 × 4",
            },
            "~ x DataFrame 100 × 4 → 98 × 5",
        ),
        (
            {
                "change": "rebound",
                "type": "str",
                "summary": "'three'",
                "was_type": "int",
                "was": "3",
            },
            "~ x int 3 → str 'three'",
        ),
        (
            {
                "change": "changed",
                "type": "list",
                "summary": "2 items",
                "was_type": "list",
                "was": "y" * 40,
            },
            f"~ x list {'y' * 23}… → 2 items",
        ),
        ({"change": "deleted"}, "− x"),
    ],
)
def test_change_shows_the_previous_value(change: dict[str, str], expected: str) -> None:
    rows = CellRows(
        Cell(author="you", person=True, code="x", changes=[Change("x", **change)]), 80, PALETTE
    )
    rows.update()
    assert rows[len(rows) - 1].text.strip() == expected


@pytest.mark.parametrize(
    ("status", "mark"),
    [
        ("ok", ""),
        ("error", "✗ error"),
        ("interrupted", "■ interrupted"),
        ("killed", "✗ killed"),
        ("died", "✗ died"),
    ],
)
def test_cell_shows_its_final_status(status: str, mark: str) -> None:
    cell = Cell(author="you", person=True, code="x", number=1, status=status, duration=0.08)
    rows = CellRows(cell, 60, PALETTE)
    rows.update()
    right = "".join(text for text, _ in rows[0].right)
    assert right == f"{mark}  0.08 s".strip()
    assert rows[0].text == "In 1 · you"


def test_skipped_block_shows_the_reason() -> None:
    cell = Cell(author="claude", person=False, code="x", approval="skipped", reason="too\nslow")
    rows = CellRows(cell, 60, PALETTE)
    rows.update()
    assert rows[0].text == "code · claude   skipped: too slow"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.0003, "<0.01 s"), (0.08, "0.08 s"), (4.21, "4.2 s"), (185, "3 min 05 s")],
)
def test_durations_are_short(seconds: float, text: str) -> None:
    assert duration(seconds) == text
