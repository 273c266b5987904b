"""Six conversations over public tables."""

from __future__ import annotations

from collections.abc import Sequence

from tests.benchmarks.long.questions import (
    Conversation,
    Measure,
    Rule,
    Step,
    commonest,
    count,
    count_if,
    largest,
    mean,
    share,
    smallest,
)

IN_2014 = count_if("are of 2014", "date.str.startswith('2014')")


def build(name: str, rule: Rule, measure: Measure) -> Step:
    return Step("build", [name], measure, rule)


def update(name: str, rule: Rule, measure: Measure) -> Step:
    return Step("update", [name], measure, rule)


def suppose(name: str, rule: Rule, measure: Measure) -> Step:
    return Step("suppose", [name], measure, rule)


def inherit(name: str, measure: Measure) -> Step:
    return Step("inherit", [name], measure)


def roll_back(name: str, measure: Measure) -> Step:
    return Step("roll back", [name], measure)


def compose(first: str, second: str, measure: Measure) -> Step:
    return Step("compose", [first, second], measure)


def at_least(column: str, value: float) -> Rule:
    return Rule(f"its {column} is at least {value:g}", f"`{column}` >= {value}")


def below(column: str, value: float) -> Rule:
    return Rule(f"its {column} is below {value:g}", f"`{column}` < {value}")


def between(column: str, low: float, high: float) -> Rule:
    words = f"its {column} is from {low:g} to {high:g}, both included"
    return Rule(words, f"{low} <= `{column}` <= {high}")


CONVERSATIONS: Sequence[Conversation] = (
    Conversation(
        "weather",
        "seattle_weather",
        "day",
        (
            build("warm", at_least("temp_max", 20), count()),
            inherit("warm", IN_2014),
            inherit("warm", mean("wind")),
            update("warm", at_least("temp_max", 25), count()),
            inherit("warm", IN_2014),
            suppose("warm", at_least("temp_max", 22.5), count()),
            inherit("warm", mean("temp_min")),
            build("windy", at_least("wind", 4), count()),
            compose("warm", "windy", count()),
            update("windy", at_least("wind", 5), share()),
            compose("warm", "windy", count()),
            roll_back("warm", count()),
            compose("warm", "windy", count()),
            suppose("windy", below("wind", 3), mean("precipitation")),
            compose("windy", "warm", mean("temp_max")),
        ),
    ),
    Conversation(
        "cars",
        "cars",
        "car",
        (
            build("heavy", at_least("Weight_in_lbs", 3000), count()),
            build("strong", at_least("Horsepower", 100), count()),
            compose("heavy", "strong", count()),
            suppose("heavy", at_least("Weight_in_lbs", 4000), count()),
            compose("heavy", "strong", mean("Acceleration")),
            update("strong", at_least("Horsepower", 150), count()),
            compose("strong", "heavy", mean("Miles_per_Gallon")),
            inherit("strong", count_if("are from the USA", "Origin == 'USA'")),
            update("heavy", at_least("Weight_in_lbs", 3500), share()),
            inherit("heavy", count_if("have 8 cylinders", "Cylinders == 8")),
            roll_back("strong", count()),
            compose("heavy", "strong", count()),
            suppose("strong", between("Horsepower", 80, 120), mean("Weight_in_lbs")),
            inherit("strong", mean("Displacement")),
            roll_back("heavy", count_if("are from Europe", "Origin == 'Europe'")),
        ),
    ),
    Conversation(
        "airports",
        "airports",
        "airport",
        (
            build("northern", at_least("latitude", 45), count()),
            inherit("northern", commonest("state")),
            suppose("northern", at_least("latitude", 40), count()),
            inherit("northern", mean("longitude")),
            update("northern", at_least("latitude", 42), count()),
            inherit("northern", count_if("are in Minnesota (MN)", "state == 'MN'")),
            build("western", below("longitude", -100), count()),
            compose("northern", "western", count()),
            update("western", below("longitude", -120), count()),
            compose("western", "northern", mean("latitude")),
            roll_back("northern", share()),
            compose("northern", "western", count()),
            roll_back("western", count_if("are in Texas (TX)", "state == 'TX'")),
            suppose("western", between("longitude", -110, -90), count()),
            compose("western", "northern", mean("longitude")),
        ),
    ),
    Conversation(
        "stocks",
        "stocks",
        "row",
        (
            build("dear", at_least("price", 100), count()),
            update("dear", at_least("price", 150), count()),
            inherit("dear", count_if("belong to IBM or GOOG", "symbol in ['IBM', 'GOOG']")),
            update("dear", at_least("price", 200), count()),
            roll_back("dear", mean("price")),
            inherit("dear", share()),
            roll_back("dear", count_if("belong to IBM", "symbol == 'IBM'")),
            inherit("dear", mean("price")),
            build("cheap", below("price", 20), count()),
            inherit("cheap", commonest("symbol")),
            suppose("cheap", below("price", 25), count_if("belong to MSFT", "symbol == 'MSFT'")),
            inherit("cheap", mean("price")),
            update("cheap", between("price", 10, 30), count()),
            suppose("dear", at_least("price", 300), count()),
            inherit("dear", smallest("price")),
        ),
    ),
    Conversation(
        "barley",
        "barley",
        "row",
        (
            build("rich", at_least("yield", 40), count()),
            inherit("rich", commonest("site")),
            inherit("rich", count_if("are of 1931", "year == 1931")),
            suppose("rich", at_least("yield", 45), count()),
            inherit("rich", mean("yield")),
            build("poor", below("yield", 25), count()),
            update("poor", below("yield", 30), count()),
            inherit("poor", count_if("are of 1932", "year == 1932")),
            update("rich", at_least("yield", 50), mean("yield")),
            inherit("rich", count_if("are of 1931", "year == 1931")),
            roll_back("poor", largest("yield")),
            inherit("poor", share()),
            roll_back("rich", count()),
            suppose("poor", below("yield", 20), count()),
            inherit("poor", mean("yield")),
        ),
    ),
    Conversation(
        "iris",
        "iris",
        "flower",
        (
            build("long", at_least("petalLength", 4.5), count()),
            build("wide", at_least("sepalWidth", 3), count()),
            compose("long", "wide", count()),
            update("wide", at_least("sepalWidth", 3.2), count()),
            compose("long", "wide", mean("sepalLength")),
            suppose(
                "long",
                at_least("petalLength", 5),
                count_if("are virginica", "species == 'virginica'"),
            ),
            compose("long", "wide", count()),
            inherit("long", count_if("are versicolor", "species == 'versicolor'")),
            update("long", at_least("petalLength", 5.5), mean("petalWidth")),
            inherit("long", smallest("sepalLength")),
            compose("long", "wide", count()),
            roll_back("wide", count()),
            compose("wide", "long", mean("petalLength")),
            roll_back("long", share()),
            suppose("wide", below("sepalWidth", 2.5), mean("petalWidth")),
        ),
    ),
)
