"""Public tables as CSV files, from the packages ``vega_datasets`` and ``matplotlib``."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path

import matplotlib
import pandas as pd
import vega_datasets

Tables = dict[str, pd.DataFrame]
"""Tables by the name of their variable."""

_DATA = Path(vega_datasets.__file__).with_name("_data")

_REGIONS = {
    "West": "AK AZ CA CO HI NV OR WA",
    "Midwest": "IL IA MI OH WI",
    "South": "FL GA TX VA",
    "Northeast": "MA NY PA",
}


def _states() -> str:
    pairs = ((state, region) for region, states in _REGIONS.items() for state in states.split())
    return "state,region\n" + "".join(f"{state},{region}\n" for state, region in pairs)


def _companies() -> str:
    return (
        "symbol,company,state,founded\n"
        "AAPL,Apple,CA,1976\n"
        "AMZN,Amazon,WA,1994\n"
        "GOOG,Google,CA,1998\n"
        "IBM,International Business Machines,NY,1911\n"
        "MSFT,Microsoft,WA,1975\n"
    )


def _matplotlib_sample(name: str) -> Callable[[], str]:
    """Read a sample table of matplotlib, without its comments, which would be rows."""

    def read() -> str:
        text = (Path(matplotlib.get_data_path()) / "sample_data" / f"{name}.csv").read_text()
        return "".join(line for line in text.splitlines(True) if not line.startswith("#"))

    return read


def _raw(name: str) -> Callable[[], str]:
    return (_DATA / f"{name}.csv").read_text


def _converted(name: str, *columns: str) -> Callable[[], str]:
    """Convert a JSON table, or some of its columns, to CSV."""

    def read() -> str:
        table = pd.read_json(_DATA / f"{name}.json")
        return str(table[list(columns or table)].to_csv(index=False))

    return read


SOURCES: dict[str, Callable[[], str]] = {
    "airports": _raw("airports"),
    "anscombe": _converted("anscombe"),
    "antibiotics": _converted("burtin"),
    "barley": _converted("barley"),
    "cars": _converted("cars"),
    "auto_mpg": _converted("cars"),
    "companies": _companies,
    "crimea": _converted("crimea"),
    "driving": _converted("driving"),
    "iowa_electricity": _raw("iowa-electricity"),
    "iris": _converted("iris"),
    "microsoft_days": _matplotlib_sample("msft"),
    "monthly_prices": _matplotlib_sample("Stocks"),
    "prices": _converted("ohlc", "date", "open", "high", "low", "close"),
    "riots": _raw("la-riots"),
    "seattle_temps": _raw("seattle-temps"),
    "seattle_weather": _raw("seattle-weather"),
    "sf_temps": _raw("sf-temps"),
    "signals": _converted("ohlc", "date", "signal", "ret"),
    "states": _states,
    "stocks": _raw("stocks"),
    "us_employment": _raw("us-employment"),
    "wheat": _converted("wheat"),
}


def write_tables(names: Iterable[str], folder: Path) -> list[Path]:
    """Write tables to a folder, where they are not yet; return their files."""
    files = [folder / f"{name}.csv" for name in names]
    for file in files:
        if not file.exists():
            file.write_text(SOURCES[file.stem](), encoding="utf-8")
    return files


@cache
def _read(file: Path) -> pd.DataFrame:
    return pd.read_csv(file)


def read_tables(files: Iterable[Path]) -> Tables:
    """Read tables as the programs get them."""
    return {file.stem: _read(file).copy() for file in files}
