"""What a check calls the same: outcomes of cells are compared with those of fresh runs."""

from __future__ import annotations

import pytest

from mahtab_tui.session.checking.comparison import (
    MAX_SHOWN_CHARS,
    MAX_SHOWN_LINES,
    RANDOM,
    compare_outcomes,
    differing_lines,
)
from mahtab_tui.session.checking.recorded import CellOutcome

RAN_AT = 1_700_000_000.0
"""2023-11-14 22:13:20 UTC."""
RUNS_AT = RAN_AT + 30 * 86_400
VOLATILE = [
    ("<object at 0x7f0000001111>", "<object at 0x7f0000002222>", "memory addresses"),
    ("In [3]: odd", "In [7]: odd", "names of cells"),
    ("/tmp/ipykernel_12/345.py:1: odd", "/tmp/ipykernel_9/1.py:1: odd", "names of cells"),
    ("CPU times: 3 s\nWall time: 3 s", "Wall time: 5 s", "measured times"),
    ("took 3 s (CPU: 2 s)", "took 5 s (CPU: 2 s)", "measured times"),
    ("3 ms ± 1 ms per loop (3 runs)", "5 ms ± 1 ms per loop (3 runs)", "measured times"),
    ("50%|█ | 1/2 [00:01]", "50%|█ | 1/2 [00:07]", "progress bars"),
    ("on 2023-11-14 at noon", "on 2023-12-14 at noon", "dates of the run"),
    ("on 2023-11-14T09:08:07.5", "on 2023-12-14T22:21:20.1", "dates of the run"),
]
"""What a cell printed, and prints now, with what differs in it."""


def outcome(text: str, *displays: tuple[str, str], has_failed: bool = False) -> CellOutcome:
    return CellOutcome(text, displays, has_failed, RAN_AT)


def fresh(text: str, *displays: tuple[str, str], has_failed: bool = False) -> CellOutcome:
    return CellOutcome(text, displays, has_failed, RUNS_AT)


@pytest.mark.parametrize(("before", "now", "name"), VOLATILE)
def test_what_differs_in_each_run_is_not_comparable(before: str, now: str, name: str) -> None:
    reason = f"{name} differ; the rest is the same"
    for texts in ((before, now), (f"1\n{before}\n2", f"1\n{now}\n2")):
        recorded = outcome(texts[0], ("text/html", texts[0]))
        first_run = fresh(texts[1], ("text/html", texts[1]))
        comparison = compare_outcomes(recorded, [first_run], is_foreign=False)
        assert comparison == ("not comparable", reason)


@pytest.mark.parametrize(("before", "now", "name"), VOLATILE)
def test_another_value_beside_it_is_different(before: str, now: str, name: str) -> None:
    recorded = outcome(f"{before}\n1")
    first_run = fresh(f"{now}\n2")
    assert compare_outcomes(recorded, [first_run], is_foreign=False) == ("different", "")


@pytest.mark.parametrize(
    ("before", "now"),
    [("2020-01-01", "2021-01-01"), ("0xabcdef12", "0xabcdef13"), ("In [x]", "In [y]"), ("1", "2")],
)
def test_values_that_only_look_like_that_are_different(before: str, now: str) -> None:
    comparison = compare_outcomes(outcome(before), [fresh(now)], is_foreign=False)
    assert comparison == ("different", "")


@pytest.mark.parametrize("ran_at", [-9e18, 1e12, 9e18])
def test_a_damaged_time_has_no_date(ran_at: float) -> None:
    recorded = CellOutcome("on 2023-11-14", (), has_failed=False, time=ran_at)
    comparison = compare_outcomes(recorded, [fresh("on 2023-12-14")], is_foreign=False)
    assert comparison == ("different", "")


def test_all_that_differs_is_named() -> None:
    recorded = outcome("at 0x7f0000001111 on 2023-11-14")
    first_run = fresh("at 0x7f0000002222 on 2023-12-14")
    assert compare_outcomes(recorded, [first_run], is_foreign=False) == (
        "not comparable",
        "memory addresses and dates of the run differ; the rest is the same",
    )


def test_only_what_two_fresh_runs_agree_on_is_different() -> None:
    recorded = outcome("1")
    for second_text, comparison in (("2", ("different", "")), ("3", ("not comparable", RANDOM))):
        runs = [fresh("2"), fresh(second_text)]
        assert compare_outcomes(recorded, runs, is_foreign=False) == comparison


def test_errors_are_part_of_an_outcome() -> None:
    error = "ZeroDivisionError"
    for recorded, first_run, comparison in (
        (outcome("1"), fresh(error, has_failed=True), ("failed", "")),
        (outcome(error, has_failed=True), fresh("1"), ("different", "it failed before")),
        (outcome("1", has_failed=True), fresh("1"), ("different", "it failed before")),
        (outcome(error, has_failed=True), fresh(error, has_failed=True), ("same", "")),
        (outcome(error, has_failed=True), fresh("KeyError", has_failed=True), ("different", "")),
    ):
        assert compare_outcomes(recorded, [first_run], is_foreign=False) == comparison


def test_pictures_are_compared_unless_another_program_may_have_drawn_them() -> None:
    recorded = outcome("1", ("image/png", "aaaa"))
    first_run = fresh("1", ("image/png", "bbbb"))
    assert compare_outcomes(recorded, [first_run], is_foreign=False) == (
        "different",
        "its pictures or tables; the text is the same",
    )
    verdict, reason = compare_outcomes(recorded, [first_run], is_foreign=True)
    assert verdict == "not comparable"
    assert reason.startswith("another program may have drawn its pictures")
    other_text = fresh("2", ("image/png", "bbbb"))
    assert compare_outcomes(recorded, [other_text], is_foreign=True) == ("different", "")


def test_how_another_program_arranges_a_text_is_not_comparable() -> None:
    broken = fresh("[1,\n 2]")
    for recorded, name in (
        (outcome("[1, 2]"), "line breaks"),
        (outcome(" 2]\n[1,"), "positions of lines"),
    ):
        comparison = compare_outcomes(recorded, [broken], is_foreign=True)
        assert comparison == ("not comparable", f"{name} differ; the rest is the same")
        assert compare_outcomes(recorded, [broken], is_foreign=False) == ("different", "")
    for recorded in (outcome("[1, 3]"), outcome("[1, 2]", has_failed=True)):
        assert compare_outcomes(recorded, [broken], is_foreign=True)[0] == "different"


@pytest.mark.parametrize(
    ("before", "now", "lines"),
    [
        ("a\nb\nc", "a\nx\nc", ("b", "x")),
        ("a\nb", "a\nb\nc", ("", "c")),
        ("a\na", "a", ("a", "")),
        ("a\nb\nc", "x\nb\ny", ("a\nb\nc", "x\nb\ny")),
    ],
)
def test_lines_that_differ_are_shown(before: str, now: str, lines: tuple[str, str]) -> None:
    assert differing_lines(before, now) == lines


def test_many_and_long_lines_that_differ_are_cut() -> None:
    long_line = "x" * (MAX_SHOWN_CHARS + 1)
    many_lines = "\n".join(map(str, range(MAX_SHOWN_LINES + 3)))
    shown_lines = differing_lines(long_line, many_lines)
    assert shown_lines[0] == "x" * MAX_SHOWN_CHARS + "…"
    assert shown_lines[1].splitlines()[-2:] == [str(MAX_SHOWN_LINES - 1), "… 3 more lines"]
