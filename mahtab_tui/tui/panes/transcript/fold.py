"""From the records of the bus to the entries of the transcript."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from mahtab_tui.bus import records
from mahtab_tui.bus.left_out import cell_entry, question_entry
from mahtab_tui.bus.overwrite import collapse
from mahtab_tui.bus.records import Record
from mahtab_tui.kernel.base import TracebackFrame
from mahtab_tui.tui.activity import Activities, Activity
from mahtab_tui.tui.cell_output.output import SHOWN, CellOutput
from mahtab_tui.tui.panes.transcript.answers import Answers
from mahtab_tui.tui.panes.transcript.entries import Attached, Cell, Entry, Note, Question
from mahtab_tui.tui.panes.transcript.guests import GuestCells
from mahtab_tui.tui.panes.transcript.memory import Memory
from mahtab_tui.tui.panes.transcript.tools import ToolUses, skill_sentence


class Transcript:
    """The entries, and what changed of them. Appending one, or adding to one, costs the same however many there are."""

    def __init__(self, since: float) -> None:
        """`since`, in seconds since the epoch: of what older records tell, nothing runs now."""
        self.entries: list[Entry] = []
        self.pinned: list[Entry] = []
        """What stays at the top, in the order in which it was pinned."""
        self._activities = Activities(since)
        self._since = since
        self._positions: dict[Entry, int] = {}
        self._changed: set[int] = set()
        self._cells: dict[int, Cell] = {}
        self.codes: dict[int, str] = {}
        """What each cell ran, by number; also of those that are no longer here."""
        self._tools = ToolUses(self.append, self.touch)
        self._last_cell: Cell | None = None
        self.running: dict[int, Cell] = {}
        """Cells that run now, by number."""
        self._hidden: set[str] = set()
        """Names of what the model is not told; more of an answer may still come."""
        self._memory = Memory()
        self._answers = Answers(self.append, self.touch)
        self._guests = GuestCells(self.append, self.touch)
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
            records.AssistantTool: self._tool,
            records.Skill: self._skill,
            records.Approval: self._approval,
            records.Agent: self._agent,
            records.Kernel: self._kernel,
            records.Notice: self._notice,
            records.Hide: self._hide,
            records.Replace: self._replace,
            records.Pin: self._pin,
        }

    def fold(self, arrived: Sequence[Record]) -> None:
        """Take in records, in their order."""
        for record in arrived:
            self._activities.fold(record)
            if fold := self._folds.get(type(record)):
                fold(record)

    @property
    def activity(self) -> Activity | None:
        """What the model does now."""
        return self._activities.now

    def renewed(self) -> Transcript:
        """An empty transcript in which what runs now goes on."""
        fresh = Transcript(self._since)
        fresh._activities, fresh._hidden = self._activities, self._hidden
        fresh.codes = self.codes
        for number, cell in self.running.items():
            fresh.append(cell)
            fresh.running[number] = fresh._cells[number] = fresh._last_cell = cell
        return fresh

    @property
    def last_error(self) -> Cell | None:
        """The newest cell that has failed, as far as the model is told of it."""
        cells = (entry for entry in reversed(self.entries) if isinstance(entry, Cell) and not entry.left_out)
        return next((cell for cell in cells if cell.status == "error" and cell.number is not None), None)

    def take_changed(self) -> list[int]:
        """Positions of the entries that are new or were changed since the last call, in order."""
        changed = sorted(self._changed)
        self._changed.clear()
        return changed

    def position(self, entry: Entry) -> int:
        return self._positions[entry]

    def append(self, entry: Entry) -> None:
        last = self.entries[-1] if self.entries else None
        entry.gap = last is not None and not (isinstance(entry, Note) and isinstance(last, Note))
        entry.joined = entry.joined and last is not None and last.ends_with_bar
        if entry.key in self._hidden:
            entry.left_out = "hidden"
        self._positions[entry] = len(self.entries)
        self._changed.add(len(self.entries))
        self.entries.append(entry)

    def touch(self, entry: Entry) -> None:
        """Say that an entry is to be drawn anew."""
        entry.version += 1
        self._changed.add(self._positions[entry])

    # Cells

    def _user_code(self, record: records.UserReplIn) -> None:
        cell = Cell(party=record.party or "you", person=True, code=record.text)
        self.append(cell)
        self._start(cell, record)

    def _model_code(self, record: records.AssistantReplIn) -> None:
        cells = self._answers if record.guest is None else self._guests
        cell = cells.code_that_runs(record)
        self._start(cell, record)
        self.touch(cell)

    def _start(self, cell: Cell, record: records.ReplIn) -> None:
        number = record.cell
        cell.number = number
        if self._last_cell is not None and self._last_cell.offers_explanation and self._last_cell in self._positions:
            self._last_cell.offers_explanation = False
            self.touch(self._last_cell)
        self._last_cell = cell
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
            self._feed_later(cell, record.text)
        else:
            _feed(cell, record.kind, record.text, iter(cell.displays[-1:]))
        self._lengthened(cell)

    def _display(self, record: records.Display) -> None:
        if (cell := self._cell(record.cell)) is None:
            return
        cell.displays.append((record.text, record.mime, record.data))
        if len(cell.displays) > SHOWN:  # the same ones as in its output stay: the first and the last
            middle = -SHOWN // 2 - 1
            cell.displays[middle] = (cell.displays[middle][0], "", "")

    def _output(self, record: records.ReplOut) -> None:
        cell = self._cell(record.cell, late=record.late)
        if cell is None:
            if record.late and record.text.strip():
                self.append(Note(level="quiet", text=record.text.rstrip()))  # before the first cell: what the kernel begins with
            return
        if record.late:
            self._feed_later(cell, record.text)
        else:
            self._end(cell, record)
        self._lengthened(cell)

    def _lengthened(self, cell: Cell) -> None:
        """Something stands below the cell's code now: what follows is no longer joined to that."""
        self.touch(cell)
        following = self._positions[cell] + 1
        if following < len(self.entries) and self.entries[following].joined and not cell.ends_with_bar:
            self.entries[following].joined = False
            self.touch(self.entries[following])

    def _feed_later(self, cell: Cell, text: str) -> None:
        if cell.later is None:
            cell.later = CellOutput()
        cell.later.feed("stdout", text)

    def _end(self, cell: Cell, record: records.ReplOut) -> None:
        # Nothing has come before, or a watcher has missed pieces, or what has come was printed over and this is what is left of it.
        if cell.output.received < len(record.text) or record.rewritten:
            cell.output.clear()
            position, displays = 0, iter(cell.displays)
            for kind, length in record.kinds or (("stdout", len(record.text)),):
                text = record.text[position : position + length]
                if record.cut:  # as it was printed, without its end
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
        for shortened in self._memory.ended(cell):
            self.touch(shortened)

    def _cell(self, number: int | None, *, late: bool = False) -> Cell | None:
        """A cell by its number; late output belongs to the last one."""
        cell = None if number is None else self._cells.get(number)
        return self._last_cell if cell is None and late else cell

    def _namespace(self, record: records.Namespace) -> None:
        cell = self._cell(record.cell)
        if cell is not None and record.changes:
            cell.changes = record.changes
            self._lengthened(cell)

    # The conversation

    def _question(self, record: records.UserChat) -> None:
        self._answers.begin()
        self.append(Question(text=record.text, key=question_entry(record.turn)))

    def _attachment(self, record: records.UserAttachment) -> None:
        key = question_entry(record.turn)
        question = next((entry for entry in reversed(self.entries) if isinstance(entry, Question)), None)
        if question is not None and question.key == key:  # else the transcript was cleared meanwhile
            question.attached.append(Attached(record.label, record.size, record.problem))
            self.touch(question)

    def _tool(self, record: records.AssistantTool) -> None:
        self._tools.fold(record, was=record.time < self._since)

    def _skill(self, record: records.Skill) -> None:
        self.append(Note(level="quiet", text=skill_sentence(record)))

    def _approval(self, record: records.Approval) -> None:
        if record.time >= self._since or record.state != "waiting":
            cells = self._answers if record.guest is None else self._guests
            cells.approval(record)

    def _agent(self, record: records.Agent) -> None:
        if record.state == "max-turns":
            self.append(Note(level="warning", text=f"{(record.party or 'model').capitalize()} has used all its turns for this question."))
        elif record.state == "stopped" and not self._answers.marked(record.turn):
            self.append(Note(level="quiet", text="stopped"))

    def _hide(self, record: records.Hide) -> None:
        key, hidden = record.entry, record.hidden
        (self._hidden.add if hidden else self._hidden.discard)(key)
        for entry in self.entries:
            if entry.key == key and entry.left_out != "replaced":
                entry.left_out = "hidden" if hidden else ""
                self.touch(entry)

    def _replace(self, record: records.Replace) -> None:
        first = next((place for place, entry in enumerate(self.entries) if entry.key == record.entry), 0)
        for entry in self.entries[first:]:
            entry.left_out = "replaced"
            self.touch(entry)
        self.append(Note(level="quiet", text=record.text))

    def _pin(self, record: records.Pin) -> None:
        entry = next((entry for entry in self.entries if entry.key == record.entry and not entry.hidden), None)
        if entry is None:
            return
        if entry in self.pinned:
            self.pinned.remove(entry)
        if record.pinned:
            self.pinned.append(entry)
        self.touch(entry)

    # The program itself

    def _kernel(self, record: records.Kernel) -> None:
        if record.text:
            self.append(Note(level="error" if record.state == "dead" else "info", text=record.text))

    def _notice(self, record: records.Notice) -> None:
        self.append(Note(level=record.level, text=record.text))


def _feed(cell: Cell, kind: str, text: str, displays: Iterator[tuple[str, str, str]]) -> None:
    """A piece of a cell's output; of what was shown, the display has come before its text."""
    if kind == "display" and (shown := next((shown for shown in displays if shown[0] == text), None)):
        cell.output.show(*shown)
    else:
        cell.output.feed(kind, text)
