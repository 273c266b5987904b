"""The screen that the other tests look at is the one that pyte makes of the same bytes."""

from __future__ import annotations

import pyte
from hypothesis import example, given
from hypothesis import strategies as st

from tests.e2e.screen import Screen, Stream

COLUMNS, LINES = 12, 5
PIECES = st.one_of(
    st.text("ab é─▌漢\u0301\u200b\r\n\t\b\x7f", min_size=1, max_size=15),
    st.builds("\x1b[{};{}{}".format, st.integers(0, 9), st.integers(0, 9), st.sampled_from("Hmr")),
    st.builds("\x1b[{}{}".format, st.sampled_from(["", 1, 2]), st.sampled_from("ABCDGJKLMPXd@")),
    st.sampled_from(
        [
            "\x1b[m",
            "\x1b[38;2;1;2;3m",
            "\x1b[1;38;5;9;48;5;200m",
            "\x1b[4h",
            "\x1b[4l",
            "\x1b[?7l",
            "\x1b[?7h",
            "\x1b(0",
            "\x1b7",
            "\x1b8",
        ]
    ),
)


@given(st.lists(st.lists(PIECES, max_size=8).map("".join), max_size=4))
@example(["漢漢", "\x1b[1;2Hx"])
@example(["\x1b[5;12Hab\n", "c"])
def test_same_bytes_give_the_same_screen(reads: list[str]) -> None:
    plain, quick = pyte.Screen(COLUMNS, LINES), Screen(COLUMNS, LINES)
    streams = pyte.ByteStream(plain), Stream(quick)
    for read in reads:
        for stream in streams:
            stream.feed(read.encode())
        expected = [[plain.buffer[y][x] for x in range(COLUMNS)] for y in range(LINES)]
        assert [[quick.buffer[y][x] for x in range(COLUMNS)] for y in range(LINES)] == expected
        assert (quick.cursor.x, quick.cursor.y, quick.cursor.attrs) == (
            plain.cursor.x,
            plain.cursor.y,
            plain.cursor.attrs,
        )
        again = Screen(COLUMNS, LINES)
        again.buffer.update(quick.buffer)
        assert quick.text == again.text
