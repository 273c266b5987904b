from __future__ import annotations

import re

import pytest

from mahtab_tui.llm.ledger import BudgetLeft
from mahtab_tui.sandbox.searched_text import SearchedText
from mahtab_tui.search.prompts import first_message
from mahtab_tui.search.query_lines import (
    MAX_SEARCHED_CHARS,
    NumberedLine,
    QueryLines,
    find_joint_words,
    find_query_lines,
)

LOG = "\n".join(
    f"{number:02} {'ERROR' if number % 10 == 0 else 'INFO'} {'mail' if number % 4 == 0 else 'web'}"
    for number in range(100)
)

VISITS = "\n".join(f"{number} visit user={'abc'[number % 3]} took={number}" for number in range(99))
PLACES = "\n".join(
    ["hay", "the vault's code is 4417-BF", *["Ana came."] * 9, "Bela left.", *["hay"] * 50]
)


def test_lines_with_all_words_are_counted_and_shown() -> None:
    query_lines = find_query_lines("How many ERROR lines are of the service mail?", LOG)
    assert (query_lines.words, query_lines.complete_line_count) == ({"ERROR": 10, "mail": 25}, 5)
    assert query_lines.excerpts[0] == (1, "00 ERROR mail")
    assert len(query_lines.excerpts) == 4


@pytest.mark.parametrize("query", ["which error?", "The `Error`?", "ERROR's", "(error)"])
def test_words_are_found_in_any_case_and_named_as_the_text_writes_them(query: str) -> None:
    assert find_query_lines(query, LOG).words == {"ERROR": 10}


def test_two_words_of_a_query_may_be_one_in_the_text() -> None:
    text = "\n".join(["hay"] * 50 + ["the badge of Ana"])
    query_lines = find_query_lines("Badge: the badge of Ana", text)
    assert query_lines.words == {"badge": 1, "Ana": 1}
    assert query_lines.has_whole_query
    assert not find_query_lines("Badge: the badge of Bela", text).has_whole_query


def test_a_word_is_named_as_it_stands_alone_and_not_as_it_stands_in_another() -> None:
    text = "\n".join(["hay"] * 50 + ["BADGES: one badge"])
    assert find_query_lines("Badge", text).words == {"badge": 1}


def test_words_within_words_words_of_every_line_and_common_words_are_ignored() -> None:
    query_lines = find_query_lines("Where is a cat?", "a catalogue\n" * 5 + "one dog")
    assert query_lines == QueryLines({}, 0, ())
    assert not find_query_lines("What is the user?", "the user is ana\n" * 50).excerpts


def test_words_that_no_line_has_together_are_counted_alone() -> None:
    query_lines = find_query_lines("Is the mail at 03 or at 05?", LOG)
    assert (query_lines.words, query_lines.complete_line_count) == (
        {"mail": 25, "03": 1, "05": 1},
        0,
    )


@pytest.mark.parametrize("words_before", [0, 100, 5_000])
@pytest.mark.parametrize("words_after", [0, 100, 5_000])
def test_a_long_line_is_cut_around_its_rarest_word(words_before: int, words_after: int) -> None:
    line = "a " * words_before + "the needle is here" + " z" * words_after
    text = "\n".join(["the other", *["hay"] * 50, line, "here", "here"])

    (_, excerpt), *_ = find_query_lines("Where is the needle here?", text).excerpts

    assert "needle is here" in excerpt
    assert len(excerpt) <= 202
    assert excerpt.startswith("…") == (words_before >= 100)
    assert excerpt.endswith("…") == (words_after >= 100)


def message_for(query: str, text: str) -> str:
    return first_message(query, SearchedText.root(text), BudgetLeft())


def test_an_answer_at_once_is_offered_only_where_one_line_has_all_words() -> None:
    message = message_for("What is the code of the vault?", PLACES)
    assert "code 1, vault 1; with all of these in one line: 1." in message
    assert "Line 2 has all words of the query." in message
    assert 'FINAL("answer")' in message
    for query in ("Did Ana or Bela leave the vault?", "Where did Ana go?", "Who broke the vault?"):
        assert 'FINAL("answer")' not in message_for(query, PLACES)


def test_words_in_different_lines_are_searched_by_or() -> None:
    message = message_for("Who met Ana and Bela?", PLACES)
    assert "Ana 9, Bela 1; with all of these in one line: 0." in message
    assert "grep('(?i)Bela|Ana', context_lines=1" in message


@pytest.mark.parametrize(
    ("query", "purpose", "code"),
    [
        ("How many lines have user=a?", "the number of lines with user=a", "FINAL(len(lines))"),
        ("What is the largest took of user=a?", "the largest took in", "FINAL(max(values))"),
        ("What is the sum of took?", "the sum of took:", "FINAL(sum(values))"),
        ("What did a visit take on average?", "the average of took:", "sum(values) / len(values)"),
        ("How many different users are there?", "different values of user:", "len(set(values))"),
        ("How many different users had took=7?", "different values of user in", "len(set(values))"),
    ],
)
def test_example_is_of_the_question_and_computes_its_answer(
    query: str, purpose: str, code: str
) -> None:
    message = message_for(query, VISITS)
    assert purpose in message
    assert code in message
    block = message.partition("```python\n")[2].partition("```")[0]
    answers: list[object] = []
    exec(block, {"context": VISITS, "FINAL": answers.append})
    rows = re.findall(r"user=(\w) took=(\d+)", VISITS)
    took_of_a = [int(took) for user, took in rows if user == "a"]
    expected = {
        "How many lines have user=a?": len(took_of_a),
        "What is the largest took of user=a?": max(took_of_a),
        "What is the sum of took?": sum(int(took) for _, took in rows),
        "What did a visit take on average?": sum(range(99)) / 99,
        "How many different users are there?": 3,
        "How many different users had took=7?": 1,
    }
    assert answers == [expected[query]]


@pytest.mark.parametrize(
    ("query", "answer"),
    [
        ("What is the sum of cost?", 9.25),
        ("How many different owners are there?", 2),
        ("What is the largest weight?", 3),
    ],
)
def test_example_reads_decimals_and_passes_over_lines_without_a_value(
    query: str, answer: float
) -> None:
    lines = [f"owner={'ab'[n % 2]} cost={n}.5 weight={-n} " for n in range(2, 4)]
    text = "\n".join([*lines, "A remark.", "owner=a cost=3.25 weight=3", "x " * 1_500])
    block = message_for(query, text).partition("```python\n")[2].partition("```")[0]
    answers: list[object] = []
    exec(block, {"context": text, "FINAL": answers.append})
    assert answers == [answer]


def test_example_does_not_compute_where_the_text_has_no_such_value() -> None:
    assert "Example, for lines with any of the words Bela, Ana:" in message_for(
        "What is the total of Ana and Bela?", PLACES
    )


def test_example_for_rows_names_the_column_of_the_question() -> None:
    table = "order,weight,price\n" + "".join(f"o{n},{n},{n * 2}\n" for n in range(1, 9))
    message = message_for("What is the largest price?", table)
    assert "for the largest price:" in message
    assert 'float(row["price"])' in message


def test_a_line_leads_to_the_next() -> None:
    lines = [f"{number} nothing" for number in range(50)]
    lines[10] = "badge 4202 belongs to Lena"
    lines[40] = "the archive was opened with badge 4202"
    query_lines = find_query_lines("Who opened the archive?", "\n".join(lines))
    assert query_lines.excerpts == ((11, lines[10]), (41, lines[40]))


def test_in_prose_the_neighbours_of_the_best_line_are_shown() -> None:
    text = "\n\n".join(["Other words.", "object.__bool__(self)", "Called to test truth.", "End."])
    query_lines = find_query_lines("Which method tests the truth value of an object?", text * 3)
    assert (3, "object.__bool__(self)") in query_lines.excerpts
    assert (5, "Called to test truth.") in query_lines.excerpts


def test_a_header_is_skipped() -> None:
    text = "customer,euro\nc1,5\nc2,6\nc1,7"
    query_lines = find_query_lines("What is the euro of customer c1?", text, header=True)
    assert query_lines == QueryLines(
        {"c1": 2}, 2, (NumberedLine(2, "c1,5"), NumberedLine(4, "c1,7"))
    )


def test_words_that_several_lines_have_together_are_found() -> None:
    text = "Ana paid\nAna paid\nBela paid\nAna met Bela, who paid\n"
    assert find_joint_words(["Bela", "Ana", "paid"], text) == ["Ana", "paid"]
    assert find_joint_words(["Ana", "Bela"], "Ana\nBela\nBela") == ["Bela"]
    assert find_joint_words(["Ana"], "nobody") == []


def test_ignored_words_are_not_searched() -> None:
    assert find_query_lines("How many INFO web?", LOG, ignored={"info"}).words == {"web": 75}


def test_only_the_beginning_of_a_very_long_text_is_searched() -> None:
    text = "a line\n" * (MAX_SEARCHED_CHARS // 7 + 1) + "the needle\n"
    assert not find_query_lines("Where is the needle?", text).excerpts


@pytest.mark.parametrize("text", ["", "\n\n", "İ" * 100 + "\nword", "\ud800 word\nother"])
def test_any_text_can_be_searched(text: str) -> None:
    find_query_lines("Is there a WORD?", text)
