"""The code that a search's first message shows as its beginning: a small model copies it."""

from __future__ import annotations

import json
import re

import pytest

from mahtab_tui.llm.ledger import BudgetLeft
from mahtab_tui.sandbox.searched_text import SearchedText
from mahtab_tui.search.prompts import first_message
from mahtab_tui.search.query_terms import QueryCondition, find_comparison

LOANS = "\n".join(
    [
        "number,reader,subject,days,date,remark",
        ",,,,,A quiet day.",
        "1,Clara,law,40,2026-03-01,",
        "2,Clara,cooking,20,2026-03-07,",
        "3,Bruno,law,57,2026-01-09,",
        "4,Clara,cooking,5,2025-03-08,",
        "5,Ada,law,58,2026-02-01,",
        ",,,,,Ada found a day book.",
        "6,Ada,law,60,2026-03-11,",
    ]
)
SALES = "\n".join(
    [
        "The market opened.",
        "Hamid sold 49 kg of honey.",
        "Irene sold 60 kg of apples.",
        "Hamid sold 12.5 kg of honey.",
        "Irene sold 7 kg of honey.",
        "Hamid sold 70 kg of apples.",
        "The band played.",
    ]
)
TRUCKS = "\n".join(
    [
        *(f"0{n} | truck: K{n % 3} | goods: sand | tons: {n * 10}" for n in range(1, 6)),
        "note | the scale for sand was tested",
    ]
)
LOG = "\n".join(f"12:00:0{n} {'ERROR' if n % 2 else 'INFO'} web took={n}00ms" for n in range(8))
PAYMENTS = "\n".join(
    f"paid {n} EUR to shop {n % 3} in {'Berlin' if n % 4 else 'Bonn'}" for n in range(10, 22)
)
VISITS = "\n".join(
    json.dumps(row)
    for row in (
        {"id": 0, "remark": "The visitors were late."},
        {"id": 1, "room": "coins", "visitors": 12},
        {"id": 2, "room": "coins", "visitors": 0},
        {"id": 3, "room": "maps", "visitors": 30},
        {"id": 4, "room": "coins", "visitors": 25},
    )
)
ORDERS = "\n".join(
    json.dumps(row)
    for row in (
        {"city": "Oslo", "date": None, "amount": 1},
        {"city": "Oslo", "date": "2024-01-02", "amount": 2},
        {"city": "Rome", "date": "2024-03-04", "amount": 7},
        {"date": "2023-05-06", "amount": 9},
        {"city": "Rome", "amount": 3},
    )
)


def example(query: str, text: str) -> str:
    message = first_message(query, SearchedText.root(text), BudgetLeft())
    return message.rpartition("```python\n")[2].partition("```")[0]


def computed(query: str, text: str) -> object:
    """Return what the example hands to FINAL."""
    answers: list[object] = []
    exec(example(query, text), {"context": text, "FINAL": answers.append})
    (answer,) = answers
    return answer


@pytest.mark.parametrize(
    ("query", "text", "answer"),
    [
        ("How many days did Clara keep cooking books in total?", LOANS, 25),
        ("What is the longest that Clara kept a book, in days?", LOANS, 40),
        ("How many different readers kept a law book for more than 56 days?", LOANS, 2),
        ("How many law books were kept for at least 57 days?", LOANS, 3),
        ("How many law books were kept for 57 days or more?", LOANS, 3),
        ("How many law books were kept for less than 57 days?", LOANS, 1),
        ("How many law books were kept for no more than 56 days?", LOANS, 1),
        ("How many law books were kept for no fewer than 57 days?", LOANS, 3),
        ("How many law books were not kept for more than 56 days?", LOANS, 1),
        ("How many law books do not exceed 56 days?", LOANS, 1),
        ("How many law books weren't over 56 days?", LOANS, 1),
        ("What is the sum of the days of March 2026?", LOANS, 120),
        ("How many loans were there in 2025?", LOANS, 1),
        ("What is the earliest date of a loan by Ada?", LOANS, "2026-02-01"),
        ("Which reader has the largest total of days?", LOANS, "Ada"),
        ("Which reader kept a cooking book the longest, in days?", LOANS, "Clara"),
        ("What is the sum of the days of Clara?", LOANS.replace("Clara", '"Clara"'), 65),
        ("How much honey did Hamid sell altogether, in kg?", SALES, 61.5),
        ("How many kg did Hamid sell?", SALES, 131.5),
        ("What is the heaviest that Irene sold, in kg?", SALES, 60),
        ("How often did somebody sell more than 49 kg of apples?", SALES, 2),
        ("What do the tons of sand that truck K2 carried add up to?", TRUCKS, 70),
        ("How many distinct trucks carried more than 30 tons of sand?", TRUCKS, 2),
        ("How many ERROR lines are there?", LOG, 4),
        ("What is the largest number of ms of an ERROR?", LOG, 700),
        ("How many visitors came to the room of coins in all?", VISITS, 37),
        ("How many rooms of coins had more than 10 visitors?", VISITS, 2),
        ("What is the smallest number of visitors in the room of coins?", VISITS, 0),
        ("How many orders were there in 2024?", ORDERS, 2),
        ("How many cities are Oslo in 5000 orders?", ORDERS, 2),
        ("How many orders of Rome are in 2000 lines?", ORDERS, 2),
        ("Which city has the largest total of amounts?", ORDERS, "Rome"),
    ],
)
def test_example_computes_the_answer(query: str, text: str, answer: object) -> None:
    assert computed(query, text) == answer


def test_example_prints_where_cells_have_more_than_the_words_of_the_query() -> None:
    code = example("What is the sum of the days of Clara?", LOANS.replace("Clara", "Clara Holm"))
    assert code.startswith("for hit in grep('(?i)Clara'")


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("How many different people sold more than 49 kg of apples at once?", SALES),
        ("Which truck carried the largest load of sand?", TRUCKS),
        ("What is the average of the honey?", SALES.replace("kg", "")),
        ("What is the sum of all amounts in Berlin?", PAYMENTS),
    ],
)
def test_example_only_looks_where_it_cannot_compute(query: str, text: str) -> None:
    code = example(query, text)
    assert "FINAL" not in code
    printed: list[object] = []
    exec(code, {"context": text, "print": lambda *values: printed.extend(values)})
    assert printed[0] == len(printed[1])  # type: ignore[arg-type]
    assert printed[0]


def test_limits_and_names_of_columns_are_no_words_to_search() -> None:
    message = first_message(
        "How many days did Ada keep law books for more than 58 days?",
        SearchedText.root(LOANS),
        BudgetLeft(),
    )
    words = re.search(r"words of the query: (.*?);", message)
    assert words is not None
    assert words[1] == "Ada 3, law 4, book 1"


def test_a_query_of_many_numbers_is_read_in_linear_time() -> None:
    """A quadratic reader would take minutes."""
    assert find_comparison("1,," * 70_000) is None
    assert find_comparison("1,234 or more") == QueryCondition("1234", ">=")
