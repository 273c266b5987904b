"""Writes the line after an error that names what helps to fix it, without running user code."""

from __future__ import annotations

import ast
import builtins
import importlib.machinery
import linecache
import os
import re
import sys
from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import accumulate, islice
from pathlib import PurePath
from types import FrameType, TracebackType
from typing import Any, Callable, NamedTuple

from .completion.resolve import Instance, resolve
from .completion.signatures import function_of, parameters
from .magics import BARE_COMMANDS, parse_python
from .objects import (
    MISSING,
    Classes,
    as_library_type,
    attributes,
    has_own_indexes,
    is_index,
    is_module,
    is_one_of,
    is_own_type,
    is_subclass,
    name_of,
    own_dict,
    run_with_timeout,
)
from .stdlib import late_import
from .tracebacks import OUR_FOLDER, library_name
from .variables import looks_secret, one_line, summary, type_name

_ARGS, _TRACEBACK = BaseException.__dict__["args"], BaseException.__dict__["__traceback__"]
"""These bypass attributes of the exception's own class."""
_FRAMES = 200
_NAMES = ("self", "obj", "arg", "data", "left", "right", "other", "frame", "df", "X")
"""Variables of library functions that contain the object in question."""
_COMPARED = 2_000
_SUGGESTED_NAMES = 3
_MESSAGE = 2_000
_LINES = 10_000


class Frame(NamedTuple):
    frame: FrameType
    line: int
    instruction: int


class Failure:
    def __init__(self, error: BaseException, shown: str) -> None:
        self.error = error
        self.shown = shown
        self.kind = name_of(type(error))
        arguments = _ARGS.__get__(error)
        self.argument: Any = arguments[0] if arguments else None
        if type(self.argument) is str:
            self.argument = self.argument[:_MESSAGE]
        self.message = self.argument if type(self.argument) is str else ""
        frames = list(_frames(_TRACEBACK.__get__(error)))[-_FRAMES:]
        users = []
        for index, each in enumerate(frames):
            file, function = each.frame.f_code.co_filename, each.frame.f_code.co_name
            if not file.startswith(OUR_FOLDER) and not library_name(file, function):
                users.append(index)
        self.user = frames[users[-1]] if users else None
        self.inside = frames[users[-1] + 1 :] if users else []
        self.names: dict[str, Any] = {}
        if self.user is not None:
            self.names.update(dict.items(self.user.frame.f_globals))
            self.names.update(frame_locals(self.user.frame))

    def is_a(self, kind: type[BaseException]) -> bool:
        return is_subclass(type(self.error), kind)

    @property
    def suggests(self) -> bool:
        return "Did you mean" in self.shown[-1_000:]

    @cached_property
    def expressions(self) -> list[ast.expr]:
        """The expressions in the user's line, outer ones first; from 3.11 on, in the failed
        part."""
        if self.user is None:
            return []
        lines = linecache.getlines(self.user.frame.f_code.co_filename)
        line = self.user.line
        tree = parse_python("".join(lines)) if len(lines) <= _LINES else None
        if tree is None and 0 < line <= len(lines):  # a long file, or a cell with a magic command
            tree = parse_python("\n" * (line - 1) + lines[line - 1].strip())
        found = [
            node
            for node in ([] if tree is None else ast.walk(tree))
            if isinstance(node, ast.expr) and node.lineno <= line <= (node.end_lineno or 0)
        ]
        start, end = _position(self.user)
        return [
            node
            for node in found
            if start <= (node.lineno, node.col_offset)
            and (node.end_lineno or 0, node.end_col_offset or 0) <= end
        ] or found

    def evaluate(self, node: ast.expr) -> Any:
        value = resolve(ast.unparse(node), self.names)
        return MISSING if type(value) is Instance else value

    def objects(self) -> list[Any]:
        found: list[Any] = []
        for each in reversed(self.inside):
            variables = frame_locals(each.frame)
            for names in (variables, own_dict(variables.get("self"))):
                found += [names[name] for name in _NAMES if name in names]
        for node in self.expressions:
            if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)):
                found.append(self.evaluate(node))
        return list({id(value): value for value in found}.values())

    def find_name(self, value: object) -> str:
        for name, each in self.names.items():
            if each is value and type(name) is str and name[:1] != "_":
                return name
        return ""

    def tables(self, like: str) -> list[str]:
        kinds = (("pandas", "DataFrame"), ("polars", "DataFrame"), ("pyarrow", "Table"))
        found = {
            name: value
            for name, value in self.names.items()
            if type(name) is str
            and name[:1] != "_"
            and any(is_one_of(as_library_type(value), *kind) for kind in kinds)
        }
        names = list(dict.fromkeys([*nearest(like, found), *reversed(found)]))[:5]
        return [
            f"{one_line(name, 40)} ({type_name(found[name])}, {summary(found[name])})"
            for name in names
        ]


def frame_locals(frame: FrameType) -> dict[str, Any]:
    found = frame.f_locals
    if isinstance(found, dict):
        return dict(dict.items(found))
    # From Python 3.13 on.
    proxy = type(found).__name__ == "FrameLocalsProxy" and type(found).__module__ == "builtins"
    return dict(found) if proxy else {}


def nearest(name: str, names: Iterable[str]) -> list[str]:
    """Return at most three of some names that are spelt most like another one."""
    candidates = list(islice((other for other in names if other != name), _COMPARED))
    plain_forms = {candidate: _plain(candidate) for candidate in candidates}
    wanted = _plain(name)
    if same := [candidate for candidate in candidates if plain_forms[candidate] == wanted]:
        return same[:_SUGGESTED_NAMES]

    cutoff = 0.6 if len(wanted) > 3 else 0.75
    close_forms = late_import("difflib").get_close_matches(
        wanted, set(plain_forms.values()), _SUGGESTED_NAMES, cutoff
    )
    similar = [
        candidate
        for form in close_forms
        for candidate in candidates
        if plain_forms[candidate] == form
    ]
    for candidate, form in plain_forms.items():
        if min(len(wanted), len(form)) >= 3 and (wanted in form or form in wanted):
            similar.append(candidate)
    return list(dict.fromkeys(similar))[:_SUGGESTED_NAMES]


def did_you_mean(names: Iterable[str]) -> str:
    text = " or ".join(f"'{one_line(name, 60)}'" for name in names)
    return f" Did you mean {text}?" if text else ""


def list_names(names: Iterable[str], room: int = 300) -> str:
    every = [one_line(name if name == name.strip() else repr(name), 60) for name in names]
    ends = accumulate(len(name) + 2 for name in every)
    shown = every[: sum(end <= room for end in ends)]
    more = f", … ({len(every):,} in all)" if len(every) < _COMPARED else ", …"
    return ", ".join(shown) + (more if len(shown) < len(every) else "")


def _plain(name: str) -> str:
    return re.sub(r"[\W_]+", "", name[:100]).lower()


def _frames(traceback: TracebackType | None) -> Iterator[Frame]:
    while traceback is not None:
        yield Frame(traceback.tb_frame, traceback.tb_lineno, traceback.tb_lasti)
        traceback = traceback.tb_next


def _position(failed: Frame) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return start and end of the failed code, as line and column."""
    if sys.version_info >= (3, 11):
        positions = failed.frame.f_code.co_positions()
        found = next(islice(positions, failed.instruction // 2, None), (None,) * 4)
        line, end_line, column, end_column = (-1 if each is None else each for each in found)
        if min(line, end_line, column, end_column) >= 0:
            return (line, column), (end_line, end_column)
    return (1, 0), (0, 0)


SECONDS = 1.0
LONGEST = 600
_MOST_LABELS = 2_000
_MOST_FILES = 1_000
_PLAIN = Classes(str, int, float, bool)


def hint_for(error: BaseException, shown: str) -> str:
    """Return a line that helps to fix an error; empty if there is none. shown: its traceback."""

    def find() -> str:
        failed = Failure(error, shown)
        return next(filter(None, (make(failed) for make in _HINTS)), "")

    try:
        text = run_with_timeout(SECONDS, find)
    except BaseException:  # an interrupt, or anything raised by a library's object
        return ""
    return one_line(f"Hint: {text}", LONGEST) if text else ""


def missing_label(failed: Failure) -> str:
    about_columns = failed.kind in ("ColumnNotFoundError", "UndefinedVariableError")
    names = _missing_names(failed.argument) if about_columns or failed.is_a(KeyError) else []
    searched: Any = None
    for found in failed.objects() if names else ():
        value = as_library_type(found)
        word = "column"
        known: Any = None
        if is_index(value):
            searched = value if searched is None else searched
        elif type(value) is dict and not failed.inside:
            word, known = "key", value
        elif is_one_of(value, "pandas", "DataFrame", "Series") and has_own_indexes(value):
            by_row = value.ndim == 1 or searched is value.index
            word, known = ("label", value.index) if by_row else ("column", value.columns)
            known = known if searched is None or searched is known else None
        elif is_one_of(value, "polars", "DataFrame"):
            known = value.columns
        elif is_one_of(value, "pyarrow", "Table"):
            known = value.column_names
        known = [] if known is None else _labels(known)
        if known and (absent := [name for name in names if name not in known]):
            shown = ", ".join(one_line(repr(name), 60) for name in absent[:3])
            if word == "label" and value.ndim == 2 and absent[0] in _labels(value.columns):
                return f"{shown} is a column, not a row label"
            if is_one_of(value, "pandas", "DataFrame") and absent[0] in _labels(value.index.names):
                return f"{shown} is the index, not a column. reset_index() makes it a column"
            near = _near(failed, absent[0], known)
            return f"there is no {word} {shown}.{near} {_known(failed, word, found, known)}"
    return ""


def _missing_names(argument: Any) -> list[Any]:
    if type(argument) is not str:
        labels: Any = argument.tolist() if is_index(argument) else argument
        return _labels(labels if type(labels) is list else [labels])
    if argument.startswith("Column not found: "):
        return [argument.partition(": ")[2]]
    message = argument.partition("; valid columns")[0].partition("dtype=")[0]
    quoted = re.findall(r"""['"]([^'"]+)['"]""", message[max(0, message.find("['")) :])
    return quoted or [argument]


def _labels(labels: Iterable[Any]) -> list[Any]:
    return [label for label in islice(labels, _MOST_LABELS) if type(label) in _PLAIN]


def _near(failed: Failure, name: Any, names: Iterable[Any]) -> str:
    if failed.suggests or type(name) is not str:
        return ""
    return did_you_mean(nearest(name, [x for x in names if type(x) is str and x[:1] != "_"]))


def _known(failed: Failure, word: str, value: object, known: Iterable[Any]) -> str:
    words = (label if type(label) is str else repr(label) for label in known)
    name = failed.find_name(value)
    return f"{word.title()}s{name and f' of {name}'}: {list_names(words)}"


_SAMPLED_VALUES = 20
_WRONG_DTYPE = re.compile(
    r"could not convert string to float|invalid literal for int|Unable to parse string|to numeric"
    r"|agg function failed|does not support operation|Cannot perform reduction"
    r"|can only concatenate str|unsupported operand type|not supported between instances"
    r"|Can only use \.(?:dt|str) accessor"
    r"|Invalid comparison between|operation '\w+' not supported|ufunc .* not supported"
)
_MOMENTS = re.compile(r"datetime|Timestamp|timedelta|\bdate\b")


def wrong_dtype(failed: Failure) -> str:
    """Name the dtype of the column in question, and how to convert it."""
    objects = failed.objects() if _WRONG_DTYPE.search(failed.message) else []
    for value in map(as_library_type, objects):
        if is_one_of(value, "pandas", "Series", "DataFrame") and has_own_indexes(value):
            text = _text_columns(failed, value) if value.ndim == 2 else _column(failed, value)
            if text:
                return text
    return ""


def _column(failed: Failure, series: Any) -> str:
    if not is_own_type(series.dtype):
        return ""
    texts = _texts(series)
    name = series.name if type(series.name) is str else ""
    written = _expression(failed, name) or failed.find_name(series)
    expression = one_line(written or f"df[{name!r}]", 60)
    described = f"{one_line(repr(name), 60) if name else 'the Series'} has dtype {series.dtype}"
    if texts and not looks_secret(name):
        described += f", for example {one_line(repr(texts[0]), 40)}"
    if "Can only use .str" in failed.message:
        return f"{described}. Convert it first: {expression}.astype(str)"
    if not texts:
        return ""
    if _MOMENTS.search(failed.message):
        return f"{described}. Convert it first: pd.to_datetime({expression})"
    if not any(char.isdecimal() for text in texts for char in text):
        return f"{described}: text, not numbers. Use a column of numbers, or count the values: {expression}.value_counts()"
    if any(re.search(r"[^\d\s.eE+-]", text) for text in texts):
        expression += ".str.replace(r'[^0-9.-]', '', regex=True)"
    return f"{described}. Convert it first: pd.to_numeric({expression}, errors='coerce')"


def _expression(failed: Failure, name: str) -> str:
    """Return how the user's line refers to a column; empty if it does not."""
    for node in failed.expressions:
        written: Any = node.attr if isinstance(node, ast.Attribute) else None
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
            written = node.slice.value
        if name and written == name:
            return ast.unparse(node)
    return ""


def _texts(series: Any) -> list[str]:
    if not is_own_type(series.dtype) or series.dtype.kind in "bifcmM":
        return []
    return [value for value in series.iloc[:_SAMPLED_VALUES].tolist() if type(value) is str]


def _text_columns(failed: Failure, table: Any) -> str:
    columns = [table.iloc[:, index] for index in range(min(table.shape[1], 200))]
    names = [column.name for column in columns if type(column.name) is str and _texts(column)]
    if not names:
        return ""
    encode = ", or encode them: pd.get_dummies(df)" if "could not convert" in failed.message else ""
    return f"columns with text: {list_names(names, 200)}. Leave them out: numeric_only=True, or df.select_dtypes('number'){encode}"


def ambiguous_truth(failed: Failure) -> str:
    if "truth value of a" not in failed.message:
        return ""
    return "combine conditions with & | ~ instead of and, or, not, each in parentheses: df[(df['a'] > 1) & (df['b'] < 5)]. Whether any or all values are true: .any(), .all()"


_REPLACEMENTS = {
    "append": "pd.concat([a, b])",
    "applymap": ".map(function)",
    "groupby": ".group_by(by)",
    "merge": ".join(other, on=…)",
    "sort_values": ".sort(by)",
}


def missing_attribute(failed: Failure) -> str:
    found = re.search(r"'([\w.]+)' (?:object )?has no attribute '(\w+)'", failed.message)
    if found is None or not failed.is_a(AttributeError):
        return ""
    kind, name = found.groups()
    if kind == "NoneType":
        return "the value is None. Functions that change an object in place (inplace=True, .sort(), .append()) return None: do not assign their result"
    stored: Any = AttributeError.__dict__.get("obj")  # from Python 3.10 on
    value = as_library_type(stored.__get__(failed.error) if stored else None)
    is_table = is_one_of(value, "pandas", "DataFrame", "Series")
    if name in _REPLACEMENTS and (is_table or is_one_of(value, "polars", "DataFrame", "Series")):
        return f"there is no .{name}: use {_REPLACEMENTS[name]}"
    if is_table and value.ndim == 2 and has_own_indexes(value):
        columns = _labels(value.columns)
        near = _near(failed, name, [*columns, *attributes(type(value))])
        return f"there is no column or method {name!r}.{near} {_known(failed, 'column', value, columns)}"
    near = _near(failed, name, own_dict(value) if is_module(value) else attributes(value))
    return f"there is no {name!r} in {one_line(kind)}.{near}" if near else ""


_ALIASES = {
    "np": "numpy",
    "pd": "pandas",
    "pl": "polars",
    "plt": "matplotlib.pyplot",
    "sns": "seaborn",
    "tf": "tensorflow",
}
_MODULES = frozenset("csv glob io json math os random re statistics sys time".split())
_TABLE_NAME = re.compile(r"df\d*|data\w*|table|\w+_df|df_\w+")


def undefined_name(failed: Failure) -> str:
    match = re.match(r"name '(\w+)' is not defined", failed.message)
    if match is None or failed.kind != "NameError":
        return ""
    name = match[1]
    if name in BARE_COMMANDS - _MODULES:
        return f"%{name} is a magic command; in a cell of several lines, it needs the percent sign"
    if name in _MODULES:
        return "" if "forget to import" in failed.shown[-1_000:] else f"import {name}"
    module = _ALIASES.get(name, "")
    if module and importlib.machinery.PathFinder.find_spec(module.partition(".")[0]):
        return f"import {module} as {name}"
    if _TABLE_NAME.fullmatch(name) and (tables := failed.tables(name)):
        return f"there is no variable {name!r}. Tables: {', '.join(tables)}"
    near = _near(failed, name, (*failed.names, *builtins.__dict__))
    return f"there is no variable {name!r}.{near}" if near else ""


def wrong_arguments(failed: Failure) -> str:
    found = re.match(r"(?:[\w.<>]+\.)?(\w+)\(\) (?:got|missing|takes) ", failed.message)
    if found is None or not failed.is_a(TypeError):
        return ""
    for node in failed.expressions:
        value = failed.evaluate(node.func) if isinstance(node, ast.Call) else MISSING
        function, bound = (None, 0) if value is MISSING else function_of(value)
        if isinstance(node, ast.Call) and function and function.__name__ == found[1]:
            written = ", ".join(each.text for each in parameters(function, bound, annotated=False))
            return f"it is called as {ast.unparse(node.func)}({written})"
    return ""


def missing_file(failed: Failure) -> str:
    if not failed.is_a(FileNotFoundError):
        return ""
    path = OSError.__dict__["filename"].__get__(failed.error)
    last = failed.inside[-1].frame.f_code.co_filename if failed.inside else ""
    if type(path) is not str or not path or last.endswith("subprocess.py"):
        return ""
    folder, name = os.path.split(path)
    text = f"there is no file {one_line(name, 80)!r}"
    if folder and not os.path.isdir(folder):
        text, folder = f"there is no folder {one_line(folder, 80)!r}", ""
    with os.scandir(folder or ".") as entries:
        some = islice(entries, _MOST_FILES)
        files = sorted(each.name for each in some if each.name[:1] != "." and each.is_file())
    tables = failed.tables(PurePath(name).stem)
    loaded = ""
    if len(tables) == 1:
        loaded = f" The table is loaded already: {tables[0]}. Use it."
    elif tables:
        loaded = f" These tables are loaded already: {', '.join(tables)}. Use one of them."
    where = f"in {one_line(folder, 80)!r}" if folder else "here"
    listed = f" Files {where}: {list_names(files, 150) or 'none'}"
    return f"{text}.{loaded}{did_you_mean(nearest(name, files)) or listed}"


_HINTS: tuple[Callable[[Failure], str], ...] = (
    missing_file,
    missing_label,
    wrong_dtype,
    ambiguous_truth,
    missing_attribute,
    undefined_name,
    wrong_arguments,
)
