"""Folds the records of a session into entries.

The transcript and exports add to it what only they need. Entries stay in the order in which they came:
what an undo, a rewind or the user takes out of the conversation stays among them, marked as removed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from mahtab_tui.bus import records
from mahtab_tui.bus.answer_pieces import (
    AnswerPieces,
    AnswerRecord,
    AnswerStep,
    Piece,
    answer_author,
    answer_step,
)
from mahtab_tui.bus.answers import AnswerPart, answer_parts
from mahtab_tui.bus.entries import (
    AnswerText,
    AttachmentChip,
    Cell,
    Entry,
    Note,
    PlanStep,
    Question,
    Removal,
    ToolUse,
)
from mahtab_tui.bus.entry_names import code_entry
from mahtab_tui.bus.notes import NOTE_MAKERS
from mahtab_tui.bus.output_lines import DisplayedValue
from mahtab_tui.bus.plan_progress import PlanProgress
from mahtab_tui.bus.plans import requested_steps
from mahtab_tui.bus.records import Record
from mahtab_tui.bus.stale_results import StaleResults

MAX_CORRECTED_CHARS = 200_000
"""Characters of an answer up to which its streamed pieces are compared with the whole answer. For a
million, that takes a second."""


class Conversation:
    """The entries of a session, in order."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self._cells: dict[int, Cell] = {}
        """Cells that have run, by their numbers."""
        self._last_cell: Cell | None = None
        """The cell that has started last."""
        self._tools: dict[str, ToolUse] = {}
        """The uses of tools by their keys."""
        self._hidden_keys: set[str] = set()
        """Keys of entries that the model does not get. More pieces of a hidden answer may still
        arrive."""
        self._pieces: dict[AnswerStep, AnswerPieces] = {}
        """The pieces of the answers to the current question."""
        self._replacements: list[tuple[str, list[tuple[Entry, Removal]]]] = []
        """What each replacement has removed, by its first entry, the newest last: the entries, each
        with why it was removed before."""
        self._answer_starts: dict[str, Entry] = {}
        """The first piece of each answer, by the key of its words. It may have none."""
        self._marked_turns: set[int | None] = set()
        """Turns whose answers were stopped or cut off."""
        self._plans = PlanProgress()
        self._results = StaleResults()
        self._folds: dict[type[Record], Callable[[Any], None]] = {
            **dict.fromkeys(NOTE_MAKERS, self._fold_note),
            records.UserReplIn: self._fold_user_code,
            records.AssistantReplIn: self._fold_model_code,
            records.DisplayRecord: self._fold_display,
            records.UserReplOut: self._fold_output,
            records.AssistantReplOut: self._fold_output,
            records.Namespace: self._fold_namespace,
            records.FileChanges: self._fold_file_changes,
            records.UserChat: self._fold_question,
            records.UserAttachment: self._fold_attachment,
            records.AssistantChat: self._fold_answer,
            records.AssistantTool: self._fold_tool,
            records.Hide: self._fold_hide,
            records.Replace: self._fold_replace,
            records.Undo: self._fold_undo,
        }

    def fold(self, new_records: Iterable[Record]) -> None:
        """Add what records say, in their order."""
        for record in new_records:
            if fold := self._folds.get(type(record)):
                fold(record)

    def append(self, entry: Entry) -> None:
        """Add an entry at the end."""
        if entry.key in self._hidden_keys:
            entry.removed = "hidden"
        self.entries.append(entry)

    def touch(self, entry: Entry) -> None:
        """Mark an entry as changed."""

    def touch_output(self, cell: Cell) -> None:
        """Mark a cell's output as changed."""
        self.touch(cell)

    def touch_plan(self, cell: Cell) -> None:
        """Mark the question whose plan a cell carries out as changed."""
        question = self._plans.question(cell.turn)
        if question is not None:
            self.touch(question)

    def _touch_results(self, changed_entries: Iterable[Entry]) -> None:
        """Mark cells and answers as changed that hold no longer, or again."""
        for entry in changed_entries:
            if isinstance(entry, Cell):
                self.touch_output(entry)
            else:
                self.touch(entry)

    @property
    def outdated_cells(self) -> list[Cell]:
        """The cells that would have to run again, in order, so that all results hold."""
        self._touch_results(self._results.catch_up(math.inf))
        return self._results.outdated_cells

    def cell_to_undo(self, entry: Entry) -> Cell | None:
        """Return the cell at which an undo of an entry starts; None if nothing ran for it.

        For a cell, this is the cell itself. For an entry of a question or its answers, it is the
        first cell of the question that was not undone, or the first one if all were.
        """
        if isinstance(entry, Cell):
            if entry.number is not None:
                return entry
            return None
        # Notes and texts of a notebook belong to no question.
        if entry.turn is None or entry not in self.entries:
            return None
        cells = [cell for cell in self._entries_around(entry) if isinstance(cell, Cell)]
        model_cells = [cell for cell in cells if cell.ran_for_question]
        remaining_cells = [cell for cell in model_cells if not cell.undone]
        return next(iter(remaining_cells or model_cells), None)

    def _entries_around(self, entry: Entry) -> list[Entry]:
        """Return the entries from an entry's question to the one before the next question.

        Their numbers do not tell, because a resumed session may reuse them.
        """
        index = self.entries.index(entry)
        start = index
        while start > 0 and not isinstance(self.entries[start], Question):
            start -= 1
        end = index + 1
        while end < len(self.entries) and not isinstance(self.entries[end], Question):
            end += 1
        return self.entries[start:end]

    # Cells

    def _fold_user_code(self, record: records.UserReplIn) -> None:
        cell = Cell(author=record.party or "you", person=True, code=record.text)
        self.append(cell)
        self._start(cell, record)

    def _fold_model_code(self, record: records.AssistantReplIn) -> None:
        if record.guest is not None:
            cell = self._agent_cell(record)
        else:
            cell = self._block(record) or self._unproposed_cell(record)
            cell.approval = ""
        cell.code = record.text
        self._start(cell, record)
        self.touch(cell)
        self.touch_plan(cell)

    def _agent_cell(self, record: records.Approval | records.AssistantReplIn) -> Cell:
        author = record.party or "agent"
        cell = Cell(author=author, person=False, agent_index=record.guest, code=record.text)
        self.append(cell)
        return cell

    def _unproposed_cell(self, record: records.AssistantReplIn) -> Cell:
        """Add a cell for code that is in no answer so far."""
        cell = self._pieces_of(record).add_code(record, record.text)
        self.append(cell)
        return cell

    def _block(self, record: records.Approval | records.AssistantReplIn) -> Cell | None:
        """Return the proposed cell that a record is about.

        None if there is none, or if it ran already.
        """
        blocks = self._pieces_of(record).blocks
        if record.block is None or not 0 <= record.block < len(blocks):
            return None
        cell = blocks[record.block]
        return cell if cell.number is None else None

    def _start(self, cell: Cell, record: records.ReplIn) -> None:
        cell.number = record.cell
        cell.turn = record.turn
        cell.cell_number = record.position
        has_plan = self._plans.question(record.turn) is not None
        cell.step = None if has_plan else record.step
        self._last_cell = cell
        if record.cell is not None:
            cell.key = record.entry_name
            self._cells[record.cell] = cell
            self._touch_results(self._results.start_cell(record.cell, cell, record.text))

    def _fold_display(self, record: records.DisplayRecord) -> None:
        cell = self._find_cell(record.cell)
        if cell is None:
            return
        display = DisplayedValue(record.text, record.mime, record.data, record.value)
        if record.action == "clear":
            cell.clear_output()
        elif record.action == "update":
            cell.update_display(display, record.name)
        else:
            cell.add_display(display, record.name)
            return
        self.touch_output(cell)

    def _fold_output(self, record: records.ReplOut) -> None:
        cell = self._find_cell(record.cell, late=record.late)
        if cell is None:
            if record.late and record.text.strip():
                # Kernel output before the first cell.
                self.append(Note(level="quiet", text=record.text.rstrip()))
            return
        if record.late:
            cell.feed_late(record.text)
        else:
            self._end(cell, record)
            self.touch_plan(cell)
        self.touch_output(cell)

    def _end(self, cell: Cell, record: records.ReplOut) -> None:
        cell.end(record)

    def _find_cell(self, number: int | None, *, late: bool = False) -> Cell | None:
        """Find a cell; for late output without a number, the last one."""
        cell = None if number is None else self._cells.get(number)
        if cell is None and late:
            return self._last_cell
        return cell

    def _fold_namespace(self, record: records.Namespace) -> None:
        cell = self._find_cell(record.cell)
        if cell is not None and record.changes and not record.restored:
            cell.changes = record.changes
            self.touch_output(cell)
        self._touch_results(self._results.change_namespace(record))

    def _fold_file_changes(self, record: records.FileChanges) -> None:
        cell = self._find_cell(record.cell)
        if cell is not None:
            cell.files = record.changes
            self.touch_output(cell)

    # Questions and answers

    def _fold_question(self, record: records.UserChat) -> None:
        # Earlier answers are complete, and a resumed session may reuse their numbers.
        self._pieces.clear()
        self._marked_turns.clear()
        if record.turn is not None:
            self._results.start_question(record.turn)
        question = Question(author="you", text=record.text, key=record.entry_name, turn=record.turn)
        question.plan = [PlanStep(text) for text in requested_steps(record.text)]
        self._plans.start_question(question)
        self.append(question)

    def _fold_attachment(self, record: records.UserAttachment) -> None:
        questions = (entry for entry in reversed(self.entries) if isinstance(entry, Question))
        question = next(questions, None)
        # The transcript may have been cleared meanwhile.
        if question is not None and question.turn == record.turn:
            question.attachments.append(AttachmentChip(record.label, record.size, record.problem))
            self.touch(question)

    def _fold_answer(self, record: records.AssistantChat) -> None:
        pieces = self._pieces_of(record)
        if not pieces or len(record.text) <= MAX_CORRECTED_CHARS:
            self._correct(pieces, record)
        for number, cell in enumerate(pieces.blocks):
            if cell.number is None:
                cell.key = code_entry(record.turn, record.step, number)
        if record.figures:
            self._add_figures(pieces, record.figures)
        self._mark_end(pieces, record)

        visible_pieces = pieces.visible
        if visible_pieces:
            self._answer_starts[record.entry_name] = visible_pieces[0]
        if record.turn is not None and visible_pieces:
            last_piece = visible_pieces[-1]
            if isinstance(last_piece, AnswerText):
                self._touch_results(self._results.add_answer(record.turn, last_piece))
        for entry in self._plans.add_answer(record.turn, visible_pieces):
            self.touch(entry)

    def _pieces_of(self, record: AnswerRecord) -> AnswerPieces:
        """Return the pieces of the answer to which a record belongs."""
        return self._pieces.setdefault(answer_step(record), AnswerPieces())

    def _correct(self, pieces: AnswerPieces, record: records.AssistantChat) -> None:
        """Make the streamed pieces those of the whole answer."""
        correction = pieces.correct(record, self._answer_parts(record))
        for piece in correction.dropped:
            self._drop(piece)
        for piece in correction.changed:
            self.touch(piece)
        for piece in correction.added:
            self.append(piece)

    def _answer_parts(self, record: records.AssistantChat) -> Sequence[AnswerPart]:
        return answer_parts(record)

    def _drop(self, piece: Piece) -> None:
        """Hide a streamed piece that is not part of the whole answer."""
        piece.hidden = True
        self.touch(piece)

    def _add_figures(self, pieces: AnswerPieces, figures: Sequence[records.AnswerFigure]) -> None:
        for piece in pieces.visible:
            if isinstance(piece, AnswerText):
                piece.figures = figures
                piece.revision += 1
                self.touch(piece)

    def _mark_end(self, pieces: AnswerPieces, record: records.AssistantChat) -> None:
        """Show at the end of an answer that it was stopped or cut off."""
        if record.stopped:
            mark = "stopped"
        elif record.cut:
            mark = "cut off"
        else:
            return
        self._marked_turns.add(record.turn)
        if not pieces.visible:
            self.append(pieces.add_words(record, ""))
        last_piece = pieces.visible[-1]
        if isinstance(last_piece, AnswerText):
            last_piece.mark = mark
        else:
            last_piece.approval = mark
        self.touch(last_piece)

    def _fold_tool(self, record: records.AssistantTool) -> None:
        key = record.entry_name
        use = self._tools.get(key)
        if use is None:
            use = ToolUse(
                name=record.name,
                arguments=record.arguments,
                author=answer_author(record),
                turn=record.turn,
                key=key,
                collapsed=not record.is_plan,
                joined=True,
            )
            self._tools[key] = use
            self.append(use)
        # An agent may know later what it calls.
        use.name = record.name
        use.arguments = record.arguments
        use.state = record.state
        use.text = record.text
        self.touch(use)

    # What the user hides, replaces and undoes, and notes of it

    def _fold_hide(self, record: records.Hide) -> None:
        if record.hidden:
            self._hidden_keys.add(record.entry)
        else:
            self._hidden_keys.discard(record.entry)
        for entry in self.entries:
            if entry.key == record.entry and entry.removed != "replaced":
                entry.removed = "hidden" if record.hidden else ""
                self.touch(entry)

    def _fold_replace(self, record: records.Replace) -> None:
        if record.restored:
            self._restore_replaced(record.entry)
        else:
            self._remove_from(record.entry)
        self._fold_note(record)

    def _remove_from(self, first_key: str) -> None:
        """Mark an entry and those after it as replaced; all if it is unknown."""
        answer_start = self._answer_starts.get(first_key)
        first_index = 0
        for index, entry in enumerate(self.entries):
            if entry is answer_start or entry.key == first_key:
                first_index = index
                break
        if answer_start is not None:
            first_index = self._with_thoughts(first_index)
        removed_entries: list[tuple[Entry, Removal]] = []
        for entry in self.entries[first_index:]:
            removed_entries.append((entry, entry.removed))
            entry.removed = "replaced"
            self.touch(entry)
        self._replacements.append((first_key, removed_entries))

    def _with_thoughts(self, answer_index: int) -> int:
        """Return the index of the thoughts above an answer, or its own if there are none."""
        index = answer_index
        while index > 0:
            entry = self.entries[index - 1]
            if not (isinstance(entry, AnswerText) and entry.is_thought):
                break
            index -= 1
        return index

    def _restore_replaced(self, first_key: str) -> None:
        """Unmark what was replaced last from an entry on."""
        for index in range(len(self._replacements) - 1, -1, -1):
            key, removed_entries = self._replacements[index]
            if key == first_key:
                del self._replacements[index]
                for entry, removal in removed_entries:
                    entry.removed = removal
                    self.touch(entry)
                return

    def _fold_undo(self, record: records.Undo) -> None:
        for number in record.cells:
            cell = self._cells.get(number)
            if cell is not None:
                cell.undone = record.undone
                self.touch(cell)
                self.touch_plan(cell)
        self._touch_results(self._results.undo(record.cells, undone=record.undone))
        self._fold_note(record)

    def _fold_note(self, record: Record) -> None:
        note = NOTE_MAKERS[type(record)](record)
        if note.text:
            self.append(note)
