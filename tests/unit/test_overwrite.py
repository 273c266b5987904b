"""Lines that rewrite themselves, as a terminal shows them."""

from __future__ import annotations

import io

import pyte
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tqdm import tqdm

from mahtab_tui.bus.overwrite import collapse
from mahtab_tui.bus.sanitize import plain, styled

PLAYED = st.lists(
    st.sampled_from(["\r", "\b", "\x1b[K", "\x1b[0K", "\x1b[1K", "\x1b[2K", "\x1b[31m", "\x1b[0m", "\t", "\n", "a", "bcd", " ", "\r\n", "xyz"]),
    max_size=25,
).map("".join)


def on_a_terminal(text: str) -> str:
    """What a real terminal emulation shows."""
    screen = pyte.Screen(400, 40)
    screen.set_mode(pyte.modes.LNM)
    pyte.Stream(screen).feed(text)
    return "\n".join(line.rstrip() for line in screen.display).rstrip()


@given(PLAYED)
def test_shows_what_a_terminal_shows(text: str) -> None:
    shown = plain(collapse(text)).expandtabs(8)
    assert "\n".join(line.rstrip() for line in shown.split("\n")).rstrip() == on_a_terminal(text)


@given(st.text(st.characters(exclude_categories=["Cc"])))
def test_plain_text_stays(text: str) -> None:
    assert collapse(text) is text


@given(st.one_of(PLAYED, st.text()))
def test_collapsing_again_changes_nothing(text: str) -> None:
    once = collapse(text)
    assert collapse(once) == once


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("abc\rX", "Xbc"),
        ("100%\r  5%", "  5%"),
        ("abc\b\bX", "aXc"),
        ("abc\r\bX", "Xbc"),
        ("abc\r\x1b[Kd", "d"),
        ("windows\r\nlines\r\n", "windows\nlines\n"),
        ("half\r", "half"),
        ("漢字\rab", "ab字"),
        ("漢字\ra", "a 字"),
        ("e\u0301x\ra", "ax"),
        ("abc\rx\u0301", "x\u0301bc"),
        ("keeps\x1b]0;title\x07\rK", "Keeps"),
    ],
)
def test_a_line_is_written_over(text: str, shown: str) -> None:
    assert collapse(text) == shown


def test_colours_stay_with_what_they_colour() -> None:
    assert collapse("\x1b[31mred\x1b[0m\rX") == "X\x1b[31med\x1b[0m"
    text = styled(collapse("\x1b[32m 10%\r 90%\x1b[0m\nplain"))
    assert text.plain == " 90%\nplain"
    assert text.spans[0].end == 4


def test_a_colour_goes_on_over_lines() -> None:
    text = styled(collapse("a\x1b[31mb\ncd\re\nf\x1b[0mg"))
    assert text.plain == "ab\ned\nfg"
    coloured = "".join(text.plain[span.start : span.end] for span in text.spans if span.style)
    assert coloured == "b\ned\nf"


def test_a_colour_of_an_earlier_line_is_not_lost() -> None:
    text = styled(collapse("\x1b[31ma\nbc\r\x1b[1mX"))
    looks = {text.plain[span.start : span.end]: str(span.style) for span in text.spans}
    assert looks == {"a\n": "color(1)", "X": "bold color(1)", "c": "color(1)"}


def test_a_real_progress_bar_is_one_line() -> None:
    out = io.StringIO()
    for _ in tqdm(range(200), file=out, mininterval=0, ncols=60, colour="green"):
        pass
    assert out.getvalue().count("\r") > 10
    lines = plain(collapse(out.getvalue())).splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("100%")
