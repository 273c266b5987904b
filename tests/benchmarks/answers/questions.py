"""Questions about public tables, with answers that pandas computes from them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pandas as pd
from pandas import DataFrame

from tests.benchmarks.answers.scoring import All, Check, Date, Names, Number, Words
from tests.benchmarks.answers.tables import Tables

SINGLE = "single"
TWO_STEPS = "two steps"
FOLLOW_UP = "follow-up"
NO_CODE = "no code"
KINDS = (SINGLE, TWO_STEPS, FOLLOW_UP, NO_CODE)

EXACT = Number()

PERCENT = Number(0, percent=True)


@dataclass(frozen=True)
class Question:
    """A question, the tables it is about, and its answer."""

    name: str
    kind: str
    tables: tuple[str, ...]
    text: str
    check: Check
    compute: Callable[..., Any]
    """Compute the answer from the tables, in their order."""

    def expected(self, tables: Tables) -> Any:
        return self.compute(*(tables[name] for name in self.tables))


Conversation = list[Question]
"""Questions of one session, in order; all but the first are follow-ups."""

WHOLE = Number(0)
ONE = Number(1)
TWO = Number(2)


def _origin(cars: DataFrame, name: str) -> DataFrame:
    return cars[cars.Origin == name]


def _since_1980(cars: DataFrame, origin: str) -> Any:
    return (pd.to_datetime(_origin(cars, origin).Year).dt.year >= 1980).sum()


def _dated(table: DataFrame) -> DataFrame:
    return table.assign(date=pd.to_datetime(table.date))


def _year(weather: DataFrame, year: int) -> DataFrame:
    return _dated(weather)[lambda days: days.date.dt.year == year]


def _rain_by_year(weather: DataFrame) -> pd.Series:
    return weather.groupby(_dated(weather).date.dt.year).precipitation.sum()


def _stock(stocks: DataFrame, symbol: str) -> pd.Series:
    return _dated(stocks[stocks.symbol == symbol]).set_index("date").price.sort_index()


def _growth(stocks: DataFrame) -> pd.Series:
    prices = {symbol: _stock(stocks, symbol) for symbol in stocks.symbol.unique()}
    return pd.Series(
        {symbol: series.iloc[-1] / series.iloc[0] for symbol, series in prices.items()}
    )


def _fossil(electricity: DataFrame, year: int) -> Any:
    of_year = electricity[pd.to_datetime(electricity.year).dt.year == year]
    return of_year.set_index("source").net_generation["Fossil Fuels"]


def _both_temps(seattle: DataFrame, sf: DataFrame) -> DataFrame:
    return _dated(seattle).merge(_dated(sf), on="date", suffixes=("_seattle", "_sf"))


def _barley(barley: DataFrame, year: int) -> pd.Series:
    return barley[barley.year == year].groupby("variety")["yield"].mean()


def lone_question(
    kind: str, names: str, text: str, check: Check, compute: Callable[..., Any]
) -> Conversation:
    """Make a conversation of one question. names: the tables and the question's name, as in
    "airports states: west"."""
    tables, _, name = names.partition(": ")
    return [Question(name, kind, tuple(tables.split()), text, check, compute)]


_single = partial(lone_question, SINGLE)
_two_steps = partial(lone_question, TWO_STEPS)


def _no_code(names: str, text: str, *groups: Sequence[str]) -> Conversation:
    return lone_question(NO_CODE, names, text, Words(), lambda *_: groups)


def _session(tables: str, *questions: tuple[str, str, Check, Callable[..., Any]]) -> Conversation:
    return [
        lone_question(FOLLOW_UP if index else SINGLE, f"{tables}: {name}", text, check, compute)[0]
        for index, (name, text, check, compute) in enumerate(questions)
    ]


TABLE_QUESTIONS: list[Conversation] = [
    # Counting
    _single(
        "cars: japan",
        "How many of the cars come from Japan?",
        EXACT,
        lambda t: len(_origin(t, "Japan")),
    ),
    _single(
        "cars: models", "How many different car names are there?", EXACT, lambda t: t.Name.nunique()
    ),
    _single(
        "airports: texas",
        "How many airports are in Texas?",
        EXACT,
        lambda t: (t.state == "TX").sum(),
    ),
    # Text
    _single(
        "airports: international",
        'How many airports have the word "International" in their name?',
        EXACT,
        lambda t: t["name"].str.contains("International").sum(),
    ),
    _single(
        "cars: ford",
        "How many of the cars were made by Ford? The maker is the first word of the name.",
        EXACT,
        lambda t: (t.Name.str.split().str[0] == "ford").sum(),
    ),
    _single(
        "antibiotics: salmonella",
        "Which bacteria belong to the genus Salmonella?",
        Names("antibiotics.Bacteria"),
        lambda t: list(t.query("Genus == 'Salmonella'").Bacteria),
    ),
    # Grouping
    _single(
        "seattle_weather: usual weather",
        "What kind of weather is the most frequent in Seattle?",
        Names("seattle_weather.weather", {"sunny": "sun", "foggy": "fog", "rainy": "rain"}),
        lambda t: t.weather.value_counts().idxmax(),
    ),
    _single(
        "barley: best site",
        "Which site has the highest average yield?",
        Names("barley.site"),
        lambda t: t.groupby("site")["yield"].mean().idxmax(),
    ),
    _single(
        "cars: european mileage",
        "What is the average mileage of the European cars, in miles per gallon?",
        ONE,
        lambda t: _origin(t, "Europe").Miles_per_Gallon.mean(),
    ),
    _single(
        "iris: setosa width",
        "What is the median width of the sepals of setosa?",
        TWO,
        lambda t: t.query("species == 'setosa'").sepalWidth.median(),
    ),
    # Dates
    _single(
        "seattle_weather: rain in 2014",
        "How much precipitation fell in Seattle in 2014 altogether?",
        WHOLE,
        lambda t: _year(t, 2014).precipitation.sum(),
    ),
    _single(
        "seattle_weather: windiest day",
        "On which date was the wind the strongest?",
        Date(),
        lambda t: _dated(t).set_index("date").wind.idxmax(),
    ),
    _single(
        "stocks: google begins",
        "What is the date of the first price of Google (GOOG)?",
        Date(),
        lambda t: _stock(t, "GOOG").index.min(),
    ),
    _single(
        "stocks: last price date",
        "Until when do the prices go? Give the last date in the table.",
        Date(),
        lambda t: _dated(t).date.max(),
    ),
    _single(
        "us_employment: jobs lost",
        "In which month did nonfarm employment change for the worst, so that the most jobs were lost?",
        Date(month=True),
        lambda t: t.set_index("month").nonfarm_change.idxmin(),
    ),
    # Missing values
    _single(
        "cars: no horsepower",
        "For how many cars is the horsepower missing?",
        EXACT,
        lambda t: t.Horsepower.isna().sum(),
    ),
    _single(
        "wheat: no wages",
        "For which years are the wages missing?",
        All((EXACT, EXACT)),
        lambda t: list(t[t.wages.isna()].year),
    ),
    _single(
        "riots: median age",
        "What was the median age of the people who died?",
        EXACT,
        lambda t: t.age.median(),
    ),
    # Ratios
    _single(
        "riots: women",
        "What percentage of the people who died were women?",
        PERCENT,
        lambda t: (t.gender == "Female").mean(),
    ),
    _single(
        "seattle_weather: wet days",
        "On what percentage of the days was there any precipitation at all?",
        PERCENT,
        lambda t: (t.precipitation > 0).mean(),
    ),
    _single(
        "cars: power to weight",
        "Which car has the most horsepower for its weight?",
        Names("cars.Name"),
        lambda t: t.loc[(t.Horsepower / t.Weight_in_lbs).idxmax(), "Name"],
    ),
    _single(
        "wheat: dear wheat",
        "In which year was the price of wheat the highest compared with the wages?",
        EXACT,
        lambda t: t.loc[(t.wheat / t.wages).idxmax(), "year"],
    ),
    _single(
        "iris: correlation",
        "How strongly are the lengths of sepals and petals correlated? Give Pearson's coefficient.",
        TWO,
        lambda t: t.sepalLength.corr(t.petalLength),
    ),
    # Two tables
    _single(
        "seattle_temps sf_temps: warmer city",
        "By how many degrees is it warmer in San Francisco than in Seattle on average?",
        ONE,
        lambda seattle_temps, sf_temps: sf_temps.temp.mean() - seattle_temps.temp.mean(),
    ),
    _single(
        "airports states: western airports",
        "How many airports are there in the region West? The table states says to which region a state belongs.",
        EXACT,
        lambda airports, states: (
            airports.merge(states, on="state").query("region == 'West'").shape[0]
        ),
    ),
    _single(
        "prices signals: long and up",
        "On how many days with the signal long was the closing price above the opening price?",
        EXACT,
        lambda prices, signals: (
            prices.merge(signals, on="date").query("signal == 'long' and close > open").shape[0]
        ),
    ),
    # Two steps
    _two_steps(
        "cars: most frequent origin",
        "Where do most of the cars come from, and what is the average weight of the cars from there?",
        All((Names("cars.Origin", {"United States": "USA", "US": "USA", "America": "USA"}), WHOLE)),
        lambda t: (
            t.Origin.value_counts().idxmax(),
            _origin(t, t.Origin.value_counts().idxmax()).Weight_in_lbs.mean(),
        ),
    ),
    _two_steps(
        "seattle_weather: fog in the wettest year",
        "Find the year with the most precipitation. How many days of that year had fog as their weather?",
        EXACT,
        lambda t: (_year(t, _rain_by_year(t).idxmax()).weather == "fog").sum(),
    ),
    _two_steps(
        "seattle_weather: wettest and driest year",
        "Add up the precipitation of each year. How much more fell in the wettest year than in the driest?",
        WHOLE,
        lambda t: _rain_by_year(t).max() - _rain_by_year(t).min(),
    ),
    _two_steps(
        "stocks: microsoft at the peak",
        "What was the price of MSFT on the date when AAPL was at its highest?",
        TWO,
        lambda t: _stock(t, "MSFT")[_stock(t, "AAPL").idxmax()],
    ),
    _two_steps(
        "stocks: best growth",
        "Divide the last price of each stock by its first price. For which symbol is the result the highest?",
        Names(
            "stocks.symbol",
            {"Apple": "AAPL", "Amazon": "AMZN", "Google": "GOOG", "Microsoft": "MSFT"},
        ),
        lambda t: _growth(t).idxmax(),
    ),
    _two_steps(
        "barley: variety a year later",
        "Take the variety with the highest average yield in 1931. What was its average yield in 1932?",
        ONE,
        lambda t: _barley(t, 1932)[_barley(t, 1931).idxmax()],
    ),
    _two_steps(
        "iris: long sepals",
        "What is the average petal length of the flowers whose sepals are longer than the average sepal?",
        TWO,
        lambda t: t[t.sepalLength > t.sepalLength.mean()].petalLength.mean(),
    ),
    _two_steps(
        "seattle_temps sf_temps: hottest hour",
        "What was the temperature in San Francisco in the hour in which it was the hottest in Seattle?",
        ONE,
        lambda seattle_temps, sf_temps: (
            _both_temps(seattle_temps, sf_temps)
            .set_index("temp_seattle")
            .temp_sf.sort_index()
            .iloc[-1]
        ),
    ),
    _two_steps(
        "crimea: worst month",
        "In the month with the most deaths from disease, what percentage of all deaths (wounds, other, disease) was from disease?",
        PERCENT,
        lambda t: (
            t.set_index("disease")[["wounds", "other"]]
            .sum(axis=1)
            .pipe(lambda rest: rest.index.max() / (rest.index.max() + rest[rest.index.max()]))
        ),
    ),
    _two_steps(
        "airports: second state",
        "Take the state with the second most airports. In how many different cities of that state are there airports?",
        EXACT,
        lambda t: t[t.state == t.state.value_counts().index[1]].city.nunique(),
    ),
    _two_steps(
        "iowa_electricity: fossil fuels halved",
        "By how many percent did the electricity from fossil fuels fall from the first year to the last?",
        PERCENT,
        lambda t: 1 - _fossil(t, 2017) / _fossil(t, 2001),
    ),
]

SESSIONS: list[Conversation] = [
    _session(
        "cars",
        (
            "horsepower",
            "What is the average horsepower of the cars?",
            ONE,
            lambda t: t.Horsepower.mean(),
        ),
        (
            "of japan",
            "And of those from Japan?",
            ONE,
            lambda t: _origin(t, "Japan").Horsepower.mean(),
        ),
        (
            "strongest of them",
            "Which of these Japanese cars has the most?",
            Names("cars.Name"),
            lambda t: t.loc[_origin(t, "Japan").Horsepower.idxmax(), "Name"],
        ),
        (
            "since 1980",
            "How many of the Japanese cars are from 1980 or later?",
            EXACT,
            lambda t: _since_1980(t, "Japan"),
        ),
        (
            "europe since 1980",
            "And how many of the European ones?",
            EXACT,
            lambda t: _since_1980(t, "Europe"),
        ),
    ),
    _session(
        "seattle_weather",
        (
            "snow",
            "How many days had snow as their weather?",
            EXACT,
            lambda t: (t.weather == "snow").sum(),
        ),
        (
            "snow in 2012",
            "And in 2012 only?",
            EXACT,
            lambda t: (_year(t, 2012).weather == "snow").sum(),
        ),
        (
            "precipitation with it",
            "How much precipitation fell on those days altogether?",
            ONE,
            lambda t: _year(t, 2012).query("weather == 'snow'").precipitation.sum(),
        ),
        (
            "fog instead",
            "How many days with fog were there in the same year?",
            EXACT,
            lambda t: (_year(t, 2012).weather == "fog").sum(),
        ),
    ),
    _session(
        "airports",
        (
            "most airports",
            "Which state has the most airports?",
            Names("airports.state", {"Alaska": "AK"}),
            lambda t: t.state.value_counts().index[0],
        ),
        ("its airports", "How many does it have?", EXACT, lambda t: t.state.value_counts().iloc[0]),
        (
            "without them",
            "And how many airports does the table have without them?",
            EXACT,
            lambda t: len(t) - t.state.value_counts().iloc[0],
        ),
        (
            "second",
            "Which state comes second?",
            Names("airports.state", {"Texas": "TX", "Alaska": "AK"}),
            lambda t: t.state.value_counts().index[1],
        ),
    ),
]

WORD_QUESTIONS: list[Conversation] = [
    _no_code(
        "cars: greeting",
        "Hello! What can you do for me?",
        ("help", "assist", "answer", "analy", "data", "question"),
    ),
    _no_code(
        "cars: thanks",
        "Thank you, that was all for today.",
        ("welcome", "glad", "happy", "pleasure", "day", "bye", "help"),
    ),
    _no_code("auto_mpg iris: which variable", "Which variable holds the cars?", ("auto_mpg",)),
    _no_code(
        "cars: key error",
        "What does this error mean: KeyError: 'mileage'",
        ("column", "key"),
        (
            "not exist",
            "n't exist",
            "not found",
            "n't found",
            "missing",
            "not present",
            "no column",
            "no key",
            "not in",
            "cannot find",
            "not have",
        ),
    ),
    _no_code(
        "cars: no module",
        "What does this error mean: ModuleNotFoundError: No module named 'seaborn'",
        ("install", "not available", "missing"),
    ),
    _no_code(
        "cars: median and mean",
        "What is the difference between the mean and the median, in a sentence?",
        ("average", "sum"),
        ("middle", "central value", "half", "50"),
    ),
    _no_code("cars: nan", "What does NaN stand for?", ("not a number", "not-a-number")),
    _no_code(
        "cars: left join",
        "Explain in two sentences, without code, what a left join does.",
        ("all", "every", "each"),
        ("null", "nan", "missing", "empty", "match"),
    ),
    _no_code(
        "iris: correlation of -0.9",
        "What does a correlation of -0.9 between two columns tell me?",
        ("negativ", "inverse"),
        ("strong", "high"),
    ),
    _no_code(
        "iris: outlier",
        "What is an outlier? Just explain the word.",
        ("differ", "far", "unusual", "extreme", "distant", "deviat", "outside", "abnormal", "away"),
    ),
]

CONVERSATIONS = [*TABLE_QUESTIONS, *SESSIONS, *WORD_QUESTIONS]
