"""Finds by reading which variables of the session a cell uses as they were before it ran, and from
which of them it computes what it binds."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

from mahtab_tui.bus.magic_code import MAX_NESTED_MAGICS, keeps_names, session_code
from mahtab_tui.worker.magic.syntax import parse_python, transform

_MAX_CODE_CHARS = 20_000
"""Longer code is not read, because code can be made to take quadratic time."""
MAX_SOURCES = 100
"""Variables from which one value may be computed. With more, they are not known, because each of
very many values could have very many."""


class Definition(NamedTuple):
    """Code that runs when a variable is used: a function, a class or an instance of one."""

    names: frozenset[str]
    """Names that it reads."""
    is_class: bool = False


class Origin(NamedTuple):
    """The variable from before a cell that a variable got its code from."""

    name: str
    is_called: bool
    """Whether calling it made the value, as in ``k = K()``; the value has its code only if it is a
    class."""


@dataclass(frozen=True)
class CodeInputs:
    """The names that a cell uses, and those that it would use through what it defines."""

    names: frozenset[str]
    """Names that the cell reads before it binds them."""
    definitions: Mapping[str, Definition]
    """Functions and classes that the cell defines, and instances of these, by their names."""
    origins: Mapping[str, Origin]
    """Where names that the cell binds got their code from, if that is not in the cell."""
    sources: Mapping[str, Set[str]] = field(default_factory=dict)
    """Names from before the cell that reach the values of other names, also as the condition of a
    statement: by each name that the cell binds, or changes in place as far as its code shows."""
    call_sources: Mapping[str, Set[str]] = field(default_factory=dict)
    """Names from before the cell in the statements with calls that may change what a name stands
    for, by that name."""
    mention_sources: Mapping[str, Set[str]] = field(default_factory=dict)
    """Names from before the cell in the statements that mention a name, by that name."""
    reused_names: frozenset[str] = frozenset()
    """Names that the cell reads after it has bound them, if it has a statement that may print."""


_UNKNOWN = CodeInputs(frozenset(), {}, {})
_NOTHING: frozenset[str] = frozenset()


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
    return CodeInputs(
        frozenset(reader.names),
        reader.definitions,
        reader.origins,
        reader.sources,
        reader.call_sources,
        reader.mention_sources,
        frozenset(reader.reused_names) if reader.may_print else _NOTHING,
    )


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
        self.sources: dict[str, Set[str]] = {}
        """The names from before the cell from which each name has been computed so far."""
        self.mention_sources: defaultdict[str, set[str]] = defaultdict(set)
        self.call_sources: defaultdict[str, set[str]] = defaultdict(set)
        self._statement_targets: set[str] = set()
        """Names that the calls of the current statement may change."""
        self._constants: set[str] = set()
        """Names that stand for numbers, texts and the like, which no call changes."""
        self.reused_names: set[str] = set()
        self.may_print = False
        """Whether a statement is an expression, such as a call."""
        self._old_sources: list[tuple[str, Set[str] | None]] = []
        """Names whose sources have changed, in order, each with its sources before."""
        self._statement_sources: set[str] = set()
        """Names from before the cell that the current statement, and those around it, have read."""
        self._statement_names: set[str] = set()
        """Names that the current statement has read."""
        self._class_sources: set[str] | None = None
        """Names from before the cell that the body of the current class has read; None outside."""
        self._bound: set[str] = set()
        """Names that the statements so far have bound, whatever branch was taken."""
        self._bound_in_order: list[str] = []
        """The bound names in the order of their binding, the newest last."""
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
            self._read_sources(name)
            if name in self.definitions and name not in self._followed_definitions:
                self._followed_definitions.add(name)
                pending_names += self.definitions[name].names

    # What values are computed from

    def _read_sources(self, name: str) -> None:
        """Note what the current statement is computed from, if it reads a name."""
        self._statement_names.add(name)
        if name in self._bound:
            self.reused_names.add(name)
        self._statement_sources |= self._sources_of(name)
        if name in self.definitions:
            self._statement_sources |= self._called_sources(name)

    def _sources_of(self, name: str) -> Set[str]:
        """Return the names from before the cell from which a name has been computed; itself, if it
        may be as before."""
        sources = self.sources.get(name, _NOTHING)
        return sources if name in self._bound else sources | {name}

    def _called_sources(self, name: str) -> set[str]:
        """Return the names from before the cell that a function or class of the cell reads."""
        sources: set[str] = set()
        seen_names = {name}
        pending_names = [name]
        while pending_names and len(seen_names) <= MAX_SOURCES:
            definition = self.definitions.get(pending_names.pop())
            if definition is None:
                continue
            if len(definition.names) > MAX_SOURCES:
                return set()
            for read_name in definition.names - seen_names:
                seen_names.add(read_name)
                pending_names.append(read_name)
                sources |= self._sources_of(read_name)
        return sources if len(seen_names) <= MAX_SOURCES else set()

    def _set_sources(self, name: str, sources: Set[str]) -> None:
        self._old_sources.append((name, self.sources.get(name)))
        self.sources[name] = _limited(sources)

    def _change_in_place(self, target: ast.AST) -> None:
        """Note that a statement may change what a name stands for, as `x[0] = y` and `x.append(y)`
        do."""
        while isinstance(target, ast.Attribute | ast.Subscript | ast.Call | ast.Starred):
            target = target.func if isinstance(target, ast.Call) else target.value
        if isinstance(target, ast.Name):
            self._set_sources(target.id, self._sources_of(target.id) | self._statement_sources)

    @contextmanager
    def _statement(self) -> Iterator[None]:
        """Read a statement, which is reached by what those around it have read so far."""
        outer_sources = self._statement_sources
        outer_names = self._statement_names
        outer_targets = self._statement_targets
        self._statement_targets = set()
        self._statement_sources = set(_limited(outer_sources))
        self._statement_names = set()
        yield
        sources = _limited(self._statement_sources)
        for name in self._statement_names:
            self.mention_sources[name] |= sources
            if len(self.mention_sources[name]) > MAX_SOURCES:
                self.mention_sources[name] = set()
        for name in self._statement_targets - self._constants:
            self.call_sources[name] |= sources
        if self._class_sources is not None:
            self._class_sources |= sources
        self._statement_targets = outer_targets
        self._statement_sources = outer_sources
        self._statement_names = outer_names

    def visit(self, node: ast.AST) -> None:
        if not isinstance(node, ast.stmt):
            super().visit(node)
            return
        with self._statement():
            super().visit(node)

    def visit_Expr(self, node: ast.Expr) -> None:
        self.may_print = True
        self.visit(node.value)
        value = node.value.value if isinstance(node.value, ast.Await) else node.value
        if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
            self._change_in_place(value.func)

    def visit_Delete(self, node: ast.Delete) -> None:
        self.generic_visit(node)
        for target in node.targets:
            if isinstance(target, ast.Attribute | ast.Subscript):
                self._change_in_place(target)

    def _visit_all(self, nodes: Iterable[ast.AST]) -> None:
        for node in nodes:
            self.visit(node)

    def _visit_branches(self, *branches: Iterable[ast.AST]) -> None:
        """Read branches; only one of them runs. What each of them binds is bound after them."""
        names_by_branch: list[set[str]] = []
        sources_by_branch: list[dict[str, Set[str]]] = []
        start = len(self._bound_in_order)
        sources_start = len(self._old_sources)
        for branch in branches:
            self._visit_all(branch)
            names_by_branch.append(set(self._bound_in_order[start:]))
            self._bound.difference_update(self._bound_in_order[start:])
            del self._bound_in_order[start:]
            sources_by_branch.append(self._pop_sources(sources_start))
        self._join_sources(sources_by_branch)
        if any(names_by_branch):
            self._followed_definitions.clear()
        for name in set.intersection(*names_by_branch):
            self._mark_bound(name)

    def _pop_sources(self, start: int) -> dict[str, Set[str]]:
        """Return the sources that have changed since, and take these changes back.

        Args:
            start: How many changes there had been.
        """
        changed_sources = {name: self.sources[name] for name, _ in self._old_sources[start:]}
        for name, old_sources in reversed(self._old_sources[start:]):
            if old_sources is None:
                self.sources.pop(name, None)
            else:
                self.sources[name] = old_sources
        del self._old_sources[start:]
        return changed_sources

    def _join_sources(self, sources_by_branch: Sequence[Mapping[str, Set[str]]]) -> None:
        """Note that any of some branches may have run."""
        names = set().union(*sources_by_branch)
        for name in names:
            before = self.sources.get(name, _NOTHING)
            sources = [branch.get(name, before) for branch in sources_by_branch]
            self._set_sources(name, _NOTHING.union(*sources))

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
            self._note_call_targets(node)
            return
        self._magic_depth += 1
        if keeps_names(node):
            self._visit_all(tree.body)
        else:
            self._visit_optional(tree.body)
        self._magic_depth -= 1

    def _note_call_targets(self, node: ast.Call) -> None:
        """Note that a call may change its receiver and its arguments."""
        arguments = [*node.args, *(keyword.value for keyword in node.keywords)]
        targets = (
            [node.func.value, *arguments] if isinstance(node.func, ast.Attribute) else arguments
        )
        for target in targets:
            while isinstance(target, ast.Attribute | ast.Subscript | ast.Starred):
                target = target.value
            if isinstance(target, ast.Name):
                self._statement_targets.add(target.id)

    # Names

    def visit_Name(self, node: ast.Name) -> None:
        match node.ctx:
            case ast.Load():
                self._read([node.id])
            case ast.Store():
                self._bind(node.id)
            # `del x` does the same whatever x is.

    def _bind(self, name: str) -> None:
        """Note that a name is bound to a value whose code is not known."""
        self._mark_bound(name)
        self._set_sources(name, self._statement_sources)
        self._constants.discard(name)
        self.call_sources.pop(name, None)
        self.definitions.pop(name, None)
        self.origins.pop(name, None)

    def _mark_bound(self, name: str) -> None:
        """Note that a name is bound from here on."""
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
        if len(targets) == 1 and self._assign_each(targets[0], value):
            return
        self.visit(value)
        # The names may be bound anew by the targets, as in `f = f`.
        definition = self._definition_of(value)
        origin = self._origin_of(value)
        self._visit_all(targets)
        for target in targets:
            if not isinstance(target, ast.Name):
                continue
            if isinstance(value, ast.Constant):
                self._constants.add(target.id)
            if definition is not None:
                self._define(target.id, definition)
            elif origin is not None:
                self.origins[target.id] = origin

    def _assign_each(self, target: ast.expr, value: ast.expr) -> bool:
        """Read `a, b = x, y`, where each name is computed from its own value.

        Returns:
            False for any other assignment, of which nothing has been read.
        """
        if not isinstance(target, ast.Tuple) or not isinstance(value, ast.Tuple):
            return False
        has_only_names = all(isinstance(name, ast.Name) for name in target.elts)
        has_starred = any(isinstance(item, ast.Starred) for item in value.elts)
        if not has_only_names or has_starred or len(target.elts) != len(value.elts):
            return False
        outer_sources = self._statement_sources
        sources_by_item: list[set[str]] = []
        for item in value.elts:
            self._statement_sources = set(outer_sources)
            self.visit(item)
            sources_by_item.append(self._statement_sources)
        for name, sources in zip(target.elts, sources_by_item, strict=True):
            self._statement_sources = sources
            self.visit(name)
        self._statement_sources = outer_sources.union(*sources_by_item)
        return True

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

    def visit_Subscript(self, node: ast.Subscript | ast.Attribute) -> None:
        self.generic_visit(node)
        if isinstance(node.ctx, ast.Store):
            self._change_in_place(node)

    visit_Attribute = visit_Subscript

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
        outer_class_sources = self._class_sources
        self._class_sources = set()
        sources_start = len(self._old_sources)
        self._visit_optional(node.body)
        self._pop_sources(sources_start)
        self._statement_sources |= self._class_sources
        self._class_sources = outer_class_sources
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

    def _visit_comprehension(self, node: _Comprehension) -> None:
        self._visit_expression_scope(node)
        for part in _inner_nodes(node):
            for inner_node in ast.walk(part):
                if isinstance(inner_node, ast.Call):
                    self._note_call_targets(inner_node)

    visit_ListComp = _visit_comprehension
    visit_SetComp = _visit_comprehension
    visit_DictComp = _visit_comprehension
    visit_GeneratorExp = _visit_comprehension


def _limited(sources: Set[str]) -> Set[str]:
    """Return the names from which a value is computed; none if they are too many to be known."""
    return frozenset(sources) if len(sources) <= MAX_SOURCES else _NOTHING


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
