"""Finds the cells that a variable depends on."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

_ANEW = frozenset(("added", "rebound"))
"""Changes after which earlier ones do not matter."""
_MADE = _ANEW | {"changed", "perhaps"}
_WORD = re.compile(r"\w+")


class Step(NamedTuple):
    """A cell that ran."""

    cell: int
    code: str
    changes: Mapping[str, str]
    """`records.Change.change` by name."""

    def makes(self, names: Iterable[str]) -> bool:
        return any(self.changes.get(name) in _MADE for name in names)


def steps_for(name: str, steps: Sequence[Step], follow: Callable[[str], bool]) -> list[Step]:
    """Return the cells that gave a variable its value, and those that made what they read; empty if
    none made it. follow: returns whether to look for a name, too."""
    always = set[str]()
    while True:
        chosen, later = _chosen(name, always, steps, follow)
        if later <= always:
            return chosen if any(step.makes((name,)) for step in chosen) else []
        always |= later


def _chosen(
    name: str, always: set[str], steps: Sequence[Step], follow: Callable[[str], bool]
) -> tuple[list[Step], set[str]]:
    """Return the cells, and the names that functions in them read. always: names needed wherever
    they are made."""
    wanted, chosen, later = {name}, list[Step](), set[str]()
    for step in reversed(steps):
        gone = {name for name, change in step.changes.items() if change == "deleted"}
        wanted -= gone
        if not step.makes(wanted | always):
            continue
        chosen.append(step)
        names, names_later = _read(step.code)
        anew = {name for name, change in step.changes.items() if change in _ANEW}
        wanted = (wanted - anew) | set(filter(follow, names))
        later |= set(filter(follow, names_later))
    return chosen[::-1], later


def _read(code: str) -> tuple[set[str], set[str]]:
    """Return the names that code reads, and those read in functions, which may run at any time; of
    other languages, all words."""
    tree = parse_plain_python(code)
    if tree is None:
        words = set(_WORD.findall(code))
        return words, words
    bodies = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda)
    ]
    return _names(tree), {name for body in bodies for name in _names(body)}


def _names(tree: ast.AST) -> set[str]:
    read = set[str]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Store):
            read.add(node.id)
        elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            read.add(node.target.id)
    return read


def parse_plain_python(code: str) -> ast.AST | None:
    """Parse a cell's code; None if it is not plain Python."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # warnings about escapes go to stderr
            flags = ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
            tree: ast.AST = compile(code, "<cell>", "exec", flags, dont_inherit=True)
            return tree
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
