"""Who has set the names of the namespace, and the records that say so."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from mahtab_tui.bus.records import Namespace, emit
from mahtab_tui.bus.values import Change, Variable
from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.provenance import Author, Provenance
from mahtab_tui.session.namespace_store import NamespaceStore
from mahtab_tui.session.runtime import Runtime

YOU = "you"
"""The party of the user's cells."""


class _Setter(NamedTuple):
    """The author and the cell that have set names: what the records of its changes share."""

    cell: int
    """0 for the kernel's start."""
    party: str
    guest: int | None = None
    """The number of a joined agent's colour; None if no such agent runs the cell."""


class NameAuthors:
    """Follows who has set each name, and logs the changes of the namespace.

    Any thread may use it.
    """

    def __init__(self, runtime: Runtime, namespace_store: NamespaceStore) -> None:
        self._runtime = runtime
        self._namespace_store = namespace_store
        self.provenance = Provenance()
        self._lock = threading.Lock()
        """Held while authors of names are logged, so that a list of names does not arrive after
        newer changes."""
        namespace_store.restore_listeners.append(self._note_restored)

    def forget_dead_kernel(self, last_cell: int) -> None:
        """Forget all names of a kernel that has died.

        Args:
            last_cell: The newest cell, which ended it.
        """
        self.provenance = Provenance()
        emit(self._runtime.log, Namespace(fresh=True, cell=last_cell, party=YOU))

    def relist(self, *, forget: bool = True) -> None:
        """Log the names that the kernel has now.

        Args:
            forget: Whether these are all names, whose authors are not known any more.
        """
        if forget:
            self.provenance = Provenance()
        try:
            variables = self._runtime.kernel.variables()
        except KernelError:  # the kernel's state was already logged
            variables = []
        self.announce_existing(variables, fresh=forget)

    def announce_existing(self, variables: Sequence[Variable], *, fresh: bool = True) -> None:
        """Log names that no cell has created.

        Args:
            fresh: Whether there are no other names.
        """
        self.provenance.describe_existing(variables)
        changes = _as_added(variables)
        emit(self._runtime.log, Namespace(fresh=fresh, changes=changes, cell=0, party=YOU))

    def announce_restored(self, last_records: Mapping[str, Namespace]) -> None:
        """Log the names of a reattached kernel with the cells that set them.

        Args:
            last_records: The last record that set each name.

        Raises:
            KernelError: The kernel did not answer.
        """
        with self._lock:
            variables_by_setter: dict[_Setter, list[Variable]] = {}
            unknown_variables: list[Variable] = []
            for variable in self._runtime.kernel.variables():
                setter = self._find_setter(variable.name, last_records)
                if setter is None:
                    unknown_variables.append(variable)
                else:
                    variables_by_setter.setdefault(setter, []).append(variable)

            self.announce_existing(unknown_variables)
            for setter, variables in variables_by_setter.items():
                self._announce_set(setter, variables)

    def _find_setter(self, name: str, last_records: Mapping[str, Namespace]) -> _Setter | None:
        """Return whose cell has set a name of a reattached kernel; None if that is unknown."""
        author = self.provenance.author(name)
        if author is not None:
            # Set by a cell that ended after this screen attached.
            return _Setter(author.cell, author.party)
        record = last_records.get(name)
        if record is None:
            return None
        return _Setter(record.cell or 0, record.party or YOU, record.guest)

    def _announce_set(self, setter: _Setter, variables: Sequence[Variable]) -> None:
        """Log names of a reattached kernel that one cell has set."""
        changes = _as_added(variables)
        new_changes = [change for change in changes if self.provenance.author(change.name) is None]
        self.provenance.fold(setter.cell, setter.party, new_changes)
        record = Namespace(
            changes=changes,
            cell=setter.cell,
            party=setter.party,
            guest=setter.guest,
            restored=True,
        )
        emit(self._runtime.log, record)

    def with_descriptions_before(self, changes: Sequence[Change]) -> tuple[Change, ...]:
        """Return the changes of a cell, each with the variable as it was described before."""
        with self._lock:
            return tuple(
                replace(change, before=self.provenance.described(change.name)) for change in changes
            )

    def report_changes(
        self, cell: int, party: str, changes: tuple[Change, ...], guest: int | None
    ) -> None:
        """Log what a cell has changed.

        Args:
            cell: The number of the cell.
            party: Its author.
            changes: The changes, with the descriptions of the variables before.
            guest: The number of the author's colour if it is a joined agent.
        """
        with self._lock:
            self.provenance.fold(cell, party, changes)
            record = Namespace(changes=changes, cell=cell, party=party, guest=guest)
            self._namespace_store.follow_changes(record)
            emit(self._runtime.log, record)

    def report_restoration(self, changes: Iterable[Change]) -> None:
        """Log what an undo or a redo has changed, with the authors of the restored variables."""
        changes_by_author: dict[Author | None, list[Change]] = {}
        for change in changes:
            # Skip the environment, random numbers, and settings of libraries.
            if change.variable is None or change.variable.type:
                author = self.provenance.author(change.name)
                changes_by_author.setdefault(author, []).append(change)

        for author, changes_of_author in changes_by_author.items():
            party = author.party if author else YOU
            cell = author.cell if author else 0
            record = Namespace(
                changes=tuple(changes_of_author), cell=cell, party=party, restored=True
            )
            emit(self._runtime.log, record)

    def _note_restored(
        self, cell: int | None, party: str | None, changes: Sequence[Change]
    ) -> None:
        """Remember who had set the names that came back into the kernel, as far as it is known."""
        with self._lock:
            if cell is None:
                variables = [change.variable for change in changes if change.variable is not None]
                self.provenance.describe_existing(variables)
            else:
                self.provenance.fold(cell, party or YOU, changes)


def _as_added(variables: Iterable[Variable]) -> tuple[Change, ...]:
    return tuple(Change(variable.name, "added", variable) for variable in variables)
