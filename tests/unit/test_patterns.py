"""Regular expressions that a person types: what is none, what takes too long, and where they stand
in a text of many blocks."""

from __future__ import annotations

import threading

import pytest

from mahtab_tui.kernel.base import KernelError
from mahtab_tui.tui import find
from mahtab_tui.tui.find import Pattern, PatternError, PatternTimeout
from mahtab_tui.tui.inspector import text
from mahtab_tui.tui.inspector.text import BLOCK, LocalText, find_pattern

SLOW, FOR = r"(a|aa)+$", "a" * 60 + "b"
"""Tries 2^60 ways."""


def spans(
    words: str, text: str, *, regex: bool = True, any_case: bool = True
) -> list[tuple[int, int]]:
    return list(Pattern(words, regex=regex, any_case=any_case).spans(text))


def test_plain_words_match_literally_and_patterns_as_patterns() -> None:
    assert spans("a.c", "abc A.C", regex=False) == [(4, 7)]
    assert spans("a.c", "abc A.C") == [(0, 3), (4, 7)]
    assert spans("^b*", "a\nbb\nc", any_case=False) == [(2, 4)]
    assert list(Pattern("b", regex=True, any_case=True).spans_of_all(["ab", "", "bB"])) == [
        [(1, 2)],
        [],
        [(0, 1), (1, 2)],
    ]


@pytest.mark.parametrize("words", ["(", "[", "*", "a{2,1}", "(?P<x", "\\"])
def test_invalid_pattern_gives_one_sentence(words: str) -> None:
    with pytest.raises(PatternError, match=r"^Invalid regular expression: .*\.$"):
        Pattern(words, regex=True, any_case=True)
    with pytest.raises(KernelError, match=r"^Invalid regular expression: .*\.$"):
        find_pattern(LocalText("text"), words, 0, backwards=False)


@pytest.mark.parametrize(
    "words",
    [
        "((a{1000}){1000}){1000}",
        "(?:a{60000}b?){60000}",
        "(" * 5000 + ")" * 5000,
        "a|" * 10_000,
        "a{99999999999}",
    ],
)
def test_memory_hungry_pattern_is_refused(words: str) -> None:
    with pytest.raises(PatternError, match=r"too (large|big)"):
        Pattern(words, regex=True, any_case=True)


def test_ordinary_counted_repeats_are_accepted() -> None:
    uuid = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
    assert spans(uuid, "id 123e4567-e89b-12d3-a456-426614174000.") == [(3, 39)]
    assert spans(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}", "2026-01-02T03:04:05") == [(0, 19)]


def test_backtracking_pattern_is_stopped_and_other_threads_run_meanwhile() -> None:
    ran = threading.Event()
    threading.Timer(0.05, ran.set).start()
    with pytest.raises(PatternTimeout):
        list(Pattern(SLOW, regex=True, any_case=True).spans(FOR, 1.0))
    assert ran.is_set()
    with pytest.raises(PatternTimeout):
        list(Pattern(SLOW, regex=True, any_case=True).spans_of_all([FOR] * 1_000_000, 0.05))
    assert spans("b", FOR) == [(60, 61)]


def test_backtracking_pattern_is_stopped_in_a_long_text_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(text, "PART", 0.2)
    with pytest.raises(KernelError) as error:
        find_pattern(LocalText(FOR), SLOW, 0, backwards=False)
    assert str(error.value) == find.TOO_SLOW


def found(text: str, words: str, start: int, *, backwards: bool = False) -> str:
    """Return the matches with their positions."""
    span = find_pattern(LocalText(text), words, start, backwards=backwards)
    return "" if span is None else f"{span[0]}:{text[slice(*span)]}"


def test_search_runs_in_both_directions_and_wraps_around() -> None:
    text = "x1\nx2\nX3\n"
    assert [found(text, r"^x\d$", start) for start in (0, 1, 4, 7)] == [
        "0:x1",
        "3:x2",
        "6:X3",
        "0:x1",
    ]
    assert [found(text, r"x\d", start, backwards=True) for start in (0, 3, 6)] == [
        "6:X3",
        "0:x1",
        "3:x2",
    ]
    assert found(text, r"X\d", 0) == "6:X3"
    assert found(text, r"\S3", 0) == "6:X3"
    assert found(text, "nothing|z*", 0) == ""
    assert found("", "x", 0) == ""


@pytest.mark.parametrize("start", [0, BLOCK - 10, BLOCK + 5, 2 * BLOCK + 1])
def test_lines_spanning_two_blocks_are_whole(start: int) -> None:
    line = "y" * (BLOCK - 3) + "\n"
    text = line + "over the end\n" + line + "and the last one\n"
    assert found(text, r"^over the end$", start) == f"{len(line)}:over the end"
    assert found(text, r"^over the end$", start, backwards=True) == f"{len(line)}:over the end"
    assert found(text, r"last \w+$", start, backwards=True) == f"{text.index('last')}:last one"


def test_lines_at_a_block_boundary_are_whole() -> None:
    line = "y" * (BLOCK - 1) + "\n"
    text = f"{line}here\nlast\n"
    assert found(text, "^here$", 0) == f"{BLOCK}:here"
    assert found(text, "^here$", 0, backwards=True) == f"{BLOCK}:here"


def test_too_long_search_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text, "WHOLE", -1.0)
    with pytest.raises(
        KernelError, match=r"^Not found within -1 s, because the text is very long\.$"
    ):
        found("text", "text", 0)


def test_a_line_longer_than_a_block_is_searched_too() -> None:
    text = "z" * (3 * BLOCK) + "needle" + "z" * BLOCK
    assert found(text, "n[e]+dle", 0) == f"{3 * BLOCK}:needle"
