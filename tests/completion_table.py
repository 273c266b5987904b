"""A table of completions at the end of a code, with what must be first; `python -m
tests.completion_table` prints IPython's and jedi's answers."""

from __future__ import annotations

import collections
import datetime
import json
import re
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import polars as pl


class User:
    """A class of the user's; nothing of it may run."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.tags = ["a"]

    @property
    def title(self) -> str:
        raise SystemError

    def friend(self) -> User:
        raise SystemError


def send(text: str, *, retries: int = 1) -> list[str]:
    raise SystemError


def namespace() -> dict[str, Any]:
    df = pd.DataFrame(
        {
            "city": ["a"],
            "price": [1.5],
            "when": pd.to_datetime(["2020-01-01"]),
            "kind": pd.Categorical(["x"]),
        }
    )
    modules = {
        "np": np,
        "pd": pd,
        "pl": pl,
        "plt": plt,
        "re": re,
        "json": json,
        "datetime": datetime,
        "collections": collections,
    }
    values = {
        "df": df,
        "city": df["city"],
        "pf": pl.DataFrame({"city": ["a"]}),
        "text": "a,b",
        "path": Path(),
        "data": {"a": {"b": [1]}},
    }
    return {
        **modules,
        **values,
        "user": User("x"),
        "User": User,
        "send": send,
        "items": [User("y")],
    }


TABLE = [
    ("df.city.str.con", "contains"),
    ("df['city'].str.up", "upper"),
    ("df.when.dt.ye", "year"),
    ("df.kind.cat.cod", "codes"),
    ("df.plot.ba", "bar"),
    ("city.str.split(',').str.ge", "get"),
    ("df.groupby('city').pri", "price"),
    ("df.groupby('city').ag", "agg"),
    ("df.groupby('city').price.me", "mean"),
    ("df.groupby('city')['price'].med", "median"),
    ("df.groupby('ci", "city"),
    ("df.groupby('city').mean().sort_v", "sort_values"),
    ("df[df.price > 1].pri", "price"),
    ("df.head().ci", "city"),
    ("df.head()['pr", "price"),
    ("df.sort_values('price').to_cs", "to_csv"),
    ("df.loc[0].ind", "index"),
    ("df.loc[:, 'city'].str.lo", "lower"),
    ("df.iloc[:3].pri", "price"),
    ("df.columns.str.lo", "lower"),
    ("df.index.dt", "dtype"),
    ("df.price.mean().is_", "is_integer"),
    ("df.city.value_counts().he", "head"),
    ("df.rolling(2).me", "mean"),
    ("df.to_csv('x', ind", "index="),
    ("pd.read_csv('x', par", "parse_dates="),
    ("pd.read_csv('x').gro", "groupby"),
    ("pd.concat([df]).hea", "head"),
    ("pd.to_datetime(df.city).dt.mon", "month"),
    ("df.merge(df, ho", "how="),
    ("pf.filter(pl.col('city').str.ends", "ends_with"),
    ("pf['city'].str.to_up", "to_uppercase"),
    ("pf.lazy().coll", "collect"),
    ("pf['ci", "city"),
    ("np.arange(3).resh", "reshape"),
    ("np.linspace(0, 1, nu", "num="),
    ("np.zeros(3).T.as", "astype"),
    ("plt.figure().savef", "savefig"),
    ("fig, ax = plt.subplots()\nfig.savef", "savefig"),
    ("json.dumps(data, ind", "indent="),
    ("re.match('a', text).gr", "group"),
    ("re.compile('a').fullm", "fullmatch"),
    ("datetime.datetime.now().strf", "strftime"),
    ("collections.Counter(text).most", "most_common"),
    ("text.split(',')[0].up", "upper"),
    ("text.upper().sp", "split"),
    ("path.parent.ex", "exists"),
    ("path.read_text().spl", "split"),
    ("(path / 'a').is_fil", "is_file"),
    ("open('x').readl", "readline"),
    ("with open('x') as file:\n    file.readl", "readline"),
    ("data['a']['b'].app", "append"),
    ("data['", "a"),
    ("user.title.up", "upper"),
    ("user.friend().na", "name"),
    ("User('x').ta", "tags"),
    ("items[-1].fri", "friend"),
    ("send('x', ret", "retries="),
    ("send('x')[0].up", "upper"),
    ("sorted([1], rev", "reverse="),
    ("print(1, se", "sep="),
    ("max(1, ke", "key="),
    ("int('1', ba", "base="),
    ("import csv\ncsv.DictR", "DictReader"),
    ("new = df.head()\nnew.pri", "price"),
    ("rows = text.split()\nrows[0].low", "lower"),
    ("df.__len", "__len__"),
    ("from pandas import DataF", "DataFrame"),
]
"""Code and the completion that must be first. Of these 68, IPython 9.18 answers 39 so, jedi 0.20
37."""


def answers(code: str, names: dict[str, Any]) -> tuple[str, str, str]:
    """Return the first completion of ours, of IPython (as it is installed) and of jedi, without the
    text before it."""
    from IPython.core.completer import provisionalcompleter
    from IPython.core.interactiveshell import InteractiveShell
    from jedi import Interpreter  # type: ignore[import-untyped]

    from mahtab_tui.worker.completion.complete import complete

    shell = InteractiveShell.instance()
    shell.user_ns.update(names)
    with provisionalcompleter():
        theirs = next((each.text for each in shell.Completer.completions(code, len(code))), "")
    jedis = next((each.name_with_symbols for each in Interpreter(code, [names]).complete()), "")
    ours = next((each["label"] for each in complete(names, code, len(code))["items"]), "")
    return ours, theirs.rpartition(".")[2], jedis


def main() -> None:
    names = namespace()
    found = [(code, wanted, answers(code, names)) for code, wanted in TABLE]
    for code, wanted, three in found:
        marks = " ".join(
            f"{'  ' if answer.strip('()') == wanted else '! '}{answer or '-':18}"
            for answer in three
        )
        print(f"{code!r:56} {marks}")
    counts = [sum(three[index] == wanted for _, wanted, three in found) for index in range(3)]
    print(f"first of {len(TABLE)}: mahtab-tui {counts[0]}, IPython {counts[1]}, jedi {counts[2]}")


if __name__ == "__main__":
    main()
