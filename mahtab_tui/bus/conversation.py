"""Folds the records of a session into entries. The transcript and exports add to it what only they
need."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, TypeVar

from mahtab_tui.bus import records
from mahtab_tui.bus.answers import AnswerPart, parse_response
from mahtab_tui.bus.entries import (
    AnswerText,
    AttachmentChip,
    Cell,
    Entry,
    Note,
    PlanStep,
    Question,
    ToolUse,
)
from mahtab_tui.bus.plans import last_named_step, opening_step, requested_steps
from mahtab_tui.bus.records import Record, code_entry
from mahtab_tui.bus.staleness import Staleness
from mahtab_tui.bus.terminal_screen import collapse

MAX_CORRECTED_CHARS = 200_000
"""Characters of an answer up to which its streamed pieces are compared with the whole answer. For a
million, that takes a second."""


def _note_of_notice(record: records.Notice) -> tuple[str, str]:
    return record.level, record.text


def _note_of_kernel(record: records.Kernel) -> tuple[str, str]:
    level = "error" if record.state == "dead" else "info"
    return level, record.text


def _note_of_skill(record: records.Skill) -> tuple[str, str]:
    state = "no longer loaded"
    if record.loaded:
        state = f"loaded ({record.chars:,} characters)"
    return "quiet", f"the skill {record.name} is {state}"


def _quiet_note(record: Record) -> tuple[str, str]:
    return "quiet", record.text


_NOTES: Mapping[type[Record], Callable[[Any], tuple[str, str]]] = {
    records.Notice: _note_of_notice,
    records.Kernel: _note_of_kernel,
    records.Skill: _note_of_skill,
    records.Undo: _quiet_note,
    records.Replace: _quiet_note,
    records.Restore: _quiet_note,
    records.Branch: _quiet_note,
}
"""Records that become notes, with the level and the text of each."""

PieceT = TypeVar("PieceT", bound=AnswerText | Cell)

Step = tuple[int | None, int | None]
"""The turn of a question, and the step of its answer."""


class Conversation:
    """The entries of a session, in order."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self._cells: dict[int, Cell] = {}
        self._last_cell: Cell | None = None
        self._tools: dict[str, ToolUse] = {}
        self._hidden: set[str] = set()
        """More pieces of a hidden answer may still arrive."""
        self._pieces: dict[Step, list[AnswerText | Cell]] = {}
        """Entries of the current question's answers."""
        self._marked: set[int | None] = set()
        """Turns whose answers were stopped or cut off."""
        self._plans: dict[int | None, Question] = {}
        """Questions that have a plan carried out, by their numbers."""
        self._staleness = Staleness()
        self._cells_of_turn: dict[int, list[Cell]] = {}
        """Cells that have run for a question, by its number."""
        self._answers: dict[int, AnswerText] = {}
        """The last words of each question's newest answer that ends with words, by the number of
        the question."""
        self._last_plan_steps: Sequence[int] = ()
        """The steps of a plan that the code of the newest answer carries out, from 1."""
        self._folds: dict[type[Record], Callable[[Any], None]] = {
            **dict.fromkeys(_NOTES, self._note),
            records.UserReplIn: self._user_code,
            records.AssistantReplIn: self._model_code,
            records.Display: self._display,
            records.UserReplOut: self._output,
            records.AssistantReplOut: self._output,
            records.Namespace: self._namespace,
            records.UserChat: self._question,
            records.UserAttachment: self._attachment,
            records.AssistantChat: self._answer,
            records.AssistantTool: self._tool,
            records.Hide: self._hide,
            records.Replace: self._replace,
            records.Undo: self._undo,
        }

    def fold(self, new_records: Iterable[Record]) -> None:
        for record in new_records:
            if fold := self._folds.get(type(record)):
                fold(record)

    def append(self, entry: Entry) -> None:
        """Add an entry at the end."""
        if entry.key in self._hidden:
            entry.removed = "hidden"
        self.entries.append(entry)

    def touch(self, entry: Entry) -> None:
        """Mark an entry as changed."""

    def touch_output(self, cell: Cell) -> None:
        """Mark a cell's output as changed."""
        self.touch(cell)

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
        """Return the entries from an entry's question to the one before the next question. Their
        numbers do not tell, because a resumed session may reuse them."""
        index = self.entries.index(entry)
        start = index
        while start > 0 and not isinstance(self.entries[start], Question):
            start -= 1
        end = index + 1
        while end < len(self.entries) and not isinstance(self.entries[end], Question):
            end += 1
        return self.entries[start:end]

    # Cells

    def _user_code(self, record: records.UserReplIn) -> None:
        cell = Cell(author=record.party or "you", person=True, code=record.text)
        self.append(cell)
        self._start(cell, record)

    def _model_code(self, record: records.AssistantReplIn) -> None:
        if record.guest is not None:
            cell = self._agent_cell(record)
        else:
            proposed_cell = self._block(record)
            if proposed_cell is None:
                pieces = self._pieces.setdefault(answer_step(record), [])
                new_cell = Cell(author=answer_author(record), person=False)
                proposed_cell = self._begin(pieces, new_cell)
            cell = proposed_cell
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

    def _block(self, record: records.Approval | records.AssistantReplIn) -> Cell | None:
        """Return the proposed cell that a record is about; None if there is none, or if it ran
        already."""
        blocks = code_blocks(self._pieces.get(answer_step(record), ()))
        if record.block is None or not 0 <= record.block < len(blocks):
            return None
        cell = blocks[record.block]
        return cell if cell.number is None else None

    def _start(self, cell: Cell, record: records.ReplIn) -> None:
        cell.number = record.cell
        cell.turn = record.turn
        cell.cell_number = record.position
        cell.step = None if record.turn in self._plans else record.step
        self._last_cell = cell
        if record.cell is not None:
            cell.key = record.entry_name
            self._cells[record.cell] = cell
            if record.turn is not None:
                self._cells_of_turn.setdefault(record.turn, []).append(cell)
            self._mark_stale(self._staleness.start(record.cell, record.text))

    def _display(self, record: records.Display) -> None:
        cell = self._find_cell(record.cell)
        if cell is None:
            return
        display = (record.text, record.mime, record.data, record.value)
        if record.action == "clear":
            cell.clear_output()
        elif record.action == "update":
            cell.update_display(display, record.name)
        else:
            cell.add_display(display, record.name)
            return
        self.touch_output(cell)

    def _output(self, record: records.ReplOut) -> None:
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
        # No pieces arrived, some were missed, or parts were overwritten and this is the final
        # output.
        if cell.output.received < len(record.text) or record.rewritten:
            cell.output.clear()
            displays = iter(cell.displays)
            position = 0
            for kind, length in record.kinds or (("stdout", len(record.text)),):
                text = record.text[position : position + length]
                if record.cut:  # raw output, because the cell did not end
                    text = collapse(text)
                cell.feed(kind, text, displays)
                position += length
        cell.displays.clear()
        cell.status = "cut off" if record.cut else record.status or ""
        cell.duration = record.duration

    def _find_cell(self, number: int | None, *, late: bool = False) -> Cell | None:
        """Find a cell; for late output without a number, the last one."""
        cell = None if number is None else self._cells.get(number)
        if cell is None and late:
            return self._last_cell
        return cell

    def _namespace(self, record: records.Namespace) -> None:
        cell = self._find_cell(record.cell)
        if cell is not None and record.changes and not record.restored:
            cell.changes = record.changes
            self.touch_output(cell)
        self._mark_stale(self._staleness.fold(record))

    def _mark_stale(self, numbers: Collection[int]) -> None:
        """Update cells whose output may hold no longer, or again, and the answers that rest on
        them."""
        stale_cells = [self._cells[number] for number in numbers]
        for number, cell in zip(numbers, stale_cells, strict=True):
            cell.stale_inputs = self._staleness.inputs_of(number)
            cell.rerun_number = self._staleness.rerun_of(number)
            self.touch_output(cell)
        self._doubt_answers(stale_cells)

    @property
    def outdated_cells(self) -> list[Cell]:
        """The cells that would have to run again, in order, so that all results hold. Those that
        have failed, and what uses only what these have made, are left out."""
        failed_cells = {number for number, cell in self._cells.items() if cell.status != "ok"}
        outdated_cells = self._staleness.outdated_cells(failed_cells)
        return [self._cells[number] for number in outdated_cells]

    def _doubt_answers(self, cells: Iterable[Cell]) -> None:
        """Update the answers that rest on the output of cells, which may hold no longer, or
        again."""
        turns = {cell.turn for cell in cells if cell.turn is not None}
        for turn in turns & self._answers.keys():
            answer = self._answers[turn]
            answer.doubtful_cells = [
                cell
                for cell in self._cells_of_turn.get(turn, ())
                if cell.undone or cell.stale_inputs
            ]
            self.touch(answer)

    # Questions and answers

    def _question(self, record: records.UserChat) -> None:
        # Earlier answers are complete, and a resumed session may reuse their numbers.
        self._pieces.clear()
        self._marked.clear()
        self._plans.pop(record.turn, None)
        if record.turn is not None:
            self._cells_of_turn.pop(record.turn, None)
            self._answers.pop(record.turn, None)
        self._last_plan_steps = ()
        question = Question(author="you", text=record.text, key=record.entry_name, turn=record.turn)
        question.plan = [PlanStep(text) for text in requested_steps(record.text)]
        if question.plan:
            self._plans[record.turn] = question
        self.append(question)

    def _attachment(self, record: records.UserAttachment) -> None:
        questions = (entry for entry in reversed(self.entries) if isinstance(entry, Question))
        question = next(questions, None)
        # The transcript may have been cleared meanwhile.
        if question is not None and question.turn == record.turn:
            question.attached.append(AttachmentChip(record.label, record.size, record.problem))
            self.touch(question)

    def _answer(self, record: records.AssistantChat) -> None:
        pieces = self._pieces.setdefault(answer_step(record), [])
        if not pieces or len(record.text) <= MAX_CORRECTED_CHARS:
            self._correct_pieces(pieces, record)
        for number, cell in enumerate(code_blocks(pieces)):
            if cell.number is None:
                cell.key = code_entry(record.turn, record.step, number)
        if record.figures:
            for piece in pieces:
                if isinstance(piece, AnswerText):
                    piece.figures = record.figures
                    piece.revision += 1
                    self.touch(piece)
        self._mark(record, pieces)
        visible_pieces = [piece for piece in pieces if not piece.hidden]
        if (
            record.turn is not None
            and visible_pieces
            and isinstance(visible_pieces[-1], AnswerText)
        ):
            self._answers[record.turn] = visible_pieces[-1]
        if (question := self._plans.get(record.turn)) is not None:
            self._assign_to_plan(question, pieces)

    def _assign_to_plan(self, question: Question, pieces: Sequence[AnswerText | Cell]) -> None:
        """Assign the code of an answer to the steps that its words name. Code before any name
        corrects the step that failed, or goes on with the last step."""
        steps = dict(enumerate(question.plan, 1))
        last_steps = [number for number in self._last_plan_steps if number in steps]
        failed_steps = [number for number in last_steps if steps[number].state == "failed"]
        current = next(iter([*failed_steps[:1], *last_steps[-1:]]), None)

        visible_pieces = [piece for piece in pieces if not piece.hidden]
        cells_by_number: dict[int, list[Cell]] = {}
        for piece in visible_pieces:
            if isinstance(piece, AnswerText):
                current = last_named_step(piece.source) or current
            elif current is not None:
                cells_by_number.setdefault(current, []).append(piece)
        if cells_by_number:
            self._last_plan_steps = list(cells_by_number)

        for number, cells in cells_by_number.items():
            if number not in steps:
                continue
            steps[number].cells = cells
            for cell in cells:
                cell.plan_part = f"{number} of {len(steps)}"
                self.touch(cell)
        if not cells_by_number and visible_pieces and isinstance(visible_pieces[0], AnswerText):
            answered = steps.get(opening_step(visible_pieces[0].source) or 0)
            if answered is not None:
                answered.is_answered = True
        self.touch(question)

    def touch_plan(self, cell: Cell) -> None:
        """Mark the question whose plan a cell carries out as changed."""
        if (question := self._plans.get(cell.turn)) is not None:
            self.touch(question)

    def _correct_pieces(
        self, pieces: list[AnswerText | Cell], record: records.AssistantChat
    ) -> None:
        """Make the streamed pieces those of the whole answer."""
        streamed = deque(pieces)
        for is_code, text in _split_code(self._answer_parts(record.text)):
            kind = Cell if is_code else AnswerText
            indexes = (index for index, piece in enumerate(streamed) if isinstance(piece, kind))
            index = next(indexes, None)
            if index is None:
                self._begin_piece(pieces, record, text, code=is_code)
                continue
            # The streamed pieces before the next one of this kind are not in the whole answer.
            for _ in range(index):
                self._drop(streamed.popleft())
            self._correct(streamed.popleft(), text)
        for piece in streamed:
            self._drop(piece)

    def _answer_parts(self, text: str) -> Sequence[AnswerPart]:
        return parse_response(text).parts

    def _begin_piece(
        self,
        pieces: list[AnswerText | Cell],
        record: records.AssistantChat | records.AssistantChatStream,
        text: str,
        *,
        code: bool,
        block: int | None = None,
    ) -> None:
        entry: AnswerText | Cell
        if code:
            entry = Cell(
                author=answer_author(record),
                person=False,
                code=text,
                block=block,
                turn=record.turn,
            )
        else:
            entry = AnswerText(
                author=answer_author(record),
                source=text,
                named=not pieces,
                key=record.entry_name,
                turn=record.turn,
            )
        self._begin(pieces, entry)

    def _begin(self, pieces: list[AnswerText | Cell], entry: PieceT) -> PieceT:
        entry.joined = bool(pieces)
        pieces.append(entry)
        self.append(entry)
        return entry

    def _correct(self, piece: AnswerText | Cell, text: str) -> None:
        """Give a streamed piece the text that it has in the whole answer."""
        if isinstance(piece, Cell):
            # Code that ran stays as it ran.
            if piece.number is None and piece.code != text:
                piece.code = text
                self.touch(piece)
        elif piece.source.strip("\n") != text.strip("\n"):
            piece.source = text
            piece.revision += 1
            self.touch(piece)

    def _drop(self, piece: AnswerText | Cell) -> None:
        piece.hidden = True
        self.touch(piece)

    def _mark(self, record: records.AssistantChat, pieces: list[AnswerText | Cell]) -> None:
        """Show at the end of an answer that it was stopped or cut off."""
        if record.stopped:
            mark = "stopped"
        elif record.cut:
            mark = "cut off"
        else:
            return
        self._marked.add(record.turn)

        visible_pieces = [piece for piece in pieces if not piece.hidden]
        if visible_pieces:
            last_piece = visible_pieces[-1]
        else:
            words = AnswerText(
                author=answer_author(record), key=record.entry_name, turn=record.turn
            )
            last_piece = self._begin(pieces, words)
        if isinstance(last_piece, AnswerText):
            last_piece.mark = mark
        else:
            last_piece.approval = mark
        self.touch(last_piece)

    def _tool(self, record: records.AssistantTool) -> None:
        key = record.entry_name
        use = self._tools.get(key)
        if use is None:
            use = ToolUse(
                name=record.name,
                arguments=record.arguments,
                author=answer_author(record),
                turn=record.turn,
                key=key,
                collapsed=True,
                joined=True,
            )
            self._tools[key] = use
            self.append(use)
        use.state = record.state
        use.text = record.text
        self.touch(use)

    # Marks

    def _hide(self, record: records.Hide) -> None:
        if record.hidden:
            self._hidden.add(record.entry)
        else:
            self._hidden.discard(record.entry)
        for entry in self.entries:
            if entry.key == record.entry and entry.removed != "replaced":
                entry.removed = "hidden" if record.hidden else ""
                self.touch(entry)

    def _replace(self, record: records.Replace) -> None:
        keys = [entry.key for entry in self.entries]
        first = 0
        if record.entry in keys:
            first = keys.index(record.entry)
        for entry in self.entries[first:]:
            entry.removed = "replaced"
            self.touch(entry)
        self._note(record)

    def _undo(self, record: records.Undo) -> None:
        cells = [self._cells[number] for number in record.cells if number in self._cells]
        for cell in cells:
            cell.undone = record.undone
            self.touch(cell)
            self.touch_plan(cell)
        self._doubt_answers(cells)
        self._mark_stale(self._staleness.undo(record.cells, undone=record.undone))
        self._note(record)

    def _note(self, record: Record) -> None:
        level, text = _NOTES[type(record)](record)
        if text:
            self.append(Note(level=level, text=text))


AnswerRecord = records.ModelRecord | records.AssistantReplIn | records.Approval


def answer_author(record: AnswerRecord) -> str:
    """Return the name above the entries of an answer."""
    return record.party or "model"


def answer_step(record: AnswerRecord) -> Step:
    """Return the answer to which a record belongs."""
    return record.turn, record.step


def _split_code(parts: Sequence[AnswerPart]) -> Iterator[tuple[bool, str]]:
    """Yield each code block, and the words between two of them as one text; whether it is code
    comes first."""
    for is_code, group in groupby(parts, key=lambda part: part.kind == "code"):
        texts = [part.text for part in group]
        if is_code:
            for code in texts:
                yield True, code
        elif words := "\n\n".join(text for text in texts if text.strip()):
            yield False, words


def code_blocks(pieces: Sequence[AnswerText | Cell]) -> list[Cell]:
    """Return the cells of an answer that are part of it."""
    return [piece for piece in pieces if isinstance(piece, Cell) and not piece.hidden]
