"""Folds records into the entries of the transcript.

`bus.conversation.Conversation` makes the entries that exports also have. `Transcript` adds what only a
screen shows: output and answers while they stream, what runs and what waits for the user, the cells of
an opened notebook; and it notes which entries must be drawn again.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

from mahtab_tui.bus import records
from mahtab_tui.bus.answer_pieces import AnswerStep, answer_author, answer_step
from mahtab_tui.bus.conversation import Conversation
from mahtab_tui.bus.entries import AnswerText, Cell, Entry, Note, Question, ToolUse
from mahtab_tui.bus.entry_names import unrun_cell_position
from mahtab_tui.bus.output import MAX_RICH_DISPLAYS, OutputBuffer
from mahtab_tui.bus.output_lines import DisplayedValue
from mahtab_tui.bus.records import Record
from mahtab_tui.bus.sanitize import plain
from mahtab_tui.bus.stale_results import StaleResults
from mahtab_tui.tui.transcript.activities import Activities, Activity
from mahtab_tui.tui.transcript.long_outputs import LongOutputs
from mahtab_tui.tui.transcript.notebook_text import NotebookText, make_notebook_text

MAX_FOLDED_CHANGES = 10_000
"""Changes of variables that are folded at once, so that keys are not held up."""

_NO_MORE_CODE_REASONS = {
    "max-turns": "its steps are used up",
    "stalled": "its last steps brought nothing new",
}
"""Why no more code comes, by the state in a record."""
_VISIBLE_APPROVALS = ("waiting", "not run", "skipped", "stopped", "refused")
"""The states of proposed code that are shown on it. After others, it has run or is about to."""


def ends_with_bar(entry: Entry) -> bool:
    """Return whether the last row of an entry has the bar of the model.

    The next entry of the model is then drawn without a gap, so that the bar goes on.
    """
    if isinstance(entry, Cell):
        return not (entry.person or len(entry.output) or entry.changes or entry.files)
    return isinstance(entry, AnswerText | ToolUse) and not isinstance(entry, NotebookText)


def output_text(cell: Cell) -> str:
    """Return the printed text of a cell, also what it printed after it had ended."""
    return "\n".join(_plain_text(output) for output in (cell.output, cell.late_output) if output)


def _plain_text(output: OutputBuffer) -> str:
    lines = [line.text for line in output]
    if output.omitted_lines:
        lines.insert(len(output.head), f"… {output.omitted_lines:,} lines left out …")
    text = "\n".join(lines)
    # Most output is plain text already.
    if plain(text) is text:
        return text
    return "\n".join(map(plain, lines))


class Transcript(Conversation):
    """The entries that are drawn, and which of them have changed.

    It also gets the records of a resumed session. What runs or waits in those is over.
    """

    def __init__(self, since: float) -> None:
        """
        Args:
            since: When the session was opened, in seconds since the epoch. Nothing that began in
                older records is still running.
        """
        super().__init__()
        self._since = since
        self._results = StaleResults(MAX_FOLDED_CHANGES)
        self._activities = Activities(since)
        self.positions: dict[Entry, int] = {}
        """The index of each entry in `entries`."""
        self._changed: set[int] = set()
        """Positions of the entries that changed since `pop_changed`."""
        self.codes: dict[int, str] = {}
        """The code of each cell that ran, by its number."""
        self.running: dict[int, Cell] = {}
        """The cells that are running, by their numbers."""
        self.opened: Entry | None = None
        """The first entry of a notebook, where the view starts until something happens."""
        self._notebook_cells: dict[int, Cell] = {}
        """The code cells of the opened notebook, by their positions in it, from 1."""
        self._long_outputs = LongOutputs()
        self._thoughts: dict[AnswerStep, AnswerText] = {}
        """What the model thought before each of its answers to the current question."""
        self._waiting_cells: dict[str | None, Cell] = {}
        """Code of joined agents that waits for the user, by the call that sent it."""
        self._folds |= {
            records.UserReplOutStream: self._fold_output_piece,
            records.AssistantReplOutStream: self._fold_output_piece,
            records.AssistantChatStream: self._fold_answer_piece,
            records.AssistantThoughtStream: self._fold_thought,
            records.AssistantThought: self._fold_thought,
            records.Approval: self._fold_approval,
            records.Review: self._fold_review,
            records.Agent: self._fold_agent,
            records.KernelRecord: self._fold_kernel,
            records.NotebookOpened: self._fold_notebook_opened,
            records.NotebookCell: self._fold_notebook_cell,
            records.NotebookOutput: self._fold_notebook_output,
        }

    def fold(self, new_records: Iterable[Record]) -> None:
        self._touch_results(self._results.catch_up())
        for record in new_records:
            self._activities.fold(record)
            fold = self._folds.get(type(record))
            if fold:
                fold(record)

    @property
    def is_behind(self) -> bool:
        """Whether changes of variables wait for the next calls of `fold`.

        Until they are folded, results may still look valid that no longer are.
        """
        return self._results.is_behind

    @property
    def activity(self) -> Activity | None:
        """What the model or an agent is doing; None if nothing is drawn of it."""
        return self._activities.current

    @property
    def last_answer(self) -> str:
        """The model's words since the last question."""
        texts: list[str] = []
        for entry in reversed(self.entries):
            if isinstance(entry, Question):
                break
            if isinstance(entry, AnswerText) and not (
                entry.is_thought or entry.hidden or entry.removed
            ):
                texts.append(entry.source)
        return "\n\n".join(reversed(texts))

    @property
    def last_error(self) -> Cell | None:
        """The newest failed cell of the model's conversation."""
        for entry in reversed(self.entries):
            if not isinstance(entry, Cell) or entry.number is None:
                continue
            if entry.status == "error" and not entry.removed:
                return entry
        return None

    @property
    def failed_cell(self) -> Cell | None:
        """The newest entry, if it is a failed cell of the user."""
        cell = self._last_cell
        if cell is None or not cell.offers_explanation:
            return None
        return cell

    def cell(self, number: int) -> Cell | None:
        """Return a cell that has run, if it is still in the transcript."""
        cell = self._cells.get(number)
        return cell if cell in self.positions else None

    def copy_running(self) -> Transcript:
        """Return a transcript that has only the running cells, for a screen that was cleared."""
        fresh = Transcript(self._since)
        fresh._activities = self._activities
        fresh._hidden_keys = self._hidden_keys
        fresh.codes = self.codes
        fresh._notebook_cells = self._notebook_cells
        for number, cell in self.running.items():
            fresh.append(cell)
            fresh.running[number] = cell
            fresh._cells[number] = cell
            fresh._last_cell = cell
        return fresh

    # Which entries are drawn again

    def append(self, entry: Entry) -> None:
        # Something happens after a notebook was opened.
        is_unrun_cell = unrun_cell_position(entry.key) is not None
        if not isinstance(entry, Note) and not is_unrun_cell:
            self.opened = None

        previous = self.entries[-1] if self.entries else None
        are_notes = isinstance(entry, Note) and isinstance(previous, Note)
        entry.gap = previous is not None and not are_notes
        entry.joined = entry.joined and previous is not None and ends_with_bar(previous)

        self.positions[entry] = len(self.entries)
        self._changed.add(len(self.entries))
        super().append(entry)

    def touch(self, entry: Entry) -> None:
        """Note that an entry must be drawn again."""
        position = self.positions.get(entry)
        if position is not None:
            entry.version += 1
            self._changed.add(position)

    def touch_output(self, cell: Cell) -> None:
        """Note that a cell has output, so that an entry below it is no longer joined to its bar."""
        self.touch(cell)
        position_below = self.positions[cell] + 1
        if position_below == len(self.entries):
            return
        entry_below = self.entries[position_below]
        if entry_below.joined and not ends_with_bar(cell):
            entry_below.joined = False
            self.touch(entry_below)

    def pop_changed(self) -> list[int]:
        """Return the positions of the entries that have changed since the last call, in order."""
        changed = sorted(self._changed)
        self._changed.clear()
        return changed

    # Cells

    def _start(self, cell: Cell, record: records.ReplIn) -> None:
        # Only the newest cell offers to explain its error.
        if self._last_cell is not None and self._last_cell.offers_explanation:
            self._last_cell.offers_explanation = False
            self.touch(self._last_cell)
        super()._start(cell, record)
        notebook_cell = self._notebook_cells.get(record.position or 0)
        if notebook_cell is not None:
            notebook_cell.ran_as = record.cell
            self.touch(notebook_cell)
        if record.cell is not None:
            self.codes[record.cell] = record.text
            if record.time >= self._since:
                cell.started = record.time
                self.running[record.cell] = cell

    def _fold_output_piece(self, record: records.ReplOutStream) -> None:
        cell = self._find_cell(record.cell, late=record.late)
        if cell is None:
            return
        if record.late:
            cell.feed_late(record.text)
        else:
            cell.feed(record.kind, record.text, iter(cell.displays[-1:]))
        self.touch_output(cell)

    def _fold_display(self, record: records.DisplayRecord) -> None:
        super()._fold_display(record)
        cell = self._find_cell(record.cell)
        # As in the output, displays in the middle become plain text.
        if cell is not None and len(cell.displays) > MAX_RICH_DISPLAYS:
            middle = -MAX_RICH_DISPLAYS // 2 - 1
            cell.displays[middle] = DisplayedValue(cell.displays[middle].text, "", "", "")

    def _end(self, cell: Cell, record: records.ReplOut) -> None:
        super()._end(cell, record)
        cell.frames = record.frames or ()
        # The lines of the traceback that open its frames.
        for index, frame in enumerate(cell.frames):
            line = cell.output.from_end(frame.row)
            if line is not None and line.kind == "traceback":
                line.frame = index
        cell.started = None
        cell.offers_explanation = cell.person and cell.status == "error" and cell is self._last_cell
        if record.cell is not None:
            self.running.pop(record.cell, None)
        self._add_long_output(cell)

    def _add_long_output(self, cell: Cell) -> None:
        for cut_cell in self._long_outputs.add(cell):
            self.touch(cut_cell)

    def _fold_kernel(self, record: records.KernelRecord) -> None:
        # A kernel that was left running says which cell it still runs.
        cell = self._find_cell(record.cell)
        if cell is not None and record.since and record.time >= self._since:
            self._continue_cell(cell, record.since)
        self._fold_note(record)

    def _continue_cell(self, cell: Cell, since: float) -> None:
        """Note that a cell runs which an earlier screen left running."""
        if cell.number is None or cell.started is not None or cell.status:
            return
        cell.started = since
        self.running[cell.number] = cell
        self.touch(cell)

    # Answers while they stream

    def _fold_question(self, record: records.UserChat) -> None:
        self._thoughts.clear()
        super()._fold_question(record)

    def _fold_answer_piece(self, record: records.AssistantChatStream) -> None:
        """Add what has been streamed to the last piece of the answer, or begin a new piece."""
        pieces = self._pieces_of(record)
        # The answer begins anew, after a failed attempt.
        if record.fresh:
            for piece in pieces.pop_all():
                self._drop(piece)
            thought = self._thoughts.pop(answer_step(record), None)
            if thought is not None:
                self._drop(thought)
            return

        last_piece = pieces.last
        if record.kind == "code":
            if isinstance(last_piece, Cell) and last_piece.block == record.block:
                last_piece.code += record.text
                self.touch(last_piece)
            else:
                self.append(pieces.add_code(record, record.text, record.block))
        elif isinstance(last_piece, AnswerText):
            last_piece.source += record.text
            self.touch(last_piece)
        elif record.text.strip():
            self.append(pieces.add_words(record, record.text))

    def _fold_thought(
        self, record: records.AssistantThought | records.AssistantThoughtStream
    ) -> None:
        """Show what the model thinks above its answer; a whole thought is collapsed."""
        step = answer_step(record)
        is_whole = isinstance(record, records.AssistantThought)
        entry = self._thoughts.get(step)
        if entry is None:
            # Some models begin each answer with an empty thought.
            if not (is_whole or record.text.strip()):
                return
            entry = AnswerText(author=answer_author(record), source="", is_thought=True)
            self._thoughts[step] = entry
            self.append(entry)
        if is_whole:
            entry.collapsed = True
            entry.correct(record.text)
        else:
            entry.source += record.text
        self.touch(entry)

    def _fold_tool(self, record: records.AssistantTool) -> None:
        # The program ended while the tool ran.
        if record.state == "running" and record.time < self._since:
            record = record.changed(state="cut off")
        super()._fold_tool(record)

    # Code that waits for the user

    def _fold_approval(self, record: records.Approval) -> None:
        # The program ended before the user answered.
        if record.time < self._since and record.state == "waiting":
            record = record.changed(state="not run")
        if record.guest is None:
            self._fold_block_approval(record)
        else:
            self._fold_agent_approval(record)

    def _fold_block_approval(self, record: records.Approval) -> None:
        """Show on a block of an answer whether it waits or was not run."""
        cell = self._block(record)
        if cell is None:
            return
        cell.approval = record.state if record.state in _VISIBLE_APPROVALS else ""
        if record.state == "waiting" and (record.blocks or 0) > 1:
            for number, block in enumerate(self._pieces_of(record).blocks, 1):
                block.block_position = f"{number}/{record.blocks}"
                self.touch(block)
        self._apply_decision(cell, record)
        self.touch_plan(cell)

    def _fold_agent_approval(self, record: records.Approval) -> None:
        """Show code of a joined agent that waits, and then what the user decides.

        Such code is in no answer, so it gets its entry when it begins to wait.
        """
        call = record.call
        cell = self._waiting_cells.get(call)
        if cell is None:
            if record.state == "waiting":
                cell = super()._agent_cell(record)
                self._waiting_cells[call] = cell
                cell.approval = record.state
                self._number_waiting_cells()
            return
        if record.state in ("skipped", "stopped"):
            cell.approval = record.state
            del self._waiting_cells[call]
            self._number_waiting_cells()
        else:
            cell.approval = ""
        self._apply_decision(cell, record)

    def _agent_cell(self, record: records.Approval | records.AssistantReplIn) -> Cell:
        # Code that waited has an entry already.
        cell = self._waiting_cells.pop(record.call, None)
        self._number_waiting_cells()
        if cell is None:
            return super()._agent_cell(record)
        return cell

    def _number_waiting_cells(self) -> None:
        """Show on each waiting cell which of them it is, such as ``1/2``, if there are several."""
        count = len(self._waiting_cells)
        for number, cell in enumerate(self._waiting_cells.values(), 1):
            cell.block_position = f"{number}/{count}" if count > 1 else ""
            self.touch(cell)

    def _apply_decision(self, cell: Cell, record: records.Approval) -> None:
        """Show what the user decided: the reason, and the code if they have edited it."""
        cell.reason = record.reason
        if record.state == "edited" and record.text:
            cell.code = record.text
            cell.edited = True
        self.touch(cell)

    def _fold_review(self, record: records.Review) -> None:
        """Show on a cell that the user is asked to review what it changed."""
        cell = self._cells.get(record.cells[0]) if record.cells else None
        if cell is not None:
            is_waiting = record.state == "waiting" and record.time >= self._since
            cell.approval = "waiting" if is_waiting else ""
            self.touch(cell)

    # The end of an answer

    def _fold_agent(self, record: records.Agent) -> None:
        if record.state in _NO_MORE_CODE_REASONS:
            author = (record.party or "model").capitalize()
            text = f"{author} runs no more code for this question"
            reason = _NO_MORE_CODE_REASONS[record.state]
            self.append(Note(level="warning", text=f"{text}: {reason}."))
        elif record.state == "stopped":
            self._note_stop(record)
        elif record.state == "done":
            self._collapse_steps(record.turn)
            self._mark_code_not_run()

    def _note_stop(self, record: records.Agent) -> None:
        """Say after which cells a question was stopped."""
        names = [f"In {cell.number}" for cell in self._cells_of_question(record.turn)]
        if names:
            text = f"stopped; until then, {', '.join(names)} ran"
            self.append(Note(level="quiet", text=text))
        elif record.turn not in self._marked_turns:
            self.append(Note(level="quiet", text="stopped"))

    def _collapse_steps(self, turn: int | None) -> None:
        """Collapse the cells of a question that took several, except those that failed or drew.

        The last one also stays open if it shows more than a line, because the answer below may
        speak of "the table above", and if there are no words below: then its output is the answer.
        """
        cells = self._cells_of_question(turn)
        if len(cells) == 1:
            return
        for cell in cells:
            is_needed = cell is cells[-1] and (cell.has_table or not self._has_words_below(cell))
            if cell.status == "ok" and not cell.pictures and not is_needed:
                cell.collapsed = True
                self.touch(cell)

    def _has_words_below(self, cell: Cell) -> bool:
        """Return whether the model says something after a cell."""
        for entry in reversed(self.entries):
            if entry is cell:
                break
            if isinstance(entry, AnswerText) and not entry.is_thought:
                return True
        return False

    def _mark_code_not_run(self) -> None:
        """Mark code of the answers that have just ended, such as that of the last one."""
        for cell in chain.from_iterable(pieces.blocks for pieces in self._pieces.values()):
            if cell.number is None and not cell.approval:
                cell.approval = "not run"
                self.touch(cell)
                self.touch_plan(cell)

    def _cells_of_question(self, turn: int | None) -> list[Cell]:
        """Return the model's cells of a question that have run, in order."""
        cells: list[Cell] = []
        for entry in reversed(self.entries):
            if isinstance(entry, Question) and entry.turn not in (None, turn):
                break
            if isinstance(entry, Cell) and entry.turn == turn and entry.ran_for_question:
                cells.append(entry)
        return cells[::-1]

    # Notebooks

    def _fold_notebook_opened(self, record: records.NotebookOpened) -> None:
        """Note that a notebook was opened, and mark the cells of the last one that did not run."""
        for entry in self.entries:
            is_unrun_cell = unrun_cell_position(entry.key) is not None
            if is_unrun_cell and not entry.removed:
                entry.removed = "replaced"
                self.touch(entry)
        note = Note(level="info", text=record.text)
        self.append(note)
        self.opened = note

    def _fold_notebook_cell(self, record: records.NotebookCell) -> None:
        """Add a cell of a notebook: code that has not run, or text."""
        if record.kind != "code":
            self.append(make_notebook_text(record))
            return
        cell = Cell(
            author="notebook",
            person=True,
            code=record.text,
            cell_number=record.position,
            key=record.entry_name,
        )
        self._notebook_cells[record.position] = cell
        self.append(cell)

    def _fold_notebook_output(self, record: records.NotebookOutput) -> None:
        """Show what is in the notebook's file as the output of a cell."""
        cell = self._notebook_cells.get(record.position)
        if cell is None or cell not in self.positions:
            return
        if record.mime:
            cell.output.show(record.text, record.mime, record.data)
        else:
            cell.output.feed(record.kind, record.text)
        self.touch_output(cell)
        self._add_long_output(cell)
