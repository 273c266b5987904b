"""From the records of the bus to the entries of the transcript."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from mahtab_tui.bus import tags
from mahtab_tui.bus.left_out import cell_entry, question_entry
from mahtab_tui.bus.overwrite import collapse
from mahtab_tui.bus.records import Record
from mahtab_tui.kernel.base import TracebackFrame
from mahtab_tui.tui.activity import Activities, Activity
from mahtab_tui.tui.cell_output.output import SHOWN, Output
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
        self._folds: dict[str, Callable[[Record], None]] = {
            tags.USER_REPL_IN: self._user_code,
            tags.ASSISTANT_REPL_IN: self._model_code,
            tags.USER_REPL_OUT_STREAM: self._output_piece,
            tags.ASSISTANT_REPL_OUT_STREAM: self._output_piece,
            tags.DISPLAY: self._display,
            tags.USER_REPL_OUT: self._output,
            tags.ASSISTANT_REPL_OUT: self._output,
            tags.NAMESPACE: self._namespace,
            tags.USER_CHAT: self._question,
            tags.USER_ATTACHMENT: self._attachment,
            tags.ASSISTANT_CHAT_STREAM: self._answers.token,
            tags.ASSISTANT_CHAT: self._answers.answer,
            tags.ASSISTANT_TOOL: self._tool,
            tags.SKILL: self._skill,
            tags.APPROVAL: self._approval,
            tags.AGENT: self._agent,
            tags.KERNEL: self._kernel,
            tags.NOTICE: self._notice,
            tags.HIDE: self._hide,
            tags.REPLACE: self._replace,
            tags.PIN: self._pin,
        }

    def fold(self, records: Sequence[Record]) -> None:
        """Take in records, in their order."""
        for record in records:
            self._activities.fold(record)
            if fold := self._folds.get(record.tag):
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

    def _user_code(self, record: Record) -> None:
        cell = Cell(party=str(record.attrs.get("party", "you")), person=True, code=record.text)
        self.append(cell)
        self._start(cell, record)

    def _model_code(self, record: Record) -> None:
        cells = self._answers if record.attrs.get("guest") is None else self._guests
        cell = cells.code_that_runs(record)
        self._start(cell, record)
        self.touch(cell)

    def _start(self, cell: Cell, record: Record) -> None:
        number = record.attrs.get("cell")
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

    def _output_piece(self, record: Record) -> None:
        cell = self._cell(record)
        if cell is None:
            return
        if record.attrs.get("late"):
            self._feed_later(cell, record.text)
        else:
            _feed(cell, record.attrs.get("kind", "stdout"), record.text, iter(cell.displays[-1:]))
        self._lengthened(cell)

    def _display(self, record: Record) -> None:
        if (cell := self._cell(record)) is None:
            return
        cell.displays.append((record.text, str(record.attrs.get("mime")), str(record.attrs.get("data"))))
        if len(cell.displays) > SHOWN:  # the same ones as in its output stay: the first and the last
            middle = -SHOWN // 2 - 1
            cell.displays[middle] = (cell.displays[middle][0], "", "")

    def _output(self, record: Record) -> None:
        cell = self._cell(record)
        if cell is None:
            if record.attrs.get("late") and record.text.strip():
                self.append(Note(level="quiet", text=record.text.rstrip()))  # before the first cell: what the kernel begins with
            return
        if record.attrs.get("late"):
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
            cell.later = Output()
        cell.later.feed("stdout", text)

    def _end(self, cell: Cell, record: Record) -> None:
        # Nothing has come before, or a watcher has missed pieces, or what has come was printed over and this is what is left of it.
        if cell.output.received < len(record.text) or record.attrs.get("rewritten"):
            cell.output.clear()
            position, displays = 0, iter(cell.displays)
            for kind, length in record.attrs.get("kinds") or [["stdout", len(record.text)]]:
                text = record.text[position : position + length]
                if record.attrs.get("cut"):  # as it was printed, without its end
                    text = collapse(text)
                _feed(cell, kind, text, displays)
                position += length
        cell.displays.clear()
        cell.frames = [TracebackFrame(*frame) for frame in record.attrs.get("frames") or ()]
        for index, frame in enumerate(cell.frames):
            line = cell.output.from_end(frame.row)
            if line is not None and line.kind == "traceback":
                line.frame = index
        cell.started = None
        cell.status = "cut off" if record.attrs.get("cut") else str(record.attrs.get("status", ""))
        cell.offers_explanation = cell.person and cell.status == "error" and cell is self._last_cell
        cell.duration = record.attrs.get("duration")
        self.running.pop(record.attrs.get("cell", -1), None)
        for shortened in self._memory.ended(cell):
            self.touch(shortened)

    def _cell(self, record: Record) -> Cell | None:
        """The cell that a record speaks of; late output belongs to the last one."""
        number = record.attrs.get("cell")
        cell = None if number is None else self._cells.get(number)
        return self._last_cell if cell is None and record.attrs.get("late") else cell

    def _namespace(self, record: Record) -> None:
        cell = self._cell(record)
        changes = record.attrs.get("changes")
        if cell is not None and changes:
            cell.changes = changes
            self._lengthened(cell)

    # The conversation

    def _question(self, record: Record) -> None:
        self._answers.begin()
        self.append(Question(text=record.text, key=question_entry(record.attrs.get("turn"))))

    def _attachment(self, record: Record) -> None:
        attrs = record.attrs
        key = question_entry(attrs.get("turn"))
        question = next((entry for entry in reversed(self.entries) if isinstance(entry, Question)), None)
        if question is not None and question.key == key:  # else the transcript was cleared meanwhile
            question.attached.append(Attached(str(attrs.get("label", "")), str(attrs.get("size", "")), str(attrs.get("problem", ""))))
            self.touch(question)

    def _tool(self, record: Record) -> None:
        self._tools.fold(record, was=record.time < self._since)

    def _skill(self, record: Record) -> None:
        self.append(Note(level="quiet", text=skill_sentence(record)))

    def _approval(self, record: Record) -> None:
        if record.time >= self._since or record.attrs.get("state") != "waiting":
            cells = self._answers if record.attrs.get("guest") is None else self._guests
            cells.approval(record)

    def _agent(self, record: Record) -> None:
        state, party = str(record.attrs.get("state", "")), str(record.attrs.get("party", "model"))
        if state == "max-turns":
            self.append(Note(level="warning", text=f"{party.capitalize()} has used all its turns for this question."))
        elif state == "stopped" and not self._answers.marked(record.attrs.get("turn")):
            self.append(Note(level="quiet", text="stopped"))

    def _hide(self, record: Record) -> None:
        key, hidden = str(record.attrs.get("entry")), record.attrs.get("hidden")
        (self._hidden.add if hidden else self._hidden.discard)(key)
        for entry in self.entries:
            if entry.key == key and entry.left_out != "replaced":
                entry.left_out = "hidden" if hidden else ""
                self.touch(entry)

    def _replace(self, record: Record) -> None:
        key = record.attrs.get("entry")
        first = next((place for place, entry in enumerate(self.entries) if entry.key == key), 0)
        for entry in self.entries[first:]:
            entry.left_out = "replaced"
            self.touch(entry)
        self.append(Note(level="quiet", text=record.text))

    def _pin(self, record: Record) -> None:
        entry = next((entry for entry in self.entries if entry.key == record.attrs.get("entry") and not entry.hidden), None)
        if entry is None:
            return
        if entry in self.pinned:
            self.pinned.remove(entry)
        if record.attrs.get("pinned"):
            self.pinned.append(entry)
        self.touch(entry)

    # The program itself

    def _kernel(self, record: Record) -> None:
        if record.text:
            self.append(Note(level="error" if record.attrs.get("state") == "dead" else "info", text=record.text))

    def _notice(self, record: Record) -> None:
        self.append(Note(level=str(record.attrs.get("level", "info")), text=record.text))


def _feed(cell: Cell, kind: str, text: str, displays: Iterator[tuple[str, str, str]]) -> None:
    """A piece of a cell's output; of what was shown, the display has come before its text."""
    if kind == "display" and (shown := next((shown for shown in displays if shown[0] == text), None)):
        cell.output.show(*shown)
    else:
        cell.output.feed(kind, text)
