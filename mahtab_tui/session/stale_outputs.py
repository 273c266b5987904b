"""Tells the model and agents which results no longer hold, because variables have changed since."""

from __future__ import annotations

import re
from bisect import insort
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from mahtab_tui.bus.entry_names import cell_entry
from mahtab_tui.bus.hidden_entries import HiddenEntries
from mahtab_tui.bus.records import Namespace, Record, RecordHandler, Replace, ReplIn, Undo
from mahtab_tui.bus.staleness import StaleInput, Staleness, describe_origin, describe_stale

_MAX_LINES = 5
"""Lines that are told at once; the cells of others are counted."""
_MAX_RANGES = 10
"""Cells, and ranges of cells, that a line names."""
_MIN_RANGE_CELLS = 3
"""Fewer cells in a row are named one by one."""
_WORD = re.compile(r"\w+")


class StaleCell(NamedTuple):
    """A cell whose results no longer hold."""

    number: int
    code: str
    reason: str
    """Such as ``uses `df` from In 4, changed by In 9``."""


class StaleOutputs(RecordHandler):
    """A log handler that follows the cells of a session, whoever runs them, and knows of which
    stale ones the model has been told.

    Args:
        past: The records of a resumed session.
    """

    kinds = (ReplIn, Namespace, Undo, Replace)

    def __init__(self, past: Iterable[Record] = ()) -> None:
        super().__init__()
        self._staleness = Staleness()
        self._turns: dict[int, int] = {}
        """The turn of the question for which each of the model's cells has run."""
        self._stale_cells: set[int] = set()
        """The cells whose results are stale, and which have not run again."""
        self._told_cells: set[int] = set()
        """Stale cells of which the model knows."""
        self._past: Iterable[Record] = past
        """Records that are not followed yet."""

    def catch_up(self) -> None:
        """Follow the cells of the resumed session, which takes a while if they have made very many
        variables. Any thread may call it; the other methods do, too."""
        self.acquire()
        try:
            past = self._past
            self._past = ()
            for record in past:
                self._follow(record)
        finally:
            self.release()

    def fold(self, record: Record) -> None:
        self.catch_up()
        self._follow(record)

    def _follow(self, record: Record) -> None:
        match record:
            case ReplIn(cell=int(cell), text=code):
                if record.turn is not None:
                    self._turns[cell] = record.turn
                self._note(self._staleness.start(cell, code))
            case Namespace():
                self._note(self._staleness.fold(record))
            case Replace():
                # The model may no longer have what it was told.
                self._told_cells.clear()
            case Undo(cells=cells, undone=undone):
                self._note(self._staleness.undo(cells, undone=undone))

    def _note(self, changed_cells: Iterable[int]) -> None:
        for cell in changed_cells:
            has_run_again = self._staleness.rerun_of(cell) is not None
            if self._staleness.inputs_of(cell) and not has_run_again:
                self._stale_cells.add(cell)
            else:
                self._stale_cells.discard(cell)
                self._told_cells.discard(cell)

    def tell(self, question: str = "", hidden: HiddenEntries | None = None) -> str:
        """Describe the cells that the model does not know to be stale: a line for those that have
        used the same variables. Any thread may call it.

        Args:
            question: Cells that have to do with it come first.
            hidden: Entries that the model does not get; None if it gets all.

        Returns:
            The lines; empty if there are none. The model knows these cells from then on.
        """
        self.acquire()
        try:
            self.catch_up()
            cells_by_inputs: dict[tuple[StaleInput, ...], list[int]] = {}
            for cell in self._told_next(hidden):
                inputs = self._inputs_changed_elsewhere(cell)
                if inputs:
                    cells_by_inputs.setdefault(inputs, []).append(cell)
            for inputs, cells in cells_by_inputs.items():
                self._add_makers(inputs, cells, hidden)
            return "\n".join(self._lines(cells_by_inputs, question))
        finally:
            self.release()

    def _told_next(self, hidden: HiddenEntries | None) -> list[int]:
        """Return the cells that the model does not know to be stale, and note that it knows them."""
        # The model learns by other means which cells were undone.
        new_cells = self._stale_cells - self._told_cells - self._staleness.undone_cells
        visible_cells = sorted(new_cells)
        if hidden is not None:
            visible_cells = [cell for cell in visible_cells if cell_entry(cell) not in hidden]
        self._told_cells.update(visible_cells)
        return visible_cells

    def _add_makers(
        self, inputs: Iterable[StaleInput], cells: list[int], hidden: HiddenEntries | None
    ) -> None:
        """Add the cells that had made inputs of stale cells, used them themselves, and may have
        printed what was computed from them. The model knows these cells from then on."""
        for stale_input in inputs:
            maker = stale_input.made_by
            turn = self._turns.get(maker)
            is_known = maker in self._told_cells or maker in self._stale_cells
            is_hidden = hidden is not None and cell_entry(maker) in hidden
            is_own_step = turn is not None and self._turns.get(stale_input.changed_by or 0) == turn
            if is_known or is_hidden or is_own_step:
                continue
            if self._staleness.reuses_own(maker, stale_input.name):
                self._told_cells.add(maker)
                insort(cells, maker)

    def _inputs_changed_elsewhere(self, cell: int) -> tuple[StaleInput, ...]:
        """Return the stale inputs of a cell, without those that a later step for the same question
        has changed: the model knows what it has done."""
        turn = self._turns.get(cell)
        return tuple(
            stale_input
            for stale_input in self._staleness.inputs_of(cell)
            if turn is None or self._turns.get(stale_input.changed_by or 0) != turn
        )

    def _lines(
        self, cells_by_inputs: dict[tuple[StaleInput, ...], list[int]], question: str
    ) -> list[str]:
        """Return a line for each group of cells, in the order of the cells."""
        words = set(_WORD.findall(question))
        variables = self._staleness.stale_variables()
        cells_asked_about = {
            stale_cell for name, (_, stale_cell) in variables.items() if name in words
        }

        def is_asked_about(inputs: tuple[StaleInput, ...]) -> bool:
            if any(stale_input.name in words for stale_input in inputs):
                return True
            return not cells_asked_about.isdisjoint(cells_by_inputs[inputs])

        newest_first = sorted(cells_by_inputs, key=cells_by_inputs.__getitem__, reverse=True)
        chosen = sorted(newest_first, key=is_asked_about, reverse=True)[:_MAX_LINES]
        chosen.sort(key=cells_by_inputs.__getitem__)
        lines: list[str] = []
        for inputs in chosen:
            cells = cells_by_inputs[inputs]
            verb = "uses" if len(cells) == 1 else "use"
            lines.append(f"{name_cells(cells)} {describe_stale(inputs, verb)}")
        omitted_count = sum(len(cells) for cells in cells_by_inputs.values())
        omitted_count -= sum(len(cells_by_inputs[inputs]) for inputs in chosen)
        if omitted_count:
            lines.append(f"and {omitted_count:,} more")
        return lines

    def stale_cells(self) -> list[StaleCell]:
        """Return all stale cells that were neither undone nor run again, the oldest first. Any
        thread may call it."""
        self.acquire()
        try:
            self.catch_up()
            return [
                StaleCell(
                    cell,
                    self._staleness.code_of(cell),
                    describe_stale(self._staleness.inputs_of(cell)),
                )
                for cell in sorted(self._stale_cells - self._staleness.undone_cells)
            ]
        finally:
            self.release()

    def marks(self) -> dict[str, str]:
        """Return what is said of variables that were computed from values that are different now:
        ``from In 4 (stale)`` if In 4 used such a value for it, or ``rests on In 4 (stale)`` if it did
        so for what the variable was computed from. Any thread may call it."""
        self.acquire()
        try:
            self.catch_up()
            variables = self._staleness.stale_variables()
            return {
                name: describe_origin(maker, stale_cell)
                for name, (maker, stale_cell) in variables.items()
            }
        finally:
            self.release()


def name_cells(cells: Sequence[int]) -> str:
    """Name cells in ascending order: ``In 2, 4 to 9 and 12``."""
    ranges: list[list[int]] = []
    for cell in cells:
        if ranges and ranges[-1][-1] == cell - 1:
            ranges[-1].append(cell)
        else:
            ranges.append([cell])
    names: list[str] = []
    for numbers in ranges:
        if len(numbers) < _MIN_RANGE_CELLS:
            names += map(str, numbers)
        else:
            names.append(f"{numbers[0]} to {numbers[-1]}")
    if len(names) > _MAX_RANGES:
        names[_MAX_RANGES:] = [f"{len(names) - _MAX_RANGES:,} more"]
    *first_names, last_name = names
    return f"In {', '.join(first_names)} and {last_name}" if first_names else f"In {last_name}"
