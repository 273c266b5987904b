"""Finds the names that functions, classes and comprehensions read from outside.

Python's own `symtable` reads source code, and not a tree of which a part is of interest.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
Scope = Function | ast.ClassDef | Comprehension

# `isinstance` is called for each node, and with a tuple it takes a fraction of the time of a union.
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
    """Return the names in a scope.

    All its statements are read before it is decided which names are its own: a name that is bound
    anywhere in a function is local in all of it.
    """
    loaded_names: set[str] = set()
    bound_names = _parameters(scope)
    global_statement_names: set[str] = set()
    walrus_names: set[str] = set()
    inner_scopes: list[_ScopeNames] = []
    for node in _own_nodes(scope):
        loaded_names.update(_loaded_names(node))
        bound_names.update(_bound_names(node))
        if isinstance(node, ast.Global):
            global_statement_names.update(node.names)
        elif isinstance(node, ast.NamedExpr):
            walrus_names.add(node.target.id)
        if isinstance(node, _SCOPE_TYPES):
            inner_scopes.append(_read_scope(node))
    walrus_names = walrus_names.union(*(inner.walrus_names for inner in inner_scopes))
    inner_outer_names = frozenset().union(*(inner.outer_names for inner in inner_scopes))
    inner_global_names = frozenset().union(*(inner.global_names for inner in inner_scopes))
    inner_declarations = frozenset().union(*(inner.declared_globals for inner in inner_scopes))

    # What `:=` binds in a comprehension belongs to the function or the cell around it.
    is_comprehension = isinstance(scope, _COMPREHENSION_TYPES)
    if is_comprehension:
        bound_names -= walrus_names
    else:
        bound_names |= walrus_names
    own_names = bound_names - global_statement_names
    if isinstance(scope, ast.ClassDef):
        # Methods do not see the names of their class.
        outer_names = (loaded_names - own_names) | inner_outer_names
    else:
        outer_names = (loaded_names | inner_outer_names) - own_names
    return _ScopeNames(
        local_names=frozenset(own_names),
        outer_names=frozenset(outer_names),
        global_names=inner_global_names | (loaded_names & global_statement_names),
        declared_globals=inner_declarations | global_statement_names,
        walrus_names=frozenset(walrus_names if is_comprehension else ()),
    )


def _own_nodes(scope: Scope) -> Iterator[ast.AST]:
    """Yield the nodes in the body of a scope, without the bodies of scopes in it, and without
    annotations of variables of a function, which Python does not compute."""
    pending = inner_nodes(scope)
    while pending:
        node = pending.pop()
        yield node
        if isinstance(node, _SCOPE_TYPES):
            pending += outer_nodes(node)
        elif isinstance(node, ast.AnnAssign) and isinstance(scope, _FUNCTION_TYPES):
            pending.append(node.target)
            if node.value is not None:
                pending.append(node.value)
        else:
            pending += ast.iter_child_nodes(node)


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
    # What the first `for` goes through is computed outside (`outer_nodes`).
    first_for, *further_fors = scope.generators
    values = [scope.key, scope.value] if isinstance(scope, ast.DictComp) else [scope.elt]
    return [*values, first_for.target, *first_for.ifs, *further_fors]


def comprehension_targets(comprehension: Comprehension) -> Iterator[ast.Name]:
    """Yield the targets of `:=` in a comprehension, which are bound where the comprehension
    stands."""
    pending = inner_nodes(comprehension)
    while pending:
        node = pending.pop()
        if isinstance(node, ast.NamedExpr):
            yield node.target
        # A `:=` in a lambda binds a variable of the lambda.
        if not isinstance(node, ast.Lambda):
            pending += ast.iter_child_nodes(node)


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
