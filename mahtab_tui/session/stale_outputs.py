"""Tells the model and agents which results no longer hold, because variables have changed since.

    In 1: df = load()
    In 2: df.price.mean()
    In 3: df = df.dropna()

After In 3, In 2 is stale: it has used a value of `df` that has changed since, its input, and what it has
printed no longer holds. The model is told "In 2 uses `df` from In 1, changed by In 3", once. If In 3 is
undone, In 2 holds again, and the model is told so.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from heapq import nlargest
from itertools import chain
from operator import attrgetter
from typing import NamedTuple

from mahtab_tui.bus.entry_names import cell_entry
from mahtab_tui.bus.hidden_entries import HiddenEntries
from mahtab_tui.bus.records import Namespace, Record, RecordHandler, Replace, ReplIn, Undo
from mahtab_tui.bus.stale_inputs import (
    StaleInput,
    VariableVersion,
    describe_origin,
    describe_stale,
)
from mahtab_tui.bus.staleness import Staleness
from mahtab_tui.session.cell_ranges import format_cell_ranges

_MAX_GROUPS = 5
"""At most this many groups of cells are described at once. The cells of other groups are counted,
and described later."""
_WORD = re.compile(r"\w+")
"""A word of a question that may be the name of a variable."""


class StaleCell(NamedTuple):
    """A cell whose results no longer hold."""

    number: int
    code: str
    reason: str
    """Why they no longer hold, such as ``uses `df` from In 4, changed by In 9``."""


class _StaleGroup(NamedTuple):
    """Cells that have used the same variables, which have changed since."""

    inputs: tuple[StaleInput, ...]
    cells: list[int]
    """The numbers of the cells, in ascending order."""

    def __str__(self) -> str:
        """Return the line for the model, such as ``In 2 uses `df` from In 1, changed by In 3``."""
        verb = "uses" if len(self.cells) == 1 else "use"
        return f"In {format_cell_ranges(self.cells)} {describe_stale(self.inputs, verb)}"


class StaleOutputs(RecordHandler):
    """Finds the stale cells of a session, and tells the model once about each of their inputs.

    Any thread may call the methods.

    Args:
        past: The records of a resumed session.
    """

    kinds = (ReplIn, Namespace, Undo, Replace)

    def __init__(self, past: Iterable[Record] = ()) -> None:
        super().__init__()
        self._staleness = Staleness()
        self._turn_by_cell: dict[int, int] = {}
        """The turn of the question for which the model has run a cell. The user's cells have none."""
        self._stale_cells: set[int] = set()
        """The cells whose results are stale, and which have not run again."""
        self._told_inputs: defaultdict[int, set[VariableVersion]] = defaultdict(set)
        """The changed inputs of each cell that the model was told about."""
        self._doubted_cells: set[int] = set()
        """The cells that the model was told about as stale, and not yet as holding again."""
        self._past: Iterable[Record] = past
        """The records of the resumed session that are not followed yet."""

    def catch_up(self) -> None:
        """Follow the cells of the resumed session, which the other methods do first.

        This takes a while if the cells have made very many variables.
        """
        with self._locked():
            self._follow_past()

    def fold(self, record: Record) -> None:
        """Follow a record of the session as it goes on."""
        with self._locked():
            self._follow_past()
            self._follow(record)

    def tell(self, question: str = "", hidden: HiddenEntries | None = None) -> str:
        """Describe stale cells that the model has not been told about, and note that it knows them now.

        Args:
            question: The cells that this question asks about come first.
            hidden: Entries that the model does not get; None if it gets all.

        Returns:
            A line for each group of cells that have used the same variables, and the number of
            cells that later calls describe. Empty if there are none.
        """
        with self._locked():
            self._follow_past()
            groups = self._group_untold_cells(hidden)
            chosen_groups = self._choose_groups(groups, question)
            self._mark_told(chosen_groups)

        lines = [str(group) for group in chosen_groups]
        omitted_count = len(_cells_of(groups) - _cells_of(chosen_groups))
        if omitted_count:
            lines.append(f"and {omitted_count:,} more {'cell' if omitted_count == 1 else 'cells'}")
        return "\n".join(lines)

    def tell_holding(self, hidden: HiddenEntries | None = None) -> str:
        """Name the cells that hold again after the model was told that they do not, once.

        Call this after `tell`.

        Args:
            hidden: Entries that the model does not get; None if it gets all.

        Returns:
            Such as ``In 2, 4 and 5``; empty if there are none.
        """
        with self._locked():
            self._follow_past()
            cells = [
                cell
                for cell in sorted(self._doubted_cells)
                if self._holds(cell) and not _is_hidden(cell, hidden)
            ]
            self._doubted_cells.difference_update(cells)
        return f"In {format_cell_ranges(cells)}" if cells else ""

    def _holds(self, cell: int) -> bool:
        """Return whether all that a cell has printed holds, and no other cell has replaced it."""
        if cell in self._stale_cells or cell in self._staleness.undone_cells:
            return False
        return not self._told_inputs.get(cell) and self._staleness.rerun_of(cell) is None

    def stale_cells(self) -> list[StaleCell]:
        """Return all stale cells that were neither undone nor run again, the oldest first."""
        with self._locked():
            self._follow_past()
            return [
                StaleCell(
                    cell,
                    self._staleness.code_of(cell),
                    describe_stale(self._staleness.inputs_of(cell)),
                )
                for cell in sorted(self._stale_cells - self._staleness.undone_cells)
            ]

    def stale_marks(self) -> dict[str, str]:
        """Return marks for the variables that were computed from values that have changed since.

        The mark is ``from In 4 (stale)`` if In 4 made the variable, and used such a value for it.
        It is ``rests on In 4 (stale)`` if In 4 used such a value for something from which a later
        cell computed the variable.
        """
        with self._locked():
            self._follow_past()
            variables = self._staleness.stale_variables()
        return {
            name: describe_origin(maker, stale_cell)
            for name, (maker, stale_cell) in variables.items()
        }

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold the handler's lock."""
        self.acquire()
        try:
            yield
        finally:
            self.release()

    def _follow_past(self) -> None:
        """Follow the records of the resumed session, if this was not done yet."""
        past = self._past
        self._past = ()
        for record in past:
            self._follow(record)

    def _follow(self, record: Record) -> None:
        """Note what a record says about cells and variables."""
        match record:
            case ReplIn(cell=int(cell), text=code):
                if record.turn is not None:
                    self._turn_by_cell[cell] = record.turn
                self._note_staleness(self._staleness.start(cell, code))
            case Namespace():
                self._note_staleness(self._staleness.fold(record))
            case Replace():
                # What was removed may include what the model was told.
                self._told_inputs.clear()
                self._doubted_cells.clear()
            case Undo(cells=cells, undone=undone):
                self._note_staleness(self._staleness.undo(cells, undone=undone))

    def _note_staleness(self, cells: Iterable[int]) -> None:
        """Note which of some cells are stale now.

        The model is told of each changed input once. If an input changes back, it no longer counts as
        told, so that the model hears of its next change.
        """
        for cell in cells:
            has_run_again = self._staleness.rerun_of(cell) is not None
            inputs = () if has_run_again else self._staleness.inputs_of(cell)
            if inputs:
                self._stale_cells.add(cell)
            else:
                self._stale_cells.discard(cell)
            if cell in self._told_inputs:
                stale_versions = {stale_input.version for stale_input in inputs}
                self._told_inputs[cell] = {
                    version
                    for version in self._told_inputs[cell]
                    # What the cell has made itself does not depend on its inputs.
                    if version in stale_versions or version.maker == cell
                }

    def _group_untold_cells(self, hidden: HiddenEntries | None) -> list[_StaleGroup]:
        """Return the cells with changed inputs that the model was not told about, in their order."""
        used_inputs = self._used_inputs_by_cell(hidden)
        untold_inputs = {
            cell: self._without_told_inputs(cell, inputs) for cell, inputs in used_inputs.items()
        }
        for maker, inputs in self._untold_inputs_by_maker(used_inputs.values()).items():
            if not _is_hidden(maker, hidden):
                untold_inputs[maker] = inputs
        return _group_by_inputs(untold_inputs)

    def _used_inputs_by_cell(
        self, hidden: HiddenEntries | None
    ) -> dict[int, tuple[StaleInput, ...]]:
        """Return the changed inputs of the stale cells that the model gets, by cell in ascending
        order."""
        # The model learns by other means which cells were undone.
        return {
            cell: self._inputs_changed_elsewhere(cell)
            for cell in sorted(self._stale_cells - self._staleness.undone_cells)
            if not _is_hidden(cell, hidden)
        }

    def _without_told_inputs(
        self, cell: int, inputs: Iterable[StaleInput]
    ) -> tuple[StaleInput, ...]:
        """Return the inputs of a cell that the model was not told about."""
        told_versions = self._told_inputs.get(cell, ())
        return tuple(
            stale_input for stale_input in inputs if stale_input.version not in told_versions
        )

    def _untold_inputs_by_maker(
        self, inputs_of_cells: Iterable[Iterable[StaleInput]]
    ) -> dict[int, tuple[StaleInput, ...]]:
        """Return the cells that both made and used an input which has changed since, with these
        inputs, if the model must be told about them.

        Such a cell may have printed something that it computed from the input. It is not stale
        itself, because it would make the input again.

        Args:
            inputs_of_cells: The changed inputs of the stale cells.
        """
        inputs_by_maker: defaultdict[int, dict[str, StaleInput]] = defaultdict(dict)
        for stale_input in dict.fromkeys(chain.from_iterable(inputs_of_cells)):
            if self._has_untold_maker(stale_input):
                inputs_by_maker[stale_input.made_by].setdefault(stale_input.name, stale_input)
        return {
            maker: tuple(inputs.values())
            for maker, inputs in inputs_by_maker.items()
            # A cell that is stale itself is described by what it has used.
            if not self._inputs_changed_elsewhere(maker)
        }

    def _has_untold_maker(self, stale_input: StaleInput) -> bool:
        """Return whether the cell that made an input has used it, too, and the model must be told."""
        maker = stale_input.made_by
        if stale_input.version in self._told_inputs.get(maker, ()):
            return False
        if self._changed_in_turn_of(maker, stale_input):
            return False
        return self._staleness.reuses_own(maker, stale_input.name)

    def _inputs_changed_elsewhere(self, cell: int) -> tuple[StaleInput, ...]:
        """Return the changed inputs of a cell, without those that the model itself has changed in
        the same turn."""
        return tuple(
            stale_input
            for stale_input in self._staleness.inputs_of(cell)
            if not self._changed_in_turn_of(cell, stale_input)
        )

    def _changed_in_turn_of(self, cell: int, stale_input: StaleInput) -> bool:
        """Return whether the model has run a cell, and changed the cell's input, for one question."""
        turn = self._turn_by_cell.get(cell)
        if turn is None or stale_input.changed_by is None:
            return False
        return self._turn_by_cell.get(stale_input.changed_by) == turn

    def _choose_groups(self, groups: list[_StaleGroup], question: str) -> list[_StaleGroup]:
        """Return the groups to describe, in the order of their cells.

        If they are too many, the groups that a question asks about are chosen first, then the
        newest ones.
        """
        if len(groups) <= _MAX_GROUPS:
            return groups
        words = set(_WORD.findall(question))
        variables = self._staleness.stale_variables()
        cells_asked_about = {
            stale_cell for name, (_, stale_cell) in variables.items() if name in words
        }

        def priority(group: _StaleGroup) -> tuple[bool, list[int]]:
            is_asked_about = not cells_asked_about.isdisjoint(group.cells) or any(
                stale_input.name in words for stale_input in group.inputs
            )
            return is_asked_about, group.cells

        return sorted(nlargest(_MAX_GROUPS, groups, key=priority), key=attrgetter("cells"))

    def _mark_told(self, groups: Iterable[_StaleGroup]) -> None:
        """Note that the model knows about groups."""
        for group in groups:
            self._doubted_cells.update(group.cells)
            for cell in group.cells:
                self._told_inputs[cell].update(stale_input.version for stale_input in group.inputs)


def _group_by_inputs(inputs_by_cell: Mapping[int, tuple[StaleInput, ...]]) -> list[_StaleGroup]:
    """Return groups of the cells that have the same inputs, without cells that have none. The groups
    are in the order of their cells."""
    cells_by_inputs: defaultdict[tuple[StaleInput, ...], list[int]] = defaultdict(list)
    for cell, inputs in sorted(inputs_by_cell.items()):
        if inputs:
            cells_by_inputs[inputs].append(cell)
    groups = [_StaleGroup(inputs, cells) for inputs, cells in cells_by_inputs.items()]
    return sorted(groups, key=attrgetter("cells"))


def _cells_of(groups: Iterable[_StaleGroup]) -> set[int]:
    """Return the cells of all groups."""
    return {cell for group in groups for cell in group.cells}


def _is_hidden(cell: int, hidden: HiddenEntries | None) -> bool:
    """Return whether the model does not get a cell."""
    return hidden is not None and cell_entry(cell) in hidden
