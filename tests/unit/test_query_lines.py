from __future__ import annotations

import pytest

from mahtab_tui.search.prompts import MOST_CHARACTERS, QueryLines, find_query_lines

LOG = "\n".join(
    f"{number:02} {'ERROR' if number % 10 == 0 else 'INFO'} {'mail' if number % 4 == 0 else 'web'}"
    for number in range(100)
)


def test_lines_with_all_words_are_counted_and_shown() -> None:
    found = find_query_lines("How many ERROR lines are of the service mail?", LOG)
    assert (found.words, found.lines) == (("ERROR", "mail"), 5)
    assert found.shown[0] == (1, "00 ERROR mail")
    assert len(found.shown) == 4


@pytest.mark.parametrize("query", ["which error?", "The `Error`?", "ERROR's", "(error)"])
def test_words_are_found_in_any_case_and_named_as_the_text_writes_them(query: str) -> None:
    assert find_query_lines(query, LOG).words == ("ERROR",)


def test_words_within_words_words_of_every_line_and_common_words_are_ignored() -> None:
    found = find_query_lines("Where is a cat?", "a catalogue\n" * 5 + "one dog")
    assert found == QueryLines((), 0, ())
    assert not find_query_lines("What is the user?", "the user is ana\n" * 50).shown


def test_a_line_leads_to_the_next() -> None:
    lines = [f"{number} nothing" for number in range(50)]
    lines[10], lines[40] = "badge 4202 belongs to Lena", "the archive was opened with badge 4202"
    found = find_query_lines("Who opened the archive?", "\n".join(lines))
    assert found.shown == ((11, lines[10]), (41, lines[40]))


def test_in_prose_the_neighbours_of_the_best_line_are_shown() -> None:
    text = "\n\n".join(["Other words.", "object.__bool__(self)", "Called to test truth.", "End."])
    found = find_query_lines("Which method tests the truth value of an object?", text * 3)
    assert (3, "object.__bool__(self)") in found.shown
    assert (5, "Called to test truth.") in found.shown


def test_a_header_is_skipped() -> None:
    text = "customer,euro\nc1,5\nc2,6\nc1,7"
    found = find_query_lines("What is the euro of customer c1?", text, header=True)
    assert found == QueryLines(("c1",), 2, ((2, "c1,5"), (4, "c1,7")))


def test_only_the_beginning_of_a_very_long_text_is_searched() -> None:
    text = "a line\n" * (MOST_CHARACTERS // 7 + 1) + "the needle\n"
    assert not find_query_lines("Where is the needle?", text).shown


@pytest.mark.parametrize("text", ["", "\n\n", "İ" * 100 + "\nword", "\ud800 word\nother"])
def test_any_text_can_be_searched(text: str) -> None:
    find_query_lines("Is there a WORD?", text)
