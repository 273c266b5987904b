"""How code is written: names say what they hold, and each line assigns one of them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = sorted(path for folder in ("mahtab_tui", "tests") for path in (ROOT / folder).rglob("*.py"))
EMPTY_NAMES = frozenset(("each", "found", "known", "shown", "why"))
"""They say that a value is there, not what it is."""


@pytest.mark.parametrize("folder", ["mahtab_tui", "tests"])
def test_names_say_what_they_hold(folder: str) -> None:
    places = [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for path in FILES
        if path.is_relative_to(ROOT / folder)
        for name, line in bound_names(ast.parse(path.read_text("utf-8")))
        if name in EMPTY_NAMES
    ]
    assert not places, "\n".join(places)


@pytest.mark.parametrize("folder", ["mahtab_tui", "tests"])
def test_a_line_assigns_one_value(folder: str) -> None:
    places = [
        f"{path.relative_to(ROOT)}:{node.lineno}: {ast.unparse(node)}"
        for path in FILES
        if path.is_relative_to(ROOT / folder)
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Assign) and is_parallel(node)
    ]
    assert not places, "\n".join(places)


def bound_names(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Yield the variables and parameters of a module and its functions, with their lines.

    Fields of classes are left out: those of records keep the names that saved sessions use.
    """
    fields = {
        id(node)
        for class_definition in ast.walk(tree)
        if isinstance(class_definition, ast.ClassDef)
        for statement in class_definition.body
        if isinstance(statement, ast.Assign | ast.AnnAssign)
        for node in ast.walk(statement)
    }
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Name)
            and isinstance(node.ctx, ast.Store)
            and id(node) not in fields
        ):
            yield node.id, node.lineno
        elif isinstance(node, ast.arg):
            yield node.arg, node.lineno
        elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
            yield node.name, node.lineno


def is_parallel(assignment: ast.Assign) -> bool:
    """Return whether a statement assigns several values at once, other than exchanging them."""
    targets = assignment.targets[0]
    if not isinstance(targets, ast.Tuple) or not isinstance(assignment.value, ast.Tuple):
        return False
    target_names = {ast.unparse(target) for target in targets.elts}
    values = " ".join(map(ast.unparse, assignment.value.elts))
    return not any(re.search(rf"\b{re.escape(name)}\b", values) for name in target_names)
