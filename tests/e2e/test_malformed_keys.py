"""Sequences that a terminal should never send: the screen goes on, and nothing of them is typed."""

from __future__ import annotations

import pytest

from tests.e2e.conftest import Start

MALFORMED = (
    "\x1b[1114112u",
    "\x1b[57441;1:3u",
    "\x1b[97;5:9u",
    "\x1b[;:u",
    "\x1b[:R",
    "\x1b[55296u",
    "\x1b[48;20;60;0;0t",
    "\x1b[48;0;0;0;0t",
    "\x1b[<NaN;NaN;1M",
)
FIVE_THOUSAND = (
    "\x1b[" * 2_500 + "A",
    "\x1b[I\x1b[O" * 833 + "\x1b[I",
    "\x1b[" + "1:" * 2_500 + "u",
    "\x1bP" + "a" * 5_000 + "\x1b\\",
    "(" * 1_000 + "\x03",
)


def test_screen_survives_malformed_keys_with_all_variables(start: Start) -> None:
    screen = start()
    screen.enter("kept = 6 * 7")
    screen.wait(r"kept\s+int")
    for sequence in MALFORMED:
        screen.send(sequence)
    screen.enter("'still', kept")
    screen.wait(r"▌ \('still', 42\)")
    assert screen.leave() == 0


@pytest.mark.parametrize("sequence", FIVE_THOUSAND, ids=lambda sequence: repr(sequence[:6]))
def test_screen_keeps_reading_after_thousands_of_characters(start: Start, sequence: str) -> None:
    screen = start()
    screen.wait("Python")
    screen.send(sequence)
    screen.send("6 * 7")
    screen.wait(r"6 \* 7")
    screen.send("\r")  # by itself: on a busy machine it would come with the rest, as in a paste
    screen.wait("▌ 42")
