"""The figures of an answer: found in its text, and in the sources that they come from."""

from __future__ import annotations

import pytest

from mahtab_tui.bus.empty_answers import names_no_value, says_nothing
from mahtab_tui.bus.figure_context import FigureContext
from mahtab_tui.bus.figure_sources import MAX_SOURCE_END_CHARS, FigureSource
from mahtab_tui.bus.figure_tokens import figure_spans, scan_figures
from mahtab_tui.bus.figures import MAX_DIFFERENT_FIGURES, find_figures, near_misses
from mahtab_tui.bus.records import AnswerFigure

CARS = "23.514572864321607\n     mpg  cylinders\n0   18.0          8\n[406 rows x 9 columns]"
AIRPORTS = "          name  n\n3  Municipal Arpt  8\ntotal: 1,203,412"

# An answer, the output of cell 3, the question; the figures in these sources, and those that are not.
Case = tuple[str, str, str, list[str], list[str]]
CASES: list[Case] = [
    # Exact numbers
    ("There are 10.", "8", "", [], ["10"]),
    ("There are 10.", "", "Are there 10?", ["10"], []),
    ("There are 8 of 406.", CARS, "", ["8", "406"], []),
    ("It is 1,203,412.", AIRPORTS, "", ["1,203,412"], []),
    ("It is 1203412, 1 203 412, 1'203'412 or 1_203_412.", AIRPORTS, "", ["1203412", "1 203 412", "1'203'412", "1_203_412"], []),
    ("It is 1.203.412 auf Deutsch.", AIRPORTS, "", ["1.203.412"], []),
    ("Es sind 23,5.", CARS, "", ["23,5"], []),
    ("It is 1,204,000.", AIRPORTS, "", [], ["1,204,000"]),
    ("It fell by 5 to -3.", "-5 -3", "", ["5", "-3"], []),
    ("It is -5.", "5", "", [], ["-5"]),
    ("In 2013-2015", "2013 2015", "", ["2013", "2015"], []),
    ("It costs $1,234.50, that is 99 €.", "1234.5 99", "", ["$1,234.50", "99"], []),
    ("It is 1.5e-10, 1.5×10⁻¹⁰ or 1.5 × 10^-10.", "1.5e-10", "", ["1.5e-10"], []),
    ("It is 1e999999999.", "1", "", [], []),
    ("It is 1e999.", "1", "", [], ["1e999"]),
    ("The answer is 123456789012345678901234567890.", "123456789012345678901234567890", "", ["123456789012345678901234567890"], []),
    ("**10** and *8*", "8", "", ["8"], ["10"]),
    ("mean=23.5, n=406", CARS, "", ["23.5", "406"], []),
    ("| name | n |\n| --- | ---: |\n| Arpt | 9 |", AIRPORTS, "", [], ["9"]),
    ("共有10个机场。", "8", "", [], ["10"]),
    # Rounded: the last digit of the answer decides
    ("about 7.8", "7.8421", "", ["7.8"], []),
    ("7.84", "7.8461", "", [], ["7.84"]),
    ("7.85", "7.8461", "", ["7.85"], []),
    ("23.5, or 24", CARS, "", ["23.5", "24"], []),
    ("23", CARS, "", [], ["23"]),
    ("23.50", "23.5", "", ["23.50"], []),
    ("23.5146", "23.5", "", [], ["23.5146"]),
    ("about 1.2 million", AIRPORTS, "", ["1.2 million"], []),
    ("1.3 million", AIRPORTS, "", [], ["1.3 million"]),
    ("1.2M or 1203k", AIRPORTS, "", ["1.2M", "1203k"], []),
    ("about 400", CARS, "", ["400"], []),
    ("exactly 400", CARS, "", [], ["400"]),
    ("18.4 MB", "18400000", "", ["18.4 MB"], []),
    ("1200 m", "1.2 million", "", [], ["1200"]),
    ("p < 0.001, p < 0.05", "2.3e-16", "", ["0.001", "0.05"], []),
    ("p < 0.001", "0.02", "", [], ["0.001"]),
    # Percent
    ("12.3 %", "0.1234", "", ["12.3 %"], []),
    ("12.3%", "12.34", "", ["12.3%"], []),
    ("12.4 percent", "0.1234", "", [], ["12.4 percent"]),
    ("0.123", "12.3%", "", ["0.123"], []),
    ("the 25th percentile", "25%  17.5", "", ["25th"], []),
    ("a 95% confidence interval", "", "", [], []),
    # Computed from others in the sentence
    ("8 of 406 (2 %)", CARS, "", ["8", "406", "2 %"], []),
    ("8 + 406 = 414", CARS, "", ["8", "406", "414"], []),
    ("from January 1970 to 1982, 12 years", "1970-01-01 1982-01-01", "", ["1970", "1982", "12"], []),
    ("8 of 406, so 3 %", CARS, "", ["8", "406"], ["3 %"]),
    ("There are 406. There are 8. There are 414.", CARS, "", ["406", "8", "414"], []),
    # Dates and times
    ("on 2024-03-02, or in 2024-03", "2024-03-01 00:00:00", "", ["2024-03"], ["2024-03-02"]),
    ("on 2024-03-01, March 1, 2024", "2024-03-01T10:00", "", ["2024-03-01", "1", "2024"], []),
    ("in 2024, at 10:30 PM and 9:15", "2024-03-01", "", ["2024"], []),
    ("in the 1990s", "1994", "", [], []),
    # Quoted values
    ('It is "chevrolet impala".', "name: Chevrolet  Impala", "", ['"chevrolet impala"'], []),
    ('It is "ford pinto".', "name: Chevrolet Impala", "", [], ['"ford pinto"']),
    ("from 'USA', “Japan” and “New Zealand”", "USA JAPAN", "", ["'USA'", "“Japan”"], ["“New Zealand”"]),
    ("`USA`, `Japan` and `chevrolet impala`", "USA", "", ["`USA`"], ["`chevrolet impala`"]),
    ('It is "New York".', "New Yorker", "", [], ['"New York"']),
    ("`10` and \"8\"", "8", "", ['"8"'], ["`10`"]),
    ("`df`, `df.head()`, `x = 10`, 'horsepower' and \"n_cars\"", "8", "", [], []),
    ("the column 'Origin', the columns 'Year' and 'Name', the 'Region' column, column names: 'Size'", "8", "", [], []),
    ("don't say the cars' '90s, 5\" and 6\" wide", "90 5 6", "", ["5", "6"], []),
    ('He said "it is what it is and we have 10 of them".', "", "", [], ["10"]),
    # Not figures
    ("The 3 and 5 are there.", "", 'The top three. Or "five"?', ["3", "5"], []),
    ("It is 3.", "", "A twenty-three-fold rise?", [], ["3"]),
    ("It is 2,500,000,000,000 or 1,300,000,000.", "2.5 trillion, 1.3bn", "", ["2,500,000,000,000", "1,300,000,000"], []),
    ("It is 37 in all.", "Name: Ann, 10\nName: Bob, 27", "", ["37"], []),
    ("1. one\n2. two\n   3) three\n> 4. four\n- 5. five\n**6.** six", "", "", [], []),
    ("# The 10 airports\n## 2. Results", "", "", [], []),
    ("cell 3, cells 4 and 5, cells 6-8, step 2, Figure 7, In [9], #12", "", "", [], []),
    ("df2, x_1, utf-8, Python 3.11, H2O, A320, 2D, 64-bit, 10-fold, v2.1, 1.2.3, R^2", "", "", [], []),
    ("https://example.org/2024/10?n=5 www.a.org/7 /data/2024/x10.csv data/2023/x.csv ~/12.txt", "", "", [], []),
    ("There are 0, or 1.", "", "", ["0", "1"], []),
    ("the top 10, the first 5 and the last 3", "", "", [], []),
    ("I take 5 rows of ten.", "", "Show five rows of 10 columns", ["5"], []),
    ("| 1 | ATL |\n| 2 | ORD |", "ATL ORD", "", [], []),
    ("```sql\nLIMIT 10\n```\n\n~~~\n11\n~~~\nand 12", "", "", [], ["12"]),
    ("", "", "", [], []),
]  # fmt: skip

YEARS = "year\n1980    29\n1982    61\nName: count, dtype: int64"


@pytest.mark.parametrize(
    ("answer", "output", "question", "printed_figures", "missing"),
    CASES,
    ids=[case[0][:40] for case in CASES],
)
def test_figures_of_an_answer(
    answer: str, output: str, question: str, printed_figures: list[str], missing: list[str]
) -> None:
    figures = find_figures(answer, [FigureSource(3, output)], question)
    assert [figure.text for figure in figures if figure.has_source] == printed_figures
    assert [figure.text for figure in figures if not figure.has_source] == missing
    assert {answer[start:end] for start, end in figure_spans(answer)} >= {
        *printed_figures,
        *missing,
    }


def test_a_figure_comes_from_the_newest_cell_that_prints_exactly_it() -> None:
    outputs = {1: "8 40", None: "406 9", 2: "8", 4: "7.9"}
    sources = [FigureSource(cell, output) for cell, output in outputs.items()]
    figures = find_figures("8 of 406, 40, 9, 12", sources, "how many of 12?")
    assert [(figure.text, figure.cell) for figure in figures] == [
        *(("8", 2), ("406", None), ("40", 1), ("9", None), ("12", None))
    ]
    assert all(figure.has_source for figure in figures)


def missing(answer: str, code: str = "", sources: tuple[FigureSource, ...] = ()) -> list[str]:
    return [
        figure.text
        for figure in find_figures(answer, sources, "", code=code)
        if not figure.has_source
    ]


def test_names_in_the_code_are_not_missing() -> None:
    answer = "By 'Pclass' and 'Passenger Class', the class 'First Class' leads."
    assert missing(answer) == ["'Passenger Class'", "'First Class'"]
    assert missing(answer, 'df.groupby("Passenger Class")') == ["'First Class'"]


def test_equal_figures_are_listed_once() -> None:
    answer = "8 and 8, 10 and 10; about 400, then 400"
    assert find_figures(answer, [FigureSource(2, "8 406")], "") == (
        AnswerFigure("8", True, 2),
        AnswerFigure("10", False),
        AnswerFigure("400", True, 2),
    )


def test_only_the_ends_of_a_huge_source_are_read() -> None:
    source = "12 " + "x" * MAX_SOURCE_END_CHARS + " 13 " + "x" * MAX_SOURCE_END_CHARS + " 14"
    assert missing("12, 13, 14", sources=(FigureSource(1, source),)) == ["13"]


def test_the_number_of_figures_is_limited() -> None:
    answer = ", ".join(map(str, range(10, 1_000)))
    assert len(find_figures(answer, [], "")) == MAX_DIFFERENT_FIGURES


# Figures that are not claimed, that follow from others, and that are nearly another


@pytest.mark.parametrize(
    "answer",
    [
        "There are no cars of 1981.",
        "I did not find any car above 500 hp.",
        "1981 is missing.",
        "The years 1981 and 1983 aren't in the table.",
        'There is no "ford pinto" in it.',
        "By the usual rule of thumb, 0.7 is strong.",
        "If you want, I can make 12 groups.",
        "It is 29 for every 100.",
        "No value of the table is 42.7.",
        "There is no row where it is 57.",
        "No year without 57 cars.",
        "You can see the 57 largest in a plot.",
        "You could drop that column of 12 values.",
        "If you want, I can list the cars whose power is 100.",
        "Do you want me to assume that the limit is 12?",
        "I can find the 57 largest for you.",
    ],
)
def test_figures_that_are_not_claimed_of_the_data_are_left_alone(answer: str) -> None:
    assert missing(answer, sources=(FigureSource(1, YEARS),)) == []


@pytest.mark.parametrize(
    ("answer", "marked"),
    [
        ("No, there are 57 cars.", ["57"]),
        ("No more than 57 cars are old.", ["57"]),
        ("None of the 57 cars is old.", ["57"]),
        ("17 values are missing.", ["17"]),
        ("There is no doubt that the mean is 42.7.", ["42.7"]),
        ("No rows were dropped and the mean is 42.7.", ["42.7"]),
        ("No outliers the mean is 42.7.", ["42.7"]),
        ("With no outliers it is 42.7.", ["42.7"]),
        ("Without outliers the mean is 42.7.", ["42.7"]),
        ("The mean without outliers is 42.7.", ["42.7"]),
        ("Without outliers, the best year is 1985.", ["1985"]),
    ],
)
def test_counts_beside_a_negation_are_still_looked_up(answer: str, marked: list[str]) -> None:
    assert missing(answer, sources=(FigureSource(1, "29 61"),)) == marked


@pytest.mark.parametrize(
    "answer",
    [
        "You can see that the mean is 42.7.",
        "You can clearly see in the table: 42.7.",
        "You could check for yourself that the mean is 42.7.",
        "I can confirm that it is 42.7.",
        "I could only find 42.7.",
        "I can also say: the mean is 42.7.",
        "If you need the mean, it is 42.7.",
    ],
)
def test_results_told_like_an_offer_are_still_looked_up(answer: str) -> None:
    assert missing(answer, sources=(FigureSource(1, "29 61"),)) == ["42.7"]


@pytest.mark.parametrize(
    ("words", "whole"),
    [
        ("3 of the 406.", 406),
        ("3 of all the 1,203 rows", 1203),
        ("3 of 1203", 1203),
        ("3 of 1 203 rows", 1203),
        ("3 of 1'203", 1203),
        ("3 of 1.5", 0),
        ("3 of 40 %", 0),
        ("3 of 5 million", 0),
        ("3 rows", 0),
    ],
)
def test_whole_of_which_a_figure_is_a_part(words: str, whole: int) -> None:
    assert FigureContext(words).whole(next(scan_figures(words))) == whole


@pytest.mark.parametrize(
    ("answer", "printed", "figure", "basis"),
    [
        ("8 of 406, that is 2 %", "8 406", "2 %", "8 of 406"),
        ("8 of 406. The other 398 do not.", "8 406", "398", "406 − 8"),
        ("It rose from 40 to 50, by 25 %.", "40 50", "25 %", "(50 − 40) / 40"),
        ("50 is 1.25 times 40.", "40 50", "1.25", "50 / 40"),
        ("62.6 % are, so 37.4 % are not.", "0.6256", "37.4 %", "100 % − 62.6 %"),
        ("About 12.5 % are.", "5\n40", "12.5 %", "5 of 40"),
        ("20 % of 405 are 81.", "20% 405", "81", "20 % of 405"),
        ("All in all 150.", "a    50\nb    60\nc    40", "150", "total of 3 listed"),
        ("From 100 in 2000 to 121 in 2002: 10 % a year.", "2000 100 2002 121", "10 %", "(121 / 100) over 2 years"),
        ("4 regions: North, East, South and West.", "", "4", "4 listed"),
        ("Of these 3 files:\n\n- a\n- b\n- c", "", "3", "3 listed"),
        ("The table has 4 columns.", "['a', 'b', 'c', 'd']", "4", "4 listed"),
        ("2 of them are from Japan.", "a Japan\nb USA\nc Japan", "2", "2 listed"),
    ],
)  # fmt: skip
def test_figure_that_follows_from_others_says_how(
    answer: str, printed: str, figure: str, basis: str
) -> None:
    figures = {item.text: item for item in find_figures(answer, [FigureSource(1, printed)], "")}
    assert figures[figure] == AnswerFigure(figure, found=True, basis=basis)


@pytest.mark.parametrize(
    ("stated", "printed", "near_figure"),
    [
        ("3.33", "3.2291", "3.23"),
        ("1,203,421", "1203412", "1,203,412"),
        ("62.9 %", "0.62561", "62.6 %"),
        ("$707.08", "707.0", "$707.00"),
        ("12,640", "12460", "12,460"),
        ("1264", "12640", ""),
        ("20345", "203345", "203345"),
        ("9.33", "3.33", ""),
        ("72", "79", ""),
        ("1981", "1980", ""),
    ],
)
def test_near_miss_names_the_printed_figure(stated: str, printed: str, near_figure: str) -> None:
    source = FigureSource(1, printed)
    (figure,) = find_figures(f"It is {stated}.", [source], "")
    assert figure == AnswerFigure(stated, found=False, near=near_figure or None)
    assert near_misses([figure]) == ([figure] if near_figure else [])
    for conjecture in ("It may be {}.", "It might well be {}.", "They could have {}."):
        (assumed,) = find_figures(conjecture.format(stated), [source], "")
        assert assumed == AnswerFigure(stated, found=False)
    for claim in (
        "In May the mean was {}.",
        "Sales in May were {}.",
        "You might see that it is {}.",
    ):
        assert find_figures(claim.format(stated), [source], "") == (figure,)
    unprinted = source._replace(printed=False)
    assert near_misses(find_figures(f"It is {stated}.", [unprinted], "")) == []


@pytest.mark.parametrize(
    ("answer", "output", "question", "named"),
    [
        ("Yes, they are strongly related.", "-0.8322", "How are weight and mpg related?", False),
        ("Japanese cars are the best.", "Japan 30.45", "Which are the best cars?", True),
        ("It is 30.", "30.45", "What is the mean?", True),
        ("Japan.", "Japan 30.45", "Is it Japan or USA?", False),
        ("Yes.", "True", "Is it so?", True),
        ("There are none.", "0", "How many are there?", True),
        ("Here is the plot.", "<Figure size 1100x450 with 2 Axes>", "plot it", True),
        ("It is done.", "", "clean it", True),
    ],
)
def test_answer_that_names_no_value_of_the_output(
    answer: str, output: str, question: str, named: bool
) -> None:
    assert names_no_value(answer, [output], question) is not named


@pytest.mark.parametrize(
    ("output", "is_empty"),
    [
        ("a.py:1: FutureWarning: old\n  old()", True),
        ("<cell 2>:1: UserWarning: old\n  old()\nNone", True),
        ("C:\\my files\\a.py:12: Warning: old", True),
        ("a.py:1: UserWarning: old\n  old()\nb.py:2: UserWarning: new\n  new()", True),
        ("Stock Warning: item 7 is low", False),
        ("Warning: 3 rows dropped", False),
        ("a.py:1: UserWarning: old\n   price\n0   3.23", False),
        ("a.py:1: UserWarning: old\n  old()\n  3.23", False),
        ("a.py:1: UserWarning: old\n  old()\n   price\n   3.23", False),
    ],
)
def test_only_warnings_of_python_say_nothing(output: str, *, is_empty: bool) -> None:
    assert says_nothing(output) is is_empty
    assert names_no_value("There is a problem.", [output], "which?") is not is_empty


def test_words_of_the_code_are_labels_and_no_values() -> None:
    code = "best = sums.idxmax()\nprint(f'Commonest origin: {best}')"
    question = "Where do most cars come from?"
    answers = ["The output shows the commonest origin.", "Most come from Japan."]
    are_empty = [
        names_no_value(answer, ["Commonest origin: Japan"], question, [code]) for answer in answers
    ]
    assert are_empty == [True, False]
    assert not names_no_value("It is.", ["good"], "How is it?", ["print('good' if x else 'bad')"])
