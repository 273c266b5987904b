"""What is probably wrong with the result of code that ran without an error."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pandas
import polars
import pytest

from mahtab_tui.worker.describing.result_doubts import result_doubts

CARS = {
    "Name": ["ford pinto", "ford torino", "toyota corona"],
    "Origin": ["USA", "USA", "Japan"],
    "Weight": [1, 2, 3],
}


def notes_about(code: str, table: Any = None) -> str:
    namespace = {"cars": pandas.DataFrame(CARS) if table is None else table}
    return " ".join(result_doubts(namespace, ["cars"], code))


@pytest.mark.parametrize(
    ("code", "note"),
    [
        (
            "cars[cars['Origin'] == 'usa']",
            "no value of cars['Origin'] is 'usa': it is written 'USA'.",
        ),
        ("'usa' != cars.Origin", "no value of cars['Origin'] is 'usa': it is written 'USA'."),
        (
            "cars[cars.Origin == 'Japon']",
            "no value of cars['Origin'] is 'Japon'. Did you mean 'Japan'?",
        ),
        ("cars.Origin.isin(['USA', 'Peru'])", "no value of cars['Origin'] is 'Peru'."),
        (
            "(cars['Name'] == 'ford').sum()",
            "no value of cars['Name'] is 'ford'. It is a part of 2 different values, such as"
            " 'ford pinto'.",
        ),
        (
            "cars.Name.str.contains('Ford').sum()",
            "no value of cars['Name'] contains 'Ford'. In other letters, it is a part of 2 different"
            " values, such as 'ford pinto'.",
        ),
        (
            "(cars.Name.str.split().str[0] == 'Toyota').sum()",
            "no value of cars['Name'] contains 'Toyota'. In other letters, it is a part of"
            " 'toyota corona'.",
        ),
    ],
)
def test_a_text_that_matches_nothing_is_told(code: str, note: str) -> None:
    assert notes_about(code) == note


@pytest.mark.parametrize(
    ("code", "note"),
    [
        (
            "cars[cars.Year.dt.month == '01']",
            "dt.month is a number, which is never equal to the text '01'. Compare it with 1.",
        ),
        (
            "cars[pandas.to_datetime(cars['Year']).dt.year != '1980']",
            "dt.year is a number, which is never equal to the text '1980'. Compare it with 1980.",
        ),
        (
            "'1980' == cars['Year'].dt.year\n'1980' != cars.Year.dt.year",
            "dt.year is a number, which is never equal to the text '1980'. Compare it with 1980.",
        ),
        (
            "cars.Year.dt.dayofyear.isin(['7', 8])",
            "dt.dayofyear is a number, which is never equal to the text '7'. Compare it with 7.",
        ),
        ("cars[cars.Year.dt.month == 1]", ""),
        ("rec.Year.dt.year == '1980'", ""),
        ("rec.dt.year == '1980'", ""),
        ("make(cars.Year).dt.year == '1980'", ""),
        ("module.make(cars.Year).dt.year == '1980'", ""),
        ("cars.other.dt.year == '1980'", ""),
        ("cars[cars.Year.dt.day_name() == '1']", ""),
        ("cars[cars.Year.year == '1980']", ""),
        (f"cars[cars.Year.dt.year == '{'1' * 5_000}']", ""),
    ],
)
def test_a_part_of_a_date_that_is_compared_with_a_text_is_told(code: str, note: str) -> None:
    days = pandas.to_datetime(pandas.Series(["1980-01-07", "1981-02-03"]))
    record = SimpleNamespace(dt=SimpleNamespace(year="1980"))
    namespace = {"cars": pandas.DataFrame({"Year": days}), "rec": record}
    assert " ".join(result_doubts(namespace, list(namespace), code)) == note


@pytest.mark.parametrize(
    ("code", "dates"),
    [
        ("cars[cars.date {} '2005-01-01']", ["Jan 1 2000", "Feb 1 2010"]),
        ("cars[cars['date'] {} '2/1/2005']", ["1/1/2000", "12/1/2010"]),
        ("cars[cars.date {} '2005-01-01']", ["2000/01/01", "2010/02/01"]),
        ("'5 May 2005' {} cars.date", ["1 Jan 2000", "3 Feb 2010"]),
        ("cars.date {} '2005-6'", ["2000-01-01", "2010-10-01"]),
        ("cars.date {} '200'", ["2000-01-01", "2010-10-01"]),
        ("cars.date {} '2005-01-01 00:00'", ["2000-01-01", "2005-01-01"]),
        ("cars.date {} '2005-01-01 10:00:00'", ["2000-01-01 10:00", "2005-01-01 10:00"]),
        ("cars.date {} '2005-01-01T10:00+01:00'", ["2000-01-01T10:00+02:00"]),
    ],
)
@pytest.mark.parametrize("sign", ["<", "<=", ">", ">="])
def test_dates_as_text_that_are_compared_by_their_letters_are_told(
    code: str, dates: list[str], sign: str
) -> None:
    table = pandas.DataFrame({"date": dates})
    sentence = (
        f"cars['date'] has dates as text, such as {dates[0]!r}: {sign} compares their letters, which"
        " need not be the order of time. Convert them to dates first"
    )
    note = notes_about(code.format(sign), table)
    assert note == f"{sentence}: pd.to_datetime(cars['date'])."
    assert notes_about(code.format(sign), polars.from_pandas(table)) == f"{sentence}."


@pytest.mark.parametrize(
    ("code", "values"),
    [
        ("cars.date > '2005-01-01'", ["2000-01-01", "2010-02-01"]),
        ("cars.date >= '2005'", ["2000-01-01", "2010-02-01"]),
        ("cars.date >= '2005-01-01'", ["2000-01-01 10:00", "2010-02-01 11:00"]),
        ("cars.date >= '2005-06'", ["2000-01-01", "2010-02-01"]),
        ("cars.date < '2005-'", ["2000-01-01", "2010-02-01"]),
        ("cars.date > ''", ["2000-01-01", "2010-02-01"]),
        ("cars.date < '2005-01-01T10:00Z'", ["2000-01-01T09:00Z", "2010-02-01T10:00Z"]),
        ("cars.date > 'b'", ["Jan 1 2000", "unknown"]),
        ("cars.date > 'b'", ["a", "c"]),
        ("cars.date.str[-4:] > '2005'", ["Jan 1 2000", "Feb 1 2010"]),
        ("pandas.to_datetime(cars.date) > '2005-01-01'", ["Jan 1 2000", "Feb 1 2010"]),
        ("cars.date > limit", ["Jan 1 2000", "Feb 1 2010"]),
        ("cars.date > '2005'", []),
    ],
)
def test_nothing_is_told_of_texts_in_the_order_of_time(code: str, values: list[str]) -> None:
    assert notes_about(code, pandas.DataFrame({"date": pandas.Series(values, dtype=str)})) == ""


def test_at_most_three_parts_of_dates_are_told() -> None:
    code = "\n".join(f"cars.Weight.dt.year == '{year}'" for year in range(1980, 1989))
    assert notes_about(code).count("dt.year is a number") == 3


@pytest.mark.parametrize(
    "code",
    [
        "cars[cars.Origin == 'USA']",
        "cars.Name.str.contains('ford')",
        "cars.Name.str.contains('Ford', case=False)",
        "cars.Name.str.split().str[0] == 'toyota'",
        "cars.Weight == 'heavy'",
        "cars.Nonesuch == 'x'",
        "cars.Origin == ''",
        "cars = cars[cars.Origin == 'Peru']",
        "trucks[trucks.Origin == 'Peru']",
        "trucks = cars[cars.Weight > 1]\ntrucks.Origin == 'Peru'",
        "%timeit cars.Origin == 'Peru'",
        "cars.Origin ==",
        "cars.Name.str.contains('Bob|ford')",
        "cars.Name.str.contains(r'\\d+')",
        "cars.Name.str.upper() == 'FORD PINTO'",
        "cars.Origin.map({'USA': 'here'}) == 'here'",
        "cars['Origin'].replace('USA', 'US') == 'US'",
        "cars['Origin'] = cars['Origin'].str.lower()\ncars.Origin == 'Peru'",
        "cars.Origin == 'Peru'\ncars.drop(index=0, inplace=True)",
        "def count(cars):\n    return (cars.Origin == 'Peru').sum()",
        "import trucks as cars\ncars.Origin == 'Peru'",
        "",
    ],
)
def test_nothing_is_told_of_what_matches_or_is_not_known(code: str) -> None:
    assert notes_about(code) == ""


@pytest.mark.parametrize("library", ["polars", "arrow"])
def test_tables_of_each_library_are_read(library: str) -> None:
    table = polars.DataFrame(CARS)
    value: Any = table if library == "polars" else table.to_arrow()
    note = "no value of cars['Origin'] is 'usa': it is written 'USA'."
    assert notes_about("cars['Origin'] == 'usa'", value) == note


def test_nothing_is_told_of_a_column_that_is_not_read_to_its_end() -> None:
    # Each text is new, so that none of the rows can be read fast.
    names = [f"{number:040}" for number in range(3_000_000)]
    assert notes_about("cars.Name == 'last'", pandas.DataFrame({"Name": [*names, "last"]})) == ""


def test_secret_columns_and_tables_that_must_not_be_told_are_left_out() -> None:
    table = pandas.DataFrame({"password": ["hunter2"]})
    assert notes_about("cars.password == 'hunter'", table) == ""
    assert result_doubts({"cars": pandas.DataFrame(CARS)}, [], "cars.Origin == 'usa'") == ()


def test_at_most_three_texts_are_told() -> None:
    code = f"cars.Origin.isin({[str(number) for number in range(9)]})"
    assert notes_about(code).count("no value of") == 3


def test_a_long_text_is_cut() -> None:
    assert len(notes_about(f"cars.Origin == {'x' * 9_000!r}")) < 200


@pytest.mark.parametrize(
    ("code", "note"),
    [
        (
            "print(cars['Weight'].idxmax())",
            "idxmax() returns the label of a row, not what stands in it."
            " The row: cars.loc[cars['Weight'].idxmax()].",
        ),
        ("print(cars.loc[cars['Weight'].idxmax(), 'Name'])", ""),
        ("print(cars.groupby('Origin').Weight.mean().idxmin())", ""),
        (
            "(cars['Origin'] == 'USA') & (cars['Weight'] > 1).sum()",
            "sum() belongs to the last condition only."
            " For all: ((cars['Origin'] == 'USA') & (cars['Weight'] > 1)).sum().",
        ),
        ("((cars['Origin'] == 'USA') & (cars['Weight'] > 1)).sum()", ""),
    ],
)
def test_a_result_that_is_not_what_it_seems_is_told(code: str, note: str) -> None:
    assert notes_about(code) == note


def test_labels_that_say_something_may_be_the_answer() -> None:
    table = pandas.DataFrame(CARS).set_index("Name")
    assert notes_about("print(cars['Weight'].idxmax())", table) == ""


def test_code_that_is_too_long_or_too_deep_to_be_shown_leaves_the_other_sentences() -> None:
    unmatched = "cars.Origin == 'usa'\n"
    long_call = f"cars.Weight.idxmax({', '.join(map(str, range(500)))})"
    deep_sum = f"{'&'.join(['a'] * 1_500)} & (b < 5).sum()"
    for code in (long_call, deep_sum):
        assert notes_about(unmatched + code).endswith("it is written 'USA'.")
        assert "returns" not in notes_about(unmatched + code)
        assert "belongs" not in notes_about(unmatched + code)


def test_groups_of_single_rows_are_told() -> None:
    days = [f"2012/01/0{day}" for day in range(1, 7)]
    table = pandas.DataFrame({"day": days, "number": range(6), "half": [1, 1, 1, 2, 2, 2]})
    note = (
        "groupby({0!r}) makes a group of each row, because no value of cars[{0!r}] is there twice."
    )
    by_year = " By year: cars.groupby(pd.to_datetime(cars['day']).dt.year)."
    assert notes_about("cars.groupby('day').sum()", table) == note.format("day") + by_year
    assert notes_about("x = cars.groupby(['number'])", table) == note.format("number")
    for code in ("cars.groupby('half')", "cars.groupby(['day', 'half'])", "cars.groupby('no')"):
        assert notes_about(code, table) == ""
    assert notes_about("cars.groupby('number')", table[:4]) == ""
    # The rows may have been others before the code changed them.
    for code in (
        "cars = cars.groupby('number').sum().reset_index()",
        "cars.groupby('number').sum()\ncars.drop_duplicates('number', inplace=True)",
    ):
        assert notes_about(code, table) == ""


class Incomparable:
    """An object of the user's whose comparison must not run."""

    def __hash__(self) -> int:
        pytest.fail("code of the user's ran")


def test_columns_of_objects_and_long_ones_are_not_searched_for_values_that_are_there_twice() -> (
    None
):
    objects = pandas.DataFrame({"thing": [Incomparable() for _ in range(9)]})
    long = pandas.DataFrame({"thing": range(300_000)})
    for table in (objects, long):
        assert notes_about("cars.groupby('thing')", table) == ""


@pytest.fixture
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a slow machine read tables to their end."""
    monkeypatch.setattr("mahtab_tui.worker.describing.question_doubts._TIMEOUT_S", 60.0)


def notes_on_answer(question: str, code: str, output: str) -> str:
    """Return what is told of code over shops and their towns, if it should answer a question."""
    shops = {"shop": ["Anna's", "Bert & Co"], "town": ["A", "B"], "year": [1_998, 2_004]}
    towns = {"town": ["A", "B", "C"], "county": ["North", "South", "North"]}
    namespace = {
        "shops": pandas.DataFrame(shops),
        "towns": pandas.DataFrame(towns),
        "big_shops": pandas.DataFrame(shops)[:1],
    }
    return " ".join(result_doubts(namespace, list(namespace), code, question, output))


@pytest.mark.usefixtures("unhurried")
@pytest.mark.parametrize(
    ("question", "output", "column"),
    [
        ("Which shop is the oldest?", "1998", "shops['shop']"),
        ("Sort them. For which shops is it known?", "2", "shops['shop']"),
        ("Who was first, and in which year?", "0", "shops['year']"),
        ("Which first year was it?", "Anna's, in 12", "shops['year']"),
        ("Which first year was it?", "the first one", ""),
        ("Which year is the first?", "1,998", ""),
        ("Which year is the first?", "1998.00", ""),
        ("What year did most open in?", "2", ""),
        ("Which shop is the oldest?", "\n", ""),
        ("How many opened in the year in which shop A did?", "1", ""),
        ("Which shop is the oldest?", "The oldest is anna's.", ""),
        ("Which shop is the oldest?", "0    Ann...", ""),
        ("How old is the shop in which Anna works?", "27", ""),
        ("Which of the shops is the oldest?", "27", ""),
        ("Which year is the first?", "1998.0", ""),
        ("Which county has more?", "2", ""),
    ],
)
def test_an_output_without_a_value_of_the_column_that_was_asked_for_is_told(
    question: str, output: str, column: str
) -> None:
    label = column.partition("'")[2].rstrip("']")
    note = f"the question asks which {label}, but the output has no value of {column}."
    assert notes_on_answer(question, "print(shops.year.min())", output) == (note if label else "")


@pytest.mark.usefixtures("unhurried")
@pytest.mark.parametrize(
    ("code", "is_told"),
    [
        ("print((towns.county == 'North').sum())", True),
        ("print(len(shops.merge(towns, on='town')))", False),
        ("print(1 + 1)", False),
    ],
)
def test_a_table_that_the_question_names_and_the_code_leaves_out_is_told(
    code: str, is_told: bool
) -> None:
    note = (
        "the question names shops, but the code does not use it."
        " Both tables together: shops.merge(towns, on='town')."
    )
    question = "How many shops are in the county North?"
    assert notes_on_answer(question, code, "2") == (note if is_told else "")


def test_a_table_with_the_name_of_an_everyday_word_is_not_missed() -> None:
    namespace = {
        "data": pandas.DataFrame({"town": ["A"], "county": ["North"]}),
        "shops": pandas.DataFrame({"shop": ["Anna's"], "town": ["A"]}),
    }
    question = "How many shops are in the data?"
    assert result_doubts(namespace, list(namespace), "print(len(shops))", question, "1") == ()


@pytest.mark.usefixtures("unhurried")
def test_a_long_label_is_cut_in_a_note_about_the_question() -> None:
    label = "town" * 1_000
    tables = {
        "shops": pandas.DataFrame({label: ["A"], "shop": ["Anna's"]}),
        "towns": pandas.DataFrame({label: ["A"], "county": ["North"]}),
    }
    question = "In which county are the shops?"
    (note,) = result_doubts(tables, list(tables), "print(towns.county)", question, "North")
    assert len(note) < 250


def test_a_table_that_was_made_from_the_one_in_the_question_may_stand_for_it() -> None:
    assert notes_on_answer("How many of these shops?", "print(len(big_shops))", "1") == ""


def test_without_a_question_no_answer_is_compared() -> None:
    assert notes_on_answer("", "print(shops.year.min())", "1998") == ""
