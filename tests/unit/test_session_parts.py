"""How a session is put together: in order, by constructor arguments."""

from __future__ import annotations

import ast
import inspect

import pytest

from mahtab_tui.session.components import Components
from mahtab_tui.session.session import Session


def reaches_back(source: str) -> list[str]:
    """Return the breaks of order in a constructor: functions that use an object later, and
    attributes set in a finished part."""
    session = next(node for node in ast.parse(source).body if isinstance(node, ast.ClassDef))
    constructor = next(
        node
        for node in session.body
        if isinstance(node, ast.FunctionDef) and node.name == "__init__"
    )
    found = []
    for node in ast.walk(constructor):
        if isinstance(node, ast.Lambda | ast.FunctionDef) and node is not constructor:
            found += [
                ast.unparse(node)
                for name in ast.walk(node)
                if isinstance(name, ast.Name) and name.id == "self"
            ]
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found += [
                ast.unparse(node)
                for target in targets
                if isinstance(target, ast.Attribute) and not isinstance(target.value, ast.Name)
            ]
    return found


@pytest.mark.parametrize("cls", [Session, Components])
def test_each_session_component_gets_only_earlier_ones(cls: type) -> None:
    assert reaches_back(inspect.getsource(cls)) == []


def test_backward_references_are_found() -> None:
    source = "class Session:\n    def __init__(self):\n        self.a = A(lambda: self.b)\n        self.b = B()\n        self.b.on_end = self.a.end\n"
    assert sorted(reaches_back(source)) == ["lambda: self.b", "self.b.on_end = self.a.end"]
