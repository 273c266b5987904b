"""Finds the names that functions, classes and comprehensions read from outside."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
Scope = Function | ast.ClassDef | Comprehension

# Each node is checked, and a tuple takes a fraction of the time of a union.
_COMPREHENSION_TYPES = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_FUNCTION_TYPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_SCOPE_TYPES = (*_FUNCTION_TYPES, ast.ClassDef, *_COMPREHENSION_TYPES)


class _Reads(NamedTuple):
    """The names that the body of a scope reads from outside."""

    names: frozenset[str]
    """Names that a scope around it may bind."""
    global_names: frozenset[str]
    """Names that it declares as global, so that no scope around it binds them."""


def free_names(scope: Scope) -> frozenset[str]:
    """Return the names that the body of a function, class or comprehension reads from outside,
    whatever the order of its statements."""
    reads = _read_scope(scope)
    return reads.names | reads.global_names


def declared_globals(scope: Scope) -> frozenset[str]:
    """Return the names that a function or class, or functions in it, declare as global."""
    declarations = [node for node in ast.walk(scope) if isinstance(node, ast.Global)]
    return frozenset(name for declaration in declarations for name in declaration.names)


def _read_scope(scope: Scope) -> _Reads:
    loaded_names: set[str] = set()
    global_names: set[str] = set()
    names_of_inner_scopes: set[str] = set()
    globals_of_inner_scopes: set[str] = set()
    for node in _own_nodes(scope):
        loaded_names.update(_loaded_names(node))
        if isinstance(node, ast.Global):
            global_names.update(node.names)
        if isinstance(node, _SCOPE_TYPES):
            inner_reads = _read_scope(node)
            names_of_inner_scopes |= inner_reads.names
            globals_of_inner_scopes |= inner_reads.global_names

    names = local_names(scope)
    if isinstance(scope, ast.ClassDef):
        # Methods do not see the names of their class.
        outer_names = (loaded_names - names) | names_of_inner_scopes
    else:
        outer_names = (loaded_names | names_of_inner_scopes) - names
    return _Reads(
        frozenset(outer_names), frozenset(globals_of_inner_scopes | (loaded_names & global_names))
    )


def local_names(scope: Scope) -> set[str]:
    """Return the names that the body of a function, class or comprehension binds as its own."""
    names = _parameters(scope)
    global_names: set[str] = set()
    for node in _own_nodes(scope):
        names.update(_bound_names(node))
        if isinstance(node, ast.Global):
            global_names.update(node.names)
        if isinstance(node, _COMPREHENSION_TYPES):
            names.update(target.id for target in comprehension_targets(node))
    if isinstance(scope, _COMPREHENSION_TYPES):
        # They belong to the function or the cell around the comprehension.
        names -= {target.id for target in comprehension_targets(scope)}
    return names - global_names


def _own_nodes(scope: Scope) -> Iterator[ast.AST]:
    """Yield the nodes in the body of a scope, without the bodies of scopes in it."""
    nodes = inner_nodes(scope)
    while nodes:
        node = nodes.pop()
        yield node
        nodes += outer_nodes(node) if isinstance(node, _SCOPE_TYPES) else ast.iter_child_nodes(node)


def _loaded_names(node: ast.AST) -> Iterator[str]:
    """Yield the name that a node reads, without those of the nodes in it."""
    match node:
        case ast.Name(id=name, ctx=ast.Load()) | ast.AugAssign(target=ast.Name(id=name)):
            yield name


def _bound_names(node: ast.AST) -> Iterator[str]:
    """Yield the names that a node binds, without those of the nodes in it."""
    match node:
        case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
            yield name
        case ast.Import() | ast.ImportFrom():
            yield from imported_names(node)
        case ast.ExceptHandler(name=str(name)) | ast.MatchMapping(rest=str(name)):
            yield name
        case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
            yield name
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            yield name
        case ast.ClassDef(name=name):
            yield name


def outer_nodes(scope: Scope) -> list[ast.AST]:
    """Return the parts that are computed where a function, class or comprehension stands, with the
    names of that place. Annotations are left out."""
    if isinstance(scope, Comprehension):
        return [scope.generators[0].iter]
    decorators = [] if isinstance(scope, ast.Lambda) else scope.decorator_list
    if isinstance(scope, ast.ClassDef):
        return [*decorators, *scope.bases, *(keyword.value for keyword in scope.keywords)]
    keyword_defaults = [default for default in scope.args.kw_defaults if default is not None]
    return [*decorators, *scope.args.defaults, *keyword_defaults]


def inner_nodes(scope: Scope) -> list[ast.AST]:
    """Return the parts of a function, class or comprehension that see its own names."""
    if isinstance(scope, ast.Lambda):
        return [scope.body]
    if not isinstance(scope, Comprehension):
        return [*scope.body]
    first, *others = scope.generators
    values = [scope.key, scope.value] if isinstance(scope, ast.DictComp) else [scope.elt]
    return [*values, first.target, *first.ifs, *others]


def comprehension_targets(comprehension: Comprehension) -> Iterator[ast.Name]:
    """Yield the targets of `:=` in a comprehension, which are bound where the comprehension
    stands."""
    nodes = inner_nodes(comprehension)
    while nodes:
        node = nodes.pop()
        if isinstance(node, ast.NamedExpr):
            yield node.target
        if not isinstance(node, ast.Lambda):
            nodes += ast.iter_child_nodes(node)


def imported_names(node: ast.Import | ast.ImportFrom) -> Iterator[str]:
    """Yield the names that an import binds; those of `from module import *` are not known."""
    for alias in node.names:
        if alias.name != "*":
            yield alias.asname or alias.name.partition(".")[0]


def _parameters(scope: Scope) -> set[str]:
    """Return the names of a function's parameters; a class or comprehension has none."""
    if not isinstance(scope, _FUNCTION_TYPES):
        return set()
    arguments = scope.args
    parameters = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    parameters += [rest for rest in (arguments.vararg, arguments.kwarg) if rest is not None]
    return {parameter.arg for parameter in parameters}
