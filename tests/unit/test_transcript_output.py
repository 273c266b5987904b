"""Output of a cell as lines: the same however it is cut to pieces, and bounded."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mahtab_tui.bus import overwrite
from mahtab_tui.tui.panes.transcript import output as module
from mahtab_tui.tui.panes.transcript.output import HEAD, LINE_HEAD, LINE_TAIL, TAIL, Output


def texts(output: Output) -> list[str]:
    return [line.text for line in output]


def fed(*pieces: str, kind: str = "stdout") -> Output:
    output = Output()
    for piece in pieces:
        output.feed(kind, piece)
    return output


@given(st.text(alphabet="ab\n", max_size=60), st.lists(st.integers(0, 60), max_size=5))
def test_any_split_into_pieces_gives_the_same_lines(text: str, places: list[int]) -> None:
    cuts = [0, *sorted(min(place, len(text)) for place in places), len(text)]
    pieces = [text[start:end] for start, end in pairwise(cuts)]
    assert texts(fed(*pieces)) == texts(fed(text)) == text.splitlines()


@given(st.lists(st.integers(0, 2 * (HEAD + TAIL)), max_size=6))
def test_of_many_lines_the_ends_stay_and_the_rest_is_counted(sizes: list[int]) -> None:
    lines = ["" if number % 3 else str(number) for number in range(sum(sizes))]
    output, start = Output(), 0
    for size in sizes:
        output.feed("stdout", "".join(line + "\n" for line in lines[start : start + size]))
        start += size
    kept = texts(output)
    assert len(kept) + output.left_out == len(lines)
    assert kept[:HEAD] == lines[:HEAD]
    assert kept[HEAD:] == lines[HEAD:][-TAIL:]


def test_a_million_lines_keep_a_thousand() -> None:
    output = fed("".join(f"{number}\n" for number in range(1_000_000)))
    assert len(output) == HEAD + TAIL
    assert output.left_out == 999_000
    assert texts(output)[-1] == "999999"


def test_a_carriage_return_rewrites_its_line() -> None:
    output = fed("".join(f"\r{percent:3}%" for percent in range(101)), "\ndone\n")
    assert [line.split("\r")[-1] for line in texts(output)] == ["100%", "done"]
    assert len(texts(output)[0]) < 20


def test_of_a_line_written_over_a_thousand_times_only_what_may_be_seen_is_worked_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    worked_out: list[str] = []

    def collapse(text: str) -> str:
        worked_out.append(text)
        return overwrite.collapse(text)

    monkeypatch.setattr(module, "collapse", collapse)
    fed("".join(f"\r{number:10}" for number in range(1_000)))
    assert max(map(len, worked_out)) < 100


def test_what_a_shorter_pass_leaves_of_a_longer_one_is_not_lost() -> None:
    passes = ["a much longer pass", *(f"short {number}" for number in range(50))]
    line = texts(fed("\r".join(passes), "\r", "end"))[0]
    assert line == "short 49onger pass\rend"


def test_a_line_that_never_ends_is_bounded_and_says_by_how_much() -> None:
    output = fed(*["x" * 1_000] * 200)
    (line,) = output
    assert len(line.text) == LINE_HEAD + LINE_TAIL
    assert line.cut == 200_000 - LINE_HEAD - LINE_TAIL


def test_another_kind_begins_another_line() -> None:
    output = fed("no line end")
    output.feed("value", "42")
    assert [(line.kind, line.text) for line in output] == [("stdout", "no line end"), ("value", "42")]


def test_colours_go_on_over_lines_even_over_those_left_out() -> None:
    output = fed("plain\n" * 1_000 + "\x1b[31m" + "red\n" * 5_000 + "still red\x1b[0m\nplain\n")
    *_, red, plain = texts(output)
    assert red == "\x1b[31mstill red\x1b[0m"
    assert plain == "plain"


def test_an_escape_sequence_in_two_pieces_stays_one() -> None:
    assert texts(fed("\x1b[3", "1mred")) == ["\x1b[31mred"]


def test_shrinking_keeps_both_ends() -> None:
    output = fed("".join(f"{number}\n" for number in range(100)))
    output.shrink(10)
    assert texts(output) == [str(number) for number in (*range(10), *range(90, 100))]
    assert output.left_out == 80
