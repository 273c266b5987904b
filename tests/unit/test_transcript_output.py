"""Output and displays of a cell as rows: bounded, and independent of how they arrive."""

from __future__ import annotations

import base64
import gc
import io
from itertools import pairwise
from unittest.mock import Mock, create_autospec

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from rich.cells import cell_len

from mahtab_tui.bus.html_table import MAX_HTML_TOKENS, HtmlTable, read_table
from mahtab_tui.bus.output import (
    HEAD_LINES,
    MAX_EMULATED_CHARS,
    MAX_RICH_DISPLAYS,
    TAIL_LINES,
    OutputBuffer,
)
from mahtab_tui.bus.output_lines import LINE_HEAD_CHARS, LINE_TAIL_CHARS, DisplayLine
from mahtab_tui.bus.partial_records import PartialRecord
from mahtab_tui.bus.records import UserReplOutStream
from mahtab_tui.bus.sanitize import plain
from mahtab_tui.bus.screen_line import ScreenLine
from mahtab_tui.bus.terminal_screen import HEIGHT, collapse
from mahtab_tui.pictures.picture_data import HEADER_CHARS as PICTURE_HEAD
from mahtab_tui.pictures.picture_data import MAX_PICTURE_ROWS, open_picture, size_in_cells
from mahtab_tui.tui.pictures.block_cache import draw_blocks
from mahtab_tui.tui.transcript import long_outputs
from mahtab_tui.tui.transcript.output import OutputRows
from mahtab_tui.tui.transcript.output_lines import MARKDOWN_COST
from mahtab_tui.tui.transcript.picture_rows import (
    DEFAULT_SPACE,
    picture_rows,
)
from mahtab_tui.tui.transcript.tables import grid_rows, scroll_table
from tests.pictures import bomb, encoded
from tests.unit.test_terminal_screen import MOVED
from tests.unit.test_transcript_rows import PALETTE
from tests.unit.transcripts import cell_of, display, ended, entered, folded, output_of, printed

FRAME = """<div><style>th {color: red}</style><table border="1"><thead>
<tr><th></th><th colspan="2">pair</th></tr><tr><th></th><th>a</th><th>b</th></tr></thead>
<tbody><tr><th rowspan="2">x</th><td>1</td><td>[bold]&lt;b&gt;</td></tr><tr><td>22</td><td>\x1b]52;c;x\x07</td></tr></tbody></table>
<p>2 rows × 2 columns</p></div>"""

HOSTILE = base64.b64encode(
    b"\xff\xd8" + b"\xff\xe0\0\2" * 100_000 + b"\xff\xc0\0\x11\x08\0\x0a\0\x0a"
).decode()
"""A JPEG that has its size, 10 × 10, behind a great many empty segments."""

MANY = 50_000


def texts(output: OutputBuffer) -> list[str]:
    return [line.text for line in output]


def fed(*pieces: str, kind: str = "stdout") -> OutputBuffer:
    output = OutputBuffer()
    for piece in pieces:
        output.feed(kind, piece)
    return output


@given(st.text(alphabet="ab\n", max_size=60), st.lists(st.integers(0, 60), max_size=5))
def test_any_split_gives_the_same_lines(text: str, offsets: list[int]) -> None:
    cuts = [0, *sorted(min(offset, len(text)) for offset in offsets), len(text)]
    pieces = [text[start:end] for start, end in pairwise(cuts)]
    assert texts(fed(*pieces)) == texts(fed(text)) == text.splitlines()


@given(st.lists(st.integers(0, 2 * (HEAD_LINES + TAIL_LINES)), max_size=6))
def test_long_output_keeps_its_ends(sizes: list[int]) -> None:
    lines = ["" if number % 3 else str(number) for number in range(sum(sizes))]
    output = OutputBuffer()
    start = 0
    for size in sizes:
        output.feed("stdout", "".join(line + "\n" for line in lines[start : start + size]))
        start += size
    lines_kept = texts(output)
    assert len(lines_kept) + output.omitted_lines == len(lines)
    assert lines_kept[:HEAD_LINES] == lines[:HEAD_LINES]
    assert lines_kept[HEAD_LINES:] == lines[HEAD_LINES:][-TAIL_LINES:]


def test_a_million_lines_become_a_thousand() -> None:
    output = fed("".join(f"{number}\n" for number in range(1_000_000)))
    assert len(output) == HEAD_LINES + TAIL_LINES
    assert output.omitted_lines == 999_000
    assert texts(output)[-1] == "999999"


def test_overwritten_text_is_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    write = create_autospec(ScreenLine.write, side_effect=ScreenLine.write)
    monkeypatch.setattr(ScreenLine, "write", write)
    fed("".join(f"\r{number:10}" for number in range(1_000)))
    assert 0 < write.call_count < 10


def test_rest_of_an_endless_line_is_counted() -> None:
    output = fed(*["x" * 1_000] * 200)
    (line,) = output
    assert len(line.text) == LINE_HEAD_CHARS + LINE_TAIL_CHARS
    assert line.omitted_chars == 200_000 - LINE_HEAD_CHARS - LINE_TAIL_CHARS


@pytest.mark.parametrize(
    ("overwriting", "visible_text"),
    [
        ("\n\x1b[A\rover", f"over{'x' * (LINE_HEAD_CHARS - 4)} … 6,000 characters left out … "),
        ("\n\x1b[A\r\x1b[Kover", "over"),
        ("\r\x1b[Kover", "over"),
        ("\r\x1b[Kover\r", "over"),
    ],
    ids=["overwritten", "erased", "erased in its line", "finally erased in its line"],
)
def test_omission_in_a_long_line_stays_until_it_is_erased(
    overwriting: str, visible_text: str
) -> None:
    drawn_rows = lines(fed("x" * 10_000, overwriting), 20_000)
    assert drawn_rows[0].removesuffix("x" * LINE_TAIL_CHARS) == visible_text


def test_rest_of_a_growing_line_is_counted_anew() -> None:
    output = fed("x" * 10_000)
    rows = OutputRows(output, 20_000, PALETTE)
    rows.update()
    assert "… 6,000 characters" in rows[0].text
    output.feed("stdout", "x" * 500)
    rows.update()
    assert "… 6,500 characters" in rows[0].text


def test_escape_sequence_in_two_pieces_is_joined() -> None:
    assert texts(fed("\x1b[3", "1mred")) == ["\x1b[31mred"]


def drawn(output: OutputBuffer) -> list[str]:
    lines = [plain(collapse(line.text)).expandtabs().rstrip() for line in output]
    return "\n".join(lines).rstrip().split("\n")


@given(MOVED, st.lists(st.integers(0, 60), max_size=4))
def test_cursor_moves_in_any_pieces_draw_the_same(pieces: list[str], offsets: list[int]) -> None:
    text = "".join(pieces)
    cuts = sorted({0, len(text), *(min(offset, len(text)) for offset in offsets)})
    output = fed(*(text[start:end] for start, end in pairwise(cuts)))
    assert drawn(output) == [
        line.expandtabs().rstrip() for line in plain(collapse(text)).rstrip().split("\n")
    ]


def test_cursor_reaches_only_the_last_printed_lines() -> None:
    output = fed("42\n", kind="value")
    output.feed("stdout", "printed\x1b[9A\rP")
    kinds_and_texts = [(line.kind, plain(line.text)) for line in output]
    assert kinds_and_texts == [("value", "42"), ("stdout", "Printed")]
    line_texts = texts(fed("line\n" * 500, "\x1b[999A\rover"))
    assert [number for number, text in enumerate(line_texts) if text == "over"] == [
        500 + 1 - HEIGHT
    ]


def test_only_the_end_of_a_cursor_flood_is_played(monkeypatch: pytest.MonkeyPatch) -> None:
    move = Mock()
    monkeypatch.setattr("mahtab_tui.bus.terminal_screen.Screen._move", move)
    output = fed("\n\x1b[A" * 1_000_000)
    assert move.call_count <= MAX_EMULATED_CHARS // 4
    assert output.omitted_lines >= 900_000
    again = fed(
        "first\n",
        "a\x1b[A" * MAX_EMULATED_CHARS,
        "\x1b[2Bsecond\n\x1b[A" * MAX_EMULATED_CHARS,
        "\n\n\x1b[3A\rlast",
    )
    assert texts(again)[0] == "first"
    assert "last" in "".join(texts(again))


# Displays as rows: pictures, HTML tables and Markdown. Broken and hostile ones are shown as text.


def picture(width: int, height: int, form: str = "PNG", mode: str = "RGB") -> str:
    file = io.BytesIO()
    Image.new(mode, (width, height), "red").save(file, form)
    return base64.b64encode(file.getvalue()).decode()


def shown_picture(data: str) -> DisplayLine:
    return DisplayLine("display", "<Image>", mime="image/png", data=data)


def lines(output: OutputBuffer, width: int = 60) -> list[str]:
    rows = OutputRows(output, width, PALETTE)
    rows.update()
    return [rows[index].text for index in range(len(rows))]


def table(html: str) -> HtmlTable:
    table_read = read_table(html)
    assert table_read is not None
    return table_read


def test_table_is_parsed_with_spans_and_notes() -> None:
    parsed_table = table(FRAME)
    header, body = (
        [[cell.text for cell in line] for line in part]
        for part in (parsed_table.header, parsed_table.body)
    )
    assert header == [["", "pair", ""], ["", "a", "b"]]
    assert body == [["x", "1", "[bold]<b>"], ["", "22", ""]]
    assert parsed_table.notes == ["2 rows × 2 columns"]


@pytest.mark.parametrize(
    ("html", "lines"),
    [
        (
            "<table><tr><td rowspan=3>a<td>b</table><table><tr><td>c<td>d</table>",
            [["a", "b"], ["c", "d"]],
        ),
        (
            "<table><tr><td rowspan=2>a<td>b<table><tr><td>c</table><td>d<tr><td>e</table>",
            [["a", "b", "d"], ["c"], ["", "e"]],
        ),
        (
            "<table><tr><td>a<td><table><tr><td rowspan=9>b</table><tr><td>c<td>d</table>",
            [["a", ""], ["b"], ["c", "d"]],
        ),
        (
            "<table><tr><td>a<td rowspan=2>b<tr><td>c<tr><td>d<td>e</table>",
            [["a", "b"], ["c", ""], ["d", "e"]],
        ),
        (
            "<table><tr><td>a<td rowspan=2>b<tr><tr><td>c<td>d</table>",
            [["a", "b"], ["c", "d"]],
        ),
    ],
    ids=["next table", "nested table", "after a nested table", "own lines", "empty line"],
)
def test_cells_span_only_lines_of_their_table(html: str, lines: list[list[str]]) -> None:
    assert [[cell.text for cell in line] for line in table(html).body] == lines


def test_long_counts_below_a_table_have_separators() -> None:
    parsed_table = table(
        "<table><tr><td>1234567</td></tr></table><p>1234567 rows × 1200 columns</p>"
    )
    assert parsed_table.notes == ["1,234,567 rows × 1,200 columns"]
    assert parsed_table.body[0][0].text == "1234567"


@given(st.text(alphabet="<>/tabledrh= \"'colspan9rowspan!-&;#[]?", max_size=300))
def test_any_html_is_parsed_or_is_not_a_table(html: str) -> None:
    for given_html in (html, f"<table><tr><td>{html}</td>{html}"):
        table_read = read_table(given_html)
        if table_read is not None:
            rows = grid_rows(table_read, 30, PALETTE)
            assert all(cell_len(row.text.rstrip()) <= 30 for row in rows)


def test_titles_stand_above_a_table_and_texts_around_it_wrap_at_words() -> None:
    html = "<p>Results<table><caption>of 2026<tr><td>1</table>Notes: the errors are specified."
    rows = grid_rows(table(html), 16, PALETTE)
    assert [row.text.strip() for row in rows] == [
        "Results",
        "of 2026",
        "1",
        "Notes: the",
        "errors are",
        "specified.",
    ]


def test_of_a_page_with_a_table_only_the_beginning_is_drawn() -> None:
    page = "<p>" + "words of a page " * 20
    rows = grid_rows(table(f"{page * 500}<table><tr><td>1</table>{page * 500}"), 40, PALETTE)
    texts = [row.text.strip() for row in rows]
    assert len(texts) < 1_200
    (before, after) = (index for index, text in enumerate(texts) if "left out" in text)
    assert texts[before : before + 2] == ["… 149,531 characters left out …", "1"]
    assert texts[after] == texts[before]
    assert after == len(texts) - 1


def test_wide_table_scrolls_by_columns() -> None:
    html = "<table><tr><th>name" + "".join(f"<td>{number:03}" for number in range(100))
    start, end = (DisplayLine("display", "", mime="text/html", data=html) for _ in range(2))
    assert not scroll_table(start, 1, 1_000)
    while scroll_table(end, 1, 44):
        pass
    for offset, first_column, last_column in ((0, 1, 8), (end.offset, 93, 100)):
        line, note = grid_rows(table(html), 44, PALETTE, offset)
        assert line.text.split() == [
            "name",
            *(f"{number:03}" for number in range(first_column - 1, last_column)),
        ]
        assert note.text == f"columns {first_column} to {last_column} of 100 · ← → show more"


@pytest.mark.parametrize(
    "inside",
    [
        "<td>1" * MANY,
        "<tr><td>1" * MANY,
        "<td>1" * MANY + "<tr>" * MANY,
        "<td colspan=100>" * MANY,
        "<td rowspan=100>1" * 10_000 + "<tr>" * MANY,
        "<td rowspan=100><table><tr>" * 10_000 + "</table><tr>" * MANY,
        "<td>" + "1" * MANY + "x",
        "<td><![foo[ ]]>",
        "<td>&#" + "9" * MANY + ";",
        "<td colspan=" + "9" * MANY + ">1",
        *(
            "<td>" + piece * MANY
            for piece in ('<a b="', "<a b='", "<!--", "<?", "</", "<!", "<", "<style>", "&#")
        ),
    ],
    ids=lambda inside: inside[:12],
)
def test_no_html_is_slow_or_raises(inside: str) -> None:
    rows = grid_rows(table(f"<table><tr>{inside}"), 30, PALETTE)
    assert len(rows) < 500
    assert all(cell_len(row.text) <= 30 for row in rows)


def test_both_ends_of_a_long_table_are_drawn() -> None:
    html = "<table>" + "".join(f"<tr><td>{number}</td></tr>" for number in range(1_000))
    rows = [row.text.strip() for row in grid_rows(table(html), 40, PALETTE)]
    assert [rows[0], *rows[299:302], rows[-1]] == [
        "0",
        "299",
        "… 600 lines left out …",
        "900",
        "999",
    ]


def test_end_of_long_markdown_is_counted() -> None:
    output = OutputBuffer()
    output.show("<Markdown>\n", "text/markdown", "a\n\n" * 100_000)
    drawn = lines(output)
    assert drawn[0] == "a"
    assert len(drawn) < 20_000
    assert drawn[-1] == "… 280,000 characters left out"


@pytest.mark.parametrize("width", [8, 20, 40, 80, 200])
def test_a_wide_table_fits_and_has_whole_columns(width: int) -> None:
    names = "".join(f"<th>column{number}</th>" for number in range(40))
    values = "".join(f"<td>{number * 1_000_000}</td>" for number in range(40))
    html = f"<table><tr><th></th>{names}</tr><tr><th>0</th>{values}</tr></table>"
    rows = [row.text for row in grid_rows(table(html), width, PALETTE)]
    assert max(map(cell_len, rows)) <= width
    if width >= 20:
        assert "…" not in "".join(rows)
        assert "column0" in rows[0]


@pytest.mark.parametrize(
    ("width", "height", "max_columns"),
    [(640, 480, 78), (8_000, 10, 78), (10, 8_000, 20), (1, 1, 8), (10_000, 10_000, 8)],
)
def test_picture_fits_its_space_and_the_screen(width: int, height: int, max_columns: int) -> None:
    columns, rows = size_in_cells(width, height, max_columns)
    assert 1 <= columns <= max_columns
    assert 1 <= rows <= MAX_PICTURE_ROWS


@pytest.mark.parametrize(
    "kind", ["PNG RGB", "PNG RGBA", "PNG P", "PNG 1", "PNG I;16", "JPEG RGB", "JPEG CMYK"]
)
def test_pictures_of_every_kind_are_half_blocks(kind: str) -> None:
    rows = picture_rows(shown_picture(picture(160, 80, *kind.split())), 78, DEFAULT_SPACE, PALETTE)
    assert rows is not None
    assert [row.picture and row.picture[1] for row in rows] == list(range(5))
    assert rows[0].picture is not None
    assert [strip.text for strip in draw_blocks(rows[0].picture[0])] == ["▀" * 20] * 5


INVALID = {
    "nothing": "",
    "no picture": "AAAA",
    "no base64": "not base64",
    "cut": picture(40, 40)[:20],
    "huge": picture(4_000, 3_001, mode="1"),
    "another kind": picture(4, 4, "GIF"),
    "bomb": base64.b64encode(bomb(100_000, 100_000)).decode(),
    "no end of marks": HOSTILE,
}


@pytest.mark.parametrize("data", INVALID.values(), ids=INVALID)
def test_invalid_picture_is_shown_as_text(data: str) -> None:
    output = OutputBuffer()
    output.show("<Image>\n", "image/png", data)
    assert lines(output) == ["<Image>"]


@given(
    st.sampled_from(["PNG", "JPEG"]),
    st.integers(1, 300),
    st.integers(1, 300),
    st.binary(max_size=60_000),
)
def test_size_of_a_picture_is_read_from_its_header(
    form: str, width: int, height: int, comment: bytes
) -> None:
    options = {"comment": comment, "exif": b"Exif\0\0" + comment} if form == "JPEG" else {}
    file = base64.b64encode(encoded(Image.new("RGB", (width, height)), form, **options)).decode()
    assert open_picture(file[:PICTURE_HEAD], 90_000).size == (width, height)


@given(st.binary(max_size=200), st.sampled_from([b"", b"\xff\xd8", b"\x89PNG\r\n\x1a\n"]))
def test_any_bytes_are_a_picture_or_their_text(data: bytes, beginning: bytes) -> None:
    rows = picture_rows(
        shown_picture(base64.b64encode(beginning + data).decode()), 20, DEFAULT_SPACE, PALETTE
    )
    assert rows is None or rows[0].picture is not None


def small_table(text: str) -> str:
    return f"<table><tr><td>{text}</td></tr></table>"


def test_only_the_first_and_last_tables_are_drawn() -> None:
    output = OutputBuffer()
    for number in range(HEAD_LINES + TAIL_LINES + 100):
        output.show(f"text {number}\n", "text/html", small_table(f"table {number}"))
    assert (len(output), output.omitted_lines) == (HEAD_LINES + TAIL_LINES, 100)
    drawn = lines(output)
    assert sum("table" in line for line in drawn) <= MAX_RICH_DISPLAYS
    assert (drawn[0].strip(), drawn[-1].strip()) == (
        "table 0",
        f"table {HEAD_LINES + TAIL_LINES + 99}",
    )
    assert f"text {MAX_RICH_DISPLAYS}" in drawn


def test_html_with_more_than_a_table_is_drawn_as_its_text() -> None:
    output = OutputBuffer()
    html = f"<p>{'prose ' * 90}</p>{small_table('1')}"
    output.show("prose\n1\n", "text/html", html)
    assert lines(output) == ["prose", "1"]


def test_displays_appear_between_printed_lines() -> None:
    output = OutputBuffer()
    output.feed("stdout", "before")
    output.show("frame\n", "text/html", FRAME)
    output.feed("stdout", "after\n")
    output.show("words\n", "text/markdown", "# Title\n\n[click](x) [/red] \x1b[2J")
    drawn = lines(output)
    assert drawn[0] == "before"
    assert drawn.index("after") < drawn.index("Title")
    assert not any("\x1b" in line for line in drawn)
    assert any("[bold]<b>" in line for line in drawn)


def test_resumed_cell_looks_like_the_live_one() -> None:
    code = entered("df")
    first_display = display("one\n", FRAME)
    second_display = display("two\n", FRAME)
    kinds = [["stdout", 1], ["display", 4], ["display", 4], ["value", 1]]
    end = ended("aone\ntwo\nb", status="ok", kinds=kinds)
    pieces = [
        first_display,
        printed("one\n", "display"),
        second_display,
        printed("two\n", "display"),
    ]
    live = cell_of(folded(code, printed("a"), *pieces, printed("b", "value"), end))
    resumed = cell_of(folded(code, first_display, second_display, end))
    kinds_and_texts = [("stdout", "a"), ("display", "one"), ("display", "two"), ("value", "b")]
    assert output_of(live) == output_of(resumed) == kinds_and_texts
    assert lines(live.output) == lines(resumed.output)


def test_late_watcher_sees_the_right_pictures() -> None:
    first_display, second_display = (
        display("frame\n", small_table(name)) for name in ("first", "second")
    )
    pieces = printed("frame\n", "display"), printed("b")
    transcript = folded(entered("f()"), first_display, second_display, *pieces)
    cell = cell_of(transcript)
    assert [line.strip() for line in lines(cell.output)] == ["second", "b"]
    kinds = [["stdout", 1], ["display", 6], ["display", 6], ["stdout", 1]]
    transcript.fold([ended("aframe\nframe\nb", status="ok", kinds=kinds)])
    assert [line.strip() for line in lines(cell.output)] == ["a", "first", "second", "b"]
    assert cell.displays == []


def test_running_cell_stores_only_drawn_displays() -> None:
    number = MAX_RICH_DISPLAYS + 10
    end = ended("frame\n" * number, status="ok", kinds=[["display", 6]] * number)
    displays = [display("frame\n", small_table(str(n))) for n in range(number)]
    start = entered("f()")
    live = folded(
        start,
        *(
            cell_record
            for one_display in displays
            for cell_record in (one_display, printed("frame\n", "display"))
        ),
    )
    assert sum(bool(data) for _, _, data, _ in cell_of(live).displays) == MAX_RICH_DISPLAYS
    live.fold([end])
    drawn = [line.strip() for line in lines(cell_of(folded(start, *displays, end)).output)]
    assert [line.strip() for line in lines(cell_of(live).output)] == drawn
    middle = MAX_RICH_DISPLAYS // 2
    assert [drawn[at] for at in (0, middle - 1, middle, -1)] == [
        "0",
        "19",
        "frame",
        str(number - 1),
    ]


def test_killed_session_separates_its_displays() -> None:
    pieces = [UserReplOutStream(text, cell=1, kind="display") for text in ("one\n", "two\n")]
    partial = PartialRecord(pieces[0])
    for piece in pieces:
        partial.add(piece)
    assert partial.record().attrs["kinds"] == [["display", 4], ["display", 4]]


def test_old_pictures_become_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(long_outputs, "MAX_LONG_OUTPUTS_CHARS", 150_000)
    records = []
    for number in (1, 2, 3):
        records += [
            entered("figure", number),
            display("<Figure>\n", "x" * 110_000, number, "image/png"),
            ended("<Figure>\n", number, status="ok", kinds=[["display", 9]]),
        ]
    transcript = folded(*records)
    for number, mimes in enumerate(([""], [""], ["image/png"])):
        cell = cell_of(transcript, number)
        assert output_of(cell) == [("display", "<Figure>")]
        assert [line.mime for line in cell.output if isinstance(line, DisplayLine)] == mimes


def test_truncated_table_has_a_note() -> None:
    parsed_table = table("<table>" + "<tr><td rowspan=1000 colspan=1000>" * 200)
    assert sum(map(len, parsed_table.body)) < 30_000
    assert parsed_table.notes == ["… the rest of the table is left out …"]
    parsed_table = table("<table><tr><td>a" + "<b></b>" * MAX_HTML_TOKENS + "<tr><td>b")
    assert [cell.text for line in parsed_table.body for cell in line] == ["a"]
    assert parsed_table.notes == ["… the rest of the table is left out …"]


def test_many_tables_are_drawn_step_by_step() -> None:
    output = OutputBuffer()
    for number in range(10):
        output.show(f"text {number}", "text/html", f"<table><tr><td>table {number}")
    rows = OutputRows(output, 40, PALETTE)
    words = []
    for _ in range(3):
        rows.update(max_step_chars=4 * 22)
        words.append([rows[index].text.split()[0] for index in range(len(rows))])
    assert words == [
        ["table"] * 4 + ["text"] * 6,
        ["table"] * 8 + ["text"] * 2,
        ["table"] * 10,
    ]
    assert rows.is_complete


def test_long_display_shows_its_text_until_it_is_drawn_elsewhere() -> None:
    output = OutputBuffer()
    output.show("a table", "text/html", "<table><tr><td>1" + " " * 100)
    output.show("a text", "text/markdown", "some *words*")
    rows = OutputRows(output, 40, PALETTE)

    def drawn() -> list[str]:
        rows.update(max_display_chars=9 * MARKDOWN_COST)
        return [rows[index].text.split()[-1] for index in range(len(rows))]

    assert drawn() == ["table", "text"]
    first, second = rows.slow_displays
    rows.show_display(first, rows.draw_display(first))
    assert drawn() == ["1", "text"]
    assert rows.slow_displays == [second]
    assert not rows.is_complete
    # A display that cannot be drawn keeps its text.
    rows.show_display(second, None)
    assert drawn() == ["1", "text"]
    assert rows.is_complete
    # What is drawn stays until it is drawn again.
    assert isinstance(first, DisplayLine)
    first.offset = 1
    assert drawn() == ["1", "text"]
    assert rows.slow_displays == [first]


def test_drawing_markdown_leaves_no_garbage_to_collect() -> None:
    output = OutputBuffer()
    output.show("a text", "text/markdown", "- some *words*\n\n| a |\n|---|\n| 1 |\n" * 50)
    rows = OutputRows(output, 40, PALETTE)
    gc.collect()
    gc.disable()
    try:
        rows.update()
        assert gc.collect() < len(rows)
    finally:
        gc.enable()


def test_rows_are_found_across_lines() -> None:
    output = OutputBuffer()
    output.feed("stdout", "first\n")
    output.show("a text", "text/markdown", "word\n\n" * 1_000)
    output.feed("stdout", "last\n")
    rows = OutputRows(output, 40, PALETTE)
    rows.update()
    last_row = len(rows) - 1
    assert last_row == 2_000
    numbers = (0, 1, 2, last_row - 1, last_row)
    assert [rows[number].text for number in numbers] == ["first", "word", "", "word", "last"]


def test_rows_of_a_table_are_drawn_alike_in_any_order() -> None:
    wide_table = table("<table>" + "<tr><td>a<td>bc" * 10)
    forwards = [row.text for row in grid_rows(wide_table, 20, PALETTE)]
    rows = grid_rows(wide_table, 20, PALETTE)
    assert [rows[-number].text for number in range(1, 11)] == forwards
    assert [row.text for row in rows[2:4]] == forwards[2:4]
