"""Lines of megabytes in the transcript: laid out in linear time, and not all of them."""

from __future__ import annotations

import pytest
from rich.style import Style

from mahtab_tui.tui.rows.code import two_ends
from mahtab_tui.tui.rows.row import WIDEST, cut_spans, hard_cuts, shorten_line


@pytest.mark.timeout(60)  # cutting a copy for each row would take hours
def test_cutting_a_line_copies_each_character_once() -> None:
    line, style = "a" * 20_000_000, Style()
    rows = list(cut_spans([(line, style)], hard_cuts(line, 80)))
    assert len(rows) == 250_000
    assert {len(text) for row in rows for text, _ in row} == {80}


def test_rows_contain_only_their_own_spans() -> None:
    bold, plain = Style(bold=True), Style()
    spans = [("abc", bold), ("defgh", plain), ("", bold), ("i", bold)]
    assert list(cut_spans(spans, [0, 2, 4, 8])) == [
        [("ab", bold)],
        [("c", bold), ("d", plain)],
        [("efgh", plain)],
        [("i", bold)],
    ]
    assert list(cut_spans([("ab", bold)], [0, 2])) == [[("ab", bold)], []]
    assert list(cut_spans([], [0])) == [[]]


@pytest.mark.parametrize("size", [WIDEST + 1, 6_000_000])
def test_long_line_shows_both_ends_and_the_omitted_count(size: int) -> None:
    line = "x = '" + "a" * (size - 11) + "'; end"[:6]
    shown = shorten_line(line)
    assert len(shown) <= WIDEST
    assert shown.startswith("x = 'aaa")
    assert shown.endswith("'; end")
    assert f"{size - WIDEST * 9 // 10:,} characters of this line are not shown" in shown


def test_only_long_lines_are_shortened() -> None:
    code = "\n".join(["first", "b" * 50_000, "last"])
    [text] = two_ends(code)
    first, long, last = text.split("\n")
    assert (first, last) == ("first", "last")
    assert "41,000 characters of this line are not shown" in long
    assert two_ends("c" * WIDEST) == ["c" * WIDEST]
    many = "".join(two_ends("\n".join(["d" * 20_000] * 1_000)))
    assert "lines left out" in many
    assert len(many) < 5_000_000
