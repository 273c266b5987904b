"""Hides private variables from models and agents, and tracks which cells made a variable."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from mahtab_tui.bus.prompt import PRIVATE_CELL
from mahtab_tui.bus.records import (
    Namespace,
    Notice,
    Private,
    Record,
    ReplIn,
    Undo,
    cell_entry,
    emit,
    get_record,
)
from mahtab_tui.kernel.base import CellResult, KernelError, PrivateUse, Variable
from mahtab_tui.worker.private_use import mentioned_names, reaches_everything

if TYPE_CHECKING:
    from mahtab_tui.session.components import Components

_MAX_NAMES = 5
"""Names of private variables in a sentence; more are not named."""


class VariableHistory(logging.Handler):
    """Tracks which cells changed which variables."""

    def __init__(self, past: Iterable[Record] = ()) -> None:
        super().__init__()
        self.codes: dict[int, str] = {}
        self._changes: dict[int, dict[str, str]] = {}
        self._undone: set[int] = set()
        for record in past:
            self._fold(record)

    def emit(self, record: logging.LogRecord) -> None:
        self._fold(get_record(record))

    def _fold(self, record: Record) -> None:
        if isinstance(record, ReplIn) and record.cell is not None:
            self.codes[record.cell] = record.text
        elif isinstance(record, Undo):
            (self._undone.update if record.undone else self._undone.difference_update)(record.cells)
        elif isinstance(record, Namespace) and record.cell and not record.restored:
            self._changes.setdefault(record.cell, {}).update(
                (change.name, change.change) for change in record.changes
            )

    def code_for(self, name: str) -> str:
        """Return the cells that gave a variable its last value, as one cell."""
        cells: list[int] = []
        for cell in sorted(self._changes.keys() & self.codes.keys() - self._undone):
            change = self._changes[cell].get(name)
            if change in ("added", "rebound", "deleted"):
                cells.clear()
            if change not in (None, "deleted"):
                cells.append(cell)
        return "\n\n".join(f"# cell {cell}\n{self.codes[cell].rstrip()}" for cell in cells)


_MARKED = "{name} is private: models and agents know it exists, but not what it contains."
_MISSING = " There is no such variable yet."
_UNMARKED = "{name} is no longer private: models and agents may see what it contains."


class PrivateNames:
    """Marks names as private, and decides what may be sent. The mark belongs to a name, not an
    object, and remains if the name is deleted."""

    def __init__(self, parts: Components) -> None:
        self._log = parts.log
        self._kernel = parts.kernel
        self._secrets = parts.secrets
        self._hidden = parts.prompt.hidden
        self._aliases: frozenset[str] = frozenset()
        """Other names of the private objects."""
        self._codes = parts.variable_history.codes

    @property
    def names(self) -> list[str]:
        return sorted(self._hidden.private)

    def mark(self, name: str, private: bool) -> None:
        """Waits for the kernel."""
        if private == (name in self._hidden.private):
            return
        cells: tuple[int, ...] = ()
        text = _UNMARKED
        if private:
            codes = dict(self._codes)
            used = self._query_kernel([name], list(codes.values())).used
            cells = tuple(cell for cell, names in zip(codes, used, strict=False) if names)
            text, exists = _MARKED, False
            with suppress(KernelError):
                exists = any(variable.name == name for variable in self._kernel.variables())
            text += _MISSING * (not exists)
        emit(self._log, Private(name=name, private=private, cells=cells))
        if not private:
            self._secrets.private.replace(())
        self.refresh()
        emit(self._log, Notice(text.format(name=name)))

    def uses(self, code: str) -> tuple[str, ...]:
        """Return the private variables that code can reach, as far as that can be determined.
        Waits."""
        return self._query_kernel(self.names, [code]).used[0] if self.names else ()

    def refresh(self) -> None:
        """Ask the kernel what the private variables refer to. Waits."""
        names = self.names
        found = self._query_kernel(names, []) if names else PrivateUse((), (), ())
        self._aliases = frozenset(found.aliases)
        self._secrets.private.add(found.texts)

    def is_private(self, name: str) -> bool:
        return name in self._hidden.private or name in self._aliases

    def is_private_cell(self, cell: int) -> bool:
        """Return whether a cell's output is withheld."""
        return self._hidden.is_private(cell_entry(cell))

    def variables(self) -> list[Variable]:
        """List the variables as models and agents see them. Raises `KernelError`."""
        self.refresh()
        return [self.redact_variable(variable) for variable in self._kernel.variables()]

    def unrelated(self, names: Sequence[str], data: Iterable[str]) -> list[str]:
        """Return the variables that contain nothing private, and that no cell has used with a
        private one. data: variables through which values may have passed. Waits."""
        if not self.names:
            return list(names)
        data, related = frozenset(data), {*self.names, *self._aliases}
        for cell, code in list(self._codes.items()):
            words = mentioned_names(code)
            if self.is_private_cell(cell) or not related.isdisjoint(words):
                related.update(words.intersection(data))
        holding = self._query_kernel(self.names, names).used
        found = zip(names, holding, strict=True)
        return [name for name, private in found if not private and name not in related]

    def redact_result(self, result: CellResult) -> CellResult:
        redact = self.redact_variable
        changes = tuple(
            replace(
                change,
                variable=change.variable and redact(change.variable),
                before=change.before and redact(change.before),
            )
            for change in result.changes
        )
        result = replace(result, changes=changes)
        if not self.is_private_cell(result.cell):
            return result
        result = replace(result, output=PRIVATE_CELL, displays=(), frames=())
        return replace(result, kinds=(("stdout", len(PRIVATE_CELL)),))

    def redact_variable(self, variable: Variable) -> Variable:
        if self.is_private(variable.name):
            return replace(variable, type="private", summary="")
        return variable

    def _query_kernel(self, names: Sequence[str], codes: Sequence[str]) -> PrivateUse:
        """If the kernel does not answer, use only the names in the code."""
        try:
            return self._kernel.private_use(names, codes)
        except KernelError:
            used = tuple(
                tuple(names if reaches_everything(words) else words.intersection(names))
                for words in map(mentioned_names, codes)
            )
            return PrivateUse((), (), used)


def explain_approval(names: Sequence[str], party: str) -> str:
    return f"it uses {_join_names(names)}; {party} would see its output"


def explain_refusal(what: str, names: Sequence[str]) -> str:
    return f"{what} sends text to a model, and this cell uses {_join_names(names)}. private(name, False) makes a variable public."


def _join_names(names: Sequence[str]) -> str:
    more = ["…"] if len(names) > _MAX_NAMES else []
    verb = "is" if len(names) == 1 else "are"
    return f"{', '.join([*names[:_MAX_NAMES], *more])}, which {verb} private"
