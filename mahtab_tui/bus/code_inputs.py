"""Finds which variables from before a cell it uses, and from which of these each result is computed.

The code is only read, never run, in the order in which its statements would run. `code_flow` has what
is known about its names at one point. `staleness` asks this of every cell.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, field

from mahtab_tui.bus.code_expressions import (
    assigned_pairs,
    call_targets,
    is_suppressing,
    is_unchangeable,
)
from mahtab_tui.bus.code_flow import (
    Definition,
    Flow,
    FollowedDefinition,
    Origin,
    join_flows,
    known_sources,
    limit_sources,
)
from mahtab_tui.bus.code_scopes import (
    Comprehension,
    comprehension_targets,
    declared_globals,
    free_names,
    imported_names,
    inner_nodes,
    local_names,
    outer_nodes,
)
from mahtab_tui.bus.magic_calls import keeps_names, session_code
from mahtab_tui.bus.magic_code import MAX_NESTED_MAGICS
from mahtab_tui.worker.magic.syntax import parse_python, transform

_MAX_LOOP_READS = 5
"""How often a loop is read, unless nothing new shows before. The loops in it are read as often."""
_MAX_CODE_CHARS = 20_000
"""Longer code is not read."""
_MAX_NAMES_READ = 1_000_000
"""Names that the reader looks at for one cell, because code can be made to take quadratic time."""
_NO_NAMES: frozenset[str] = frozenset()


class _TooManyNamesError(Exception):
    """The code takes too long to be read."""


@dataclass(frozen=True)
class CodeInputs:
    """The names that a cell uses, and those that it would use through what it defines."""

    names: frozenset[str] = _NO_NAMES
    """Names that the cell reads before it binds them."""
    definitions: Mapping[str, Definition] = field(default_factory=dict)
    """Functions and classes that the cell defines, and instances of these, by their names."""
    origins: Mapping[str, Origin] = field(default_factory=dict)
    """Where names that the cell binds got their code from, if that is not in the cell."""
    sources: Mapping[str, Set[str]] = field(default_factory=dict)
    """For each name that the cell binds or visibly changes in place: the names from before the cell that
    its value depends on, also those in the conditions of the statements around it."""
    call_sources: Mapping[str, Set[str]] = field(default_factory=dict)
    """For each name in a call that may change its value: the names from before the cell in the
    statement of that call."""
    mention_sources: Mapping[str, Set[str]] = field(default_factory=dict)
    """For each name that the cell reads: the names from before the cell in the statements that read
    it."""
    reused_names: frozenset[str] = _NO_NAMES
    """Names that the cell reads after it has bound them, if it has a statement that may print."""


def find_inputs(code: str) -> CodeInputs:
    """Find the names that code reads from the namespace, and what it computes from them.

    The body of a function counts where the function is used, that of a `lambda` also where it
    stands. What only shows when the code runs is not found, such as names in texts for `eval`, names
    that a function in a list reads, or names of `from module import *`. Annotations of variables are
    not read, but for those of a class in a function.

    Returns:
        The inputs; none if the code is too long, too deep or not valid.
    """
    if len(code) > _MAX_CODE_CHARS:
        return CodeInputs()
    tree = parse_python(transform(code))
    if tree is None:
        return CodeInputs()
    reader = _CellReader()
    try:
        reader.visit(tree)
    except (RecursionError, _TooManyNamesError):
        return CodeInputs()
    return CodeInputs(
        names=frozenset(reader.read_names),
        definitions=reader.flow.definitions,
        origins=reader.flow.origins,
        sources=known_sources(reader.flow.sources),
        call_sources=known_sources(reader.flow.call_sources),
        mention_sources=known_sources(reader.mention_sources),
        reused_names=frozenset(reader.reused_names) if reader.may_print else _NO_NAMES,
    )


@dataclass
class _Statement:
    """What a statement has read so far."""

    sources: set[str] = field(default_factory=set)
    """Names from before the cell that it, and those around it, have read."""
    names: set[str] = field(default_factory=set)
    """Names that it has read."""
    call_targets: set[str] = field(default_factory=set)
    """Names that its calls may change."""


@dataclass
class _Loop:
    """A loop that is being read."""

    node: ast.stmt | None
    """None for the code outside of all loops."""
    exit_flows: list[Flow] = field(default_factory=list)
    """What is known at each of its `break` and `continue` in the current round."""
    fallible_sources: list[set[str]] = field(default_factory=list)
    """Names from before the cell that each body of `try` and `with suppress(...)` around the reader
    has read so far, of those in the loop."""


class _CellReader(ast.NodeVisitor):
    """Reads the statements of a cell in the order in which they run."""

    def __init__(self) -> None:
        self.flow = Flow()
        """What is known where the reader is."""
        self.read_names: set[str] = set()
        """Names that were read before they were bound."""
        self.reused_names: set[str] = set()
        """Names that were read after they were bound."""
        self.mention_sources: dict[str, frozenset[str]] = {}
        """The names from before the cell in the statements that read a name, by that name."""
        self.may_print = False
        """Whether a statement is an expression, such as a call."""
        self._statement = _Statement()
        """The statement that is being read."""
        self._block_sources: set[str] | None = None
        """Names from before the cell that the statements of the current class, `try` or
        `with suppress(...)` have read; None outside."""
        self._remaining_names = _MAX_NAMES_READ
        """How many names may still be looked at."""
        self._names_read_by_methods: set[str] = set()
        """Names that the functions defined so far read; in a class, only those of its methods."""
        self._loop = _Loop(None)
        """The innermost loop around the reader."""
        self._exit_sources: defaultdict[ast.stmt, set[str]] = defaultdict(set)
        """Names from before the cell that decide whether a round of a loop goes on, by the loop."""
        self._exit_source_count = 0
        """The number of names in `_exit_sources`, over all loops."""
        self._magic_depth = 0
        """How many magic commands contain the code that is being read."""

    # Statements

    def visit(self, node: ast.AST) -> None:
        if not isinstance(node, ast.stmt):
            super().visit(node)
            return
        with self._reading_statement():
            super().visit(node)

    @contextmanager
    def _reading_statement(self) -> Iterator[None]:
        """Read a statement, which is reached by what those around it have read so far."""
        outer_statement = self._statement
        statement = _Statement(set(limit_sources(outer_statement.sources)))
        self._statement = statement
        yield
        sources = limit_sources(statement.sources)
        name_count = len(statement.names) + len(statement.call_targets)
        self._spend_names(name_count * (1 + len(sources)))
        for name in statement.names:
            mention_sources = self.mention_sources.get(name, _NO_NAMES)
            if not sources <= mention_sources:
                self.mention_sources[name] = limit_sources(mention_sources | sources)
        for name in statement.call_targets - self.flow.unchangeable_names:
            call_sources = self.flow.call_sources.get(name, _NO_NAMES)
            self.flow.call_sources[name] = limit_sources(call_sources | sources)
        if self._block_sources is not None:
            self._block_sources |= sources
        self._statement = outer_statement

    @contextmanager
    def _block(self) -> Iterator[set[str]]:
        """Collect the names from before the cell that statements read."""
        outer_sources = self._block_sources
        block_sources: set[str] = set()
        self._block_sources = block_sources
        yield block_sources
        self._block_sources = outer_sources
        if outer_sources is not None:
            outer_sources |= block_sources

    def _visit_all(self, nodes: Iterable[ast.AST]) -> None:
        for node in nodes:
            self.visit(node)

    def _visit_branches(self, *branches: Iterable[ast.AST]) -> None:
        """Read branches, of which one runs."""
        start = self.flow
        flows: list[Flow] = []
        for branch in branches:
            self.flow = self._copy_flow(start)
            self._visit_all(branch)
            flows.append(self.flow)
        self.flow = self._join(flows)

    def _join(self, flows: Sequence[Flow]) -> Flow:
        """Return what is known after branches, of which any may have run."""
        self._spend_names(sum(flow.count_names() for flow in flows))
        return join_flows(flows)

    def _copy_flow(self, flow: Flow) -> Flow:
        self._spend_names(flow.count_names())
        return flow.copy()

    def _spend_names(self, count: int) -> None:
        """Note that names are looked at. Raises `_TooManyNamesError`."""
        self._remaining_names -= count
        if self._remaining_names < 0:
            raise _TooManyNamesError

    def _visit_optional(self, nodes: Iterable[ast.AST]) -> None:
        """Read statements that may not run."""
        self._visit_branches(nodes, ())

    # Names that are read

    def visit_Name(self, node: ast.Name) -> None:
        match node.ctx:
            case ast.Load():
                self._read([node.id])
            case ast.Store():
                self._bind(node.id)
            # `del x` does the same whatever x is.

    def _read(self, names: Iterable[str]) -> None:
        """Note that code reads names, and what functions among them read and bind."""
        pending_names = list(names)
        seen_names = set(pending_names)
        while pending_names:
            name = pending_names.pop()
            self._statement.names.add(name)
            if name in self.flow.bound_names:
                self.reused_names.add(name)
            else:
                self.read_names.add(name)
            sources = self.flow.sources_of(name)
            self._spend_names(1 + len(sources))
            self._statement.sources |= sources
            definition = self.flow.definitions.get(name)
            if definition is None:
                continue
            is_new = name not in self.flow.followed_definitions
            followed = self._follow(name)
            self._statement.sources |= followed.sources
            self._statement.names |= followed.global_names
            self._spend_names(len(followed.sources) + len(followed.global_names))
            if is_new:
                pending_names += definition.names - seen_names
                seen_names |= definition.names

    def _follow(self, name: str) -> FollowedDefinition:
        """Return what a function or class does when it is used."""
        followed = self.flow.followed_definitions.get(name)
        if followed is None:
            followed = self.flow.follow_definition(name)
            self._spend_names(followed.name_count)
            self.flow.followed_definitions[name] = followed
        return followed

    # Names that are bound

    def _bind(self, name: str) -> None:
        """Note that a name is bound to a value whose code is not known."""
        self._spend_names(1 + len(self._statement.sources))
        self.flow.bind(name, self._statement.sources)

    def _define(self, name: str, definition: Definition) -> None:
        """Note a function, class or instance."""
        self._bind(name)
        self.flow.definitions[name] = definition
        self._names_read_by_methods |= definition.names

    def visit_Import(self, node: ast.Import | ast.ImportFrom) -> None:
        for name in imported_names(node):
            self._bind(name)
            if isinstance(node, ast.Import):
                self.flow.namespace_names.add(name)
            else:  # mostly functions
                self.flow.unchangeable_names.add(name)

    visit_ImportFrom = visit_Import

    def visit_Assign(self, node: ast.Assign) -> None:
        self._assign(node.targets, node.value)

    def _assign(self, targets: Sequence[ast.expr], value: ast.expr) -> None:
        pairs = assigned_pairs(targets, value)
        if pairs:
            self._assign_pairs(pairs)
            return
        self.visit(value)
        # The names may be bound anew by the targets, as in `f = f`.
        definition = self._definition_of(value)
        origin = self._origin_of(value)
        self._visit_all(targets)
        for target in targets:
            if not isinstance(target, ast.Name):
                continue
            if is_unchangeable(value):
                self.flow.unchangeable_names.add(target.id)
            if definition is not None:
                self._define(target.id, definition)
            elif origin is not None:
                self.flow.origins[target.id] = origin

    def _assign_pairs(self, pairs: Sequence[tuple[ast.Name, ast.expr]]) -> None:
        """Read `a, b = x, y`, where each name is computed from its own value."""
        outer_sources = self._statement.sources
        sources_by_pair: list[set[str]] = []
        for _, value in pairs:
            self._statement.sources = set(outer_sources)
            self.visit(value)
            sources_by_pair.append(self._statement.sources)
        for (name, value), sources in zip(pairs, sources_by_pair, strict=True):
            self._statement.sources = sources
            self.visit(name)
            if is_unchangeable(value):
                self.flow.unchangeable_names.add(name.id)
        self._statement.sources = outer_sources.union(*sources_by_pair)

    def _definition_of(self, value: ast.expr) -> Definition | None:
        """Return the code of a value that the cell has defined: that of a function or class, under
        whatever name, or of an instance."""
        match value:
            case ast.Lambda():
                return Definition(free_names(value))
            case ast.Name(id=name):
                return self.flow.definitions.get(name)
            case ast.Call(func=ast.Name(id=name)):
                called = self.flow.definitions.get(name)
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
        if name not in self.flow.bound_names:
            return Origin(name, is_called)
        return None if is_called else self.flow.origins.get(name)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self._assign([node.target], node.value)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        if isinstance(node.target, ast.Name):
            self._read([node.target.id])
        self.visit(node.value)
        self.visit(node.target)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        self.visit(node.value)
        self.visit(node.target)
        if is_unchangeable(node.value):
            self.flow.unchangeable_names.add(node.target.id)

    # Values that are changed in place

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

    def visit_Subscript(self, node: ast.Subscript | ast.Attribute) -> None:
        self.generic_visit(node)
        if isinstance(node.ctx, ast.Store):
            self._change_in_place(node)

    visit_Attribute = visit_Subscript

    def _change_in_place(self, target: ast.expr) -> None:
        """Note that a statement may change what a name stands for, as `x[0] = y` and `x.append(y)`
        do."""
        while isinstance(target, ast.Attribute | ast.Subscript | ast.Call | ast.Starred):
            target = target.func if isinstance(target, ast.Call) else target.value
        if isinstance(target, ast.Name):
            self._spend_names(1 + len(self._statement.sources))
            self.flow.change(target.id, self._statement.sources)

    def visit_Call(self, node: ast.Call) -> None:
        code = session_code(node)
        tree = None
        if code and self._magic_depth < MAX_NESTED_MAGICS:
            tree = parse_python(transform(code))
        if tree is None:
            self.generic_visit(node)
            self._statement.call_targets.update(call_targets(node, self.flow.namespace_names))
            return
        self._magic_depth += 1
        if keeps_names(node):
            self._visit_all(tree.body)
        else:
            self._visit_optional(tree.body)
        self._magic_depth -= 1

    # Statements whose parts may not run

    def visit_If(self, node: ast.If) -> None:
        self.visit(node.test)
        self._visit_branches(node.body, node.orelse)

    def visit_For(self, node: ast.For | ast.AsyncFor) -> None:
        self.visit(node.iter)
        self._visit_loop(node, [node.target, *node.body])
        self._visit_optional(node.orelse)

    visit_AsyncFor = visit_For

    def visit_While(self, node: ast.While) -> None:
        self.visit(node.test)
        self._visit_loop(node, [*node.body, node.test])
        self._visit_optional(node.orelse)

    def _visit_loop(self, loop: ast.stmt, nodes: Sequence[ast.AST]) -> None:
        """Read statements that may run several times, and then read what they have bound."""
        outer_loop = self._loop
        self._loop = _Loop(loop)
        self._statement.sources |= self._exit_sources[loop]
        for _ in range(_MAX_LOOP_READS if outer_loop.node is None else 1):
            start = self.flow
            exit_source_count = self._exit_source_count
            self.flow = self._copy_flow(start)
            self._loop.exit_flows = []
            self._visit_all(nodes)
            self.flow = self._join([start, self.flow, *self._loop.exit_flows])
            # What a round computes depends on whether it goes on, and whether an earlier one did.
            self._statement.sources |= self._exit_sources[loop]
            has_new_exit_sources = self._exit_source_count > exit_source_count
            if self.flow.sources == start.sources and not has_new_exit_sources:
                break
        self._loop = outer_loop

    def visit_Break(self, node: ast.Break | ast.Continue) -> None:
        loop = self._loop
        if loop.node is None:
            return
        # An error before it, in the bodies around it, would have skipped it.
        sources = self._statement.sources.union(*map(limit_sources, loop.fallible_sources))
        self._spend_names(len(sources))
        new_sources = sources - self._exit_sources[loop.node]
        self._exit_sources[loop.node] |= new_sources
        self._exit_source_count += len(new_sources)
        loop.exit_flows.append(self._copy_flow(self.flow))

    visit_Continue = visit_Break

    def visit_With(self, node: ast.With | ast.AsyncWith) -> None:
        self._visit_all(node.items)
        if any(is_suppressing(item.context_expr) for item in node.items):
            flow_at_error, _ = self._visit_fallible_body(node.body)
            self.flow = self._join([self.flow, flow_at_error])
        else:
            self._visit_all(node.body)

    visit_AsyncWith = visit_With

    def visit_Try(self, node: ast.Try | ast.TryStar) -> None:
        if not node.handlers:
            self._visit_all([*node.body, *node.orelse, *node.finalbody])
            return
        flow_at_error, body_sources = self._visit_fallible_body(node.body)
        outer_sources = self._statement.sources
        # What the body has read decides whether there is an error.
        self._statement.sources = outer_sources | body_sources
        self._visit_all(node.orelse)
        flows = [self.flow]
        for handler in node.handlers:
            self.flow = self._copy_flow(flow_at_error)
            self.visit(handler)
            flows.append(self.flow)
        handler_sources = self._statement.sources
        self.flow = self._join(flows)
        # It runs whether there is an error or not.
        self._statement.sources = outer_sources
        self._visit_all(node.finalbody)
        self._statement.sources = outer_sources | handler_sources

    visit_TryStar = visit_Try

    def _visit_fallible_body(self, statements: Iterable[ast.stmt]) -> tuple[Flow, set[str]]:
        """Read statements of which any may end with an error after which the cell goes on.

        Returns:
            What is known after the error, and the names from before the cell that the statements
            have read.
        """
        flow_at_error = self._copy_flow(self.flow)
        with self._block() as body_sources:
            self._loop.fallible_sources.append(body_sources)
            for statement in statements:
                self.visit(statement)
                flow_at_error = self._join([flow_at_error, self.flow])
            self._loop.fallible_sources.pop()
        return flow_at_error, body_sources

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
        self._visit_all(outer_nodes(node))
        definition = Definition(free_names(node), global_names=declared_globals(node))
        self._define(node.name, definition)
        self.flow.unchangeable_names.add(node.name)

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._visit_all(outer_nodes(node))
        outer_read_names = self._names_read_by_methods
        self._names_read_by_methods = set()
        with self._block() as body_sources:
            self._visit_class_body(node)
        # Inherited methods are found through the bases.
        base_names = {base.id for base in node.bases if isinstance(base, ast.Name)}
        names = frozenset(self._names_read_by_methods | base_names)
        definition = Definition(names, is_class=True, global_names=declared_globals(node))
        self._statement.sources |= body_sources
        self._names_read_by_methods = outer_read_names
        self._define(node.name, definition)
        self.flow.namespace_names.add(node.name)

    def _visit_class_body(self, node: ast.ClassDef) -> None:
        """Read the statements of a class, which run now.

        They bind names of the class only, but may change values of the cell's variables in place.
        """
        outer_flow = self.flow
        self.flow = self._copy_flow(outer_flow)
        self._visit_all(node.body)
        changed_names = self.flow.sources.keys() | self.flow.call_sources.keys()
        for name in changed_names - local_names(node):
            if name in self.flow.sources:
                outer_flow.sources[name] = self.flow.sources[name]
            if name in self.flow.call_sources:
                outer_flow.call_sources[name] = self.flow.call_sources[name]
        self.flow = outer_flow
        outer_flow.followed_definitions.clear()

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self._visit_all(outer_nodes(node))
        self._read(free_names(node))

    def _visit_comprehension(self, node: Comprehension) -> None:
        self._visit_all(outer_nodes(node))
        self._read(free_names(node))
        for part in inner_nodes(node):
            for inner_node in ast.walk(part):
                if isinstance(inner_node, ast.Call):
                    targets = call_targets(inner_node, self.flow.namespace_names)
                    self._statement.call_targets.update(targets)
        # There may be no item for which they are bound.
        self._visit_optional(comprehension_targets(node))

    visit_ListComp = _visit_comprehension
    visit_SetComp = _visit_comprehension
    visit_DictComp = _visit_comprehension
    visit_GeneratorExp = _visit_comprehension


def instance_of(name: str, definition: Definition) -> Definition:
    """Return the code of an instance of a class. An instance also finds attributes in its class, so
    its code reads the name of the class.

    Args:
        name: The name of the class.
        definition: The code of the class.
    """
    return Definition(definition.names | {name}, global_names=definition.global_names)
