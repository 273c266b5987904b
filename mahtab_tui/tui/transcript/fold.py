"""Folds records into the entries of the transcript."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from mahtab_tui.bus import records
from mahtab_tui.bus.prompt import cell_entry, question_entry, tool_entry
from mahtab_tui.bus.records import Record
from mahtab_tui.bus.terminal_screen import collapse
from mahtab_tui.kernel.values import TracebackFrame
from mahtab_tui.tui.transcript.answers import AgentCells, AnswerEntries
from mahtab_tui.tui.transcript.entries import (
    Activities,
    Activity,
    AttachmentChip,
    Cell,
    Entry,
    Note,
    OutputMemory,
    Question,
    ToolUse,
    ends_with_bar,
    to_entry,
)
from mahtab_tui.tui.transcript.output import RICH_DISPLAYS, OutputBuffer


class Transcript:
    """The entries, and which of them have changed. The cost of a change does not depend on the
    number of entries."""

    def __init__(self, since: float) -> None:
        """since: the start of the session, in seconds since the epoch; nothing in older records is
        still running."""
        self.entries: list[Entry] = []
        self.pinned: list[Entry] = []
        """Pinned entries, in the order in which they were pinned."""
        self._activities = Activities(since)
        self._since = since
        self.positions: dict[Entry, int] = {}
        self._changed: set[int] = set()
        self._cells: dict[int, Cell] = {}
        self.codes: dict[int, str] = {}
        """Code of each cell by number, including cells that were cleared."""
        self._tools: dict[str, ToolUse] = {}
        self._last_cell: Cell | None = None
        self.running: dict[int, Cell] = {}
        self._hidden: set[str] = set()
        """Names of hidden entries; more pieces of a hidden answer may still arrive."""
        self.opened: Entry | None = None
        """The first entry of a notebook, until the user scrolls or something runs; the view starts
        there."""
        self._cells_by_number: dict[int, Cell] = {}
        """Code cells of the notebook, by their position in it."""
        self._memory = OutputMemory()
        self._answers = AnswerEntries(self.append, self.touch)
        self._agent_cells = AgentCells(self.append, self.touch)
        self._folds: dict[type[Record], Callable[[Any], None]] = {
            records.UserReplIn: self._user_code,
            records.AssistantReplIn: self._model_code,
            records.UserReplOutStream: self._output_piece,
            records.AssistantReplOutStream: self._output_piece,
            records.Display: self._display,
            records.UserReplOut: self._output,
            records.AssistantReplOut: self._output,
            records.Namespace: self._namespace,
            records.UserChat: self._question,
            records.UserAttachment: self._attachment,
            records.AssistantChatStream: self._answers.token,
            records.AssistantChat: self._answers.answer,
            records.AssistantThoughtStream: self._answers.thought_piece,
            records.AssistantThought: self._answers.thought,
            records.AssistantTool: self._tool,
            records.Skill: self._skill,
            records.Approval: self._approval,
            records.Review: self._review,
            records.Agent: self._agent,
            records.Kernel: self._kernel,
            records.Notice: self._notice,
            records.Hide: self._hide,
            records.Replace: self._replace,
            records.Pin: self._pin,
            records.Undo: self._undo,
            records.Restore: self._report,
            records.Branch: self._report,
            records.Plan: self._plan,
            records.NotebookFile: self._notebook_file,
            records.NotebookCell: self._notebook_cell,
            records.NotebookOutput: self._notebook_output,
        }

    def fold(self, new_records: Sequence[Record]) -> None:
        for record in new_records:
            self._activities.fold(record)
            if fold := self._folds.get(type(record)):
                fold(record)

    def cell(self, number: int) -> Cell | None:
        """Return the entry of a cell; None if the transcript does not contain it."""
        cell = self._cells.get(number)
        return cell if cell in self.positions else None

    @property
    def activity(self) -> Activity | None:
        return self._activities.current

    def copy_running(self) -> Transcript:
        """Return a new transcript with only the running cells."""
        fresh = Transcript(self._since)
        fresh._activities, fresh._hidden = self._activities, self._hidden
        fresh.codes = self.codes
        fresh._cells_by_number = self._cells_by_number
        for number, cell in self.running.items():
            fresh.append(cell)
            fresh.running[number] = fresh._cells[number] = fresh._last_cell = cell
        return fresh

    @property
    def last_error(self) -> Cell | None:
        """The newest failed cell that is part of the model's conversation."""
        cells = (
            entry
            for entry in reversed(self.entries)
            if isinstance(entry, Cell) and not entry.removed
        )
        return next(
            (cell for cell in cells if cell.status == "error" and cell.number is not None), None
        )

    def pop_changed(self) -> list[int]:
        """Return the indexes of entries that are new or changed since the last call, in order."""
        changed = sorted(self._changed)
        self._changed.clear()
        return changed

    def append(self, entry: Entry) -> None:
        if not (isinstance(entry, Note) or entry.key.startswith("place ")):
            self.opened = None
        last = self.entries[-1] if self.entries else None
        entry.gap = last is not None and not (isinstance(entry, Note) and isinstance(last, Note))
        entry.joined = entry.joined and last is not None and ends_with_bar(last)
        if entry.key in self._hidden:
            entry.removed = "hidden"
        self.positions[entry] = len(self.entries)
        self._changed.add(len(self.entries))
        self.entries.append(entry)

    def touch(self, entry: Entry) -> None:
        """Mark an entry as changed, unless it was cleared."""
        if (position := self.positions.get(entry)) is not None:
            entry.version += 1
            self._changed.add(position)

    # Cells

    def _user_code(self, record: records.UserReplIn) -> None:
        cell = Cell(author=record.party or "you", person=True, code=record.text)
        self.append(cell)
        self._start(cell, record)

    def _model_code(self, record: records.AssistantReplIn) -> None:
        cells = self._answers if record.guest is None else self._agent_cells
        cell = cells.start_code(record)
        self._start(cell, record)
        self.touch(cell)

    def _start(self, cell: Cell, record: records.ReplIn) -> None:
        number = record.cell
        cell.number = number
        if self._last_cell is not None and self._last_cell.offers_explanation:
            self._last_cell.offers_explanation = False
            self.touch(self._last_cell)
        self._last_cell = cell
        if record.place is not None:
            cell.cell_number = record.place
            if (stored := self._cells_by_number.get(record.place)) is not None:
                stored.ran_as = number
                self.touch(stored)
        if number is None:
            return
        cell.key = cell_entry(number)
        self.codes[number] = record.text
        self._cells[number] = cell
        if record.time >= self._since:
            cell.started = record.time
            self.running[number] = cell

    def _output_piece(self, record: records.ReplOutStream) -> None:
        cell = self._cell(record.cell, late=record.late)
        if cell is None:
            return
        if record.late:
            self._feed_late_output(cell, record.text)
        else:
            _feed(cell, record.kind, record.text, iter(cell.displays[-1:]))
        self._redraw_grown(cell)

    def _display(self, record: records.Display) -> None:
        if (cell := self._cell(record.cell)) is None:
            return
        cell.displays.append((record.text, record.mime, record.data, record.value))
        # As in the output, displays in the middle become plain text.
        if len(cell.displays) > RICH_DISPLAYS:
            middle = -RICH_DISPLAYS // 2 - 1
            cell.displays[middle] = (cell.displays[middle][0], "", "", "")

    def _output(self, record: records.ReplOut) -> None:
        cell = self._cell(record.cell, late=record.late)
        if cell is None:
            if record.late and record.text.strip():
                # Kernel output before the first cell.
                self.append(Note(level="quiet", text=record.text.rstrip()))
            return
        if record.late:
            self._feed_late_output(cell, record.text)
        else:
            self._end(cell, record)
        self._redraw_grown(cell)

    def _redraw_grown(self, cell: Cell) -> None:
        """Redraw a cell that now has output, because the entry below is no longer joined to its
        code."""
        self.touch(cell)
        following = self.positions[cell] + 1
        if (
            following < len(self.entries)
            and self.entries[following].joined
            and not ends_with_bar(cell)
        ):
            self.entries[following].joined = False
            self.touch(self.entries[following])

    def _feed_late_output(self, cell: Cell, text: str) -> None:
        if cell.late_output is None:
            cell.late_output = OutputBuffer()
        cell.late_output.feed("stdout", text)

    def _end(self, cell: Cell, record: records.ReplOut) -> None:
        # No pieces arrived, some were missed, or parts were overwritten and this is the final
        # output.
        if cell.output.received < len(record.text) or record.rewritten:
            cell.output.clear()
            position, displays = 0, iter(cell.displays)
            for kind, length in record.kinds or (("stdout", len(record.text)),):
                text = record.text[position : position + length]
                if record.cut:  # raw output, because the cell did not end
                    text = collapse(text)
                _feed(cell, kind, text, displays)
                position += length
        cell.displays.clear()
        cell.frames = [TracebackFrame(*frame) for frame in record.frames or ()]
        for index, frame in enumerate(cell.frames):
            line = cell.output.from_end(frame.row)
            if line is not None and line.kind == "traceback":
                line.frame = index
        cell.started = None
        cell.status = "cut off" if record.cut else record.status or ""
        cell.offers_explanation = cell.person and cell.status == "error" and cell is self._last_cell
        cell.duration = record.duration
        if record.cell is not None:
            self.running.pop(record.cell, None)
        for shortened in self._memory.add(cell):
            self.touch(shortened)

    def _cell(self, number: int | None, *, late: bool = False) -> Cell | None:
        """Return a cell by number; for late output without a number, the last one."""
        cell = None if number is None else self._cells.get(number)
        return self._last_cell if cell is None and late else cell

    def _namespace(self, record: records.Namespace) -> None:
        cell = self._cell(record.cell)
        if cell is not None and record.changes and not record.restored:
            cell.changes = record.changes
            self._redraw_grown(cell)

    # The conversation

    def _question(self, record: records.UserChat) -> None:
        self._answers.begin()
        self.append(Question(text=record.text, key=question_entry(record.turn)))

    def _attachment(self, record: records.UserAttachment) -> None:
        key = question_entry(record.turn)
        question = next(
            (entry for entry in reversed(self.entries) if isinstance(entry, Question)), None
        )
        # The transcript may have been cleared meanwhile.
        if question is not None and question.key == key:
            question.attached.append(AttachmentChip(record.label, record.size, record.problem))
            self.touch(question)

    def _tool(self, record: records.AssistantTool) -> None:
        key, state = tool_entry(record.call), record.state
        use = self._tools.get(key)
        if use is None:
            author = record.party or "model"
            use = self._tools[key] = ToolUse(
                author=author,
                name=record.name,
                arguments=record.arguments,
                key=key,
                collapsed=True,
                joined=True,
            )
            self.append(use)
        use.state = "cut off" if state == "running" and record.time < self._since else state
        use.text = record.text
        self.touch(use)

    def _skill(self, record: records.Skill) -> None:
        change = f"loaded ({record.chars:,} characters)" if record.loaded else "no longer loaded"
        self.append(Note(level="quiet", text=f"the skill {record.name} is {change}"))

    def _approval(self, record: records.Approval) -> None:
        cells = self._answers if record.guest is None else self._agent_cells
        was = record.time < self._since and record.state == "waiting"
        cells.approval(record.changed(state="not run") if was else record)

    def _review(self, record: records.Review) -> None:
        cell = self._cells.get(record.cells[0]) if record.cells else None
        if cell is not None:
            cell.approval = (
                "waiting" if record.state == "waiting" and record.time >= self._since else ""
            )
            self.touch(cell)

    def _agent(self, record: records.Agent) -> None:
        if record.state == "max-turns":
            self.append(
                Note(
                    level="warning",
                    text=f"{(record.party or 'model').capitalize()} has used up its turns for this question.",
                )
            )
        elif record.state == "stopped" and record.turn not in self._answers.marked:
            self.append(Note(level="quiet", text="stopped"))

    def _hide(self, record: records.Hide) -> None:
        key, hidden = record.entry, record.hidden
        (self._hidden.add if hidden else self._hidden.discard)(key)
        for entry in self.entries:
            if entry.key == key and entry.removed != "replaced":
                entry.removed = "hidden" if hidden else ""
                self.touch(entry)

    def _replace(self, record: records.Replace) -> None:
        first = next(
            (index for index, entry in enumerate(self.entries) if entry.key == record.entry), 0
        )
        for entry in self.entries[first:]:
            entry.removed = "replaced"
            self.touch(entry)
        self._report(record)

    def _pin(self, record: records.Pin) -> None:
        entry = next(
            (entry for entry in self.entries if entry.key == record.entry and not entry.hidden),
            None,
        )
        if entry is None:
            return
        if entry in self.pinned:
            self.pinned.remove(entry)
        if record.pinned:
            self.pinned.append(entry)
        self.touch(entry)

    def _undo(self, record: records.Undo) -> None:
        for number in record.cells:
            if (cell := self._cells.get(number)) is not None:
                cell.undone = record.undone
                self.touch(cell)
        self._report(record)

    def _report(self, record: Record) -> None:
        self.append(Note(level="quiet", text=record.text))

    def _plan(self, record: records.Plan) -> None:
        if record.state == "proposed":
            self.append(
                Note(
                    level="info", text="\n".join(["Plan", *(f"- {step}" for step in record.steps)])
                )
            )

    # The notebook

    def _notebook_file(self, record: records.NotebookFile) -> None:
        for entry in self.entries:
            if entry.key.startswith("place ") and not entry.removed:
                entry.removed = "replaced"
                self.touch(entry)
        opened = Note(level="info", text=record.text)
        self.append(opened)
        self.opened = opened

    def _notebook_cell(self, record: records.NotebookCell) -> None:

        entry = to_entry(record)
        self.append(entry)
        if isinstance(entry, Cell):
            self._cells_by_number[record.place] = entry

    def _notebook_output(self, record: records.NotebookOutput) -> None:
        if (cell := self._cells_by_number.get(record.place)) is not None and cell in self.positions:
            if record.mime:
                cell.output.show(record.text, record.mime, record.data)
            else:
                cell.output.feed(record.kind, record.text)
            self._redraw_grown(cell)
            for shortened in self._memory.add(cell):
                self.touch(shortened)

    # The program itself

    def _kernel(self, record: records.Kernel) -> None:
        cell = self._cell(record.cell)
        if (
            cell is not None
            and cell.number is not None
            and cell.started is None
            and not cell.status
            and record.since
            and record.time >= self._since
        ):
            cell.started = record.since  # an earlier screen left it running
            self.running[cell.number] = cell
            self.touch(cell)
        if record.text:
            self.append(Note(level="error" if record.state == "dead" else "info", text=record.text))

    def _notice(self, record: records.Notice) -> None:
        self.append(Note(level=record.level, text=record.text))


def _feed(cell: Cell, kind: str, text: str, displays: Iterator[tuple[str, str, str, str]]) -> None:
    """Add a piece of a cell's output. The record of a displayed value arrives before its text."""
    if kind == "display" and (
        shown := next((shown for shown in displays if shown[0] == text), None)
    ):
        cell.output.show(*shown)
    else:
        cell.output.feed(kind, text)
