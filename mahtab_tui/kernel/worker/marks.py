"""Finds in the syntax tree of a cell which names it binds, and which objects it may change in place."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

# Functions that do not change their arguments.
_PURE = frozenset(
    "print len repr str int float bool type id isinstance issubclass hasattr getattr callable hash sum min max abs round sorted list tuple"
    " set frozenset dict range enumerate zip map filter any all reversed format ascii bin hex oct ord chr divmod pow help dir vars"
    " peek grep partition display".split()
)
IN_PLACE = frozenset(
    "append byteswap clear copyto drop_in_place eval extend fill fill_diagonal insert insert_column itemset partition place pop put putmask"
    " rechunk replace_column resize reverse set_flags setfield setflags shrink_to_fit sort update".split()
)
"""Methods that change a table or an array in place."""


def _roots(node: ast.AST) -> Iterator[str]:
    """Yield the root name of an attribute or subscript: x of ``x.a[0].b``."""
    while isinstance(node, (ast.Attribute, ast.Subscript, ast.Starred)):
        node = node.value
    if isinstance(node, ast.Name):
        yield node.id


def bound_names(tree: ast.Module, *, imports: bool = True) -> frozenset[str]:
    """Return the names that a cell binds at its top level: assignments, definitions, loops, with, except, match, walrus; optionally imports."""
    names: set[str] = set()
    for node in _own_level(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, ast.alias):
            if imports:
                names.add(node.asname or node.name.split(".")[0])
        else:
            # except … as name, case … as name, case [*name], case {**name}
            names.update(str(getattr(node, field)) for field in ("name", "rest") if isinstance(getattr(node, field, None), str))
    return frozenset(names)


class Touch(NamedTuple):
    """A place in a cell's code that may change an object in place."""

    name: str
    """The name of the object."""
    method: str
    """The method called on it; empty for assignments, function arguments, and methods with `inplace`."""

    @property
    def changes_tables(self) -> bool:
        """Whether it may change a table, an array or a tensor."""
        return not self.method or self.method in IN_PLACE or self.method.endswith("_")


def touches(tree: ast.AST) -> Iterator[Touch]:
    """Yield the places in a cell that may change objects in place, without binding names."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.Attribute, ast.Subscript)) and isinstance(node.ctx, (ast.Store, ast.Del)):
            yield from (Touch(name, "") for name in _roots(node))
        elif isinstance(node, ast.AugAssign):
            yield from (Touch(name, "") for name in _roots(node.target))
        elif isinstance(node, ast.Call):
            yield from _touched_by_call(node)


def called_names(tree: ast.AST) -> frozenset[str]:
    """Return the names that a cell calls."""
    return frozenset(node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name))


def _touched_by_call(call: ast.Call) -> Iterator[Touch]:
    if isinstance(call.func, ast.Attribute):
        in_place = any(keyword.arg == "inplace" for keyword in call.keywords)
        yield from (Touch(name, "" if in_place else call.func.attr) for name in _roots(call.func))
    if isinstance(call.func, ast.Name) and call.func.id in _PURE:
        return
    for argument in [*call.args, *(keyword.value for keyword in call.keywords)]:
        if isinstance(argument, (ast.Name, ast.Starred, ast.Attribute, ast.Subscript)):
            yield from (Touch(name, "") for name in _roots(argument))


def _own_level(tree: ast.Module) -> Iterator[ast.AST]:
    """Yield the nodes that run at a cell's top level, without the bodies of functions and classes."""
    pending = list(ast.iter_child_nodes(tree))
    while pending:
        node = pending.pop()
        yield node
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            continue
        if isinstance(node, ast.comprehension):  # its target is local to it
            pending.extend((node.iter, *node.ifs))
            continue
        pending.extend(ast.iter_child_nodes(node))
