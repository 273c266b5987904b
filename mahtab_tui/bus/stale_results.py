"""Marks the cells and answers of a conversation whose results no longer hold."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from mahtab_tui.bus.entries import AnswerText, Cell, Entry
from mahtab_tui.bus.records import Namespace
from mahtab_tui.bus.staleness import Staleness


class StaleResults:
    """Marks cells that have used variables that are different now, and answers that rest on them.

    Methods return the entries that have changed.
    """

    def __init__(self) -> None:
        self._staleness = Staleness()
        self._cells: dict[int, Cell] = {}
        """Cells that have run, by their numbers."""
        self._cells_of_turn: dict[int, list[Cell]] = {}
        """Cells that have run for a question."""
        self._answers: dict[int, AnswerText] = {}
        """By turn: the last words of the newest answer that ends with words."""

    def start_question(self, turn: int) -> None:
        """Forget an earlier question of the same turn, which a resumed session may have."""
        self._cells_of_turn.pop(turn, None)
        self._answers.pop(turn, None)

    def start_cell(self, number: int, cell: Cell, code: str) -> list[Entry]:
        """Note a cell that starts. It may run stale cells again."""
        self._cells[number] = cell
        if cell.turn is not None:
            self._cells_of_turn.setdefault(cell.turn, []).append(cell)
        return self._update(self._staleness.start(number, code))

    def add_answer(self, turn: int, words: AnswerText) -> None:
        """Note the last words of an answer. Cells that it rests on may be stale already."""
        self._answers[turn] = words
        self._doubt_answer(turn)

    def change_namespace(self, record: Namespace) -> list[Entry]:
        """Note changes of variables."""
        return self._update(self._staleness.fold(record))

    def undo(self, numbers: Collection[int], *, undone: bool) -> list[Entry]:
        """Note that cells were undone, or redone.

        Args:
            numbers: The cells, whose `undone` is set already.
            undone: Whether they were undone.
        """
        cells = [self._cells[number] for number in numbers if number in self._cells]
        doubted_answers = self._doubt_answers(cells)
        return doubted_answers + self._update(self._staleness.undo(numbers, undone=undone))

    @property
    def outdated_cells(self) -> list[Cell]:
        """The cells that would have to run again, in order, so that all results hold. Those that
        have failed, and what uses only what these have made, are left out."""
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
        """Update which cells of an answer no longer hold. What a later step for the same question has
        changed does not count, because the answer was written after it."""
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
