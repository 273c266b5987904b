"""Hides private variables from models and agents."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from dataclasses import replace

from mahtab_tui.bus.entry_names import cell_entry
from mahtab_tui.bus.hidden_entries import HiddenEntries
from mahtab_tui.bus.prompt import PRIVATE_CELL
from mahtab_tui.bus.records import Notice, Private, emit
from mahtab_tui.bus.values import Variable
from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.values import CellResult, PrivateUse
from mahtab_tui.session.runtime import Runtime
from mahtab_tui.session.variable_history import VariableHistory
from mahtab_tui.worker.guard.mentioned_names import mentioned_names, reaches_everything

MAX_NAMED_VARIABLES = 5
"""Names of private variables in a sentence; more are not named."""

_MARKED = "{name} is private: models and agents know it exists, but not what it contains."
_MISSING = " There is no such variable yet."
_UNMARKED = "{name} is no longer private: models and agents may see what it contains."


class PrivateNames:
    """Marks names as private, and decides what may be sent.

    The mark belongs to a name, not an object, and remains if the name is deleted.
    """

    def __init__(self, runtime: Runtime, hidden: HiddenEntries, history: VariableHistory) -> None:
        """
        Args:
            runtime: What the session works with.
            hidden: Knows which names are marked.
            history: The code of all cells.
        """
        self._runtime = runtime
        self._hidden = hidden
        self._aliases: frozenset[str] = frozenset()
        """Other names of the private objects."""
        self._codes = history.codes
        self._refreshing = threading.Lock()
        """Held while the kernel is asked and its answer is noted. An older answer, which knows fewer
        names, must not replace a newer one."""

    @property
    def names(self) -> list[str]:
        return sorted(self._hidden.private)

    def mark(self, name: str, private: bool) -> None:
        """Make a name private or public, and say so in a notice. Waits for the kernel."""
        if private == (name in self._hidden.private):
            return

        using_cells: tuple[int, ...] = ()
        text = _UNMARKED
        if private:
            # The output of cells that have used the variable is withheld from now on, too.
            using_cells = self._cells_using(name)
            text = _MARKED
            if not self._exists(name):
                text += _MISSING
        emit(self._runtime.log, Private(name=name, private=private, cells=using_cells))
        self.refresh(forget=not private)
        emit(self._runtime.log, Notice(text.format(name=name)))

    def _cells_using(self, name: str) -> tuple[int, ...]:
        """Return the cells whose code can reach a variable. Waits for the kernel."""
        codes = dict(self._codes)
        reached_names = self._query_kernel([name], list(codes.values())).used
        return tuple(cell for cell, names in zip(codes, reached_names, strict=True) if names)

    def _exists(self, name: str) -> bool:
        """Return whether the kernel is known to have a variable."""
        try:
            return any(variable.name == name for variable in self._runtime.kernel.variables())
        except KernelError:
            return False

    def uses(self, code: str) -> tuple[str, ...]:
        """Return the private variables that code can reach, as far as that can be determined.

        Waits for the kernel.
        """
        names = self.names
        if not names:
            return ()
        return self._query_kernel(names, [code]).used[0]

    def refresh(self, *, forget: bool = False) -> None:
        """Ask the kernel which other names and which texts the private variables have.

        If it does not answer, what was private stays private. Waits for the kernel.

        Args:
            forget: Whether texts become public that no private variable contains any more.
        """
        with self._refreshing:
            private_use = PrivateUse(aliases=(), texts=(), used=())
            if self.names:
                try:
                    private_use = self._runtime.kernel.private_use(self.names, [])
                except KernelError:
                    return
            self._aliases = frozenset(private_use.aliases)
            if forget:
                self._runtime.secrets.private.replace(private_use.texts)
            else:
                self._runtime.secrets.private.add(private_use.texts)

    def is_private(self, name: str) -> bool:
        """Return whether a name is marked, or is another name of a private object."""
        return name in self._hidden.private or name in self._aliases

    def is_private_cell(self, cell: int) -> bool:
        """Return whether a cell's output is withheld."""
        return self._hidden.is_private(cell_entry(cell))

    def variables(self) -> list[Variable]:
        """List the variables as models and agents see them.

        Waits for the kernel. Raises `KernelError`.
        """
        self.refresh()
        return [self.redact_variable(variable) for variable in self._runtime.kernel.variables()]

    def unrelated(self, names: Sequence[str], data: Iterable[str]) -> list[str]:
        """Return the variables that have nothing to do with private ones.

        Waits for the kernel.

        These contain nothing private, and no cell has used them together with a private variable.

        Args:
            names: The variables to choose from.
            data: Variables through which values may have passed.
        """
        if not self.names:
            return list(names)

        # Follow the private values through the cells, in the order in which these have run.
        data_names = frozenset(data)
        related_names = {*self.names, *self._aliases}
        for cell, code in list(self._codes.items()):
            cell_names = mentioned_names(code)
            if self.is_private_cell(cell) or not related_names.isdisjoint(cell_names):
                related_names.update(cell_names.intersection(data_names))

        # As code, a name reaches what its object contains.
        reached_names = self._query_kernel(self.names, names).used
        return [
            name
            for name, private_names in zip(names, reached_names, strict=True)
            if not private_names and name not in related_names
        ]

    def redact_result(self, result: CellResult) -> CellResult:
        """Return a cell's result as models and agents see it."""
        changes = tuple(
            replace(
                change,
                variable=change.variable and self.redact_variable(change.variable),
                before=change.before and self.redact_variable(change.before),
            )
            for change in result.changes
        )
        result = replace(result, changes=changes)
        if not self.is_private_cell(result.cell):
            return result
        return replace(
            result,
            output=PRIVATE_CELL,
            kinds=(("stdout", len(PRIVATE_CELL)),),
            displays=(),
            frames=(),
        )

    def redact_variable(self, variable: Variable) -> Variable:
        """Return a variable as models and agents see it."""
        if self.is_private(variable.name):
            return replace(variable, type="private", summary="")
        return variable

    def _query_kernel(self, names: Sequence[str], codes: Sequence[str]) -> PrivateUse:
        """Ask where private values occur, and which of them each code reaches.

        If the kernel does not answer, only the names in the code count.
        """
        try:
            return self._runtime.kernel.private_use(names, codes)
        except KernelError:
            reached_names = tuple(_names_in_code(names, code) for code in codes)
            return PrivateUse(aliases=(), texts=(), used=reached_names)


def _names_in_code(names: Sequence[str], code: str) -> tuple[str, ...]:
    """Return which of the names code mentions; all of them if it may reach any variable."""
    code_names = mentioned_names(code)
    if reaches_everything(code_names):
        return tuple(names)
    return tuple(code_names.intersection(names))


def explain_approval(names: Sequence[str], author: str) -> str:
    """Return why the user is asked about code that uses private variables, as a clause.

    Args:
        names: The private variables that the code uses.
        author: Who has written the code and would see its output.
    """
    return f"it uses {_join_names(names)}; {author} would see its output"


def explain_refusal(function: str, names: Sequence[str]) -> str:
    """Return why a cell that uses private variables may not call a function."""
    return f"{function} sends text to a model, and this cell uses {_join_names(names)}. private(name, False) makes a variable public."


def _join_names(names: Sequence[str]) -> str:
    listed_names = list(names[:MAX_NAMED_VARIABLES])
    if len(names) > MAX_NAMED_VARIABLES:
        listed_names.append("…")
    verb = "is" if len(names) == 1 else "are"
    return f"{', '.join(listed_names)}, which {verb} private"
