"""Nothing that could drive a terminal comes through."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rich.color import Color
from rich.style import Style

from mahtab_tui.bus.sanitize import plain, styled
from mahtab_tui.bus.terminal_screen import NO_STYLE, apply_sgr

FORBIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
FRAGMENTS = st.sampled_from(
    [
        "\x1b",
        "\x1b[",
        "\x1b]",
        "\x1bP",
        "\x1b_",
        "\x1b^",
        "\x1bX",
        "\x07",
        "\x1b\\",
        "\x9c",
        "\x9b",
        "0;1",
        "31m",
        "m",
        "52;c;",
        "a",
        "\n",
        "\t",
        "é",
        "漢",
        "\x1b[31m",
        "\x1b[0m",
        "\x1b[38;5;9m",
        "\x1b[K",
        "\u202e",
        "\ud800",
        "\x00",
        "[",
        "(",
        " ",
    ]
)
TEXTS = st.lists(st.one_of(FRAGMENTS, st.text(st.characters(), max_size=3)), max_size=20).map(
    "".join
)


@given(TEXTS)
@example("\x1b\x1b[31m")
@example("\x1b]0;a\x1b[31mb\x07c")
def test_no_control_character_passes(text: str) -> None:
    assert not FORBIDDEN.search(plain(text))
    assert styled(text).plain == plain(text)
    assert plain(plain(text)) == plain(text)


@given(st.text(st.characters(exclude_categories=["Cc", "Cs", "Cf"])))
def test_ordinary_text_is_unchanged(text: str) -> None:
    assert plain(text) == text
    assert plain(text + "\n\t") == text + "\n\t"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\x1b]52;c;aGk=\x07b", "ab"),
        ("a\x1b]0;title\x1b\\b", "ab"),
        ("a\x1b]0;no end", "a"),
        ("a\x1b]0;no end\nb", "a\nb"),
        ("a\x1bPq#0;2;0\n-\n\x1b\\b", "ab"),
        ("a\x1b_Gf=24;AAAA\x1b\\b", "ab"),
        ("a\x1b[2Jb\x1b[1;1Hc", "abc"),
        ("a\x1b[3", "a"),
        ("a\x1bcb\x1b(Bc\x1b", "abc"),
        ("\x9b31mb", "31mb"),
        ("a\x1b(", "a"),
        ("line\r\n", "line\n"),
        ("nul\x00 bell\x07 del\x7f", "nul bell del"),
        ("\u202eright to left\u2069", "right to left"),
        ("👩\u200d🔬", "👩\u200d🔬"),
        ("\ud83d", "\ufffd"),
        ("“quoted” wrongly decoded: â\x80\x9dand more", "“quoted” wrongly decoded: âand more"),
    ],
)
def test_sequences_are_removed_whole(text: str, shown: str) -> None:
    assert plain(text) == shown


@pytest.mark.parametrize(
    ("codes", "style"),
    [
        (
            "1;2;3;4;7;9",
            Style(bold=True, dim=True, italic=True, underline=True, reverse=True, strike=True),
        ),
        ("31", Style(color=Color.from_ansi(1))),
        ("97;104", Style(color=Color.from_ansi(15), bgcolor=Color.from_ansi(12))),
        ("38;5;208", Style(color=Color.from_ansi(208))),
        ("48;2;1;2;3", Style(bgcolor=Color.from_rgb(1, 2, 3))),
        ("38:2::1:2:3", Style(color=Color.from_rgb(1, 2, 3))),
        ("38:5:9;1", Style(color=Color.from_ansi(9), bold=True)),
        ("4:3", Style(underline=True)),
        ("1;31;22;39", Style()),
        ("1;31;", Style()),
        ("38;5;999", Style()),
        ("38;5", Style()),
        ("5;8", Style()),
        ("9" * 5000, Style()),
    ],
)
def test_colours_and_styles(codes: str, style: Style) -> None:
    assert apply_sgr(NO_STYLE, codes).style() == style


def test_style_ends_at_its_reset() -> None:
    text = styled("a\x1b[1mb\nc\x1b[0md")
    assert [
        (text.plain[span.start : span.end], span.style) for span in text.spans if span.style
    ] == [("b\nc", Style(bold=True))]


@given(
    st.lists(
        st.sampled_from(["1", "31", "38;5;200", "48;2;1;2;3", "22", "0", "97", "4", "39"]),
        max_size=6,
    )
)
def test_codes_of_a_style_produce_it(codes: list[str]) -> None:
    look = NO_STYLE
    for code in codes:
        look = apply_sgr(look, code)
    again = NO_STYLE
    for found in re.findall(r"\x1b\[([0-9;]*)m", look.codes()):
        again = apply_sgr(again, found)
    assert again == look
