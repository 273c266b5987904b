"""Finds the names that code mentions, by which it may use variables.

A name counts wherever it stands, also in a string: `eval("salaries")` uses `salaries`. The kernel asks
for code that may use private variables (`private_use`); the host asks for the words of a question.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Set

from ..magic.syntax import parse_python

REACHING_COMMANDS = frozenset(("hist", "history", "macro", "rerun", "tb"))
"""Magic commands that run or show code other than their own."""
EVERYTHING = "globals"
"""A name by which code reaches every variable, in place of names that the code does not show."""

_NAME = re.compile(r"[^\W\d]\w*")
_REACHING_NAMES = frozenset(
    "globals locals vars eval exec compile whos who gc inspect f_globals f_locals _getframe currentframe"
    " __globals__ __main__ Out In _ __ ___ get_ipython user_ns".split()
)
"""Names by which code reaches variables without naming them."""
_HISTORY_NAME = re.compile(r"_(?:i*\d*|[io]h)")
"""IPython's names of earlier inputs and values."""
_REACHING_MAGIC = re.compile(
    rf"\b(?:run[ \t]+(?:-\w+[ \t]+){{0,20}}-\w*i|(?:{'|'.join(sorted(REACHING_COMMANDS))})\b)"
)
"""Magic commands that use variables which the code does not name. `%run -i` runs a script that sees
all variables."""
_NODES_WITH_NAME = frozenset(
    ("FunctionDef", "AsyncFunctionDef", "ClassDef", "ExceptHandler", "MatchAs", "MatchStar")
)
"""Nodes whose field `name` is a name that they bind. By their own names, because Python 3.9 has no
patterns to match."""


def mentioned_names(code: str) -> frozenset[str]:
    """Return the names in code and in its strings; all words of a cell that is not plain Python."""
    tree = parse_python(code)
    names = frozenset(words_in(code) if tree is None else _names_in_tree(tree))
    is_magic = tree is None or code.strip() in REACHING_COMMANDS
    if is_magic and _REACHING_MAGIC.search(code):
        return names | {EVERYTHING}
    return names


def reaches_everything(names: Set[str]) -> bool:
    """Return whether code that mentions these names may use any variable."""
    return not _REACHING_NAMES.isdisjoint(names) or any(map(_HISTORY_NAME.fullmatch, names))


def words_in(text: str) -> list[str]:
    """Return the words of a text that may be names."""
    return _NAME.findall(text)


def _names_in_tree(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        yield from _names_of_node(node)


def _names_of_node(node: ast.AST) -> Iterator[str]:
    """Yield the names that a node itself has, without those of the nodes in it."""
    if isinstance(node, ast.Name):
        # `for _ in …` reaches nothing.
        if node.id not in _REACHING_NAMES or not isinstance(node.ctx, ast.Store):
            yield node.id
    elif isinstance(node, ast.Attribute):
        # Other attributes are not variables.
        yield from _REACHING_NAMES.intersection([node.attr])
    elif isinstance(node, ast.Constant):
        yield from _words_of_constant(node.value)
    elif isinstance(node, (ast.Global, ast.Nonlocal)):
        yield from node.names
    elif isinstance(node, ast.alias):
        yield node.name.partition(".")[0]
        yield node.asname or ""
    elif type(node).__name__ in _NODES_WITH_NAME:
        yield getattr(node, "name", None) or ""


def _words_of_constant(value: object) -> list[str]:
    if isinstance(value, bytes):
        return words_in(value.decode("latin-1"))
    if isinstance(value, str):
        return words_in(value)
    return []
