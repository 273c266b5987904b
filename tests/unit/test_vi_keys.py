"""Vi's keys on a text."""

from __future__ import annotations

import pytest

from mahtab_tui.tui.editor.vi_bindings import MAX_REPEATS
from mahtab_tui.tui.editor.vi_keys import ViKeys, ViText

TOTAL = "total = sum(prices, 0)\nprint(total)"


def start(text: str, cursor: int = 0) -> tuple[ViKeys, ViText]:
    """Return the keys in normal mode over a text."""
    keys = ViKeys()
    state = keys.leave_insert_mode(ViText(text, cursor))
    return keys, state._replace(cursor=cursor)


def press(keys: ViKeys, state: ViText, typed: str) -> ViText:
    """Press keys; in insert mode, they are typed into the text. "E" in angle brackets is Escape."""
    for part in typed.replace("<E>", "\x1b"):
        if part == "\x1b" and keys.mode == "insert":
            state = keys.leave_insert_mode(state)
        elif part == "\x1b":
            state = keys.press("escape", None, state)
        elif keys.mode == "insert":
            text = state.text[: state.cursor] + part + state.text[state.cursor :]
            state = ViText(text, state.cursor + 1)
        elif part == "\r":
            state = keys.press("enter", None, state)
        else:
            state = keys.press(part, part, state)
    return state


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("dw", "= sum(prices, 0)\nprint(total)"),
        ("3dw", "(prices, 0)\nprint(total)"),
        ("2d1w", "sum(prices, 0)\nprint(total)"),
        ("dd", "print(total)"),
        ("yyp", "total = sum(prices, 0)\ntotal = sum(prices, 0)\nprint(total)"),
        ("f(ci(a, b<E>", "total = sum(a, b)\nprint(total)"),
        ("f(%x", "total = sum(prices, 0\nprint(total)"),
        ("cwsum_<E>j0.", "sum_ = sum(prices, 0)\nsum_(total)"),
        ("x..", "al = sum(prices, 0)\nprint(total)"),
        ("Afoo<E>", "total = sum(prices, 0)foo\nprint(total)"),
        ("vfld", " = sum(prices, 0)\nprint(total)"),
        ("Vjd", ""),
        ('"ayiw"byyGo<E>"ap', "total = sum(prices, 0)\nprint(total)\ntotal"),
        ('"ayiwjyiw"ap', "total = sum(prices, 0)\nptotalrint(total)"),
        ('"adw"bdw"ap"bp', "stotal = um(prices, 0)\nprint(total)"),
        ('ve"ay$"ap', "total = sum(prices, 0)total\nprint(total)"),
        ("wcw+=<E>", "total += sum(prices, 0)\nprint(total)"),
        ("wwcWmax(<E>", "total = max( 0)\nprint(total)"),
        ("2cwx = <E>", "x =  sum(prices, 0)\nprint(total)"),
        ("e2cWx<E>", "totax sum(prices, 0)\nprint(total)"),
        ("ec2wx<E>", "totax sum(prices, 0)\nprint(total)"),
        ("d2w1.", "(prices, 0)\nprint(total)"),
        ("o<E>ciwx<E>", "total = sum(prices, 0)\nx\nprint(total)"),
        ("o<E>ciWx<E>j0.", "total = sum(prices, 0)\nx\nx"),
        ("o<E>diwx", "total = sum(prices, 0)\n\nprint(total)"),
        ("f diw", "total= sum(prices, 0)\nprint(total)"),
        ("f daw", "total sum(prices, 0)\nprint(total)"),
        ("jf(daw", "total = sum(prices, 0)\nprinttotal)"),
        ("Wi  <E>daW", "total sum(prices, 0)\nprint(total)"),
        ("w9bx", "otal = sum(prices, 0)\nprint(total)"),
        ("99ex", "total = sum(prices, 0)\nprint(total"),
        ("yyPv2$J", "total = sum(prices, 0) total = sum(prices, 0)\nprint(total)"),
        ("yypo<E>kkVjjJ", "total = sum(prices, 0) total = sum(prices, 0)\nprint(total)"),
        ("/print\rD", "total = sum(prices, 0)\n"),
        ("/o\rnx", "total = sum(prices, 0)\nprint(ttal)"),
        ("rT~", "total = sum(prices, 0)\nprint(total)"),
        ("RT<E>", "Total = sum(prices, 0)\nprint(total)"),
        ("gUiw", "TOTAL = sum(prices, 0)\nprint(total)"),
        (">>", "    total = sum(prices, 0)\nprint(total)"),
        ("J", "total = sum(prices, 0) print(total)"),
        ('qa"byyqx', "otal = sum(prices, 0)\nprint(total)"),
        ("qaq@a", "total = sum(prices, 0)\nprint(total)"),
        ("ll2D", "to"),
        ("ll2Cx<E>", "tox"),
        ("ll2d$", "to"),
        ("vj>", "    total = sum(prices, 0)\n    print(total)"),
        ("vj2>", "        total = sum(prices, 0)\n        print(total)"),
        ("2>j", "    total = sum(prices, 0)\n    print(total)"),
        ("3>ip", "    total = sum(prices, 0)\n    print(total)"),
        (">0", "    total = sum(prices, 0)\nprint(total)"),
        ("vj2>2<<", "    total = sum(prices, 0)\n    print(total)"),
        ("C'a', 'b', <E>F'ca'c<E>", "'a',c, \nprint(total)"),
        ("C'a', 'b'<E>da'", "'a',\nprint(total)"),
        ("f(lci(<E>lci(x<E>", "total = sum(x)\nprint(total)"),
        ("C''<E>ci'x<E>", "'x'\nprint(total)"),
        ("2gUU", TOTAL.upper()),
        ("2g~~", TOTAL.upper()),
        ("$3sx<E>", "total = sum(prices, 0x\nprint(total)"),
        ("Dsx<E>", "x\nprint(total)"),
        ("c0_<E>", "_total = sum(prices, 0)\nprint(total)"),
    ],
)
def test_commands_do_what_they_do_in_vim(typed: str, expected: str) -> None:
    keys, state = start(TOTAL)
    assert press(keys, state, typed).text == expected


@pytest.mark.parametrize(
    ("text", "typed", "expected"),
    [
        ("ab\ncd\nef", "v$>", "    ab\ncd\nef"),
        ("    ab\n    cd\nef", "v$<", "ab\n    cd\nef"),
        ("ab\ncd", "dk", "ab\ncd"),
        ("ab\ncd", "Gdj", "ab\ncd"),
        ("ab\ncd", "Gcjx", "ab\nd"),
        ("ab\ncd", "G>j", "ab\ncd"),
        ("ab\ncd", "ckx", "b\ncd"),
        ("ab\ncd\nef", "5dj", ""),
        ("ab\n    cd", "dw", "\n    cd"),
        ("x ab\n    cd", "wdw", "x \n    cd"),
        ("x ab\n    cd", "2dw", "\n    cd"),
        ("x ab\n    cd", "3dW", ""),
        ("ab  \ncd", "dw", "\ncd"),
        ("\nab", "dw", "\nab"),
        ("abc\n\nx", "2d$", "\nx"),
        ("abc\n\nx", "2c$y<E>", "y\nx"),
        ("ab\n  cd", "gUw", "AB\n  cd"),
        ("ab cd", "wx", "ab d"),
        ("a b c", "d5w", ""),
        ("a b\nc d", "d9w", ""),
        ("a b c", "wy9wP", "a b cb c"),
        ("ab\ncd", "GyjP", "ab\ncd"),
        ("ab\ncd", "gUk", "ab\ncd"),
        ("ab\ncd", "wx", "ab\nd"),
        ("ab cd", "vwd", "d"),
    ],
)
def test_operators_end_where_they_end_in_vim(text: str, typed: str, expected: str) -> None:
    keys, state = start(text)
    assert press(keys, state, typed).text == expected


@pytest.mark.parametrize("search", ["*", "#", "*n", "*N"])
def test_searches_are_not_repeated_without_limit(search: str) -> None:
    cursors = []
    for count in (MAX_REPEATS, 99_999):
        keys, state = start("word " * 7)
        cursors.append(press(keys, state, search[:-1] + str(count) + search[-1]).cursor)
    assert cursors[0] == cursors[1]


def test_the_mode_and_an_incomplete_command_are_known() -> None:
    keys, state = start(TOTAL)
    seen = []
    for typed in ("", "2d", "<E>", "v", "<E>", "V", "<E>", "/pri", "<E>", "R", "<E>", "i"):
        state = press(keys, state, typed)
        seen.append((keys.mode, keys.pending_keys))
    assert seen == [
        ("normal", ""),
        ("normal", "2d"),
        ("normal", ""),
        ("visual", ""),
        ("normal", ""),
        ("visual line", ""),
        ("normal", ""),
        ("search", "/pri"),
        ("normal", ""),
        ("replace", ""),
        ("normal", ""),
        ("insert", ""),
    ]


@pytest.mark.parametrize("prefix", ['"', "q", "@", '2"'])
@pytest.mark.parametrize(
    ("key", "character"), [("escape", "\x1b"), ("escape", None), ("enter", "\r"), ("left", None)]
)
def test_a_key_that_names_no_register_cancels_the_command(
    prefix: str, key: str, character: str | None
) -> None:
    keys, state = start(TOTAL)
    state = press(keys, state, prefix)
    state = keys.press(key, character, state)
    assert (keys.mode, keys.pending_keys, keys.is_waiting) == ("normal", "", False)
    # The next q begins a macro, and does not end one.
    state = press(keys, state, "qx")
    assert state.text == TOTAL
    assert press(keys, state, "x").text == TOTAL[1:]


def test_a_text_that_was_changed_elsewhere_is_taken_over() -> None:
    keys, state = start(TOTAL)
    press(keys, state, "dw")
    assert press(keys, ViText("new text", 4), "x").text == "new ext"


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("5.", "abc\ndef"),
        ("r\\", "\\bc\ndef"),
        ("vlr\\", "\\\\c\ndef"),
        ("r<E>", "abc\ndef"),
        ("vlr<E><E>", "abc\ndef"),
        ("vlr<E>d", "c\ndef"),
        ("99999999999x", "\ndef"),
        ("99999999999ix<E>", "x" * MAX_REPEATS + "abc\ndef"),
        ("ix<E>99999999999.", "x" * (MAX_REPEATS + 1) + "abc\ndef"),
        ("yl99999999999p", "a" * (MAX_REPEATS + 1) + "bc\ndef"),
        (f"{'9' * 5000}x", "\ndef"),
        (f"{'9' * 5000}ix<E>", "x" * MAX_REPEATS + "abc\ndef"),
    ],
)
def test_large_counts_and_characters_with_a_meaning_elsewhere_do_no_harm(
    typed: str, expected: str
) -> None:
    keys, state = start("abc\ndef")
    assert press(keys, state, typed).text == expected


@pytest.mark.parametrize(
    "typed",
    [
        'ci"x',
        'ca"x',
        "ci(x",
        "cf-x",
        "c;x",
        "c,x",
        "c%x",
        "cbx",
        '<a"',
        '>a"',
        ">f-",
        'gUi"',
        'da"',
    ],
)
def test_an_operator_whose_motion_fails_does_nothing(typed: str) -> None:
    keys, state = start("    ab = 1")
    state = press(keys, state, typed)
    assert keys.mode == "normal"
    assert state.text == ("   ab = 1" if typed.endswith("x") else "    ab = 1")


def test_lines_are_indented_but_not_empty_ones() -> None:
    keys, state = start("a\n\n  b\n\tc\nd")
    state = press(keys, state, "4>>")
    assert (state.text, state.cursor) == ("    a\n\n      b\n        c\nd", 4)
    assert press(keys, state, "4<<").text == "a\n\n  b\n    c\nd"


@pytest.mark.parametrize("typed", ["r", "vlr", "R", "f", "t", "/a"])
@pytest.mark.parametrize(
    ("key", "character"),
    [("escape", "\x1b"), ("enter", "\r"), ("delete", "\x7f"), ("delete", None), ("left", None)],
)
def test_a_key_that_types_nothing_puts_nothing_into_the_text(
    typed: str, key: str, character: str | None
) -> None:
    keys, state = start(TOTAL)
    state = press(keys, state, typed)
    state = keys.press(key, character, state)
    state = press(keys, state, "<E><E>")
    assert (keys.mode, state.text) == ("normal", TOTAL)


def test_a_count_of_the_input_before_repeats_nothing() -> None:
    keys, state = start("")
    assert press(keys, state, "3ix<E>").text == "xxx"
    keys.begin_insert_mode()
    assert press(keys, ViText("", 0), "hello<E>").text == "hello"
