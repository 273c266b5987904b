"""Writes the line after an error that names what helps to fix it, without running user code."""

from __future__ import annotations

import ast
import builtins
import importlib.machinery
import os
import re
import sys
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import PurePath
from typing import Any, Callable

from .completion.signatures import format_signature, function_of, parameters
from .failure import Failure, did_you_mean, list_names, nearest
from .objects import (
    MISSING,
    Classes,
    as_library_type,
    attributes,
    has_own_indexes,
    is_index,
    is_module,
    is_one_of,
    own_dict,
    run_with_timeout,
)
from .tracebacks import library_name
from .variables import one_line, type_name

SECONDS = 1.0
LONGEST = 600
_MOST_LABELS = 2_000
_MOST_FILES, _MOST_ENTRIES = 10, 1_000
_PLAIN = Classes(str, int, float, bool)


def hint_for(error: BaseException, shown: str) -> str:
    """Return a line that helps to fix an error; empty if there is none."""

    def find() -> str:
        failed = Failure(error, shown)
        return next((text for make in _HINTS if (text := make(failed))), "")

    try:
        text = run_with_timeout(SECONDS, find)
    except BaseException:
        # An interrupt, or anything raised by a library's object.
        return ""
    return one_line(f"Hint: {text}", LONGEST) if text else ""


# Missing columns, labels and keys

_QUOTED = re.compile(r"'([^']*)'|\"([^\"]*)\"")
_NOT_FOUND = re.compile(
    r"not in index|not found|are in the (?:\[|columns)|do not exist|does not exist in schema"
    r"|not present in|labels are not columns|unable to find column"
    r"|Could not interpret value"
)
"""Occurs in messages that name the missing thing; others of a `KeyError` are just the key."""
_NO_VARIABLE = "Could not interpret value `"


def missing_label(failed: Failure) -> str:
    about_columns = failed.kind in ("ColumnNotFoundError", "UndefinedVariableError")
    if not (about_columns or failed.is_a(KeyError) or failed.message.startswith(_NO_VARIABLE)):
        return ""
    names = _missing_names(failed)
    if not names:
        return ""
    index: Any = None
    for found in failed.objects():
        value = as_library_type(found)
        if not failed.inside:  # raised by the user's line itself
            if type(value) is dict:
                keys = _labels(value)
                if absent := [name for name in names if name not in keys]:
                    start = f"there is no key {_quote(absent)}"
                    return _with_known(start, absent, "Keys", failed.find_name(found), keys)
        elif index is None and is_index(value):
            index = value
        elif is_one_of(value, "pandas", "DataFrame", "Series"):
            if has_own_indexes(value) and (text := _in_pandas(failed, value, found, index, names)):
                return text
        elif is_one_of(value, "polars", "DataFrame") or is_one_of(value, "pyarrow", "Table"):
            is_polars = is_one_of(value, "polars", "DataFrame")
            columns = list(value.columns if is_polars else value.column_names)
            if not failed.suggests and (absent := [name for name in names if name not in columns]):
                return _no_column(absent, columns, failed.find_name(found))
    return ""


def _missing_names(failed: Failure) -> list[Any]:
    argument = failed.argument
    if type(argument) is not str:
        labels: Any = argument.tolist() if is_index(argument) else argument
        several: list[Any] = labels if type(labels) is list else [labels]
        return _labels(several)
    if not _NOT_FOUND.search(argument):
        undefined = re.match(r"name '(.+)' is not defined$", argument)
        return [undefined[1] if undefined else argument]
    if column := re.match(r"Columns? not found: (.+)", argument):
        return [name.strip().strip("'") for name in column[1].split(",")]
    if argument.startswith(_NO_VARIABLE):
        return [argument.split("`")[1]]
    message = argument.partition("; valid columns")[0].partition("dtype=")[0]
    message = message[message.find("[") :] if "['" in message or '["' in message else message
    return [single or double for single, double in _QUOTED.findall(message[:_MOST_LABELS])]


def _is_plain(label: object) -> bool:
    return type(label) in _PLAIN or (
        type(label) is tuple and all(type(part) in _PLAIN for part in label)
    )


def _labels(labels: Iterable[Any]) -> list[Any]:
    return [label for label in islice(labels, _MOST_LABELS) if _is_plain(label)]


def _in_pandas(failed: Failure, value: Any, original: object, index: Any, names: list[Any]) -> str:
    name = failed.find_name(original)
    is_frame = value.ndim == 2
    columns = _labels(value.columns) if is_frame else []
    if is_frame and (index is None or index is value.columns):
        absent = [label for label in names if label not in columns]
        if absent and absent[0] in _labels(value.index.names):
            return f"{_quote(absent[:1])} is the index of {name or 'the table'}, not a column. {name or 'df'}.reset_index() makes it a column"
        return _no_column(absent, columns, name) if absent else ""
    labels = _labels(value.index)
    absent = [label for label in names if label not in labels]
    if not absent or (index is not None and index is not value.index):
        return ""
    if absent[0] in columns:
        return f"{_quote(absent[:1])} is a column, not a row label: {name or 'df'}[{absent[0]!r}]"
    start = f"there is no {'row label' if is_frame else 'label'} {_quote(absent)}"
    if not is_frame:
        return f"{_with_known(start, absent, 'Labels', name, labels)}."
    choose = "To choose rows by the value of a column: df[df['column'] == value]"
    return f"{_with_known(start, absent, 'Labels', name, labels, 120)}. {choose}"


def _no_column(names: list[Any], columns: Sequence[Any], table: str) -> str:
    what = "is no column" if len(names) == 1 else "are no columns"
    return _with_known(f"there {what} {_quote(names)}", names, "Columns", table, columns)


def _with_known(
    start: str, names: list[Any], kind: str, owner: str, known: Sequence[Any], room: int = 300
) -> str:
    texts = [label for label in known if type(label) is str]
    most = 3 if len(names) == 1 else 1
    near = [each for name in names[:3] if type(name) is str for each in nearest(name, texts)[:most]]
    return f"{start}.{did_you_mean(dict.fromkeys(near))} {_list_known(kind, owner, known, room)}"


def _list_known(kind: str, owner: str, known: Sequence[Any], room: int = 300) -> str:
    words = (label if type(label) is str else repr(label) for label in known)
    return f"{kind}{f' of {owner}' if owner else ''}: {list_names(words, room)}"


def _quote(names: list[Any]) -> str:
    shown = ", ".join(one_line(repr(name), 60) for name in names[:3])
    return shown + (", …" if len(names) > 3 else "")


def ambiguous_truth(failed: Failure) -> str:
    if "truth value of a" not in failed.message:
        return ""
    return "combine conditions with & | ~ instead of and, or, not, each in parentheses: df[(df['a'] > 1) & (df['b'] < 5)]. Whether any or all values are true: .any(), .all()"


# Missing attributes

_REPLACEMENTS = {
    "pandas": {
        "append": "pd.concat([a, b])",
        "applymap": ".map(function)",
        "iteritems": ".items()",
        "ix": ".loc (labels) or .iloc (positions)",
        "with_columns": ".assign(name=…)",
        "group_by": ".groupby(by)",
    },
    "polars": {
        "apply": ".map_elements(function), or an expression",
        "assign": ".with_columns(name=…)",
        "astype": ".cast(dtype)",
        "dropna": ".drop_nulls()",
        "fillna": ".fill_null(value)",
        "groupby": ".group_by(by)",
        "iloc": "df[rows] or .slice(offset, length)",
        "isna": ".is_null(), .null_count()",
        "loc": ".filter(pl.col(name) == value)",
        "merge": ".join(other, on=…)",
        "nunique": ".n_unique()",
        "query": ".filter(pl.col(name) > value)",
        "sort_values": ".sort(by)",
        "to_csv": ".write_csv(file)",
    },
}

_ATTRIBUTE = re.compile(
    r"(?:partially initialized )?(?:type object |module )?'(?P<type>[\w.]+)' (?:object )?"
    r"has no attribute '(?P<name>\w+)'"
)


def missing_attribute(failed: Failure) -> str:
    found = _ATTRIBUTE.match(failed.message) if failed.is_a(AttributeError) else None
    if found is None:
        return ""
    kind, name = found["type"], found["name"]
    node = next(
        (
            each
            for each in failed.expressions
            if isinstance(each, ast.Attribute) and each.attr == name
        ),
        None,
    )
    written = "" if node is None else one_line(ast.unparse(node.value), 60)
    if kind == "NoneType":
        return f"{written or 'the value'} is None here. Functions that change an object in place (inplace=True, .sort(), .append()) return None: do not assign their result"
    value: Any = None
    if sys.version_info >= (3, 10):
        value = AttributeError.__dict__["obj"].__get__(failed.error)
    if value is None and node is not None:
        value = failed.evaluate(node.value)
    if value is None or value is MISSING:
        return ""
    value = as_library_type(value)
    if text := _table_attribute(failed, value, name):
        return text
    near = _near(failed, name, own_dict(value) if is_module(value) else attributes(value))
    return f"there is no {name!r} in {one_line(kind, 60)}.{near}" if near else ""


def _near(failed: Failure, name: str, names: Iterable[Any]) -> str:
    if failed.suggests:
        return ""
    return did_you_mean(nearest(name, [x for x in names if type(x) is str and x[:1] != "_"]))


def _table_attribute(failed: Failure, value: Any, name: str) -> str:
    kind = type_name(value)
    for library, replacements in _REPLACEMENTS.items():
        if not is_one_of(value, library, "DataFrame", "Series"):
            continue
        if name in replacements:
            return f"{library} has no .{name} for a {kind}: use {replacements[name]}"
        if kind != "DataFrame" or (library == "pandas" and not has_own_indexes(value)):
            return ""
        columns = _labels(value.columns)
        near = _near(failed, name, [*columns, *attributes(type(value))])
        known = _list_known("Columns", failed.find_name(value), columns)
        return f"there is no column or method {name!r}.{near} {known}"
    return ""


# Undefined names

_ALIASES = {
    "np": "numpy",
    "pd": "pandas",
    "pl": "polars",
    "pa": "pyarrow",
    "plt": "matplotlib.pyplot",
    "sns": "seaborn",
    "px": "plotly.express",
    "go": "plotly.graph_objects",
    "alt": "altair",
    "sm": "statsmodels.api",
    "nx": "networkx",
    "tf": "tensorflow",
}
_FROM = {
    "BeautifulSoup": "bs4",
    "Counter": "collections",
    "LinearRegression": "sklearn.linear_model",
    "Path": "pathlib",
    "date": "datetime",
    "dataclass": "dataclasses",
    "defaultdict": "collections",
    "partial": "functools",
    "stats": "scipy",
    "timedelta": "datetime",
    "train_test_split": "sklearn.model_selection",
}
_MODULES = frozenset(
    "abc argparse ast asyncio base64 bisect calendar collections contextlib copy csv decimal difflib fractions functools glob gzip hashlib heapq html"
    " inspect io itertools json math operator os pathlib pickle platform pprint random re shutil sqlite3 statistics string subprocess sys tempfile"
    " textwrap threading time traceback typing urllib uuid warnings zipfile numpy pandas polars pyarrow matplotlib seaborn plotly scipy sklearn"
    " statsmodels torch requests duckdb networkx sympy tqdm".split()
)
_TABLE_NAME = re.compile(r"df\d*|data\w*|table|frame|\w+_df|df_\w+", re.IGNORECASE)


def undefined_name(failed: Failure) -> str:
    found = re.match(r"name '(\w+)' is not defined", failed.message)
    if found is None or failed.kind != "NameError":
        return ""
    name = found[1]
    module = _ALIASES.get(name) or _FROM.get(name) or (name if name in _MODULES else "")
    if module and _is_installed(module.partition(".")[0]):
        if "forget to import" in failed.shown[-1_000:]:
            return ""
        if name in _FROM:
            return f"from {module} import {name}"
        return f"import {module}" + (f" as {name}" if name in _ALIASES else "")
    if _TABLE_NAME.fullmatch(name) and (tables := failed.tables(name)):
        return f"there is no variable {name!r}. Tables: {', '.join(tables)}"
    near = _near(failed, name, (*failed.names, *builtins.__dict__))
    return f"there is no variable {name!r}.{near}" if near else ""


def _is_installed(module: str) -> bool:
    return module in sys.modules or importlib.machinery.PathFinder.find_spec(module) is not None


# Wrong arguments

_CALL = re.compile(
    r"(?P<function>[\w.<>]+)\(\) (?:got an unexpected keyword argument '(?P<name>\w+)'"
    r"|missing \d+ required|takes .*but \d+ \w+ given|got multiple values for"
    r"|got some positional-only)"
)
_BUILTIN_CALL = re.compile(
    r"'(?P<name>\w+)' is an invalid keyword argument for (?P<function>\w+)\(\)"
)


def wrong_arguments(failed: Failure) -> str:
    found = _CALL.match(failed.message) or _BUILTIN_CALL.match(failed.message)
    if found is None or not failed.is_a(TypeError):
        return ""
    owner, _, name = found["function"].rpartition(".")
    called = owner.rpartition(".")[2] if name in ("__init__", "__new__") else name
    written = _find_called(failed, called)
    if not written:
        return ""
    wrong = found["name"]
    names = re.findall(r"[(,] ?\*{0,2}(\w+)", written)
    near = did_you_mean(nearest(wrong, names)) if wrong and not failed.suggests else ""
    if len(written) > 400:
        written = f"{written[:400].rpartition(', ')[0]}, …)"
    return f"it is called as {written}.{near}"


def _find_called(failed: Failure, name: str) -> str:
    for node in failed.expressions:
        function_node = node.func if isinstance(node, ast.Call) else None
        written = getattr(function_node, "attr", getattr(function_node, "id", ""))
        if function_node is None or name != written:
            continue
        value = failed.evaluate(function_node)
        function, bound = (None, 0) if value is MISSING else function_of(value)
        if function is not None:
            texts = [each.text for each in parameters(function, bound, annotated=False)]
            return f"{name}({', '.join(texts)})"
        signature = format_signature(value, name)
        if signature.startswith(f"{name}(") and "…" not in signature:
            return " ".join(signature.split())
    return ""


# Missing files


def missing_file(failed: Failure) -> str:
    path = _path(failed) if failed.is_a(FileNotFoundError) else ""
    if not path:
        return ""
    folder, name = os.path.split(path)
    where = f"in {one_line(folder, 80)!r}" if folder else "here"
    text = f"no file {one_line(name, 80)!r} {where}."
    if folder and not os.path.isdir(folder):
        text = f"there is no folder {one_line(folder, 80)!r}."
        folder, where = "", "here"
    with os.scandir(folder or ".") as entries:
        some = islice(entries, _MOST_ENTRIES)
        files = sorted(each.name for each in some if each.name[:1] != "." and each.is_file())
    if tables := failed.tables(PurePath(name).stem):
        use = "it" if len(tables) == 1 else "one of them"
        text += f" Loaded already: {', '.join(tables)}. Use {use}."
    if near := nearest(name, files):
        return text + did_you_mean(near)
    if files:
        more = ", …" if len(files) > _MOST_FILES else ""
        return f"{text} Files {where}: {list_names(files[:_MOST_FILES], 150)}{more}"
    return text if tables else f"{text} There are no files {where}."


def _path(failed: Failure) -> str:
    if failed.inside:
        file = failed.inside[-1].frame.f_code.co_filename
        if library_name(file, "") == "subprocess":
            return ""
    name = OSError.__dict__["filename"].__get__(failed.error)
    if type(name) is str or type(name) is bytes:
        return os.fsdecode(name)
    if is_one_of(name, "pathlib", "PosixPath", "WindowsPath"):
        return str(name)
    found = re.match(r"No such file or directory \(os error 2\):? ?(.+)", failed.message)
    return found[1] if found else ""


_HINTS: tuple[Callable[[Failure], str], ...] = (
    missing_file,
    missing_label,
    ambiguous_truth,
    missing_attribute,
    undefined_name,
    wrong_arguments,
)
