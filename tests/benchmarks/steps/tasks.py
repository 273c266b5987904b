"""Ten tasks of several steps over files, each with a check of what must exist at its end."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import vega_datasets

_DATA = Path(vega_datasets.__file__).with_name("_data")
_SEED = 7
"""For random numbers that are the same in each run."""

_STATS = '''\
def median(values):
    """Return the median of numbers."""
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle]


def spread(values):
    """Return the largest minus the smallest."""
    return max(values) - min(values)
'''
_STATS_TESTS = """\
from stats import median, spread

assert median([3, 1, 2]) == 2
assert median([4, 1, 3, 2]) == 2.5, median([4, 1, 3, 2])
assert spread([5, 9, 7]) == 4
print("all tests pass")
"""

_PAIRS = '''\
def count_pairs(values, total):
    """Return the number of pairs of positions whose values add up to total."""
    count = 0
    for first in range(len(values)):
        for second in range(first + 1, len(values)):
            if values[first] + values[second] == total:
                count += 1
    return count
'''


@dataclass(frozen=True)
class Task:
    name: str
    question: str
    write_files: Callable[[Path], None]
    """Write the task's files into a folder, which becomes the working folder."""
    check: str
    """Code that raises in the session's namespace if the task was not done."""
    loaded: Sequence[str] = ()
    """Files that are loaded as variables before the question."""


def _write_airports(folder: Path) -> None:
    airports = pd.read_csv(_DATA / "airports.csv")
    airports.loc[5, "latitude"] = 934.2
    airports.loc[120, "longitude"] = -1222.0
    airports.loc[9, "country"] = "usa"
    pd.concat([airports, airports.loc[[3, 40, 77, 300]]]).to_csv(
        folder / "airports.csv", index=False
    )


def _write_sales(folder: Path) -> None:
    rows = ["city,amount"]
    for city, amount in (
        ("Hamburg", 120),
        ("Hambrug", 30),
        ("munich", 200),
        ("Munich ", 50),
        ("Colonge", 70),
        ("Cologne", 80),
        ("Berlin", 300),
        ("Berln", 10),
    ):
        rows.append(f"{city},{amount}")
    (folder / "sales.csv").write_text("\n".join(rows) + "\n")
    (folder / "regions.csv").write_text(
        "city,region\nHamburg,North\nMunich,South\nCologne,West\nBerlin,East\n"
    )


def _write_buggy_module(folder: Path) -> None:
    (folder / "stats.py").write_text(_STATS)
    (folder / "check_stats.py").write_text(_STATS_TESTS)


def _write_slow_module(folder: Path) -> None:
    (folder / "pairs.py").write_text(_PAIRS)


def _write_measurements(folder: Path) -> None:
    numbers = random.Random(_SEED)
    rows = ["x,y"]
    for x in range(60):
        y = 2.5 * x + 4 + numbers.gauss(0, 1)
        rows.append(f"{x},{y + (150 if x in (11, 34, 52) else 0):.3f}")
    (folder / "measurements.csv").write_text("\n".join(rows) + "\n")


def _write_weather(folder: Path) -> None:
    (folder / "weather.csv").write_text((_DATA / "seattle-weather.csv").read_text())


def _write_logs(folder: Path) -> None:
    numbers = random.Random(_SEED)
    for index in range(40):
        lines = [
            f"12:{minute:02} {numbers.choice(('INFO start', 'WARN slow', 'ERROR code=12'))}"
            for minute in range(60)
        ]
        errors = {4: 5, 17: 4, 29: 9, 33: 3}.get(index, index % 3)
        for minute in numbers.sample(range(60), errors):
            lines[minute] = f"12:{minute:02} ERROR code=57"
        (folder / f"node-{index:02}.log").write_text("\n".join(lines) + "\n")


def _write_orders(folder: Path) -> None:
    (folder / "orders.csv").write_text(
        "id,date,amount\n"
        '1,2024-01-05,"1,200.50"\n'
        "2,17/01/2024,300\n"
        "3,2024-02-03,€ 99.50\n"
        '4,28/02/2024,"2,000"\n'
        "5,2024-02-11,n/a\n"
        "6,05/03/2024,70\n"
    )


def _write_temperatures(folder: Path) -> None:
    rows = ["station,hour,temperature"]
    for station, base in (("A", 10.0), ("B", 20.0)):
        for hour in range(10):
            value = "" if hour in (3, 4, 7) else f"{base + hour}"
            rows.append(f"{station},{hour},{value}")
    (folder / "temperatures.csv").write_text("\n".join(rows) + "\n")


def _write_populations(folder: Path) -> None:
    (folder / "population.csv").write_text(
        "country,1990,2000,2010\nA,100,150,160\nB,200,210,400\nC,50,60,140\nD,10,30,33\n"
    )
    (folder / "names.csv").write_text("country,name\nA,Alba\nB,Beria\nC,Cordia\nD,Dunia\n")


TASKS = (
    Task(
        "wrong rows",
        "Look through airports for rows that look wrong, make a cleaned table airports_clean, and tell me what you changed.",
        _write_airports,
        "assert airports_clean.latitude.dropna().between(-90, 90).all()\n"
        "assert airports_clean.longitude.dropna().between(-180, 180).all()\n"
        "assert not airports_clean.duplicated('iata').any()\n"
        "assert 'usa' not in set(airports_clean.country)\n"
        "assert 3370 <= len(airports_clean) <= 3376",
        ("airports.csv",),
    ),
    Task(
        "misspelt join",
        "Join sales with regions; some cities are misspelt. Put the total amount of each region into a Series by_region.",
        _write_sales,
        "assert dict(by_region) == {'North': 150, 'South': 250, 'West': 150, 'East': 310}",
        ("sales.csv", "regions.csv"),
    ),
    Task(
        "bug",
        "python check_stats.py fails. Find the bug and fix it in stats.py; the checks must stay as they are.",
        _write_buggy_module,
        "import subprocess, sys\n"
        "checked = subprocess.run([sys.executable, 'check_stats.py'], capture_output=True, text=True)\n"
        "assert checked.returncode == 0, checked.stderr\n"
        "assert '== 2.5' in open('check_stats.py').read()",
    ),
    Task(
        "faster",
        "count_pairs in pairs.py is slow. Make it linear, in the file, and show me that it still gives the same result.",
        _write_slow_module,
        "import importlib, pairs\n"
        "importlib.reload(pairs)\n"
        "assert pairs.count_pairs([1, 5, 3, 3, 5, 1, 4, 2], 6) == 6\n"
        "assert pairs.count_pairs(list(range(100_000)), 99_999) == 50_000",
    ),
    Task(
        "refit",
        "Fit a line to measurements, look at the residuals, and refit without outliers. Keep the final slope as slope.",
        _write_measurements,
        "assert abs(float(slope) - 2.5) < 0.05, slope",
        ("measurements.csv",),
    ),
    Task(
        "plot",
        "Plot the mean temp_max of each month over all years of weather and save it as months.png; months must be in order, and axes labelled. Keep the means as a Series monthly_means.",
        _write_weather,
        "import os\n"
        "assert os.path.getsize('months.png') > 5_000\n"
        "expected = weather.temp_max.groupby(pd.to_datetime(weather.date).dt.month).mean()\n"
        "assert [round(value, 2) for value in monthly_means] == [round(value, 2) for value in expected]",
        ("weather.csv",),
    ),
    Task(
        "forty files",
        "Which of the 40 log files in this folder have more than three lines with ERROR code=57? Put their names, sorted, into a list bad_files.",
        _write_logs,
        "assert bad_files == ['node-04.log', 'node-17.log', 'node-29.log'], bad_files",
    ),
    Task(
        "mixed formats",
        "Clean orders (dates and amounts come in several formats) and put the total of each month into a dict monthly with keys such as '2024-01'. Leave out orders without an amount.",
        _write_orders,
        "rounded = {key: round(float(value), 2) for key, value in monthly.items()}\n"
        "assert rounded == {'2024-01': 1500.5, '2024-02': 2099.5, '2024-03': 70.0}, rounded",
        ("orders.csv",),
    ),
    Task(
        "gaps",
        "Fill the gaps in temperatures linearly for each station, check that none is left, and save the result as filled.csv.",
        _write_temperatures,
        "filled = pd.read_csv('filled.csv')\n"
        "assert filled.temperature.notna().all()\n"
        "row = filled[(filled.station == 'B') & (filled.hour == 4)]\n"
        "assert float(row.temperature.iloc[0]) == 24.0",
        ("temperatures.csv",),
    ),
    Task(
        "reshape",
        "Turn population into a long table, add the names, and put the names of the two countries that grew most, by factor from 1990 to 2010, into a list fastest, the fastest first.",
        _write_populations,
        "assert fastest == ['Dunia', 'Cordia'], fastest",
        ("population.csv", "names.csv"),
    ),
)
