"""Finds by reading which variables of the session a cell uses as they were before it ran."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from mahtab_tui.bus.magic_code import MAX_NESTED_MAGICS, keeps_names, session_code
from mahtab_tui.worker.magic.syntax import parse_python, transform

_MAX_CODE_CHARS = 20_000
"""Longer code is not read, because code can be made to take quadratic time."""


class Definition(NamedTuple):
    """Code that runs when a variable is used: a function, a class or an instance of one."""

    names: frozenset[str]
    """Names that it reads."""
    is_class: bool = False


class Origin(NamedTuple):
    """The variable from before a cell that a variable got its code from."""

    name: str
    is_called: bool
    """Whether its call made the value, as in ``k = K()``, which tells only if it is a class."""


@dataclass(frozen=True)
class CodeInputs:
    """The names that a cell uses, and those that it would use through what it defines."""

    names: frozenset[str]
    """Names that the cell reads before it binds them."""
    definitions: Mapping[str, Definition]
    """Functions and classes that the cell defines, and instances of these, by their names."""
    origins: Mapping[str, Origin]
    """Where names that the cell binds got their code from, if that is not in the cell."""


_UNKNOWN = CodeInputs(frozenset(), {}, {})


def find_inputs(code: str) -> CodeInputs:
    """Return the names that code reads from the namespace; none if it cannot be read.

    What only shows when the code runs is not found, such as names in texts for `eval`, or those
    that a function in a list reads.
    """
    if len(code) > _MAX_CODE_CHARS:
        return _UNKNOWN
    tree = parse_python(transform(code))
    if tree is None:
        return _UNKNOWN
    reader = _CellReader()
    try:
        reader.visit(tree)
    except RecursionError:
        return _UNKNOWN
    return CodeInputs(frozenset(reader.names), reader.definitions, reader.origins)


_Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
_Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
_Scope = _Function | ast.ClassDef | _Comprehension
# Each node is checked, and a tuple takes a fraction of the time of a union.
_SCOPE_TYPES = (
    ast.FunctionDef,
    ast.AsyncFunctionDef,
    ast.Lambda,
    ast.ClassDef,
    ast.ListComp,
    ast.SetComp,
    ast.DictComp,
    ast.GeneratorExp,
)


class _CellReader(ast.NodeVisitor):
    """Reads the statements of a cell in the order in which they run."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.definitions: dict[str, Definition] = {}
        self.origins: dict[str, Origin] = {}
        self._bound: set[str] = set()
        """Names that the statements so far have bound, whatever branch was taken."""
        self._bound_in_order: list[str] = []
        """The same names, the newest last."""
        self._followed_definitions: set[str] = set()
        """Functions and classes whose names have been read, and would be the same again."""
        self._read_by_methods: set[str] = set()
        """Names that the functions defined so far read; in a class, only those of its methods."""
        self._magic_depth = 0
        """How many magic commands contain the code that is being read."""

    def _read(self, names: Iterable[str]) -> None:
        """Note that code reads names, and what functions among them read."""
        pending_names = list(names)
        while pending_names:
            name = pending_names.pop()
            if name not in self._bound:
                self.names.add(name)
            if name in self.definitions and name not in self._followed_definitions:
                self._followed_definitions.add(name)
                pending_names += self.definitions[name].names

    def _visit_all(self, nodes: Iterable[ast.AST]) -> None:
        for node in nodes:
            self.visit(node)

    def _visit_branches(self, *branches: Iterable[ast.AST]) -> None:
        """Read branches of which one runs. What each of them binds is bound after them."""
        names_by_branch: list[set[str]] = []
        start = len(self._bound_in_order)
        for branch in branches:
            self._visit_all(branch)
            names_by_branch.append(set(self._bound_in_order[start:]))
            self._bound.difference_update(self._bound_in_order[start:])
            del self._bound_in_order[start:]
        if any(names_by_branch):
            self._followed_definitions.clear()
        for name in set.intersection(*names_by_branch):
            self._mark_bound(name)

    def _visit_optional(self, nodes: Iterable[ast.AST]) -> None:
        """Read statements that may not run."""
        self._visit_branches(nodes, ())

    # Magic commands

    def visit_Call(self, node: ast.Call) -> None:
        code = session_code(node)
        tree = None
        if code and self._magic_depth < MAX_NESTED_MAGICS:
            tree = parse_python(transform(code))
        if tree is None:
            self.generic_visit(node)
            return
        self._magic_depth += 1
        if keeps_names(node):
            self._visit_all(tree.body)
        else:
            self._visit_optional(tree.body)
        self._magic_depth -= 1

    # Names

    def visit_Name(self, node: ast.Name) -> None:
        match node.ctx:
            case ast.Load():
                self._read([node.id])
            case ast.Store():
                self._bind(node.id)
            # `del x` does the same whatever x is.

    def _bind(self, name: str) -> None:
        self._mark_bound(name)
        self.definitions.pop(name, None)
        self.origins.pop(name, None)

    def _mark_bound(self, name: str) -> None:
        if name not in self._bound:
            self._bound.add(name)
            self._bound_in_order.append(name)

    def _define(self, name: str, definition: Definition) -> None:
        """Note a function, class or instance."""
        self._bind(name)
        self.definitions[name] = definition
        self._read_by_methods |= definition.names
        self._followed_definitions.clear()

    def visit_Import(self, node: ast.Import | ast.ImportFrom) -> None:
        for alias in node.names:
            self._bind(_imported_name(alias))

    visit_ImportFrom = visit_Import

    # Statements that read before they bind

    def visit_Assign(self, node: ast.Assign) -> None:
        self._assign(node.targets, node.value)

    def _assign(self, targets: Sequence[ast.expr], value: ast.expr) -> None:
        self.visit(value)
        # The names may be bound anew by the targets, as in `f = f`.
        definition = self._definition_of(value)
        origin = self._origin_of(value)
        self._visit_all(targets)
        for target in targets:
            if not isinstance(target, ast.Name):
                continue
            if definition is not None:
                self._define(target.id, definition)
            elif origin is not None:
                self.origins[target.id] = origin

    def _definition_of(self, value: ast.expr) -> Definition | None:
        """Return the code of a value that the cell has defined: that of a function or class, under
        whatever name, or of an instance."""
        match value:
            case ast.Lambda():
                return Definition(free_names(value))
            case ast.Name(id=name):
                return self.definitions.get(name)
            case ast.Call(func=ast.Name(id=name)):
                called = self.definitions.get(name)
                if called is not None and called.is_class:
                    return instance_of(name, called)
        return None

    def _origin_of(self, value: ast.expr) -> Origin | None:
        """Return the variable from before the cell that a value got its code from, if it has any."""
        match value:
            case ast.Name(id=name):
                is_called = False
            case ast.Call(func=ast.Name(id=name)):
                is_called = True
            case _:
                return None
        if name not in self._bound:
            return Origin(name, is_called)
        earlier_origin = self.origins.get(name)
        return None if is_called else earlier_origin

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self._assign([node.target], node.value)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self.visit(node.value)
        if isinstance(node.target, ast.Name):
            self._read([node.target.id])
        self.visit(node.target)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        self.visit(node.value)
        self.visit(node.target)

    # Statements whose parts may not run

    def visit_If(self, node: ast.If) -> None:
        self.visit(node.test)
        self._visit_branches(node.body, node.orelse)

    def visit_For(self, node: ast.For | ast.AsyncFor) -> None:
        self.visit(node.iter)
        self._visit_optional([node.target, *node.body])
        self._visit_optional(node.orelse)

    visit_AsyncFor = visit_For

    def visit_While(self, node: ast.While) -> None:
        self.visit(node.test)
        self._visit_optional(node.body)
        self._visit_optional(node.orelse)

    def visit_Try(self, node: ast.Try | ast.TryStar) -> None:
        handlers = [[handler] for handler in node.handlers]
        self._visit_branches([*node.body, *node.orelse], *handlers)
        self._visit_all(node.finalbody)

    visit_TryStar = visit_Try

    def visit_Match(self, node: ast.Match) -> None:
        self.visit(node.subject)
        for case in node.cases:
            self._visit_optional([case])

    def visit_MatchAs(self, node: ast.MatchAs | ast.MatchStar) -> None:
        self.generic_visit(node)
        if node.name is not None:
            self._bind(node.name)

    visit_MatchStar = visit_MatchAs

    def visit_MatchMapping(self, node: ast.MatchMapping) -> None:
        self.generic_visit(node)
        if node.rest is not None:
            self._bind(node.rest)

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        if node.type is not None:
            self.visit(node.type)
        if node.name is not None:
            self._bind(node.name)
        self._visit_all(node.body)

    # Code with names of its own

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self._visit_all(_outer_nodes(node))
        self._define(node.name, Definition(free_names(node)))

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._visit_all(_outer_nodes(node))
        # The body runs now, but the names that it binds are those of the class.
        definitions_outside = dict(self.definitions)
        origins_outside = dict(self.origins)
        read_outside = self._read_by_methods
        self._read_by_methods = set()
        self._visit_optional(node.body)
        # Inherited methods are found through the bases.
        base_names = {base.id for base in node.bases if isinstance(base, ast.Name)}
        read_by_methods = frozenset(self._read_by_methods | base_names)
        self.definitions = definitions_outside
        self.origins = origins_outside
        self._read_by_methods = read_outside
        self._define(node.name, Definition(read_by_methods, is_class=True))

    def _visit_expression_scope(self, node: ast.Lambda | _Comprehension) -> None:
        self._visit_all(_outer_nodes(node))
        self._read(free_names(node))

    visit_Lambda = _visit_expression_scope
    visit_ListComp = _visit_expression_scope
    visit_SetComp = _visit_expression_scope
    visit_DictComp = _visit_expression_scope
    visit_GeneratorExp = _visit_expression_scope


def instance_of(name: str, definition: Definition) -> Definition:
    """Return the code of an instance. It also reads its class, which has attributes for it."""
    return Definition(definition.names | {name})


def free_names(scope: _Scope) -> frozenset[str]:
    """Return the names that the body of a function, class or comprehension reads from outside,
    whatever the order of its statements."""
    loaded: set[str] = set()
    loaded_by_inner_scopes: set[str] = set()
    stored = _parameters(scope)
    global_names: set[str] = set()
    nodes = _inner_nodes(scope)
    while nodes:
        node = nodes.pop()
        match node:
            case ast.Name(id=name, ctx=ast.Load()):
                loaded.add(name)
            case ast.Name(id=name):
                stored.add(name)
            case ast.AugAssign(target=ast.Name(id=name)):
                loaded.add(name)
            case ast.Global(names=names):
                global_names.update(names)
            case ast.Import() | ast.ImportFrom():
                stored.update(map(_imported_name, node.names))
            case ast.ExceptHandler(name=str(name)) | ast.MatchMapping(rest=str(name)):
                stored.add(name)
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                stored.add(name)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                stored.add(name)
            case ast.ClassDef(name=name):
                stored.add(name)
        if isinstance(node, _SCOPE_TYPES):
            loaded_by_inner_scopes |= free_names(node)
            nodes += _outer_nodes(node)
        else:
            nodes += ast.iter_child_nodes(node)

    local_names = stored - global_names
    if isinstance(scope, ast.ClassDef):
        # Methods do not see the names of their class.
        return frozenset((loaded - local_names) | loaded_by_inner_scopes)
    return frozenset((loaded | loaded_by_inner_scopes) - local_names)


def _outer_nodes(scope: _Scope) -> list[ast.AST]:
    """Return the parts that are computed where a function, class or comprehension stands, with the
    names that are known there. Annotations are left out."""
    if isinstance(scope, _Comprehension):
        return [scope.generators[0].iter]
    decorators = [] if isinstance(scope, ast.Lambda) else scope.decorator_list
    if isinstance(scope, ast.ClassDef):
        return [*decorators, *scope.bases, *(keyword.value for keyword in scope.keywords)]
    keyword_defaults = [default for default in scope.args.kw_defaults if default is not None]
    return [*decorators, *scope.args.defaults, *keyword_defaults]


def _inner_nodes(scope: _Scope) -> list[ast.AST]:
    """Return the parts of a function, class or comprehension that see its own names."""
    if isinstance(scope, ast.Lambda):
        return [scope.body]
    if not isinstance(scope, _Comprehension):
        return [*scope.body]
    first, *others = scope.generators
    values = [scope.key, scope.value] if isinstance(scope, ast.DictComp) else [scope.elt]
    return [*values, first.target, *first.ifs, *others]


def _parameters(scope: _Scope) -> set[str]:
    """Return the names of a function's parameters; of others, nothing."""
    if not isinstance(scope, _Function):
        return set()
    arguments = scope.args
    parameters = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    parameters += [rest for rest in (arguments.vararg, arguments.kwarg) if rest is not None]
    return {parameter.arg for parameter in parameters}


def _imported_name(alias: ast.alias) -> str:
    """Return the name that an import binds."""
    return alias.asname or alias.name.partition(".")[0]
