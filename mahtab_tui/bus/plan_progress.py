"""Follows which code carries out which step of a plan."""

from __future__ import annotations

from collections.abc import Sequence

from mahtab_tui.bus.answer_pieces import Piece
from mahtab_tui.bus.entries import AnswerText, Cell, Entry, Question
from mahtab_tui.bus.plans import last_named_step, opening_step


class PlanProgress:
    """Assigns the code of answers to the steps of plans that questions have carried out.

    Steps are numbered from 1, as in the plan.
    """

    def __init__(self) -> None:
        self._questions: dict[int | None, Question] = {}
        """The questions that have a plan, by their turns."""
        self._last_steps: Sequence[int] = ()
        """The steps that the code of the newest answer carries out."""

    def start_question(self, question: Question) -> None:
        """Note a question, and forget an earlier one of the same turn."""
        self._last_steps = ()
        self._questions.pop(question.turn, None)
        if question.plan:
            self._questions[question.turn] = question

    def question(self, turn: int | None) -> Question | None:
        """Return the question of a turn; None if it has no plan carried out."""
        return self._questions.get(turn)

    def add_answer(self, turn: int | None, pieces: Sequence[Piece]) -> list[Entry]:
        """Assign the code of a complete answer to the steps that its words name.

        Code before any name corrects the step that failed, or goes on with the last step.

        Args:
            turn: The turn of the answer.
            pieces: The words and code of the answer.

        Returns:
            The entries that have changed.
        """
        question = self._questions.get(turn)
        if question is None:
            return []
        cells_by_step = self._assign(question, pieces)
        if not cells_by_step:
            _mark_answered_step(question, pieces)
            return [question]

        self._last_steps = list(cells_by_step)
        changed_entries: list[Entry] = [question]
        step_count = len(question.plan)
        for number, cells in cells_by_step.items():
            # A model may name a step that the plan does not have.
            if number > step_count:
                continue
            question.plan[number - 1].cells = cells
            for cell in cells:
                cell.plan_part = f"{number} of {step_count}"
            changed_entries += cells
        return changed_entries

    def _assign(self, question: Question, pieces: Sequence[Piece]) -> dict[int, list[Cell]]:
        """Return the cells among the pieces by the number of their step."""
        current_step = self._step_to_continue(question)
        cells_by_step: dict[int, list[Cell]] = {}
        for piece in pieces:
            if isinstance(piece, AnswerText):
                current_step = last_named_step(piece.source) or current_step
            elif current_step is not None:
                cells_by_step.setdefault(current_step, []).append(piece)
        return cells_by_step

    def _step_to_continue(self, question: Question) -> int | None:
        """Return the step of code before any name: the first of the last steps that failed, or else
        the last one; None if there was none."""
        last_steps = [number for number in self._last_steps if number <= len(question.plan)]
        for number in last_steps:
            if question.plan[number - 1].state == "failed":
                return number
        return last_steps[-1] if last_steps else None


def _mark_answered_step(question: Question, pieces: Sequence[Piece]) -> None:
    """Mark the step whose name an answer without code begins with."""
    if not pieces or not isinstance(pieces[0], AnswerText):
        return
    number = opening_step(pieces[0].source)
    if number is not None and 1 <= number <= len(question.plan):
        question.plan[number - 1].is_answered = True
