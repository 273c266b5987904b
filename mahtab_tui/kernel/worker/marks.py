"""What the syntax tree of a cell says about names: which it binds, and which it may change in place."""

from __future__ import annotations

import ast
from collections.abc import Iterator

# Calls that leave their arguments as they are.
_PURE = frozenset(
    "print len repr str int float bool type id isinstance issubclass hasattr getattr callable hash sum min max abs round sorted list tuple"
    " set frozenset dict range enumerate zip map filter any all reversed format ascii bin hex oct ord chr divmod pow help dir vars"
    " peek grep partition display".split()
)
# Methods that leave their object as it is, of the kinds of objects that people use most.
_PURE_METHODS = frozenset(
    "copy keys values items get count index join split strip lower upper replace startswith endswith format encode decode"
    " head tail describe info sum mean median min max std var groupby agg value_counts nunique unique isna notna sort_index corr"
    " to_dict to_list tolist to_numpy astype reshape shape sample merge query nlargest nsmallest".split()
)


def _roots(node: ast.AST) -> Iterator[str]:
    """The name that an attribute or subscript hangs on: x of ``x.a[0].b``."""
    while isinstance(node, (ast.Attribute, ast.Subscript, ast.Starred)):
        node = node.value
    if isinstance(node, ast.Name):
        yield node.id


def bound_names(tree: ast.Module) -> frozenset[str]:
    """Names that the cell's own level binds: assignments, imports, definitions, loops, with, except, match, walrus."""
    names: set[str] = set()
    for node in _own_level(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, ast.alias):
            names.add(node.asname or node.name.split(".")[0])
        else:
            # except … as name, case … as name, case [*name], case {**name}
            names.update(str(getattr(node, field)) for field in ("name", "rest") if isinstance(getattr(node, field, None), str))
    return frozenset(names)


def touched_names(tree: ast.Module) -> frozenset[str]:
    """Names whose objects the cell may change in place."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.Attribute, ast.Subscript)) and isinstance(node.ctx, (ast.Store, ast.Del)):
            names.update(_roots(node))
        elif isinstance(node, ast.AugAssign):
            names.update(_roots(node.target))
        elif isinstance(node, ast.Call):
            names.update(_touched_by_call(node))
    return frozenset(names)


def _touched_by_call(call: ast.Call) -> Iterator[str]:
    in_place = any(keyword.arg == "inplace" for keyword in call.keywords)
    if isinstance(call.func, ast.Attribute) and (in_place or call.func.attr not in _PURE_METHODS):
        yield from _roots(call.func)
    if isinstance(call.func, ast.Name) and call.func.id in _PURE:
        return
    if isinstance(call.func, ast.Attribute) and call.func.attr in _PURE_METHODS:
        return
    for argument in [*call.args, *(keyword.value for keyword in call.keywords)]:
        if isinstance(argument, (ast.Name, ast.Starred)):
            yield from _roots(argument)


def _own_level(tree: ast.Module) -> Iterator[ast.AST]:
    """The nodes that run at the cell's own level: bodies of functions and classes are left out, unless they say ``global``."""
    pending = list(ast.iter_child_nodes(tree))
    while pending:
        node = pending.pop()
        yield node
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            continue
        if isinstance(node, ast.comprehension):  # its target is its own
            pending.extend((node.iter, *node.ifs))
            continue
        pending.extend(ast.iter_child_nodes(node))
