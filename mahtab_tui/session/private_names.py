"""Private variables, and which cells made a variable."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from mahtab_tui.bus.masking import Secrets
from mahtab_tui.bus.prompt import PRIVATE_CELL, HiddenEntries
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
from mahtab_tui.kernel.base import Kernel, KernelError
from mahtab_tui.kernel.values import CellResult, Change, PrivateUse, Variable


class VariableHistory(logging.Handler):
    """Tracks which cells changed which variables, from records."""

    def __init__(self, past: Iterable[Record] = ()) -> None:
        super().__init__()
        self.codes: dict[int, str] = {}
        """The code of each cell."""
        self._changes: dict[int, dict[str, str]] = {}
        """How each cell changed names."""
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

    def code_for(self, name: str, missing: Collection[str]) -> str:
        """Return the cells that made a variable, and those that made what they need, in order as
        one cell; empty if unknown.

        missing: variables that do not exist now.
        """
        from mahtab_tui.bus.slicing import Step, steps_for

        cells = sorted(self._changes.keys() & self.codes.keys() - self._undone)
        steps = [Step(cell, self.codes[cell], self._changes[cell]) for cell in cells]
        chosen = steps_for(name, steps, missing.__contains__)
        return "\n\n".join(f"# cell {step.cell}\n{step.code.rstrip()}" for step in chosen)


_MARKED = "{name} is private: models and agents know it exists, but not what it contains."
_MISSING = " There is no such variable yet."
_UNMARKED = "{name} is no longer private: models and agents may see what it contains."


class PrivateNames:
    """Marks names as private, and decides what may be sent. The mark belongs to a name, not an
    object, and remains if the name is deleted."""

    def __init__(
        self,
        log: logging.Logger,
        kernel: Kernel,
        secrets: Secrets,
        hidden: HiddenEntries,
        codes: Mapping[int, str],
    ) -> None:
        """hidden: folds the records of marks. codes: the code of each cell."""
        self._log = log
        self._kernel = kernel
        self._secrets = secrets
        self._hidden = hidden
        self._aliases: frozenset[str] = frozenset()
        """Other names of the private objects, as last determined."""
        self._codes = codes

    @property
    def names(self) -> list[str]:
        return sorted(self._hidden.private)

    def mark(self, name: str, private: bool) -> None:
        """Mark a name as private, or remove the mark. Waits for the kernel."""
        if private == (name in self._hidden.private):
            return
        cells = list(self._codes)
        used = (
            self._query_kernel([name], [self._codes[cell] for cell in cells]).used
            if private
            else ()
        )
        emit(
            self._log,
            Private(
                name=name,
                private=private,
                cells=tuple(cell for cell, names in zip(cells, used, strict=False) if names),
            ),
        )
        if not private:
            self._secrets.private.replace(())
        self.refresh()
        emit(
            self._log,
            Notice(
                (_MARKED + _MISSING * (not self._exists(name)) if private else _UNMARKED).format(
                    name=name
                )
            ),
        )

    def uses(self, code: str) -> tuple[str, ...]:
        """Return the private variables that code can reach, as far as that can be determined. Waits
        for the kernel."""
        return self._query_kernel(self.names, [code]).used[0] if self.names else ()

    def refresh(self) -> None:
        """Ask the kernel again what the private variables refer to. Waits for the kernel."""
        if names := self.names:
            found = self._query_kernel(names, [])
            self._aliases = frozenset(found.aliases)
            self._secrets.private.add(found.texts)
        else:
            self._aliases = frozenset()

    def is_private(self, name: str) -> bool:
        """Return whether a variable is private, or another name of a private one."""
        return name in self._hidden.private or name in self._aliases

    def is_private_cell(self, cell: int) -> bool:
        """Return whether a cell uses a private variable, so that its output is withheld."""
        return self._hidden.is_private(cell_entry(cell))

    def variables(self) -> list[Variable]:
        """List the variables as models and agents see them. Raises `KernelError`."""
        self.refresh()
        return [self.redact_variable(variable) for variable in self._kernel.variables()]

    def unrelated(self, names: Sequence[str], data: Iterable[str]) -> list[str]:
        """Return the variables that contain nothing private, and that no cell has used together
        with a private one, as far as the code shows. data: variables through which values may have
        passed. Waits for the kernel."""
        if not self.names:
            return list(names)
        from mahtab_tui.worker.private_use import mentioned_names

        data, related = frozenset(data), {*self.names, *self._aliases}
        for cell, code in list(self._codes.items()):
            words = mentioned_names(code)
            if self.is_private_cell(cell) or not related.isdisjoint(words):
                related.update(words.intersection(data))
        holding = self._query_kernel(self.names, names).used
        return [
            name
            for name, private in zip(names, holding, strict=True)
            if not private and name not in related
        ]

    def redact_result(self, result: CellResult) -> CellResult:
        """Return the result of a cell as models and agents see it."""
        result = replace(result, changes=tuple(map(self._redact_change, result.changes)))
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
        return (
            replace(variable, type="private", summary="")
            if self.is_private(variable.name)
            else variable
        )

    def _redact_change(self, change: Change) -> Change:
        now, before = change.variable, change.before
        return replace(
            change,
            variable=now and self.redact_variable(now),
            before=before and self.redact_variable(before),
        )

    def _exists(self, name: str) -> bool:
        try:
            return any(variable.name == name for variable in self._kernel.variables())
        except KernelError:
            return False

    def _query_kernel(self, names: Sequence[str], codes: Sequence[str]) -> PrivateUse:
        """Ask the kernel; if it does not answer, use only the names in the code."""
        try:
            return self._kernel.private_use(names, codes)
        except KernelError:
            from mahtab_tui.worker.private_use import mentioned_names, reaches_everything

            found = map(mentioned_names, codes)
            used = tuple(
                tuple(names) if reaches_everything(words) else tuple(words.intersection(names))
                for words in found
            )
            return PrivateUse((), (), used)


def explain_approval(names: Sequence[str], party: str) -> str:
    """Explain, as a clause, why code that uses private variables needs approval."""
    return f"it uses {_join_names(names)}; {party} would see its output"


def explain_refusal(what: str, names: Sequence[str]) -> str:
    """Explain why a cell that uses private variables may not ask a model."""
    return f"{what} sends text to a model, and this cell uses {_join_names(names)}. private(name, False) makes a variable public."


def _join_names(names: Sequence[str]) -> str:
    return f"{', '.join(names[:5])}{', …' * (len(names) > 5)}, which {'is' if len(names) == 1 else 'are'} private"
