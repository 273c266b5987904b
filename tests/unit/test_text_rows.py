"""Long texts as rows, finding in them, and cutting long lines."""

from __future__ import annotations

import re
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.style import Style

from mahtab_tui.tui.rows import text_source
from mahtab_tui.tui.rows.long_texts import MAX_LINE_CHARS, shorten_line
from mahtab_tui.tui.rows.row import cut_spans, hard_cuts
from mahtab_tui.tui.rows.text_source import LocalText, find_match
from mahtab_tui.tui.rows.text_window import LINE_PART_CHARS, TextRow, TextWindow

_TEXTS = st.lists(st.text(st.sampled_from("ab é漢\t\x1b\u202e")), max_size=12).map("\n".join)


def window(text: str) -> TextWindow:
    return TextWindow(LocalText(text))


def all_rows(text: str, width: int) -> list[TextRow]:
    return window(text).rows(0, 10_000, width)


@given(_TEXTS, st.integers(4, 20))
def test_rows_contain_the_whole_text_once(text: str, width: int) -> None:
    rows = all_rows(text, width)
    lines = text.split("\n")
    if text.endswith("\n"):
        lines.pop()
    assert [row.number for row in rows if row.number is not None] == list(range(1, len(lines) + 1))
    assert "".join(text[row.start : row.end] for row in rows) == text.replace("\n", "")
    assert all(len(row.text) == row.end - row.start for row in rows)


@given(_TEXTS.filter(lambda text: len(text) > 1), st.integers(4, 20), st.data())
def test_scrolling_up_and_down_shows_the_same_rows(
    text: str, width: int, data: st.DataObject
) -> None:
    rows = all_rows(text, width)
    index = data.draw(st.integers(0, len(rows) - 1))
    row_window = window(text)
    assert row_window.rows(rows[index].start, 3, width) == rows[index : index + 3]
    back = row_window.up(rows[index].start, 2, width)
    assert back == rows[max(0, index - 2)].start
    assert row_window.down(back, min(2, index), width) == rows[index].start
    assert row_window.row_at(rows[index].start, width) == rows[index].start


def test_drawn_text_is_harmless_and_hides_nothing() -> None:
    (row,) = all_rows("a\x1b[31mb\tc\u202ed\u200b\xa0e", 40)
    assert row.text == "a␛[31mb c·d· e"


def test_endless_line_is_shown_in_pieces() -> None:
    text = "x" * (3 * LINE_PART_CHARS) + "\nend"
    row_window = window(text)
    middle = row_window.row_at(2 * LINE_PART_CHARS + 100, 100)
    assert row_window.rows(middle, 1, 100)[0].text == "x" * 100
    last_position = row_window.row_at(len(text) - 1, 100)
    assert row_window.rows(last_position, 2, 100) == [
        TextRow(3 * LINE_PART_CHARS + 1, 3 * LINE_PART_CHARS + 4, 2, "end")
    ]


@pytest.mark.parametrize("lead", ["", "first\n", "x" * 99 + "\n"])
def test_rows_of_an_endless_line_are_the_same_from_everywhere(lead: str) -> None:
    line_chars = 2 * LINE_PART_CHARS + 300
    text = f"{lead}{'x' * line_chars}\nend"
    row_window = window(text)
    rows = all_rows(text, 50)
    for row, previous_row in zip(rows[1:], rows, strict=False):
        assert row_window.row_at(row.start, 50) == row.start
        assert row_window.row_at(row.end - 1, 50) == row.start
        assert row_window.up(row.start, 1, 50) == previous_row.start
        assert row_window.rows(row.start, 1, 50) == [row]


def test_only_the_first_row_of_an_endless_line_has_its_number() -> None:
    rows = all_rows("x" * (2 * LINE_PART_CHARS + 300) + "\nend", 100)
    assert [row.number for row in rows if row.number] == [1, 2]


@given(
    st.lists(st.sampled_from(["needle", "hay", "NEEDLE", "\n"]), max_size=30).map(" ".join),
    st.data(),
)
def test_words_are_found_from_any_offset(text: str, data: st.DataObject) -> None:
    local = LocalText(text)
    start = data.draw(st.integers(0, len(text)))
    spans = [match.span() for match in re.finditer("needle", text, re.IGNORECASE)]
    later_spans = [span for span in spans if span[0] >= start] or spans
    earlier_spans = [span for span in spans if span[0] < start] or spans
    with mock.patch.object(text_source, "BLOCK_CHARS", data.draw(st.sampled_from([7, 20]))):
        assert find_match(local, "needle", start) == next(iter(later_spans), None)
        assert find_match(local, "needle", start, backwards=True) == next(
            iter(earlier_spans[::-1]), None
        )
        assert (find_match(local, "NEEDLE", start) is None) == ("NEEDLE" not in text)
        assert local.line_number(len(text)) == text.count("\n") + 1


# Lines of megabytes.


@pytest.mark.timeout(60)  # cutting a copy for each row would take hours
def test_cutting_a_line_copies_each_character_once() -> None:
    line = "a" * 20_000_000
    style = Style()
    rows = list(cut_spans([(line, style)], hard_cuts(line, 80)))
    assert len(rows) == 250_000
    assert {len(text) for row in rows for text, _ in row} == {80}


def test_rows_contain_only_their_own_spans() -> None:
    bold = Style(bold=True)
    plain = Style()
    spans = [("abc", bold), ("defgh", plain), ("", bold), ("i", bold)]
    assert list(cut_spans(spans, [0, 2, 4, 8])) == [
        [("ab", bold)],
        [("c", bold), ("d", plain)],
        [("efgh", plain)],
        [("i", bold)],
    ]
    assert list(cut_spans([("ab", bold)], [0, 2])) == [[("ab", bold)], []]
    assert list(cut_spans([], [0])) == [[]]


@pytest.mark.parametrize("size", [MAX_LINE_CHARS + 1, 6_000_000])
def test_long_line_shows_both_ends_and_the_omitted_count(size: int) -> None:
    line = "x = '" + "a" * (size - 11) + "'; end"[:6]
    shortened = shorten_line(line)
    assert len(shortened) <= MAX_LINE_CHARS
    assert shortened.startswith("x = 'aaa")
    assert shortened.endswith("'; end")
    assert f"{size - MAX_LINE_CHARS * 9 // 10:,} characters of this line are not shown" in shortened
