"""Texts of entries, positions of matches in them, and sums of heights."""

from __future__ import annotations

import base64
import io
import re
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from textual.geometry import Offset
from textual.selection import Selection

from mahtab_tui.bus.entries import AnswerText, Cell, Entry, Note, Question, ToolUse
from mahtab_tui.tui.rows.code import PYTHON
from mahtab_tui.tui.rows.long_texts import MAX_TEXT_HEAD_CHARS, MAX_TEXT_TAIL_CHARS
from mahtab_tui.tui.transcript.entry_window import EntryWindow, Heights, RowPosition
from mahtab_tui.tui.transcript.finding import SearchMatch, match_position
from mahtab_tui.tui.transcript.fold import output_text
from mahtab_tui.tui.transcript.picture_rows import PictureSpace
from mahtab_tui.tui.transcript.selection import position_to_number, selected_text
from mahtab_tui.tui.transcript.viewport import Viewport
from tests.unit.test_transcript_rows import PALETTE
from tests.unit.transcripts import cell_of, ended, entered, folded


def window(*entries: Entry, width: int = 20) -> EntryWindow:
    view = EntryWindow(entries, width, PALETTE)
    view.update_heights(range(len(entries)))
    return view


@pytest.fixture
def highlighted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that are highlighted, which is most of the work of drawing code."""
    texts: list[str] = []
    get_tokens = PYTHON.get_tokens_unprocessed

    def note_and_get_tokens(text: str) -> Any:
        texts.append(text)
        return get_tokens(text)

    monkeypatch.setattr(PYTHON, "get_tokens_unprocessed", note_and_get_tokens)
    return texts


def test_of_a_burst_of_cells_only_the_visible_ones_are_drawn(highlighted: list[str]) -> None:
    viewport = Viewport()
    viewport.height = 20
    viewport.lay_out(80, PALETTE)
    burst_size = 50
    for first in range(0, 2_000, burst_size):
        numbers = range(first, first + burst_size)
        viewport.fold([entered(f"x{number} = 1", cell=number) for number in numbers])
        viewport.settle()
        visible_text = "".join(
            viewport[row].text for row in range(viewport.first_row, len(viewport))
        )
        assert f"x{numbers[-1]} = 1" in visible_text
    assert len(highlighted) < 2_000 * viewport.height // burst_size


@pytest.mark.parametrize(
    "code", ["# a word and more\n" * 300_000, f"s = '{'word ' * 1_000_000}'"], ids=["lines", "line"]
)
def test_of_five_megabytes_of_code_only_the_ends_are_drawn_once(
    code: str, highlighted: list[str]
) -> None:
    rows = window(Cell(author="codex", person=False, code=code), width=80)
    assert len(rows.rows(0)) > 1
    rows.rows(0)
    max_chars = (
        MAX_TEXT_HEAD_CHARS + MAX_TEXT_TAIL_CHARS + 1_000
    )  # with the note of what is left out
    assert sum(map(len, highlighted)) <= max_chars


def test_text_of_every_entry_kind_is_harmless_to_a_terminal() -> None:
    use = partial(ToolUse, author="x", name="look")
    for entry, text in (
        (Cell(author="x", person=False, code="\nx = 1\n"), "x = 1"),
        (AnswerText(author="x", source="Yes.\n"), "Yes."),
        (use(arguments='{"path": "a"}', text="found\x1b[2J\n"), 'look {"path": "a"}\nfound'),
        (use(arguments="{}"), "look {}"),
        (Question(text="why\x07?"), "why?"),
        (Note(level="info", text="so"), "so"),
    ):
        assert entry.plain_text == text


def test_omitted_lines_are_noted_in_position() -> None:
    printed = "".join(f"{number}\n" for number in range(2_000))
    texts = output_text(cell_of(folded(entered("x"), ended(printed)))).split("\n")
    assert texts[199:202] == ["199", "… 1,000 lines left out …", "1200"]
    assert texts[-1] == "1999"


def test_each_match_is_found_on_its_own_row() -> None:
    rows = window(Note(gap=False, level="info", text="a straw\nnone\nstraw and straw\nstraw"))
    matches = [match_position(SearchMatch(0, n), rows, re.compile("straw")) for n in range(5)]
    assert [match.row for match in matches] == [0, 2, 2, 3, 3], "the last one is hidden"


def test_top_line_stays_in_its_entry_when_pictures_have_less_space() -> None:
    file = io.BytesIO()
    Image.new("RGB", (800, 480)).save(file, "PNG")
    cell = Cell(author="you", person=True, code="figure")
    cell.output.show("<Image>", "image/png", base64.b64encode(file.getvalue()).decode())
    rows = window(cell, width=100)
    last_position = RowPosition(0, len(rows.rows(0)) - 1)
    top = rows.redraw_from(last_position, 100, PALETTE, PictureSpace(height=8))
    assert len(rows.rows(0)) < last_position.row
    assert rows.row(top).picture is not None


def test_copying_few_rows_of_a_long_entry_looks_at_no_others() -> None:
    looked: list[int] = []

    class Watched(Selection):
        def get_span(self, y: int) -> tuple[int, int] | None:
            looked.append(y)
            return super().get_span(y)

    rows = window(Question(text="\n".join(map(str, range(5_000)))))
    start, end = (position_to_number(RowPosition(0, row)) for row in (4_000, 4_002))
    assert len(selected_text(rows, 1, Watched(Offset(0, start), Offset(40, end))).split("\n")) == 3
    assert looked == [start, start + 1, end]


def test_the_indent_of_a_wrapped_row_is_not_copied() -> None:
    rows = window(Note(gap=False, level="info", text="first words and second words"))
    assert rows.rows(0)[1].text.startswith("  ")
    start, end = (position_to_number(RowPosition(0, row)) for row in (0, 9))
    selection = Selection(Offset(0, start), Offset(40, end))
    assert selected_text(rows, 1, selection) == "· first words and second words"


heights_of_entries = st.lists(st.integers(0, 5), max_size=40)


def built(numbers: list[int]) -> Heights:
    heights = Heights()
    for number in numbers:
        heights.append(number)
    return heights


@given(
    heights_of_entries,
    st.lists(st.tuples(st.integers(0, 39), st.integers(0, 9)), max_size=10),
    st.integers(0, 20),
)
def test_sums_stay_right_through_appends_and_changes(
    numbers: list[int], changes: list[tuple[int, int]], added_height: int
) -> None:
    heights = built(numbers)
    for index, height in changes:
        if index < len(numbers):
            heights.set(index, height)
            numbers[index] = height
    heights.append(added_height)
    numbers.append(added_height)
    assert [heights.rows_before(index) for index in range(len(numbers) + 1)] == [
        sum(numbers[:index]) for index in range(len(numbers) + 1)
    ]
    assert heights.total == sum(numbers)


@given(heights_of_entries)
def test_every_row_is_found_in_its_entry(numbers: list[int]) -> None:
    heights = built(numbers)
    rows = [(index, row) for index, height in enumerate(numbers) for row in range(height)]
    assert [heights.find(row) for row in range(heights.total)] == rows
    assert heights.find(heights.total + 3) == (len(numbers), 3)
