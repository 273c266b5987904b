"""The last gate to the terminal: what the renderer makes passes, and nothing that a text could
bring in."""

from __future__ import annotations

import re

import pytest
from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.strip import Strip

from mahtab_tui.tui.terminal_driver import TextOnly, filter_output
from tests.hostile import HOSTILE

COMMANDS = (
    "\x1b[?1049h",
    "\x1b[?2026$p",
    "\x1b[?1003h\x1b[?1015h",
    "\x1b[>25u",
    "\x1b[<u",
    "\x07",
    "\x1b]22;pointer\x07",
    "\x1b]52;c;aGVsbG8=\x07",
)
PICTURE = "\x1b[1;1H\x1b[1;38;2;200;10;10mcode\x1b[0m\n\x1b[2;1Hü 中 🙂"


@pytest.mark.parametrize("data", [*COMMANDS, PICTURE])
def test_textual_output_passes_unchanged(data: str) -> None:
    assert filter_output(data) == data


@pytest.mark.parametrize("text", HOSTILE)
def test_text_inside_a_picture_carries_no_command(text: str) -> None:
    written = filter_output(f"{PICTURE}{text}{PICTURE}")
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", re.sub(r"\x1b\[[\d;]*[mH]", "", written))
    assert written.startswith(PICTURE)
    assert written.endswith(PICTURE)


@pytest.mark.parametrize("text", HOSTILE)
def test_drawn_widget_text_is_printable_and_keeps_its_width(text: str) -> None:
    strip = Strip(
        [
            Segment("a", Style(bold=True)),
            Segment(text, Style(link=f"http://x/{text}")),
            Segment("z"),
        ]
    )
    drawn = strip.apply_filter(TextOnly(), Color(0, 0, 0))
    assert drawn.text == re.sub(r"[\x00-\x1f\x7f-\x9f\u202e\u2066]", "", strip.text)
    assert sum(segment.cell_length for segment in drawn) == strip.cell_length
    assert not any(segment.style and segment.style.link for segment in drawn)


def test_plain_text_is_unchanged() -> None:
    strip = Strip([Segment("déjà 中 🙂", Style(bold=True)), Segment(" ")])
    assert list(strip.apply_filter(TextOnly(), Color(0, 0, 0))) == list(strip)
