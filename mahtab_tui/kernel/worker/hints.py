"""Makes the line after an error that names what is needed to fix it: the columns, names, files and
arguments that are there.

No code of the user's classes runs. Hints show names of what the failing line uses, and at most one
value of its column.
"""

from __future__ import annotations

import ast
import builtins
import importlib.machinery
import os
import re
import sys
from itertools import islice
from pathlib import PurePath
from types import FunctionType
from typing import Any, Callable

from . import table_hints
from .completion.explaining import signature_of
from .completion.signatures import function_of, parameters
from .failure import Failure, did_you_mean, listed, nearest
from .library_types import as_library_type
from .limits import run_with_timeout
from .statics import (
    MISSING,
    attributes,
    in_class,
    is_module,
    is_one_of,
    loaded,
    own_dict,
    unwrapped,
)
from .summary import one_line, type_name
from .tracebacks import library_of

SECONDS = 1.0
"""Time limit of a hint."""
LONGEST = 600
"""Characters of a hint."""
_FILES, _ENTRIES = 10, 1_000
"""Files that are named, and entries of a folder that are read."""

_ATTRIBUTE = re.compile(
    r"(?:partially initialized )?(?:type object |module )?'(?P<type>[\w.]+)' (?:object )?has no attribute '(?P<name>\w+)'"
)
_CALL = re.compile(
    r"(?P<function>[\w.<>]+)\(\) (?:got an unexpected keyword argument '(?P<name>\w+)'|missing \d+ required|takes .*but \d+ \w+ given"
    r"|got multiple values for|got some positional-only)"
)
_BUILTIN_CALL = re.compile(
    r"'(?P<name>\w+)' is an invalid keyword argument for (?P<function>\w+)\(\)"
)
_TABLE_NAME = re.compile(r"df\d*|data\w*|table|frame|\w+_df|df_\w+", re.IGNORECASE)

_TABLES = (
    ("pandas", "DataFrame", "Series"),
    ("pandas.api.typing", "DataFrameGroupBy", "SeriesGroupBy"),
    ("polars", "DataFrame", "LazyFrame", "Series", "Expr"),
)
"""Modules, and their classes whose methods are recognised."""

_IMPORTS = {
    "np": "import numpy as np",
    "pd": "import pandas as pd",
    "pl": "import polars as pl",
    "pa": "import pyarrow as pa",
    "plt": "import matplotlib.pyplot as plt",
    "mpl": "import matplotlib as mpl",
    "sns": "import seaborn as sns",
    "px": "import plotly.express as px",
    "go": "import plotly.graph_objects as go",
    "alt": "import altair as alt",
    "sm": "import statsmodels.api as sm",
    "smf": "import statsmodels.formula.api as smf",
    "stats": "from scipy import stats",
    "sp": "import scipy as sp",
    "nx": "import networkx as nx",
    "tf": "import tensorflow as tf",
    "nn": "from torch import nn",
    "F": "import torch.nn.functional as F",
    "BeautifulSoup": "from bs4 import BeautifulSoup",
    "train_test_split": "from sklearn.model_selection import train_test_split",
    "LinearRegression": "from sklearn.linear_model import LinearRegression",
    "LogisticRegression": "from sklearn.linear_model import LogisticRegression",
    "StandardScaler": "from sklearn.preprocessing import StandardScaler",
    "Path": "from pathlib import Path",
    "Counter": "from collections import Counter",
    "defaultdict": "from collections import defaultdict",
    "dataclass": "from dataclasses import dataclass",
    "timedelta": "from datetime import timedelta",
    "datetime": "from datetime import datetime",
    "date": "from datetime import date",
    "reduce": "from functools import reduce",
    "partial": "from functools import partial",
    "sqrt": "from math import sqrt",
    "pprint": "from pprint import pprint",
    "Decimal": "from decimal import Decimal",
}
"""Imports of usual names."""
_MODULES = frozenset(
    "abc argparse ast asyncio base64 bisect calendar collections contextlib copy csv decimal difflib fractions functools glob gzip hashlib heapq html"
    " inspect io itertools json math operator os pathlib pickle platform pprint random re shutil sqlite3 statistics string subprocess sys tempfile"
    " textwrap threading time traceback typing urllib uuid warnings zipfile numpy pandas polars pyarrow matplotlib seaborn plotly scipy sklearn"
    " statsmodels torch requests duckdb networkx sympy tqdm".split()
)
"""Modules that are used by their own name."""


def hint_for(error: BaseException, shown: str) -> str:
    """Return a line that helps to fix an error, empty if there is none. shown: the text of its
    traceback."""
    try:
        text = run_with_timeout(SECONDS, lambda: _hint(error, shown))
    except (
        BaseException
    ):  # also an interrupt, and whatever a library's object raises: the error itself matters more
        return ""
    return one_line(f"Hint: {text}", LONGEST) if text else ""


def _hint(error: BaseException, shown: str) -> str:
    failed = Failure(error, shown)
    return next((text for make in _HINTS if (text := make(failed))), "")


def missing_attribute(failed: Failure) -> str:
    """Name the attributes that are much like a missing one."""
    found = _ATTRIBUTE.match(failed.message) if failed.is_a(AttributeError) else None
    if found is None:
        return ""
    name = found["name"]
    node = next(
        (
            each
            for each in failed.expressions
            if isinstance(each, ast.Attribute) and each.attr == name
        ),
        None,
    )
    if found["type"] == "NoneType":
        what = (
            f"{one_line(ast.unparse(node.value), 60)} is None here"
            if node is not None
            else "the value is None here"
        )
        return f"{what}. Functions that change an object in place (inplace=True, .sort(), .append()) return None: do not assign their result"
    value = _owner(failed, found["type"], node)
    if value is MISSING:
        return ""
    value = as_library_type(value)
    if text := table_hints.table_attribute(failed, value, name):
        return text
    series = loaded("pandas", "Series")
    if (
        type_name(value) in ("list", "tuple", "dict", "ndarray")
        and series is not MISSING
        and in_class(series, name) is not MISSING
    ):
        what = "DataFrame" if type(value) is dict else "Series"
        return f"a {type_name(value)} has no .{name}, a pandas {what} has: pd.{what}({'values' if node is None else one_line(ast.unparse(node.value), 60)}).{name}"
    names = own_dict(value) if is_module(value) else attributes(value)
    near = (
        ""
        if failed.suggests
        else did_you_mean(
            nearest(name, [each for each in names if type(each) is str and each[:1] != "_"])
        )
    )
    return f"there is no {name!r} in {one_line(found['type'], 60)}.{near}" if near else ""


def _owner(failed: Failure, kind: str, node: ast.Attribute | None) -> Any:
    """Return the object that lacks an attribute."""
    if sys.version_info >= (3, 10):
        value = AttributeError.__dict__["obj"].__get__(failed.error)
        if value is not None:
            return value
    for value in failed.objects():
        if type_name(value) == kind:
            return value
    return MISSING if node is None else failed.value_of(node.value)


def undefined_name(failed: Failure) -> str:
    """Name the import that was forgotten, the tables, or the variables that are much like the
    name."""
    found = (
        re.match(r"name '(\w+)' is not defined", failed.message)
        if failed.kind == "NameError"
        else None
    )
    if found is None:
        return ""
    name = found[1]
    line = _IMPORTS.get(name) or (f"import {name}" if name in _MODULES else "")
    if line and _is_installed(line.split()[1].partition(".")[0]):
        return "" if "forget to import" in failed.shown[-1_000:] else line
    tables = failed.tables(name) if _TABLE_NAME.fullmatch(name) else []
    if tables:
        return f"there is no variable {name!r}. Tables: {', '.join(tables)}"
    known = [
        each
        for each in (*failed.names, *builtins.__dict__)
        if type(each) is str and each[:1] != "_"
    ]
    near = "" if failed.suggests else did_you_mean(nearest(name, known))
    return f"there is no variable {name!r}.{near}" if near else ""


def _is_installed(module: str) -> bool:
    return module in sys.modules or importlib.machinery.PathFinder.find_spec(module) is not None


def wrong_arguments(failed: Failure) -> str:
    """Name the parameters of the function that was called."""
    found = _CALL.match(failed.message) or _BUILTIN_CALL.match(failed.message)
    if found is None or not failed.is_a(TypeError):
        return ""
    qualified = found["function"]
    owner, _, name = qualified.rpartition(".")
    called = owner.rpartition(".")[2] if name in ("__init__", "__new__") else name
    written = _called(failed, qualified, called)
    if not written:
        return ""
    wrong = found.groupdict().get("name")
    names = re.findall(r"[(,] ?\*{0,2}(\w+)", written)
    near = did_you_mean(nearest(wrong, names)) if wrong and not failed.suggests else ""
    return f"it is called as {_cut(written)}.{near}"


def _called(failed: Failure, qualified: str, name: str) -> str:
    """Return the function of a name that the user's line calls, with its parameters; empty if it is
    not known."""
    for node in failed.expressions:
        if not isinstance(node, ast.Call) or name != getattr(
            node.func, "attr", getattr(node.func, "id", "")
        ):
            continue
        value = failed.value_of(node.func)
        function, bound = (
            function_of(value) if value is not MISSING else (_method(qualified, name), 1)
        )
        if function is not None:
            return _written(function, bound, name)
        signature = signature_of(value, name)
        if signature.startswith(f"{name}(") and "…" not in signature:
            return " ".join(signature.split())
    return ""


def _method(qualified: str, name: str) -> FunctionType | None:
    """Return the method of a table that has a name; before Python 3.10 errors do not tell its
    class."""
    for module, *classes in _TABLES:
        for kind in classes:
            cls = loaded(module, kind)
            function = unwrapped(MISSING if cls is MISSING else in_class(cls, name))
            if function is not None and qualified in (function.__qualname__, name):
                return function
    return None


def _written(function: FunctionType, bound: int, name: str) -> str:
    """Return a function's name with its parameters and defaults, without annotations."""
    texts = []
    for each in parameters(function, bound):
        _, equals, default = each.text.partition(
            " = " if each.text.startswith(f"{each.name}: ") else "="
        )
        stars = "*" * (len(each.text) - len(each.text.lstrip("*")))
        texts.append(
            each.text
            if each.name in "/*"
            else f"{stars}{each.name}{'=' if equals else ''}{default}"
        )
    return f"{name}({', '.join(texts)})"


def _cut(signature: str) -> str:
    return signature if len(signature) <= 400 else f"{signature[:400].rpartition(', ')[0]}, …)"


def missing_file(failed: Failure) -> str:
    """Name the tables that are loaded already, and the files that are there."""
    path = _path(failed) if failed.is_a(FileNotFoundError) else ""
    if not path:
        return ""
    folder, name = os.path.split(path)
    gone = folder != "" and not os.path.isdir(folder)
    files = _files("." if gone or not folder else folder)
    place = f"in {one_line(folder, 80)!r}" if folder else "here"
    text = (
        f"there is no folder {one_line(folder, 80)!r}."
        if gone
        else f"no file {one_line(name, 80)!r} {place}."
    )
    place = "here" if gone else place
    tables = failed.tables(PurePath(name).stem)
    if tables:
        one = len(tables) == 1
        text += f" {'The table is' if one else 'These tables are'} loaded already: {', '.join(tables)}. Use {'it' if one else 'one of them'}."
    if near := nearest(name, files):
        return text + did_you_mean(near)
    if files:
        return f"{text} Files {place}: {listed(files[:_FILES], 150)}" + ", …" * (
            len(files) > _FILES
        )
    return text if tables else f"{text} There are no files {place}."


def _path(failed: Failure) -> str:
    """Return the path of a file that was not found; empty if it is not known, or of a program."""
    if failed.inside and library_of(failed.inside[-1].frame.f_code.co_filename, "") == "subprocess":
        return ""
    name = OSError.__dict__["filename"].__get__(failed.error)
    if type(name) in (str, bytes):
        return os.fsdecode(name)
    if is_one_of(name, "pathlib", "PosixPath", "WindowsPath"):
        return str(name)
    found = re.match(r"No such file or directory \(os error 2\):? ?(.+)", failed.message)
    return found[1] if found else ""


def _files(folder: str) -> list[str]:
    """Return the files of a folder by name, without hidden ones."""
    with os.scandir(folder) as entries:
        return sorted(
            entry.name
            for entry in islice(entries, _ENTRIES)
            if entry.name[:1] != "." and entry.is_file()
        )


def broken_pool(failed: Failure) -> str:
    """Say why a pool of processes has lost one."""
    process: Any = sys.modules.get("concurrent.futures.process")
    if process is None or not failed.is_a(process.BrokenProcessPool):
        return ""
    return "a process of the pool has ended. Its own error is printed above; if none is, it crashed, was killed for lack of memory, or exited"


_HINTS: tuple[Callable[[Failure], str], ...] = (
    missing_file,
    table_hints.missing_label,
    table_hints.wrong_dtype,
    table_hints.ambiguous_truth,
    table_hints.unaligned,
    missing_attribute,
    undefined_name,
    wrong_arguments,
    broken_pool,
)
"""The first one that returns a text makes the hint."""
