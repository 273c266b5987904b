"""Marks the cells and answers of a conversation whose results no longer hold."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial

from mahtab_tui.bus.entries import AnswerText, Cell, Entry
from mahtab_tui.bus.records import Namespace
from mahtab_tui.bus.staleness import Staleness

Step = Callable[[], Sequence[Entry]]
"""Notes something, and returns the entries that have changed."""


class StaleResults:
    """Marks cells that have used variables that are different now, and answers that rest on them.

    Methods return the entries that have changed. What is more than `max_changes` changes of variables
    waits for `catch_up`, and so does all that comes after it.
    """

    def __init__(self, max_changes: float = math.inf) -> None:
        """
        Args:
            max_changes: Changes of variables that are noted before the next `catch_up`.
        """
        self._staleness = Staleness()
        self._max_changes = max_changes
        self._free_changes = max_changes
        """Changes that may still be noted before the next `catch_up`."""
        self._waiting: deque[tuple[int, Step]] = deque()
        """What waits, each with its number of changes."""
        self._cells: dict[int, Cell] = {}
        """Cells that have run, by their numbers."""
        self._cells_of_turn: dict[int, list[Cell]] = {}
        """Cells that have run for a question."""
        self._answers: dict[int, AnswerText] = {}
        """The last words of each turn's newest answer that ends with words."""

    @property
    def is_behind(self) -> bool:
        """Whether something waits for `catch_up`."""
        return bool(self._waiting)

    def catch_up(self, max_changes: float | None = None) -> list[Entry]:
        """Note the next part of what waits.

        Args:
            max_changes: By default those of the constructor.
        """
        self._free_changes = self._max_changes if max_changes is None else max_changes
        changed_entries: list[Entry] = []
        while self._waiting and self._free_changes > 0:
            change_count, step = self._waiting.popleft()
            self._free_changes -= change_count
            changed_entries += step()
        return changed_entries

    def _do(self, step: Step, change_count: int = 0) -> Sequence[Entry]:
        """Do something now, or later in its turn."""
        if self._waiting or change_count > self._free_changes:
            self._waiting.append((change_count, step))
            return ()
        self._free_changes -= change_count
        return step()

    def start_question(self, turn: int) -> None:
        """Forget an earlier question of the same turn, which a resumed session may have."""

        def forget() -> Sequence[Entry]:
            self._cells_of_turn.pop(turn, None)
            self._answers.pop(turn, None)
            return ()

        self._do(forget)

    def start_cell(self, number: int, cell: Cell, code: str) -> Sequence[Entry]:
        """Note a cell that starts. It may run stale cells again."""

        def start() -> Sequence[Entry]:
            self._cells[number] = cell
            if cell.turn is not None:
                self._cells_of_turn.setdefault(cell.turn, []).append(cell)
            return self._update(self._staleness.start(number, code))

        return self._do(start)

    def add_answer(self, turn: int, words: AnswerText) -> Sequence[Entry]:
        """Note the last words of an answer. Cells that it rests on may be stale already."""

        def add() -> Sequence[Entry]:
            self._answers[turn] = words
            self._doubt_answer(turn)
            return [words]

        return self._do(add)

    def change_namespace(self, record: Namespace) -> Sequence[Entry]:
        """Note changes of variables."""
        changes = record.changes
        # All names of a new kernel, and those of an undo, are noted together.
        is_ordinary = record.cell and not record.fresh and not record.restored
        if not is_ordinary or len(changes) <= self._max_changes:
            return self._do(partial(self._change, record), len(changes))

        changed_entries: list[Entry] = []
        part_size = int(self._max_changes)
        for start in range(0, len(changes), part_size):
            part = record.changed(changes=changes[start : start + part_size])
            changed_entries += self._do(partial(self._change, part), len(part.changes))
        return changed_entries

    def _change(self, record: Namespace) -> Sequence[Entry]:
        return self._update(self._staleness.fold(record))

    def undo(self, numbers: Collection[int], *, undone: bool) -> Sequence[Entry]:
        """Note that cells were undone, or redone.

        Args:
            numbers: The cells, whose `undone` is set already.
            undone: Whether they were undone.
        """

        def undo() -> Sequence[Entry]:
            cells = [self._cells[number] for number in numbers if number in self._cells]
            doubted_answers = self._doubt_answers(cells)
            return doubted_answers + self._update(self._staleness.undo(numbers, undone=undone))

        return self._do(undo)

    @property
    def outdated_cells(self) -> list[Cell]:
        """The cells that would have to run again, in order, so that all results hold.

        Those that have failed, and what uses only what these have made, are left out.
        """
        failed_cells = {number for number, cell in self._cells.items() if cell.status != "ok"}
        outdated_cells = self._staleness.outdated_cells(failed_cells)
        return [self._cells[number] for number in outdated_cells]

    def _update(self, numbers: Collection[int]) -> list[Entry]:
        """Update cells whose output may hold no longer, or again, and the answers that rest on
        them."""
        cells: list[Cell] = []
        for number in numbers:
            cell = self._cells[number]
            cell.stale_inputs = self._staleness.inputs_of(number)
            cell.rerun_number = self._staleness.rerun_of(number)
            cells.append(cell)
        return [*cells, *self._doubt_answers(cells)]

    def _doubt_answers(self, cells: Iterable[Cell]) -> list[Entry]:
        """Update the answers that rest on cells."""
        turns = {cell.turn for cell in cells if cell.turn is not None}
        answers: list[Entry] = []
        for turn in turns & self._answers.keys():
            self._doubt_answer(turn)
            answers.append(self._answers[turn])
        return answers

    def _doubt_answer(self, turn: int) -> None:
        """Update which cells of an answer no longer hold.

        What a later step for the same question has changed does not count, because the answer was
        written after it.
        """
        cells = self._cells_of_turn.get(turn, [])
        numbers = {cell.number for cell in cells}
        doubtful_cells: list[Cell] = []
        for cell in cells:
            changed_elsewhere = [
                stale_input
                for stale_input in cell.stale_inputs
                if stale_input.changed_by not in numbers
            ]
            if cell.undone or changed_elsewhere:
                doubtful_cells.append(cell)
        self._answers[turn].doubtful_cells = doubtful_cells
