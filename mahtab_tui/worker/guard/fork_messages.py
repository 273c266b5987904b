"""What a locked fork sends to its kernel, and what both must agree on.

A message is a head of two sizes in bytes, a JSON object, and data: the bytes of texts and values.
The data is not part of the JSON, because it may be large.
"""

from __future__ import annotations

import ast
import builtins
import json
import struct
import sys
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

from ..cells.outcomes import ForkReport, Outcome
from ..magic.syntax import parse_python
from ..sandbox.harmless_modules import HARMLESS_MODULES

MAX_NAMES = 1_000
"""New names that a cell may bring back."""
MAX_LOST_NAMES = 1_000
"""Names that a fork reports as lost."""
MAX_CLAUSE_CHARS = 500
"""Longer reasons are cut."""
MESSAGE_HEAD = struct.Struct("!QQ")
"""The sizes in bytes of a message's JSON and of the data after it."""

_PACKAGES = (
    "numpy pandas matplotlib seaborn scipy sklearn statsmodels polars pyarrow PIL sympy networkx"
    " xarray plotly altair bokeh tabulate rich yaml toml tqdm dateutil pytz lxml bs4 openpyxl nltk"
    " spacy regex numexpr duckdb sqlite3 tomllib"
).split()
_HARMLESS_PACKAGES = frozenset(name.partition(".")[0] for name in (*HARMLESS_MODULES, *_PACKAGES))
"""Importing these packages changes nothing."""
_STANDARD_MODULES: frozenset[str] = getattr(sys, "stdlib_module_names", frozenset())
_TOOL_MODULES = frozenset("tests test testing conftest f2py tool setup distutils".split())
"""Names of modules within packages that are tools or tests."""


class ValueRow(NamedTuple):
    """How the kernel gets a new value. In a message, it is a list."""

    name: str
    """The variable."""
    form: Literal["data", "same", "module", "of"]
    """data: bytes of `plain_pickle`. same: an object of the kernel's namespace. module: a module. of: a
    function or a class of a module."""
    fields: list[Any]
    """data: where it starts in the data of the message, and its size, in bytes. same: the variable that
    has the object. module: its name. of: the name of the module, and that of the function or class."""


def stopped(needs: str) -> ForkReport:
    """Return the report of a cell that must run outside a fork.

    Args:
        needs: The reason, as a clause such as "wanted to read a file".
    """
    outcome = Outcome("interrupted", [], [], [])
    return ForkReport(outcome, {}, [], [], needs)


def encode_message(message: dict[str, object], data_size: int = 0) -> bytes:
    """Return the head and the JSON of a message, after which its data follows.

    Args:
        data_size: In bytes.
    """
    encoded = json.dumps(message).encode()
    return MESSAGE_HEAD.pack(len(encoded), data_size) + encoded


def to_clause(text: object) -> str:
    """Return a text from the fork as part of a sentence: on one line, and not too long."""
    return " ".join(str(text).split())[:MAX_CLAUSE_CHARS]


def is_harmless_module(name: str) -> bool:
    """Return whether importing a module changes nothing.

    Modules that are not part of a package's interface may do anything.
    """
    package, *inner_names = name.split(".")
    if package not in _HARMLESS_PACKAGES:
        return False
    return not any(inner.startswith("_") or inner in _TOOL_MODULES for inner in inner_names)


def replaces_callable(name: str, namespace: dict[str, object]) -> bool:
    """Return whether a function of this name would replace a function that the user's code calls by
    it."""
    return name in vars(builtins) or callable(namespace.get(name))


def is_named(value: object, name: str) -> bool:
    """Return whether a value is any class, or a function whose own name is this one."""
    return isinstance(value, type) or (callable(value) and getattr(value, "__name__", "") == name)


def names_other_module(name: str, module: str) -> bool:
    """Return whether a name is that of a module, but not of this one: whoever reads `json` must not
    get something else."""
    is_of_module = name in sys.modules or name in _HARMLESS_PACKAGES or name in _STANDARD_MODULES
    return is_of_module and name != module.rpartition(".")[2]


def may_name_module(name: str, module: str, tree: ast.Module) -> bool:
    """Return whether a cell may bind a name to a module: the name says which one it is, or the cell's
    code imports it by this name."""
    if name == module.rpartition(".")[2]:
        return True
    value = sys.modules.get(module)
    if value is None or names_other_module(name, module):
        return False
    # A module may have several names: `os.path` is `posixpath`.
    return any(
        bound_name == name and sys.modules.get(path) is value
        for bound_name, path in _imported_paths(tree)
    )


def _imported_paths(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield the names that imports bind, each with the dotted path of what is imported."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.asname or alias.name, alias.name
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                yield alias.asname or alias.name, f"{node.module}.{alias.name}"


def parse_cell(source: str) -> ast.Module:
    """Parse the code of a cell. A magic command, and text that is not Python, is an empty tree."""
    return parse_python(source) or ast.Module([], [])


def imported_modules(tree: ast.Module) -> Iterator[str]:
    """Yield the names of what code imports: modules, and what it imports from modules, which may be
    modules too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
