"""Regular expressions that a person types: what is none, what takes too long, and where they stand in a text of many blocks."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from mahtab_tui.kernel.base import KernelError
from mahtab_tui.tui import patterns
from mahtab_tui.tui.patterns import PatternError, TooSlow, pattern_of, spans, within
from mahtab_tui.tui.screens.inspector import pattern_search
from mahtab_tui.tui.screens.inspector.pattern_search import find_pattern
from mahtab_tui.tui.screens.inspector.text_source import BLOCK, LocalText

SLOW, FOR = r"(a+)+$", "a" * 60 + "b"
"""Tries 2^60 ways."""


def test_words_are_found_as_they_are_and_patterns_as_such() -> None:
    assert list(spans(pattern_of("a.c", regex=False, any_case=True), "abc A.C")) == [(4, 7)]
    assert list(spans(pattern_of("a.c", regex=True, any_case=True), "abc A.C")) == [(0, 3), (4, 7)]
    assert list(spans(pattern_of("^b*", regex=True, any_case=False), "a\nbb\nc")) == [(2, 4)]


@pytest.mark.parametrize("words", ["(", "[", "*", "a{2,1}", "(?P<x", "\\"])
def test_what_is_no_pattern_is_said_in_a_sentence(words: str) -> None:
    with pytest.raises(PatternError, match=r"^This is no regular expression: .*\.$"):
        pattern_of(words, regex=True, any_case=True)
    with pytest.raises(KernelError, match=r"^This is no regular expression: .*\.$"):
        find_pattern(LocalText("text"), words, 0, backwards=False)


def test_one_that_tries_too_many_ways_is_ended_and_the_next_one_is_not() -> None:
    with pytest.raises(TooSlow), within(0.05):
        list(spans(re.compile(SLOW), FOR))
    with within(0.05):
        assert list(spans(re.compile("b"), FOR)) == [(60, 61)]
    assert list(spans(re.compile(r"(x+x+)+y"), "x" * 20)) == []  # takes a while, and nothing ends it any more


def test_a_handler_and_a_timer_of_the_program_that_opened_the_screen_stay() -> None:
    def theirs(*_: object) -> None: ...

    before = signal.signal(signal.SIGVTALRM, theirs)
    try:
        signal.setitimer(signal.ITIMER_VIRTUAL, 1000, 2000)
        with within(10), within(10):
            pass
        assert signal.getsignal(signal.SIGVTALRM) is theirs
        left, again = signal.getitimer(signal.ITIMER_VIRTUAL)
        assert (left > 900, again) == (True, 2000)
        signal.signal(signal.SIGVTALRM, signal.SIG_IGN)
        with within(10):
            pass
        assert signal.getsignal(signal.SIGVTALRM) is signal.SIG_IGN
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def test_in_a_long_text_it_is_ended_with_its_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pattern_search, "PART", 0.2)
    with pytest.raises(KernelError) as error:
        find_pattern(LocalText(FOR), SLOW, 0, backwards=False)
    assert str(error.value) == patterns.TOO_SLOW


def test_a_process_that_does_not_even_begin_is_ended_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    waits = tmp_path / "waits.py"
    waits.write_text("import time; time.sleep(100)\n")
    monkeypatch.setattr(pattern_search, "_WORKER", waits)
    monkeypatch.setattr(pattern_search, "START", 0.2)
    with pytest.raises(KernelError, match=patterns.TOO_SLOW):
        find_pattern(LocalText("text"), "text", 0, backwards=False)


def found(text: str, words: str, start: int, *, backwards: bool = False) -> str:
    """What is found, with where it begins."""
    place = find_pattern(LocalText(text), words, start, backwards=backwards)
    return "" if place is None else f"{place[0]}:{text[slice(*place)]}"


def test_it_goes_forwards_and_backwards_and_on_from_the_other_end() -> None:
    text = "x1\nx2\nX3\n"
    assert [found(text, r"^x\d$", start) for start in (0, 1, 4, 7)] == ["0:x1", "3:x2", "6:X3", "0:x1"]
    assert [found(text, r"x\d", start, backwards=True) for start in (0, 3, 6)] == ["6:X3", "0:x1", "3:x2"]
    assert found(text, r"X\d", 0) == "6:X3"
    assert found(text, r"\S3", 0) == "6:X3"
    assert found(text, "nothing|z*", 0) == ""
    assert found("", "x", 0) == ""


@pytest.mark.parametrize("start", [0, BLOCK - 10, BLOCK + 5, 2 * BLOCK + 1])
def test_lines_that_go_over_from_one_block_to_the_next_are_whole(start: int) -> None:
    line = "y" * (BLOCK - 3) + "\n"
    text = line + "over the end\n" + line + "and the last one\n"
    assert found(text, r"^over the end$", start) == f"{len(line)}:over the end"
    assert found(text, r"^over the end$", start, backwards=True) == f"{len(line)}:over the end"
    assert found(text, r"last \w+$", start, backwards=True) == f"{text.index('last')}:last one"


def test_lines_that_begin_with_a_block_are_whole() -> None:
    line = "y" * (BLOCK - 1) + "\n"
    text = f"{line}here\nlast\n"
    assert found(text, "^here$", 0) == f"{BLOCK}:here"
    assert found(text, "^here$", 0, backwards=True) == f"{BLOCK}:here"


def test_a_search_that_takes_too_long_in_all_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pattern_search, "WHOLE", -1.0)
    with pytest.raises(KernelError, match=r"^It was not found within -1 s; the text is very long\.$"):
        found("text", "text", 0)


def test_a_search_whose_process_is_gone_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    ends = tmp_path / "ends.py"
    ends.write_text("import sys; sys.stdin.readline()\n")
    monkeypatch.setattr(pattern_search, "_WORKER", ends)
    with pytest.raises(KernelError, match=r"^The search ended by itself\.$"):
        found("text", "text", 0)


def test_a_line_longer_than_a_block_is_searched_too() -> None:
    text = "z" * (3 * BLOCK) + "needle" + "z" * BLOCK
    assert found(text, "n[e]+dle", 0) == f"{3 * BLOCK}:needle"


def test_a_search_that_nobody_waits_for_any_more_ends() -> None:
    worker = Path(pattern_search.__file__).with_name("pattern_worker.py")
    soon = f"import runpy, signal; alarm = signal.alarm; signal.alarm = lambda seconds: alarm(1); runpy.run_path({str(worker)!r})"
    asked = f"{json.dumps(SLOW)}\n{json.dumps([FOR, 0, len(FOR), False])}\n"
    ended = subprocess.run([sys.executable, "-c", soon], input=asked, capture_output=True, text=True, timeout=60)
    assert ended.returncode == -signal.SIGALRM
