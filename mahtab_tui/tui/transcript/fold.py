"""Folds records into the entries of the transcript."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain

from mahtab_tui.bus import records
from mahtab_tui.bus.answer_pieces import AnswerStep, answer_author, answer_step
from mahtab_tui.bus.conversation import Conversation
from mahtab_tui.bus.entries import AnswerText, Cell, Entry, Note, Question, ToolUse
from mahtab_tui.bus.entry_names import unrun_cell_position
from mahtab_tui.bus.output import MAX_RICH_DISPLAYS, DisplayedValue, OutputBuffer
from mahtab_tui.bus.records import Record
from mahtab_tui.bus.sanitize import plain
from mahtab_tui.bus.stale_results import StaleResults
from mahtab_tui.tui.transcript.activities import Activities, Activity

MAX_LONG_OUTPUTS_CHARS = 32_000_000
"""Kept of all long outputs and pictures."""
LONG_OUTPUT_CHARS = 100_000
"""An output with at least this many characters is long."""
MAX_FOLDED_CHANGES = 10_000
"""Changes of variables that are folded at once, so that keys are not held up."""
KEPT_END_LINES = 20
"""Lines at each end that are kept of a long output when there are too many."""
_NO_MORE_CODE_REASONS = {
    "max-turns": "its steps are used up",
    "stalled": "its last steps brought nothing new",
}
"""Why no more code comes, by the state in a record."""
MAX_NOTEBOOK_TEXT_CHARS = 20_000
_BACKTICKS = re.compile("`+")


@dataclass(kw_only=True, eq=False)
class NotebookText(AnswerText):
    """A text cell of a notebook."""

    cell_number: int


def ends_with_bar(entry: Entry) -> bool:
    """Return whether the last row of an entry has the bar of the model."""
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
    """The entries that are drawn, and which of them have changed."""

    def __init__(self, since: float) -> None:
        """since: the session's start; nothing in older records runs."""
        super().__init__()
        self._results = StaleResults(MAX_FOLDED_CHANGES)
        self._activities = Activities(since)
        self._since = since
        self.positions: dict[Entry, int] = {}
        self._changed: set[int] = set()
        """Positions of the entries that changed since `pop_changed`."""
        self.codes: dict[int, str] = {}
        """The code of each cell that ran, by its number."""
        self.running: dict[int, Cell] = {}
        self.opened: Entry | None = None
        """The first entry of a notebook, where the view starts until something happens."""
        self._cells_by_number: dict[int, Cell] = {}
        self._long_outputs: deque[tuple[Cell, int]] = deque()
        self._long_chars = 0
        self._thought_texts: dict[AnswerStep, AnswerText] = {}
        self._waiting_cells: dict[str | None, Cell] = {}
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
        """Whether changes wait, which the next calls of `fold` take. Until then, the marks of
        results that no longer hold are those of before."""
        return self._results.is_behind

    def cell(self, number: int) -> Cell | None:
        """Return a cell that has run, if it is still in the transcript."""
        cell = self._cells.get(number)
        return cell if cell in self.positions else None

    @property
    def activity(self) -> Activity | None:
        return self._activities.current

    def copy_running(self) -> Transcript:
        """Return an empty transcript that goes on with the running cells."""
        fresh = Transcript(self._since)
        fresh._activities = self._activities
        fresh._hidden_keys = self._hidden_keys
        fresh.codes = self.codes
        fresh._cells_by_number = self._cells_by_number
        for number, cell in self.running.items():
            fresh.append(cell)
            fresh.running[number] = cell
            fresh._cells[number] = cell
            fresh._last_cell = cell
        return fresh

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

    def pop_changed(self) -> list[int]:
        """Return the positions of the entries that have changed since the last call, in order."""
        changed = sorted(self._changed)
        self._changed.clear()
        return changed

    def append(self, entry: Entry) -> None:
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
        index = self.positions[cell] + 1
        below = self.entries[index] if index < len(self.entries) else None
        if below is not None and below.joined and not ends_with_bar(cell):
            below.joined = False
            self.touch(below)

    def _start(self, cell: Cell, record: records.ReplIn) -> None:
        if self._last_cell is not None and self._last_cell.offers_explanation:
            self._last_cell.offers_explanation = False
            self.touch(self._last_cell)
        super()._start(cell, record)
        notebook_cell = self._cells_by_number.get(record.position or 0)
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
        for index, (*_, row) in enumerate(cell.frames):
            line = cell.output.from_end(row)
            if line is not None and line.kind == "traceback":
                line.frame = index
        cell.started = None
        cell.offers_explanation = cell.person and cell.status == "error" and cell is self._last_cell
        if record.cell is not None:
            self.running.pop(record.cell, None)
        self._limit_memory(cell)

    def _limit_memory(self, cell: Cell) -> None:
        """Cut the oldest long outputs if all of them are too long."""
        size = cell.output.size
        if len(cell.output) <= 2 * KEPT_END_LINES and size < LONG_OUTPUT_CHARS:
            return
        self._long_outputs.append((cell, size))
        self._long_chars += size
        while self._long_chars > MAX_LONG_OUTPUTS_CHARS and len(self._long_outputs) > 1:
            oldest_cell, oldest_size = self._long_outputs.popleft()
            oldest_cell.output.shrink(KEPT_END_LINES)
            self._long_chars -= oldest_size
            self.touch(oldest_cell)

    def _fold_question(self, record: records.UserChat) -> None:
        self._thought_texts.clear()
        super()._fold_question(record)

    def _fold_answer_piece(self, record: records.AssistantChatStream) -> None:
        """Add what has been streamed to the last piece of the answer, or begin a new piece."""
        pieces = self._pieces_of(record)
        # The answer begins anew, after a failed attempt.
        if record.fresh:
            for piece in pieces.pop_all():
                self._drop(piece)
            thought = self._thought_texts.pop(answer_step(record), None)
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
        entry = self._thought_texts.get(step)
        if entry is None:
            if not (is_whole or record.text.strip()):
                return
            entry = AnswerText(author=answer_author(record), source="", is_thought=True)
            self._thought_texts[step] = entry
            self.append(entry)
        if is_whole:
            entry.collapsed = True
            entry.correct(record.text)
        else:
            entry.source += record.text
        self.touch(entry)

    def _fold_approval(self, record: records.Approval) -> None:
        if record.time < self._since and record.state == "waiting":
            record = record.changed(state="not run")
        if record.guest is None:
            self._block_approval(record)
        else:
            self._agent_approval(record)

    def _block_approval(self, record: records.Approval) -> None:
        """Show on a block of an answer whether it waits or was not run."""
        cell = self._block(record)
        if cell is None:
            return
        visible_states = ("waiting", "not run", "skipped", "stopped", "refused")
        if record.state in visible_states:
            cell.approval = record.state
        else:
            cell.approval = ""
        if record.state == "waiting" and (record.blocks or 0) > 1:
            for number, block in enumerate(self._pieces_of(record).blocks, 1):
                block.block_position = f"{number}/{record.blocks}"
                self.touch(block)
        self._apply_answer(cell, record)
        self.touch_plan(cell)

    def _apply_answer(self, cell: Cell, record: records.Approval) -> None:
        cell.reason = record.reason
        if record.state == "edited" and record.text:
            cell.code = record.text
            cell.edited = True
        self.touch(cell)

    def _agent_approval(self, record: records.Approval) -> None:
        """Show code of an agent that waits, which has no entry yet, and what the user answers."""
        call = record.call
        state = record.state
        cell = self._waiting_cells.get(call)
        if cell is None:
            if state == "waiting":
                cell = super()._agent_cell(record)
                self._waiting_cells[call] = cell
                cell.approval = state
                self._number_waiting()
            return
        cell.approval = state if state in ("skipped", "stopped") else ""
        if cell.approval:
            del self._waiting_cells[call]
            self._number_waiting()
        self._apply_answer(cell, record)

    def _number_waiting(self) -> None:
        count = len(self._waiting_cells)
        for number, cell in enumerate(self._waiting_cells.values(), 1):
            cell.block_position = f"{number}/{count}" if count > 1 else ""
            self.touch(cell)

    def _agent_cell(self, record: records.Approval | records.AssistantReplIn) -> Cell:
        cell = self._waiting_cells.pop(record.call, None)
        self._number_waiting()
        if cell is None:
            return super()._agent_cell(record)
        return cell

    def _fold_review(self, record: records.Review) -> None:
        cell = self._cells.get(record.cells[0]) if record.cells else None
        if cell is not None:
            is_waiting = record.state == "waiting" and record.time >= self._since
            cell.approval = "waiting" if is_waiting else ""
            self.touch(cell)

    def _fold_tool(self, record: records.AssistantTool) -> None:
        is_cut_off = record.state == "running" and record.time < self._since
        super()._fold_tool(record.changed(state="cut off") if is_cut_off else record)

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
        speak of "the table above".
        """
        cells = self._cells_of_question(turn)
        if len(cells) == 1:
            return
        for cell in cells:
            is_spoken_of = cell is cells[-1] and cell.has_table
            if cell.status == "ok" and not cell.pictures and not is_spoken_of:
                cell.collapsed = True
                self.touch(cell)

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

    def _fold_kernel(self, record: records.KernelRecord) -> None:
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

    def _fold_notebook_opened(self, record: records.NotebookOpened) -> None:
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
        key = record.entry_name
        number = record.position
        if record.kind == "code":
            cell = Cell(
                author="notebook", person=True, code=record.text, cell_number=number, key=key
            )
            self._cells_by_number[number] = cell
            self.append(cell)
            return
        text = record.text[:MAX_NOTEBOOK_TEXT_CHARS]
        if record.kind != "markdown":
            # A fence must be longer than any run of backticks in the text.
            longest_run = max(map(len, _BACKTICKS.findall(text)), default=0)
            fence = "`" * max(3, longest_run + 1)
            text = f"{fence}\n{text}\n{fence}"
        omitted_chars = len(record.text) - MAX_NOTEBOOK_TEXT_CHARS
        if omitted_chars > 0:
            text += f"\n\n… {omitted_chars:,} characters left out"
        self.append(
            NotebookText(author="", shows_author=False, source=text, cell_number=number, key=key)
        )

    def _fold_notebook_output(self, record: records.NotebookOutput) -> None:
        cell = self._cells_by_number.get(record.position)
        if cell is not None and cell in self.positions:
            if record.mime:
                cell.output.show(record.text, record.mime, record.data)
            else:
                cell.output.feed(record.kind, record.text)
            self.touch_output(cell)
            self._limit_memory(cell)
