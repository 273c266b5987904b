"""Output of a cell as lines: the same however it is cut to pieces, and bounded."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mahtab_tui.bus.output import HEAD, LINE_HEAD, LINE_TAIL, LIVE, TAIL, OutputBuffer
from mahtab_tui.bus.sanitize import plain
from mahtab_tui.bus.terminal_screen import HEIGHT, Graphic, ScreenLine, collapse
from tests.unit.test_terminal_screen import MOVED


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


@given(st.lists(st.integers(0, 2 * (HEAD + TAIL)), max_size=6))
def test_long_output_keeps_its_ends_and_counts_the_rest(sizes: list[int]) -> None:
    lines = ["" if number % 3 else str(number) for number in range(sum(sizes))]
    output, start = OutputBuffer(), 0
    for size in sizes:
        output.feed("stdout", "".join(line + "\n" for line in lines[start : start + size]))
        start += size
    shown = texts(output)
    assert len(shown) + output.omitted == len(lines)
    assert shown[:HEAD] == lines[:HEAD]
    assert shown[HEAD:] == lines[HEAD:][-TAIL:]


def test_only_a_thousand_of_a_million_lines_are_stored() -> None:
    output = fed("".join(f"{number}\n" for number in range(1_000_000)))
    assert len(output) == HEAD + TAIL
    assert output.omitted == 999_000
    assert texts(output)[-1] == "999999"


def test_a_carriage_return_rewrites_its_line() -> None:
    output = fed("".join(f"\r{percent:3}%" for percent in range(101)), "\ndone\n")
    assert [line.split("\r")[-1] for line in texts(output)] == ["100%", "done"]
    assert len(texts(output)[0]) < 20


def test_only_the_visible_result_of_an_overwritten_line_is_computed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    written: list[str] = []
    write = ScreenLine.write

    def counted(line: ScreenLine, text: str, column: int, look: Graphic) -> int:
        written.append(text)
        return write(line, text, column, look)

    monkeypatch.setattr(ScreenLine, "write", counted)
    fed("".join(f"\r{number:10}" for number in range(1_000)))
    assert len(written) < 10


def test_rest_of_a_longer_overwritten_line_is_not_lost() -> None:
    passes = ["a much longer pass", *(f"short {number}" for number in range(50))]
    line = texts(fed("\r".join(passes), "\r", "end"))[0]
    assert line == "short 49onger pass\rend"


def test_endless_line_is_bounded_and_counts_the_omitted_part() -> None:
    output = fed(*["x" * 1_000] * 200)
    (line,) = output
    assert len(line.text) == LINE_HEAD + LINE_TAIL
    assert line.cut == 200_000 - LINE_HEAD - LINE_TAIL


def test_different_kind_starts_a_new_line() -> None:
    output = fed("no line end")
    output.feed("value", "42")
    assert [(line.kind, line.text) for line in output] == [
        ("stdout", "no line end"),
        ("value", "42"),
    ]


def test_colours_continue_over_omitted_lines() -> None:
    output = fed("plain\n" * 1_000 + "\x1b[31m" + "red\n" * 5_000 + "still red\x1b[0m\nplain\n")
    *_, red, last = texts(output)
    assert red == "\x1b[31mstill red\x1b[0m"
    assert last == "plain"


def test_escape_sequence_in_two_pieces_is_joined() -> None:
    assert texts(fed("\x1b[3", "1mred")) == ["\x1b[31mred"]


def test_shrinking_keeps_both_ends() -> None:
    output = fed("".join(f"{number}\n" for number in range(100)))
    output.shrink(10)
    assert texts(output) == [str(number) for number in (*range(10), *range(90, 100))]
    assert output.omitted == 80


def drawn(output: OutputBuffer) -> list[str]:
    lines = [plain(collapse(line.text)).expandtabs().rstrip() for line in output]
    return "\n".join(lines).rstrip().split("\n")


@given(MOVED, st.lists(st.integers(0, 60), max_size=4))
def test_cursor_moves_split_anywhere_give_the_same_picture(
    pieces: list[str], offsets: list[int]
) -> None:
    text = "".join(pieces)
    cuts = sorted({0, len(text), *(min(offset, len(text)) for offset in offsets)})
    output = fed(*(text[start:end] for start, end in pairwise(cuts)))
    assert drawn(output) == [
        line.expandtabs().rstrip() for line in plain(collapse(text)).rstrip().split("\n")
    ]


def test_cursor_crosses_the_border_between_first_and_last_lines() -> None:
    output = fed("line\n" * (HEAD + 2), "\x1b[4Aover", "\x1b[B\rbelow", "\n\n\nend")
    assert texts(output)[HEAD - 2 :] == ["over", "below", "line", "line", "end"]
    assert (len(output), output.omitted) == (HEAD + 3, 0)


def test_cursor_reaches_only_the_last_printed_lines() -> None:
    output = OutputBuffer()
    output.feed("value", "42\n")
    output.feed("stdout", "printed\x1b[9A\rP")
    assert [(line.kind, plain(line.text)) for line in output] == [
        ("value", "42"),
        ("stdout", "Printed"),
    ]
    many = fed("line\n" * 500, "\x1b[999A\rover")
    assert [number for number, text in enumerate(texts(many)) if text == "over"] == [
        500 + 1 - HEIGHT
    ]


def test_flood_of_cursor_moves_is_followed_at_its_end_and_the_rest_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    moves = 0

    def counted(*_: object) -> None:
        nonlocal moves
        moves += 1

    monkeypatch.setattr("mahtab_tui.bus.terminal_screen.Screen._move", counted)
    output = fed("\n\x1b[A" * 1_000_000)
    assert moves <= LIVE // 4
    assert output.omitted >= 900_000
    again = fed("first\n", "a\x1b[A" * LIVE, "\x1b[2Bsecond\n\x1b[A" * LIVE, "\n\n\x1b[3A\rlast")
    assert texts(again)[0] == "first"
    assert "last" in "".join(texts(again))
