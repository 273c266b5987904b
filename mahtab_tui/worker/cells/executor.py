"""Runs cells in a namespace, and notes what they change: in the kernel itself, or in a fork that reports
what it has made.

`worker.Worker` calls the `Executor` for each cell, and so does the kernel in the user's own process.
"""

from __future__ import annotations

import ast
import builtins
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from ..link.interrupts import Interrupts
from ..magic import syntax
from ..magic.cell_history import CellHistory
from ..magic.dispatch import install_magics
from ..magic.state import Reloading
from ..stdlib import own_module
from ..tools.text_tools import forget_short_texts, text_form
from .attribution import CellAttribution
from .awaiting import EventLoop
from .cell_code import CellCompiler, CompiledCell, evaluate
from .compiling import NotCompiledError, cache_source, executed_part
from .console import CellExit
from .outcomes import (
    ForkReport,
    Outcome,
    Piece,
    failed_outcome,
    interrupted_outcome,
    make_outcome,
)
from .tracebacks import Traceback, cell_filename, describe_safely, syntax_error
from .tracker import NamespaceTracker, merge_changes

if TYPE_CHECKING:
    from ..guard.lost_state import StateRecorder
    from ..undo.history import UndoHistory


MAX_CELL_DEPTH = 3
"""A cell, and nested ones two levels deep."""

_PLAIN_CLASSES = frozenset(
    (
        *(int, float, complex, bool, str, bytes, bytearray),
        *(list, tuple, dict, set, frozenset, range, type),
    )
)
"""Classes whose values have no display but their repr."""


class Environment(Protocol):
    """What surrounds a cell: its streams, and the process that it runs in."""

    def enter(self) -> object:
        """Redirect the streams; returns those before, for `leave`."""

    def repair_builtins(self) -> None:
        """Restore the builtins that the cell has replaced, unless they are another program's."""

    def leave(self, streams_before: Any, nested: bool) -> None:
        """Restore the streams.

        Args:
            streams_before: What `enter` has returned.
            nested: Whether an outer cell goes on.
        """

    def leave_child(self, error: BaseException | None) -> None:
        """End this process if it is a child process forked by the cell."""


class _RunningCell:
    """A cell that runs, perhaps around nested ones."""

    def __init__(self) -> None:
        self.compiled: CompiledCell | None = None
        """None before its code is compiled."""
        self.executed_tree: ast.Module | None = None
        """The part of its code that has run, if it failed."""
        self.changes: list[dict[str, Any]] = []
        """What it had changed when a nested cell began."""

    @property
    def tree(self) -> ast.Module | None:
        """The statements that may have bound names; None if it was not compiled."""
        if self.executed_tree is not None:
            return self.executed_tree
        if self.compiled is not None:
            return self.compiled.tree
        return None


class Executor:
    """Runs cells over one namespace, on one thread; `run` is recursive for nested cells."""

    def __init__(
        self,
        namespace: dict[str, Any],
        environment: Environment,
        interrupts: Interrupts,
        loop: EventLoop,
    ) -> None:
        """Take over a namespace.

        Args:
            namespace: The user's namespace.
            environment: Redirects streams while cells run.
            interrupts: Lets signals end cells.
            loop: Runs coroutines.
        """
        self.namespace = namespace
        self.tracker = NamespaceTracker(namespace)
        self.undo: UndoHistory | None = None
        self.state_recorder: StateRecorder | None = None
        """Records states in a locked fork, where there is no `undo`."""
        self.attribution = CellAttribution()
        self.loop = loop
        """Runs coroutines; a fork must replace it."""
        self._environment = environment
        self._interrupts = interrupts
        self._history = CellHistory()
        install_magics(namespace, lambda coroutine: self.loop.run(coroutine), self._history)
        self._compiler = CellCompiler(namespace)
        self._cells: list[_RunningCell] = []
        self._fork_names: set[str] = set()
        """Names that only locked forks have made or bound: other read-only code may bind them."""
        self.depth = 0
        """How many of these cells run. It is counted, because a cell may replace `len`."""

    def run(self, cell: int, source: str, refusal: str | None = None) -> Outcome:
        """Run one cell, or refuse it with a sentence. Never raises."""
        if refused := self._refuse(refusal):
            return refused
        outer_depth = self.depth
        try:
            return self._run_in_environment(cell, source)
        except BaseException as error:  # the kernel survives anything that the cell broke
            return self._abandon_cells(outer_depth, error)

    def _abandon_cells(self, outer_depth: int, error: BaseException) -> Outcome:
        """Forget the cells within those of this depth, after an error outside their code."""
        self.depth = outer_depth
        del self._cells[outer_depth:]
        return failed_outcome(describe_safely(error).text)

    def _refuse(self, refusal: str | None) -> Outcome | None:
        """Return the outcome of a cell that may not run; None if it may."""
        if refusal is None and self.depth >= MAX_CELL_DEPTH:
            refusal = "cells can be nested at most two levels deep"
        if refusal is None:
            return None
        return failed_outcome(f"RuntimeError: {refusal}\n")

    def run_in_fork(
        self,
        cell: int,
        source: str,
        run: Callable[[], ForkReport],
        refusal: str | None,
        *,
        keep: bool,
    ) -> tuple[Outcome, str]:
        """Run one cell in a fork. Never raises.

        Args:
            cell: The number of the cell.
            source: Its code.
            run: Runs it in the fork.
            refusal: Why it may not run, as a sentence; None if it may.
            keep: Whether to copy its results into the namespace.

        Returns:
            How it has ended, and why it needs more than the lock allows; empty if it does not.
        """
        if refused := self._refuse(refusal):
            return refused, ""
        outer_depth = self.depth
        try:
            return self._run_in_fork(cell, source, run, keep=keep)
        except BaseException as error:  # the system, or an object of the user's
            return self._abandon_cells(outer_depth, error), ""

    def _run_in_fork(
        self, cell: int, source: str, run: Callable[[], ForkReport], *, keep: bool
    ) -> tuple[Outcome, str]:
        self._begin()
        try:
            with self._interrupts.allowed(cell):
                report = run()
        except KeyboardInterrupt:
            return interrupted_outcome(self._end()), ""

        if keep and not report.needs:
            report = report._replace(needs=self._replaced_name(report))
        if report.needs:
            note = f"stopped: {report.needs}; nothing was kept\n"
        else:
            note = own_module("guard.locked_run_notes").describe_locked_run(report, self.namespace)
        if keep and not report.needs:
            self._keep_results(cell, source, report)
        pieces = list(report.outcome.pieces)
        if note:
            pieces.append(("stdout", note))
        return report.outcome._replace(pieces=pieces, changes=self._end()), report.needs

    def _keep_results(self, cell: int, source: str, report: ForkReport) -> None:
        """Bind what a locked fork has made."""
        if self.undo is not None and self.depth == 1:
            self.undo.begin(cell)
        cache_source(source, cell_filename(cell))
        self._history.add_source(cell, source)
        self.namespace.update(report.values)
        self._fork_names.update(report.values)
        self._fork_names.difference_update(report.deleted)
        for name in report.deleted:
            self.namespace.pop(name, None)

    def _replaced_name(self, report: ForkReport) -> str:
        """Return what read-only code would do to a name of the user's, as a clause; empty if it only
        binds new names and those of other read-only code."""
        for name in report.deleted:
            if name not in self._fork_names:
                return f"wanted to delete {name}"
        for name in report.values:
            exists = name in self.namespace or hasattr(builtins, name)
            if exists and name not in self._fork_names:
                return f"wanted to replace {name}"
        return ""

    def _run_in_environment(self, cell: int, source: str) -> Outcome:
        """Run a cell with its streams. May raise what breaks the kernel's own code."""
        self._begin()
        pieces: list[Piece] = []
        traceback: Traceback | None = None
        status = "ok"
        streams_before = self._environment.enter()
        self.attribution.begin(cell)
        try:
            with self.loop.current(), self._interrupts.allowed(cell):
                self._run(cell, source, pieces)
                if "matplotlib.pyplot" in sys.modules:
                    own_module("values.displays").show_figures()
            self._environment.leave_child(None)
        except BaseException as error:
            self._environment.leave_child(error)
            with self._interrupts.allowed():
                status, traceback = self._describe_end(error, pieces)
        finally:
            changes = self._leave_environment(streams_before)

        return make_outcome(status, pieces, traceback, changes)

    def _leave_environment(self, streams_before: object) -> list[dict[str, Any]]:
        """Restore what surrounds the cells, and return what the innermost one has changed."""
        self._environment.leave(streams_before, nested=self.depth > 1)
        self.attribution.end()
        if Reloading.reloader is not None:
            Reloading.reloader.remember_new_modules()
        changes = self._end()
        self._fork_names.difference_update(change["name"] for change in changes)
        forget_short_texts()
        return changes

    def _run(self, cell: int, source: str, pieces: list[Piece]) -> None:
        """Run the code of a cell.

        Raises what the code raises.

        Args:
            cell: The number of the cell.
            source: Its code.
            pieces: Gets the text of its value.
        """
        undo = self.undo if self.depth == 1 else None
        if undo is not None:
            undo.begin(cell)
        reloader = Reloading.reloader
        if reloader is not None and reloader.automatic and self.depth == 1:
            reloader.reload(self.namespace)

        filename = cell_filename(cell)
        source = syntax.dedent(source.replace("\r\n", "\n").replace("\r", "\n"))
        cache_source(source, filename)
        self._history.add_source(cell, source)
        compiled = self._compiler.compile(source, filename)
        self._cells[-1].compiled = compiled
        self._track_reachable(self.state_recorder or undo)

        try:
            value = evaluate(compiled, self.namespace, self.loop)
        finally:
            # Now, because all that follows needs builtins that the cell may have replaced.
            self._environment.repair_builtins()
        if compiled.last_expression is None:
            return
        if sys.displayhook is not sys.__displayhook__:
            sys.displayhook(value)  # the user's own, or a library's (rich, sympy)
            return
        if text := self._represent(cell, value):
            pieces.append(("value", text))

    def _represent(self, cell: int, value: object) -> str:
        """Return the line that shows a value, and set `_` and `Out`."""
        if value is None:
            return ""
        has_pyplot = "matplotlib.pyplot" in sys.modules
        if has_pyplot and own_module("values.figures").is_plot_result(value):
            text = ""
        elif type(value) in _PLAIN_CLASSES and text_form(value) is None:
            text = _pretty_repr(value) + "\n"
        else:
            displays = own_module("values.displays")
            display = displays.make_display(value)
            text = display.text
            if display.mime:
                displays.show(display)
                text = ""
        self._history.add_result(cell, value)
        return text

    def _describe_end(
        self, error: BaseException, pieces: list[Piece]
    ) -> tuple[str, Traceback | None]:
        """Return the status with which the code ended, and its traceback, if any."""
        if isinstance(error, SystemExit):
            if not isinstance(error, CellExit):
                pieces.append(("stdout", f"SystemExit{_exit_code(error)}\n"))
            return "ok", None
        if type(error).__name__ == "BdbQuit":
            return "ok", None
        if isinstance(error, NotCompiledError) and error.__cause__ is not None:
            return "error", syntax_error(error.__cause__)
        sys.last_type = type(error)
        sys.last_value = error
        sys.last_traceback = error.__traceback__
        cell = self._cells[-1]
        if cell.compiled is not None:
            cell.executed_tree = executed_part(
                cell.compiled.tree, cell.compiled.code_objects, error.__traceback__
            )
        described = describe_safely(error)
        if isinstance(error, KeyboardInterrupt):
            return "interrupted", described
        if hint := _hint_for(error, described):
            described = described.with_last_line(hint)
        return "error", described

    def _begin(self) -> None:
        """Note that a cell begins, and what the one around it has changed so far."""
        if self._cells:
            self._note_changes()
        self._cells.append(_RunningCell())
        self.depth += 1

    def _note_changes(self) -> None:
        """Note what the innermost cell has changed since it went on."""
        cell = self._cells[-1]
        cell.changes += self.tracker.changes(cell.tree)

    def _track_reachable(self, undo: UndoHistory | StateRecorder | None = None) -> None:
        """Note the objects that the innermost cell may change, before it goes on."""
        if not self._cells:
            return
        code = self._cells[-1].compiled
        if code is not None:
            with self._interrupts.shielded():
                self.tracker.before_cell(code.tree, code.code_objects, undo)

    def _end(self) -> list[dict[str, Any]]:
        """Note that the innermost cell ends, and return its changes."""
        self._note_changes()
        changes = self._cells.pop().changes
        self.depth -= 1
        self._track_reachable()
        return merge_changes(changes)


def _pretty_repr(value: object) -> str:
    try:
        pretty = own_module("values.pretty")
    except (ImportError, OSError):  # the cell has used up the descriptors that reading it needs
        return repr(value)
    return str(pretty.pretty_repr(value))


def _hint_for(error: BaseException, described: Traceback) -> str:
    """Return a hint for an error of a cell; empty if there is none."""
    try:
        hints = own_module("cells.hints")
    except (ImportError, OSError):  # a cell has removed what reading them needs
        return ""
    return str(hints.hint_for(error, described.text))


def _exit_code(error: SystemExit) -> str:
    code = error.code
    if code is None:
        return ""
    if type(code) in (int, str):
        return f": {code}"
    return f": {type(code).__name__}"
