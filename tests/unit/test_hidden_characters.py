"""Characters that hide in code: how they are drawn, and what is not run because of them."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rich.cells import cell_len

from mahtab_tui.bus.answers import parse_response
from mahtab_tui.bus.sanitize import refusal, visible
from mahtab_tui.tui.rows.code import CodeRows
from tests.unit.test_transcript_rows import PALETTE

HIDDEN = "\x00\x07\x0b\x0c\r\x1b\x1f\x7f\x85\x9b\xa0\xad\u034f\u061c\u115f\u200b\u200d\u200e\u2028\u2029\u202e\u2066\u2800\u3164\ufe0f\ufeff\ue000\ufff9\ud800"
HIDDEN += "\U000e0041\U000e0101\U0010ffff\u02ba\u037e"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("x = 'é 漢字 הי 🙂'\n\ty", "x = 'é 漢字 הי 🙂'\n\ty"),
        ("a\x1bP", "a␛P"),
        ("a\rb", "a\\rb"),
        ("a\x0c\x00\x7f", "a␌␀␡"),
        ("a\x85\u2028", "a⟨U+0085⟩⟨U+2028⟩"),
        ("a\u202eb\u200b", "a⟨U+202E⟩b⟨U+200B⟩"),
        ("a\xa0b\u3164", "a⟨U+00A0⟩b⟨U+3164⟩"),
        ("x\U000e0041\ufe0f", "x⟨U+E0041⟩⟨U+FE0F⟩"),
        ("'\u02ba\u037e", "'⟨U+02BA⟩⟨U+037E⟩"),
        ("cafe\u0301 \u0301", "cafe\u0301 ⟨U+0301⟩"),
        ("a" + "\u0301" * 6, "a" + "\u0301" * 4 + "⟨U+0301⟩" * 2),
        ("a\ud800", "a⟨U+D800⟩"),
    ],
)
def test_each_hidden_character_has_a_symbol(text: str, shown: str) -> None:
    assert visible(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        *(
            "\u2764\ufe0f",
            "\u2764\ufe0e",
            "1\ufe0f\u20e3",
            "\U0001f469\U0001f3fd\u200d\U0001f680",
            "\U0001f3f3\ufe0f\u200d\U0001f308",
        ),
        *(
            "\U0001f937\u200d\u2642\ufe0f",
            "\U0001f3f4\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f",
            "\u203c\ufe0f",
        ),
        *("می\u200cخواهم", "سَ\u200cت", "\u0915\u094d\u200d\u0937"),
    ],
)
def test_emoji_and_joining_scripts_are_ordinary(text: str) -> None:
    assert visible(f"x = '{text}'") == f"x = '{text}'"
    assert refusal(f"x = '{text}'") == ""


@pytest.mark.parametrize(
    "text",
    [
        *(
            "a\u200cb",
            "a\u200db",
            "می\u200c\u200cخ",
            "س\u200c",
            "س\u200ca",
            "\u2764\u200d",
            "\U0001f469\u200c\U0001f4bb",
            "=\ufe0f",
            "1\ufe0f",
        ),
        *("\u2764\ufe0f\ufe0f", "\U0001f3f4\U000e0061\U000e007f", "\u2713\U000e0061"),
    ],
)
def test_joiners_are_shown_as_symbols_outside_emoji_and_words(text: str) -> None:
    assert "\u27e8U+" in visible(f"x = '{text}'")


@pytest.mark.parametrize("char", HIDDEN)
def test_symbol_is_drawn_in_the_warning_colour_at_its_width(char: str) -> None:
    rows = CodeRows(80, PALETTE, PALETTE.model)
    rows.update(f"x = '{char}'; y = 1")
    symbol = visible(char)
    assert (symbol, PALETTE.alarm) in rows[0].spans
    assert symbol != char
    assert cell_len(symbol) == len(symbol)


@pytest.mark.parametrize(
    "char", "\x00\x07\x08\x0b\r\x1b\x7f\x85\x9b\u061c\u200e\u202a\u202e\u2066\u2069"
)
def test_controls_and_bidirectional_characters_are_refused(char: str) -> None:
    why = refusal(f"x = 1\ny = 2  # {char}.\n")
    assert why.startswith(f"Line 2 contains the character U+{ord(char):04X}, which can hide code")
    found = re.search(r"escape (\S+) and", why)
    assert found is not None
    assert eval(f"'{found[1]}'") == char


@pytest.mark.parametrize(
    "code",
    [
        "x = 1\r\ny = 2\r\n",
        "def f():\n\treturn 1\n\x0c\ndef g(): ...",
        "x = 'é 漢字 می\u200cخواهم'",
        "",
    ],
)
def test_ordinary_python_characters_are_accepted(code: str) -> None:
    assert refusal(code) == ""


def drawn_text(code: str, width: int) -> str:
    """Return the drawn code, read back: rows that go on joined, symbols undone."""
    rows = CodeRows(width, PALETTE, PALETTE.model)
    rows.update(code)
    text = ""
    for row in (rows[number] for number in range(len(rows))):
        text += "" if row.soft else "\n"
        seen = "".join(piece for piece, _ in row.spans).rstrip(" ")
        assert cell_len(seen) <= width, "nothing but blanks is cut off at the right edge"
        # A symbol that is cut by the row's end goes on in the next row.
        spans = row.spans[1:] if row.soft else row.spans  # without the mark of a row that goes on
        text += "".join(
            f"\0{piece}\0" if style == PALETTE.alarm else piece for piece, style in spans
        )
    return re.sub("\0([^\0]*)\0", lambda symbols: undone(symbols[1]), text.replace("\0\0", ""))[1:]


def undone(symbols: str) -> str:
    """The hidden characters that symbols stand for."""

    def char(symbol: re.Match[str]) -> str:
        if symbol[1]:
            return chr(int(symbol[1], 16))
        return {"\\r": "\r", "␡": "\x7f"}.get(symbol[0]) or chr(ord(symbol[0]) - 0x2400)

    return re.sub(r"⟨U\+([0-9A-F]+)⟩|\\r|.", char, symbols)


CODE = st.text(
    st.one_of(
        st.sampled_from(HIDDEN), st.sampled_from("ab 'é\u0301漢🙂#;\"\\⟨⟩␛\n\t"), st.characters()
    ),
    max_size=60,
)


@given(CODE, st.integers(10, 60))
@example("a='\x1bP'\nHARM\nb='\x1b\\'\nprint('harmless')", 40)
@example("x=1 #ok\rHARM", 40)
@example("'" + "⚠\ufe0f" * 30 + "'; HARM", 20)
@example("x" * 200 + "; HARM", 20)
@example("0" * 10 + " ", 10)
def test_drawn_code_matches_compiled_code(code: str, width: int) -> None:
    assert drawn_text(code, width) == code.expandtabs(4)


@given(CODE)
def test_drawn_code_of_an_answer_matches_compiled_code(code: str) -> None:
    for block in parse_response(f"<assistant-repl-in>{code}</assistant-repl-in>").code_blocks:
        assert drawn_text(block, 40) == block.expandtabs(4)
