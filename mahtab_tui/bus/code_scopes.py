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


class _ScopeNames(NamedTuple):
    """The names in the body of a function, class or comprehension, with those of scopes in it."""

    local_names: frozenset[str]
    """Names that it binds as its own."""
    outer_names: frozenset[str]
    """Names that it reads, and that a scope around it may bind."""
    global_names: frozenset[str]
    """Names that it reads and has declared as global, so that no scope around it binds them."""
    declared_globals: frozenset[str]
    """Names that it has declared as global."""
    walrus_names: frozenset[str]
    """Names that a comprehension binds by `:=` in the function or the cell around it."""


def free_names(scope: Scope) -> frozenset[str]:
    """Return the names that the body of a function, class or comprehension reads from outside,
    whatever the order of its statements."""
    names = _read_scope(scope)
    return names.outer_names | names.global_names


def declared_globals(scope: Scope) -> frozenset[str]:
    """Return the names that a function or class, or functions in it, declare as global."""
    return _read_scope(scope).declared_globals


def local_names(scope: Scope) -> frozenset[str]:
    """Return the names that the body of a function, class or comprehension binds as its own."""
    return _read_scope(scope).local_names


def _read_scope(scope: Scope) -> _ScopeNames:
    loaded_names: set[str] = set()
    bound_names = _parameters(scope)
    own_globals: set[str] = set()
    walrus_names: set[str] = set()
    names_of_inner_scopes: set[str] = set()
    globals_of_inner_scopes: set[str] = set()
    declared_in_inner_scopes: set[str] = set()
    for node in _own_nodes(scope):
        loaded_names.update(_loaded_names(node))
        bound_names.update(_bound_names(node))
        if isinstance(node, ast.Global):
            own_globals.update(node.names)
        elif isinstance(node, ast.NamedExpr):
            walrus_names.add(node.target.id)
        if isinstance(node, _SCOPE_TYPES):
            inner_names = _read_scope(node)
            names_of_inner_scopes |= inner_names.outer_names
            globals_of_inner_scopes |= inner_names.global_names
            declared_in_inner_scopes |= inner_names.declared_globals
            walrus_names |= inner_names.walrus_names

    is_comprehension = isinstance(scope, _COMPREHENSION_TYPES)
    # Those of a comprehension belong to the function or the cell around it.
    bound_names = bound_names - walrus_names if is_comprehension else bound_names | walrus_names
    own_names = bound_names - own_globals
    if isinstance(scope, ast.ClassDef):
        # Methods do not see the names of their class.
        outer_names = (loaded_names - own_names) | names_of_inner_scopes
    else:
        outer_names = (loaded_names | names_of_inner_scopes) - own_names
    return _ScopeNames(
        local_names=frozenset(own_names),
        outer_names=frozenset(outer_names),
        global_names=frozenset(globals_of_inner_scopes | (loaded_names & own_globals)),
        declared_globals=frozenset(own_globals | declared_in_inner_scopes),
        walrus_names=frozenset(walrus_names if is_comprehension else ()),
    )


def _own_nodes(scope: Scope) -> Iterator[ast.AST]:
    """Yield the nodes in the body of a scope, without the bodies of scopes in it, and without
    annotations of variables of a function, which Python does not compute."""
    nodes = inner_nodes(scope)
    while nodes:
        node = nodes.pop()
        yield node
        if isinstance(node, _SCOPE_TYPES):
            nodes += outer_nodes(node)
        elif isinstance(node, ast.AnnAssign) and isinstance(scope, _FUNCTION_TYPES):
            nodes += [node.target] if node.value is None else [node.target, node.value]
        else:
            nodes += ast.iter_child_nodes(node)


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
