"""A third set of questions, to judge by. Nobody develops with them or reads why one fails, and their
tables or columns are others than those of the two halves."""

from __future__ import annotations

from functools import partial
from typing import Any

import pandas as pd
from pandas import DataFrame

from tests.benchmarks.answers.questions import (
    EXACT,
    ONE,
    PERCENT,
    SINGLE,
    TWO,
    TWO_STEPS,
    Conversation,
    lone_question,
)
from tests.benchmarks.answers.scoring import All, Date, Names

_single = partial(lone_question, SINGLE)
_two_steps = partial(lone_question, TWO_STEPS)

_VOLKSWAGEN = ["volkswagen", "vw", "vokswagen"]


def _month_of(dates: pd.Series) -> pd.Series:
    """Return the month of each date, as "2015-07"."""
    return pd.to_datetime(dates).dt.strftime("%Y-%m")


def _price_columns(stocks: DataFrame) -> DataFrame:
    """Return the prices by date, with a column for each symbol."""
    dated = stocks.assign(date=pd.to_datetime(stocks.date))
    return dated.pivot(index="date", columns="symbol", values="price")


def _heaviest_european(cars: DataFrame) -> tuple[Any, Any]:
    europeans = cars[cars.Origin == "Europe"]
    heaviest = europeans.loc[europeans.Weight_in_lbs.idxmax()]
    return heaviest.Name, heaviest.Miles_per_Gallon


def _warmth_of_wettest_month(weather: DataFrame) -> Any:
    calendar_months = pd.to_datetime(weather.date).dt.month
    wettest = weather.precipitation.groupby(calendar_months).sum().idxmax()
    return weather.temp_max[calendar_months == wettest].mean()


def _long_versicolor_count(iris: DataFrame) -> Any:
    lengths = {name: group.petalLength for name, group in iris.groupby("species")}
    return (lengths["versicolor"] > lengths["virginica"].min()).sum()


def _day_of_largest_range(temps: DataFrame) -> Any:
    days = pd.to_datetime(temps.date).dt.date
    by_day = temps.temp.groupby(days)
    return (by_day.max() - by_day.min()).idxmax()


def _nuclear_in_busiest_year(driving: DataFrame, electricity: DataFrame) -> Any:
    year = driving.loc[driving.miles.idxmax(), "year"]
    years = pd.to_datetime(electricity.year).dt.year
    is_wanted = (years == year) & (electricity.source == "Nuclear Energy")
    return electricity[is_wanted].net_generation.item()


def _site_with_better_1932(barley: DataFrame) -> Any:
    means = barley.pivot_table(index="site", columns="year", values="yield")
    return means.index[means[1932] > means[1931]].item()


def _ibm_difference(stocks: DataFrame, monthly_prices: DataFrame) -> Any:
    first_price = _price_columns(stocks).IBM["2005-01-01"]
    second_price = monthly_prices.set_index("Date").IBM["2005-01-01"]
    return first_price - second_price


FRESH_QUESTIONS: list[Conversation] = [
    # Counting
    _single(
        "driving: cheap gas",
        "In how many years did gas cost less than 2 dollars?",
        EXACT,
        lambda t: (t.gas < 2).sum(),
    ),
    _single(
        "airports: abroad",
        "How many of the airports are in countries other than the United States, according to the column country?",
        EXACT,
        lambda t: (t.country != "USA").sum(),
    ),
    _single(
        "antibiotics: neomycin is lower",
        "For how many of the bacteria is the value for neomycin lower than the one for penicillin?",
        EXACT,
        lambda t: (t.Neomycin < t.Penicillin).sum(),
    ),
    # Text
    _single(
        "airports: memorial airports",
        'How many airport names end with the word "Memorial"?',
        EXACT,
        lambda t: t["name"].str.endswith("Memorial").sum(),
    ),
    _single(
        "cars: station wagons",
        'The names of station wagons are marked with "(sw)". How many of the cars are station wagons?',
        EXACT,
        lambda t: t.Name.str.contains("(sw)", regex=False).sum(),
    ),
    _single(
        "cars: volkswagen",
        'How many of the cars are Volkswagens? The first word of a name is the maker, and this one is also written "vw" and "vokswagen".',
        EXACT,
        lambda t: t.Name.str.split().str[0].isin(_VOLKSWAGEN).sum(),
    ),
    _single(
        "riots: freeways",
        "How many of the addresses mention a freeway?",
        EXACT,
        lambda t: t.address.str.contains("freeway", case=False).sum(),
    ),
    # Grouping
    _single(
        "seattle_weather: windy weather",
        "Which kind of weather comes with the strongest wind on average?",
        Names("seattle_weather.weather", {"snowy": "snow", "sunny": "sun", "foggy": "fog"}),
        lambda t: t.groupby("weather").wind.mean().idxmax(),
    ),
    _single(
        "barley: best at Waseca",
        "Which variety had the highest yield at Waseca in 1932?",
        Names("barley.variety"),
        lambda t: t[(t.site == "Waseca") & (t.year == 1932)].set_index("variety")["yield"].idxmax(),
    ),
    _single(
        "cars: small japanese engines",
        "What is the average displacement of the Japanese cars with four cylinders?",
        ONE,
        lambda t: t[(t.Origin == "Japan") & (t.Cylinders == 4)].Displacement.mean(),
    ),
    _single(
        "anscombe: second series",
        "What is the median of Y in the second series?",
        TWO,
        lambda t: t[t.Series == "II"].Y.median(),
    ),
    _single(
        "riots: shot by officers",
        "What was the average age of the people who died in shootings that officers were involved in?",
        ONE,
        lambda t: t[t.type == "Officer-involved shooting"].age.mean(),
    ),
    # Dates
    _single(
        "seattle_weather: coldest night",
        "On which date was it the coldest, going by the minimum temperature?",
        Date(),
        lambda t: t.loc[t.temp_min.idxmin(), "date"],
    ),
    _single(
        "us_employment: builders",
        "In which month did construction have the fewest jobs?",
        Date(month=True),
        lambda t: t.loc[t.construction.idxmin(), "month"],
    ),
    _single(
        "seattle_weather: hot July",
        "How many days in July 2015 had a maximum temperature above 30 degrees?",
        EXACT,
        lambda t: ((_month_of(t.date) == "2015-07") & (t.temp_max > 30)).sum(),
    ),
    _single(
        "stocks: microsoft in 2008",
        "What was Microsoft's average price in 2008?",
        TWO,
        lambda t: _price_columns(t).MSFT["2008"].mean(),
    ),
    _single(
        "microsoft_days: volume of a day",
        "How many shares were traded on August 15, 2003?",
        EXACT,
        lambda t: t.set_index("Date").Volume["15-Aug-03"],
    ),
    # Missing values
    _single(
        "cars: incomplete",
        "How many cars have at least one missing value?",
        EXACT,
        lambda t: t.isna().any(axis=1).sum(),
    ),
    _single(
        "monthly_prices: dell begins",
        "What is the first date for which there is a price for DELL?",
        Date(),
        lambda t: t[t.DELL.notna()].Date.min(),
    ),
    _single(
        "monthly_prices: empty rows",
        "On how many of the dates are all the prices missing?",
        EXACT,
        lambda t: t.drop(columns="Date").isna().all(axis=1).sum(),
    ),
    # Ratios
    _single(
        "iowa_electricity: renewables",
        "What percentage of Iowa's electricity came from renewables in 2017?",
        PERCENT,
        lambda t: (
            t[t.year.str.startswith("2017")]
            .set_index("source")
            .net_generation.pipe(lambda generation: generation["Renewables"] / generation.sum())
        ),
    ),
    _single(
        "us_employment: public jobs",
        "What share of all nonfarm jobs were in government in December 2015?",
        PERCENT,
        lambda t: (t.government / t.nonfarm)[_month_of(t.month) == "2015-12"].item(),
    ),
    _single(
        "riots: under twenty",
        "Of the people whose age is known, what percentage were younger than 20?",
        PERCENT,
        lambda t: (t.age.dropna() < 20).mean(),
    ),
    _single(
        "prices: widest range",
        "On which date was the difference between the high and the low the largest relative to the opening price?",
        Date(),
        lambda t: t.loc[((t.high - t.low) / t.open).idxmax(), "date"],
    ),
    _single(
        "iris: slender petals",
        "For which species is the ratio of petal length to petal width the highest on average?",
        Names("iris.species"),
        lambda t: (t.petalLength / t.petalWidth).groupby(t.species).mean().idxmax(),
    ),
    # Two tables
    _single(
        "stocks companies: washington",
        "What is the average of all prices of the companies that are based in the state of Washington? The table companies says which those are.",
        TWO,
        lambda stocks, companies: (
            stocks.merge(companies, on="symbol").query("state == 'WA'").price.mean()
        ),
    ),
    _single(
        "airports states: busiest region",
        "Which region has the most airports? The table states says to which region each state belongs.",
        Names("states.region"),
        lambda airports, states: airports.merge(states, on="state").region.value_counts().idxmax(),
    ),
    _single(
        "prices signals: price when short",
        "What was the average closing price on the days with the signal short?",
        TWO,
        lambda prices, signals: (
            prices.merge(signals, on="date").query("signal == 'short'").close.mean()
        ),
    ),
    _single(
        "stocks monthly_prices: ibm twice",
        "The two tables give different prices for IBM on January 1, 2005. How much higher is the price in stocks than the one in monthly_prices?",
        TWO,
        _ibm_difference,
    ),
    # Two steps
    _two_steps(
        "driving iowa_electricity: busiest year",
        "Take the year in which the most miles were driven. How much electricity came from nuclear energy in Iowa in that year?",
        EXACT,
        _nuclear_in_busiest_year,
    ),
    _two_steps(
        "us_employment: lost factories",
        "By how many percent did the number of manufacturing jobs fall from its highest month to its lowest month?",
        PERCENT,
        lambda t: 1 - t.manufacturing.min() / t.manufacturing.max(),
    ),
    _two_steps(
        "cars: heaviest european",
        "Which European car is the heaviest, and how many miles per gallon does it get?",
        All((Names("cars.Name"), ONE)),
        _heaviest_european,
    ),
    _two_steps(
        "seattle_weather: wettest month",
        "Add up the precipitation of all Januaries, of all Februaries, and so on. What is the average maximum temperature of the days in the calendar month with the most precipitation?",
        ONE,
        _warmth_of_wettest_month,
    ),
    _two_steps(
        "barley: better in the second year",
        "At which site was the average yield higher in 1932 than in 1931?",
        Names("barley.site"),
        _site_with_better_1932,
    ),
    _two_steps(
        "iris: overlap",
        "How many of the versicolor flowers have longer petals than the virginica flower with the shortest petals?",
        EXACT,
        _long_versicolor_count,
    ),
    _two_steps(
        "prices: days of loss",
        "On how many days was the closing price lower than on the trading day before?",
        EXACT,
        lambda t: (t.sort_values("date").close.diff() < 0).sum(),
    ),
    _two_steps(
        "stocks: amazon above ibm",
        "In how many months was the price of AMZN higher than the price of IBM?",
        EXACT,
        lambda t: _price_columns(t).pipe(lambda prices: prices.AMZN > prices.IBM).sum(),
    ),
    _two_steps(
        "seattle_temps: largest range",
        "On which date was the difference between the highest and the lowest temperature of the day the largest?",
        Date(),
        _day_of_largest_range,
    ),
    _two_steps(
        "crimea: wounds above disease",
        "There is one month in which more soldiers died from wounds than from disease. How many died from other causes in that month?",
        EXACT,
        lambda t: t[t.wounds > t.disease].other.item(),
    ),
    _two_steps(
        "wheat: steepest rise",
        "By how much did the price of wheat rise at most from one year of the table to the next?",
        ONE,
        lambda t: t.sort_values("year").wheat.diff().max(),
    ),
]
